//! What a reload changes, for the workers. It is found before they are asked to do it, so that it
//! costs them what it changes, however many tunnels they have.

use std::collections::HashMap;
use std::sync::Arc;

use convoy_config::{Config, TunnelConfig};

use crate::ranks;

/// A tunnel to be installed.
#[derive(Clone, Debug)]
pub struct NewTunnel {
    /// The rank of the first of its policies.
    pub rank: u64,
    /// Its configuration.
    pub config: TunnelConfig,
}

/// The way from the tunnels that workers may have to those of another configuration.
#[derive(Clone, Debug)]
pub struct Change {
    /// The other configuration, without its tunnels.
    pub config: Arc<Config>,
    /// The names of tunnels that are removed, or replaced by others of the same name.
    pub gone: Vec<String>,
    /// Tunnels that a worker installs, unless it has them already: those that it need not remove
    /// are unchanged.
    pub came: Vec<NewTunnel>,
    /// Whether no worker has any of `came`.
    pub is_exact: bool,
    /// Tunnels that stay but whose policies get other ranks, with the rank of the first.
    pub moved: Vec<(String, u64)>,
}

/// A configuration's tunnels, with the ranks of their policies.
#[derive(Clone, Copy)]
pub struct Ranked<'a> {
    /// The tunnels, in their order.
    pub tunnels: &'a [TunnelConfig],
    /// The rank of each one's first policy.
    pub ranks: &'a [u64],
}

impl Ranked<'_> {
    /// All of them, to be installed.
    pub fn new_tunnels(self) -> impl Iterator<Item = NewTunnel> {
        let pairs = self.tunnels.iter().zip(self.ranks);
        pairs.map(|(config, rank)| NewTunnel { rank: *rank, config: config.clone() })
    }
}

impl Change {
    /// The change to `config`, from these tunnels or, unless `is_known`, some of them; with it, the
    /// ranks of the tunnels of `config`.
    pub fn between(old: Ranked<'_>, config: &Config, is_known: bool) -> (Self, Vec<u64>) {
        let mut gone: HashMap<&str, (&TunnelConfig, u64)> = HashMap::new();
        for (tunnel, rank) in old.tunnels.iter().zip(old.ranks) {
            gone.insert(&tunnel.name, (tunnel, *rank));
        }
        let mut before = Vec::new();
        for tunnel in &config.tunnels {
            let stays = gone.get(tunnel.name.as_str()).filter(|(old, _)| *old == tunnel);
            before.push(stays.map(|(_, rank)| *rank));
            if before.last().is_some_and(Option::is_some) {
                gone.remove(tunnel.name.as_str());
            }
        }
        let gone = old.tunnels.iter().filter(|tunnel| gone.contains_key(tunnel.name.as_str()));
        let gone = gone.map(|tunnel| tunnel.name.clone()).collect();
        let ranks = ranks::in_place(&config.tunnels, &before);
        let (mut came, mut moved) = (Vec::new(), Vec::new());
        for ((tunnel, rank), before) in config.tunnels.iter().zip(&ranks).zip(before) {
            if before.is_none() || !is_known {
                came.push(NewTunnel { rank: *rank, config: tunnel.clone() });
            }
            if before.is_some_and(|before| before != *rank) {
                moved.push((tunnel.name.clone(), *rank));
            }
        }
        let config = without_tunnels(config);
        (Self { config, gone, came, is_exact: is_known, moved }, ranks)
    }

    /// The installation of those of a configuration's tunnels that a worker does not have.
    pub fn to_all(all: Ranked<'_>, config: &Config) -> Self {
        let came = all.new_tunnels().collect();
        Self { config: without_tunnels(config), gone: Vec::new(), came, is_exact: false, moved: Vec::new() }
    }
}

/// A configuration for a worker, which has its tunnels by themselves.
pub fn without_tunnels(config: &Config) -> Arc<Config> {
    Arc::new(Config { tunnels: Vec::new(), ..config.clone() })
}
