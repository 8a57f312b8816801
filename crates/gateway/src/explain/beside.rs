//! What the gateway's other parts have to do with a packet: its helper, charon, the cluster.

use convoy_config::Config;
use convoy_host::helper::Helper;
use convoy_report::snapshot::{CharonRow, ClusterRow, MonitorRow};

/// The other parts of a gateway.
pub(crate) struct GatewayParts<'a> {
    /// Asks the kernel; a gateway over given ports has none.
    pub(crate) helper: Option<&'a Helper>,
    /// The connection to charon, if the configuration has one.
    pub(crate) charon: Option<CharonRow>,
    /// The cluster, if the gateway is in one.
    pub(crate) cluster: Option<ClusterRow>,
    /// The probes through tunnels.
    pub(crate) monitors: Vec<MonitorRow>,
}

impl GatewayParts<'_> {
    /// Why a tunnel, or any that charon has, may have neither policies nor SAs here, in words.
    pub(super) fn absence(&self, config: &Config, tunnel: Option<&str>) -> Option<String> {
        let configured = config.tunnels.iter().find(|configured| Some(&*configured.name) == tunnel);
        let group = configured.map(|configured| configured.group.as_str());
        self.elsewhere(group).or_else(|| self.without_charon())
    }

    /// Who has the tunnels of a group, or of the only one, if this gateway does not lead it.
    fn elsewhere(&self, group: Option<&str>) -> Option<String> {
        let mut groups = self.cluster.as_ref()?.groups.iter();
        let group = groups.find(|row| group.is_none_or(|group| row.name == group))?;
        let leads = match &group.leader {
            Some(leader) => format!("{leader} leads it"),
            None => "no gateway leads it".to_owned(),
        };
        (!group.is_led)
            .then(|| format!("this gateway does not lead the group {} of its cluster: {leads}", group.name))
    }

    /// Why charon has no SAs for a tunnel with these names, its own and charon's, if a negotiation
    /// has failed.
    pub(super) fn negotiation(&self, config: &Config, names: [&str; 2]) -> Option<String> {
        let configured = config.tunnels.iter().find(|configured| configured.name == names[0]);
        let peer = configured.map(|configured| configured.remote.to_string());
        let last = self.charon.as_ref()?.negotiation(names, peer.as_deref())?;
        Some(format!("charon's last attempt failed {:.0} s ago: {}", last.age_s, last.reason))
    }

    /// What the probes through a tunnel say, if it has a monitor; an error if they are not
    /// answered.
    pub(super) fn probes(&self, tunnel: &str) -> Option<Result<String, String>> {
        let row = self.monitors.iter().find(|row| row.tunnel == tunnel)?;
        let (who, probes) = (row.answerer(), row.probes());
        let last = |ago_s: f64| format!("{who} has last answered {probes} {ago_s:.1} s ago");
        match (row.is_lost(), row.answered_s.map(last)) {
            (true, last) => Some(Err(last.unwrap_or_else(|| format!("{who} has answered no {probes}")))),
            (false, last) => last.map(Ok),
        }
    }

    fn without_charon(&self) -> Option<String> {
        let is_gone = self.charon.as_ref().is_some_and(|charon| !charon.is_connected);
        is_gone.then(|| {
            "charon is not connected, so that nothing is negotiated; see its service (systemctl status strongswan)"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use convoy_report::snapshot::{GroupRow, NegotiationRow};

    use super::*;

    #[test]
    fn absent_tunnel_is_explained_by_the_leader_of_its_group_or_by_charon_that_is_gone() {
        let config = Config::parse("a.toml", "").expect("an empty configuration");
        let charon = |is_connected| Some(CharonRow { is_connected, ..CharonRow::default() });
        let beside = |charon, cluster| GatewayParts { helper: None, charon, cluster, monitors: Vec::new() };
        let text = |beside: GatewayParts<'_>| beside.absence(&config, Some("site-b")).unwrap_or_default();
        assert_eq!(text(beside(None, None)), "");
        assert_eq!(text(beside(charon(true), None)), "");
        let failed = |connection: &str| {
            let (connection, reason) = (connection.to_owned(), "the peer has not answered".to_owned());
            let negotiations = vec![NegotiationRow { connection, reason, age_s: 7.0, ..Default::default() }];
            Some(CharonRow { is_connected: true, negotiations, ..CharonRow::default() })
        };
        let last = |charon| beside(charon, None).negotiation(&config, ["site-b", "b/net"]);
        assert_eq!(last(failed("site")), None, "another connection's");
        let wanted = "charon's last attempt failed 7 s ago: the peer has not answered";
        assert_eq!(last(failed("site-b")).as_deref(), Some(wanted));
        assert!(text(beside(charon(false), None)).starts_with("charon is not connected"));
        let cluster = |is_led, leader: Option<&str>| {
            let leader = leader.map(str::to_owned);
            let group = GroupRow { name: "main".to_owned(), is_led, leader, ..GroupRow::default() };
            Some(ClusterRow { groups: vec![group], ..ClusterRow::default() })
        };
        let wanted = "this gateway does not lead the group main of its cluster: b leads it";
        assert_eq!(text(beside(charon(false), cluster(false, Some("b")))), wanted);
        assert!(text(beside(None, cluster(false, None))).ends_with("no gateway leads it"));
        assert_eq!(text(beside(None, cluster(true, Some("a")))), "");
    }

    #[test]
    fn probes_without_answers_are_a_fault() {
        let beside = |state: &str, answered_s| {
            let (tunnel, ping, state) = ("site-b".to_owned(), "10.2.0.1".to_owned(), state.to_owned());
            let source = "10.1.0.1".to_owned();
            let row = MonitorRow { tunnel, ping, source, state, answered_s, ..MonitorRow::default() };
            GatewayParts { helper: None, charon: None, cluster: None, monitors: vec![row] }
        };
        let text = |state, answered_s| beside(state, answered_s).probes("site-b");
        assert_eq!(beside("lost", None).probes("another"), None);
        assert_eq!(text("unknown", None), None);
        let wanted = "10.2.0.1 has last answered pings from 10.1.0.1 0.2 s ago".to_owned();
        assert_eq!(text("answered", Some(0.2)), Some(Ok(wanted)));
        let wanted = "10.2.0.1 has last answered pings from 10.1.0.1 7.0 s ago".to_owned();
        assert_eq!(text("lost", Some(7.0)), Some(Err(wanted)));
        let wanted = "10.2.0.1 has answered no pings from 10.1.0.1".to_owned();
        assert_eq!(text("lost", None), Some(Err(wanted)));
    }
}
