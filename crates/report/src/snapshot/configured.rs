//! The tunnels of the configuration, whether they have SAs or not.

use convoy_config::{Config, TunnelConfig};
use convoy_ipsec::{Mode, TrafficSelector};
use serde::{Deserialize, Serialize};

/// One tunnel of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfiguredRow {
    /// Its name.
    pub name: String,
    /// Whether its keys are static; otherwise charon negotiates SAs with names of its own for these
    /// networks.
    pub has_static_keys: bool,
    /// The group of the cluster that it belongs to.
    #[serde(default)]
    pub group: String,
    /// `tunnel`, `transport` or `iptfs`.
    pub mode: String,
    /// Our outer address; empty if charon decides.
    pub local: String,
    /// The peer's outer address; empty if charon decides.
    pub remote: String,
    /// What is protected, this side.
    pub local_ts: Vec<String>,
    /// What is protected, the peer's side.
    pub remote_ts: Vec<String>,
}

impl ConfiguredRow {
    /// All of a configuration.
    pub fn all(config: &Config) -> Vec<Self> {
        config.tunnels.iter().map(Self::of).collect()
    }

    fn of(tunnel: &TunnelConfig) -> Self {
        let address = |address: std::net::IpAddr| {
            if address.is_unspecified() { String::new() } else { address.to_string() }
        };
        let texts = |selectors: &[TrafficSelector]| selectors.iter().map(ToString::to_string).collect();
        Self {
            name: tunnel.name.clone(),
            has_static_keys: tunnel.has_static_keys(),
            group: tunnel.group.clone(),
            mode: mode(tunnel.mode).to_owned(),
            local: address(tunnel.local),
            remote: address(tunnel.remote),
            local_ts: texts(&tunnel.local_ts),
            remote_ts: texts(&tunnel.remote_ts),
        }
    }
}

/// The configuration's word for a mode.
pub(super) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Tunnel => "tunnel",
        Mode::Transport => "transport",
        Mode::Iptfs => "iptfs",
    }
}
