//! Assigns captured packets to SAs by a gateway's policies.

use convoy_config::Config;
use convoy_ipsec::{FlowKey, Selector};
use convoy_sim::{Classify, Header, ToSa};

/// Policies in the order of evaluation, each with its tunnel; `None` bypasses.
struct Policies {
    ordered: Vec<(Selector, Option<u32>)>,
}

impl Policies {
    fn new(config: &Config) -> Self {
        let bypass = config.bypass.iter().map(|(local, remote)| (*local, *remote, None));
        let mut tunnels: Vec<_> = config.tunnels.iter().zip(0u32..).collect();
        tunnels.sort_by_key(|(tunnel, _)| tunnel.priority);
        let tunnels = tunnels.into_iter().flat_map(|(tunnel, number)| {
            let pairs = tunnel
                .local_ts
                .iter()
                .flat_map(|local| tunnel.remote_ts.iter().map(move |remote| (local, remote)));
            pairs.map(move |(local, remote)| (*local, *remote, Some(number)))
        });
        let ordered = bypass
            .chain(tunnels)
            .map(|(local, remote, tunnel)| (Selector { local, remote }, tunnel))
            .collect();
        Self { ordered }
    }

    /// Each tunnel has two SAs, one per direction; a capture of the inside has packets of both.
    fn sa(&self, flow: &FlowKey) -> Option<u32> {
        let outbound = self.ordered.iter().find(|(selector, _)| selector.matches_outbound(flow));
        let inbound = || self.ordered.iter().find(|(selector, _)| selector.matches_inbound(flow));
        match outbound {
            Some((_, tunnel)) => tunnel.map(|number| number * 2),
            None => inbound().and_then(|(_, tunnel)| tunnel.map(|number| number * 2 + 1)),
        }
    }
}

/// A function that determines a packet's SA and traffic class.
pub(super) fn by_policies(config: &Config) -> Classify {
    let (policies, classes) = (Policies::new(config), config.classes);
    Box::new(move |header: &Header| {
        let flow = FlowKey::new(header.source, header.destination, header.protocol, header.ports);
        policies.sa(&flow).map(|sa| ToSa { sa, class: classes.class_of(header.dscp << 2) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
        [[tunnel]]
        name = "wide"
        local = "192.0.2.1"
        remote = "192.0.2.2"
        local_ts = ["10.1.0.0/16"]
        remote_ts = ["10.2.0.0/16"]
        esp_proposal = "aes128gcm16"
        [[tunnel]]
        name = "narrow"
        priority = 1
        local = "192.0.2.1"
        remote = "192.0.2.3"
        local_ts = ["10.1.0.0/16"]
        remote_ts = ["10.2.3.0/24"]
        esp_proposal = "aes128gcm16"
    "#;

    #[test]
    fn a_packet_has_the_sa_of_its_direction_in_the_first_policy_that_admits_it() {
        let policies = Policies::new(&Config::parse("a.toml", CONFIG).expect("good"));
        let sa = |source: &str, destination: &str| {
            let [source, destination] = [source, destination].map(|it| it.parse().expect("an address"));
            policies.sa(&FlowKey::new(source, destination, 6, Some((1, 2))))
        };
        assert_eq!(sa("10.1.0.1", "10.2.0.1"), Some(0));
        assert_eq!(sa("10.2.0.1", "10.1.0.1"), Some(1));
        assert_eq!(sa("10.1.0.1", "10.2.3.1"), Some(2));
        assert_eq!(sa("10.2.3.1", "10.1.0.1"), Some(3));
        assert_eq!(sa("10.1.0.1", "10.9.0.1"), None);
    }
}
