//! Which tunnels `convoy show` shows.

use std::collections::HashSet;
use std::net::IpAddr;

use convoy_report::snapshot::{PeerRow, Snapshot, TunnelSelection};

use crate::Failure;

/// Tunnels named in an error.
const NAMED: usize = 10;

/// A selection of tunnels; the default selects all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filter<'a> {
    /// The tunnel's name, or charon's connection or child of it.
    pub(crate) tunnel: Option<&'a str>,
    /// The peer's outer address.
    pub(crate) peer: Option<IpAddr>,
}

impl Filter<'_> {
    /// Whether a tunnel's name is selected.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.tunnel.is_none_or(|wanted| TunnelSelection::selects(wanted, name))
    }

    fn has_peer(&self, remote: &str) -> bool {
        self.peer.is_none_or(|wanted| remote.parse() == Ok(wanted))
    }

    fn is_all(&self) -> bool {
        self.tunnel.is_none() && self.peer.is_none()
    }

    /// The selected tunnels.
    ///
    /// # Errors
    /// That none is selected by a filter.
    pub(crate) fn peers(&self, snapshot: &Snapshot) -> Result<Vec<PeerRow>, Failure> {
        let mut peers = snapshot.peers();
        if self.is_all() {
            return Ok(peers);
        }
        let has_name = |peer: &PeerRow| self.has_name(&peer.tunnel) || self.has_name(&peer.child);
        if !peers.iter().any(has_name) {
            return Err(Failure::Failed(unknown(self.tunnel.unwrap_or_default(), &peers)));
        }
        peers.retain(|peer| has_name(peer) && self.has_peer(&peer.remote));
        match self.peer {
            Some(address) if peers.is_empty() => {
                let of = self.tunnel.map_or_else(String::new, |name| format!(" of tunnel {name:?}"));
                Err(Failure::Failed(format!(
                    "no peer{of} has the address {address}; see `convoy show tunnel`"
                )))
            }
            _ => Ok(peers),
        }
    }

    /// Removes SAs and policies of other tunnels from a snapshot.
    ///
    /// # Errors
    /// Those of [`peers`](Self::peers).
    pub(crate) fn narrow(&self, snapshot: &mut Snapshot) -> Result<(), Failure> {
        if self.is_all() {
            return Ok(());
        }
        let peers = self.peers(snapshot)?;
        let keys: HashSet<(&str, Option<u32>)> = peers.iter().map(PeerRow::key).collect();
        snapshot.sas.retain(|sa| keys.contains(&(sa.tunnel.as_str(), Some(sa.tunnel_id))));
        snapshot.policies.retain(|policy| keys.contains(&(policy.name.as_str(), policy.tunnel_id)));
        Ok(())
    }
}

/// The error for a name that no tunnel has.
fn unknown(name: &str, peers: &[PeerRow]) -> String {
    let mut names: Vec<&str> = peers.iter().map(|peer| peer.tunnel.as_str()).collect();
    names.dedup();
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.truncate(NAMED);
    match names.is_empty() {
        true => format!("no tunnel is named {name:?}: the gateway has no tunnels"),
        false => format!("no tunnel is named {name:?}; there are {}{more}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use convoy_report::snapshot::{PolicyRow, SaRow};

    use super::*;

    fn snapshot() -> Snapshot {
        let sa = |tunnel: &str, tunnel_id, remote: &str| SaRow {
            tunnel: tunnel.to_owned(),
            tunnel_id,
            remote: remote.to_owned(),
            direction: "outbound".to_owned(),
            ..SaRow::default()
        };
        let policy =
            |name: &str, tunnel_id| PolicyRow { name: name.to_owned(), tunnel_id, ..PolicyRow::default() };
        Snapshot {
            sas: vec![
                sa("site", 1, "192.0.2.2"),
                sa("roam/net", 2, "2001:db8::7"),
                sa("roam/net", 3, "192.0.2.3"),
            ],
            policies: vec![
                policy("bypass", None),
                policy("site", Some(1)),
                policy("roam/net", Some(2)),
                policy("roam/net", Some(3)),
            ],
            ..Snapshot::default()
        }
    }

    fn left(filter: Filter<'_>) -> Result<(Vec<u32>, usize), String> {
        let mut snapshot = snapshot();
        match filter.narrow(&mut snapshot) {
            Ok(()) => Ok((snapshot.sas.iter().map(|sa| sa.tunnel_id).collect(), snapshot.policies.len())),
            Err(failure) => Err(failure.to_string()),
        }
    }

    #[test]
    fn tunnels_are_selected_by_name_connection_and_peer() {
        let peer = |text: &str| Some(text.parse().expect("an address"));
        assert_eq!(left(Filter::default()), Ok((vec![1, 2, 3], 4)));
        assert_eq!(left(Filter { tunnel: Some("site"), peer: None }), Ok((vec![1], 1)));
        assert_eq!(left(Filter { tunnel: Some("roam"), peer: None }), Ok((vec![2, 3], 2)));
        assert_eq!(left(Filter { tunnel: None, peer: peer("2001:db8:0::7") }), Ok((vec![2], 1)));
        assert_eq!(left(Filter { tunnel: Some("roam/net"), peer: peer("192.0.2.3") }), Ok((vec![3], 1)));
    }

    #[test]
    fn what_selects_nothing_is_an_error_that_names_what_there_is() {
        let error = |filter| left(filter).expect_err("nothing is selected");
        assert_eq!(
            error(Filter { tunnel: Some("sit"), peer: None }),
            "no tunnel is named \"sit\"; there are roam/net, site"
        );
        assert_eq!(
            error(Filter { tunnel: None, peer: Some([10, 0, 0, 1].into()) }),
            "no peer has the address 10.0.0.1; see `convoy show tunnel`"
        );
    }
}
