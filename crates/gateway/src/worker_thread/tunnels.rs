//! The configuration's tunnels at a worker, found by id and by name: of many thousands, one comes
//! or goes.

use std::collections::{BTreeMap, HashMap};

use convoy_assembly::assemble::InstalledTunnel;
use convoy_ipsec::TunnelId;
use convoy_state::Pair;

/// They are in the order of their ids.
#[derive(Default)]
pub(crate) struct InstalledTunnels {
    by_id: BTreeMap<TunnelId, InstalledTunnel>,
    ids: HashMap<String, TunnelId>,
}

impl InstalledTunnels {
    /// These.
    pub(super) fn new(tunnels: Vec<InstalledTunnel>) -> Self {
        let mut all = Self { ids: HashMap::with_capacity(tunnels.len()), ..Self::default() };
        tunnels.into_iter().for_each(|tunnel| all.add(tunnel));
        all
    }

    pub(super) fn add(&mut self, tunnel: InstalledTunnel) {
        self.ids.insert(tunnel.config.name.clone(), tunnel.id);
        self.by_id.insert(tunnel.id, tunnel);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<InstalledTunnel> {
        self.by_id.remove(&self.ids.remove(name)?)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &InstalledTunnel> {
        self.by_id.values()
    }

    pub(super) fn get(&self, id: TunnelId) -> Option<&InstalledTunnel> {
        self.by_id.get(&id)
    }

    pub(super) fn named(&self, name: &str) -> Option<&InstalledTunnel> {
        self.get(*self.ids.get(name)?)
    }

    pub(super) fn named_mut(&mut self, name: &str) -> Option<&mut InstalledTunnel> {
        self.by_id.get_mut(self.ids.get(name)?)
    }

    /// A tunnel's pair of SAs, by its place among these.
    pub(super) fn pair_mut(&mut self, id: TunnelId, place: u32) -> Option<&mut Pair> {
        self.by_id.get_mut(&id)?.pairs.get_mut(place as usize)
    }
}
