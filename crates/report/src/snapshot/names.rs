//! The names in a snapshot, for the completion of a command line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{PeerRow, Snapshot};

/// A kind of name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameKind {
    /// Tunnels, and charon's connections and their children.
    Tunnels,
    /// Outer addresses of peers.
    Peers,
    /// Interfaces of certain tunnels.
    Interfaces,
}

/// Which names are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamesRequest {
    /// Their kind.
    pub kind: NameKind,
    /// What they begin with.
    pub prefix: String,
}

/// A name of the running gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningName {
    /// The name.
    pub name: String,
    /// What it stands for: state and peer of a tunnel, tunnel of a peer, kind of an interface.
    pub help: String,
}

impl Snapshot {
    /// The names that are asked for, each once, in order.
    pub fn names(&self, request: &NamesRequest) -> Vec<RunningName> {
        let names: BTreeMap<String, String> = match request.kind {
            NameKind::Tunnels => self.peers().iter().flat_map(of_tunnel).collect(),
            NameKind::Peers => {
                let peers = self.peers().into_iter().filter(|peer| !peer.remote.is_empty());
                peers.map(|peer| (peer.remote, peer.tunnel)).collect()
            }
            NameKind::Interfaces => {
                let interfaces = self.ports.iter().filter(|port| port.link.is_some());
                interfaces.map(|port| (port.name.clone(), port.kind.clone())).collect()
            }
        };
        let asked = names.into_iter().filter(|(name, _)| name.starts_with(&request.prefix));
        asked.map(|(name, help)| RunningName { name, help }).collect()
    }
}

/// The names by which a tunnel is selected, with its state and its peer.
fn of_tunnel(peer: &PeerRow) -> Vec<(String, String)> {
    let help = format!("{} {}", peer.state.name(), peer.remote);
    let connection = |name: &str| name.split_once('/').map(|(connection, _)| connection.to_owned());
    let names = [&peer.tunnel, &peer.child].map(|name| [connection(name), Some(name.clone())]);
    let names = names.into_iter().flatten().flatten().filter(|name| !name.is_empty());
    names.map(|name| (name, help.trim_end().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{PortRow, SaRow};

    fn gateway() -> Snapshot {
        let sa = |tunnel: &str, child: &str, tunnel_id, remote: &str| SaRow {
            tunnel: tunnel.to_owned(),
            child: child.to_owned(),
            tunnel_id,
            remote: remote.to_owned(),
            direction: "outbound".to_owned(),
            ..SaRow::default()
        };
        let port = |name: &str, link| PortRow {
            name: name.to_owned(),
            kind: "tun".to_owned(),
            link,
            ..PortRow::default()
        };
        Snapshot {
            sas: vec![
                sa("site-2", "", 1, "192.0.2.2"),
                sa("site-3", "", 2, "2001:db8::3"),
                sa("roam/net", "roam/net", 3, "192.0.2.7"),
            ],
            ports: vec![port("ipsec1", Some(true)), port("outside", None)],
            ..Snapshot::default()
        }
    }

    fn names(kind: NameKind, prefix: &str) -> Vec<String> {
        let request = NamesRequest { kind, prefix: prefix.to_owned() };
        gateway().names(&request).into_iter().map(|found| found.name).collect()
    }

    #[test]
    fn names_are_those_of_the_kind_with_the_prefix() {
        assert_eq!(names(NameKind::Tunnels, ""), ["roam", "roam/net", "site-2", "site-3"]);
        assert_eq!(names(NameKind::Tunnels, "site"), ["site-2", "site-3"]);
        assert_eq!(names(NameKind::Peers, "192"), ["192.0.2.2", "192.0.2.7"]);
        assert_eq!(names(NameKind::Interfaces, ""), ["ipsec1"]);
        assert_eq!(names(NameKind::Interfaces, "outside"), [""; 0]);
    }
}
