//! The names that a running gateway knows, where a command takes them.

use std::collections::BTreeMap;

use clap::{Arg, Command};
use convoy_gateway::snapshot::{PeerRow, Snapshot};

use super::Completion;

/// A kind of name.
#[derive(Clone, Copy)]
pub(super) enum RunningNames {
    /// Tunnels, and charon's connections and their children.
    Tunnels,
    /// Outer addresses of peers.
    Peers,
    /// Interfaces of certain tunnels.
    Interfaces,
}

impl RunningNames {
    /// The kind that an argument of a command takes, if it takes names.
    pub(super) fn of(command: &Command, argument: &Arg, positionals: &[&str]) -> Option<Self> {
        match (command.get_name(), argument.get_id().as_str()) {
            ("show", "name") => (positionals == ["tunnel"]).then_some(Self::Tunnels),
            ("show" | "trace", "tunnel") => Some(Self::Tunnels),
            ("show", "peer") => Some(Self::Peers),
            ("explain", "interface") => Some(Self::Interfaces),
            _ => None,
        }
    }

    /// All names of the kind, each once, in order.
    pub(super) fn of_gateway(self, now: &Snapshot) -> Vec<Completion> {
        let names: BTreeMap<String, String> = match self {
            Self::Tunnels => now.peers().iter().flat_map(of_tunnel).collect(),
            Self::Peers => {
                let peers = now.peers().into_iter().filter(|peer| !peer.remote.is_empty());
                peers.map(|peer| (peer.remote, peer.tunnel)).collect()
            }
            Self::Interfaces => {
                let interfaces = now.ports.iter().filter(|port| port.link.is_some());
                interfaces.map(|port| (port.name.clone(), port.kind.clone())).collect()
            }
        };
        names.into_iter().map(|(value, help)| Completion { value, help }).collect()
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
