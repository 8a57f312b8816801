//! The mapping from a charon's reqid to a tunnel.

use std::collections::HashMap;

use convoy_ipsec::{SaDirection, SaNumber, TunnelId};

use crate::protocol::{EncapMode, IkePeer};

/// A reqid of one charon. Another charon's reqids start again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reqid {
    pub(super) session: u64,
    pub(super) number: u32,
}

/// The names in swanctl.conf of a tunnel's child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildName {
    /// The connection's; empty for a trap before its connection is up.
    pub connection: String,
    /// The child's.
    pub child: String,
}

/// One tunnel. It lives while an SA or a policy names it.
pub(super) struct CharonTunnel {
    pub(super) reqid: Reqid,
    pub(super) name: ChildName,
    /// Who the peer is, once an SA is installed.
    pub(super) peer: IkePeer,
    /// The inside interface of its policies, once it has some.
    pub(super) interface: Option<u16>,
    /// The mode of the SA that was installed last.
    pub(super) mode: Option<EncapMode>,
    pub(super) inbound_sas: Vec<SaNumber>,
    pub(super) outbound_sas: Vec<SaNumber>,
    pub(super) policies: u32,
    /// Policies among these that want an SA for each resource.
    pub(super) policies_per_resource: u32,
    /// When charon was last asked for an SA: the first one, or that of a resource.
    pub(super) acquired_ns: HashMap<Option<u32>, u64>,
}

impl ChildName {
    fn is_known(&self) -> bool {
        !self.connection.is_empty() || !self.child.is_empty()
    }
}

impl CharonTunnel {
    pub(super) fn sas(&self, direction: SaDirection) -> &[SaNumber] {
        match direction {
            SaDirection::Inbound => &self.inbound_sas,
            SaDirection::Outbound => &self.outbound_sas,
        }
    }

    pub(super) fn sas_mut(&mut self, direction: SaDirection) -> &mut Vec<SaNumber> {
        match direction {
            SaDirection::Inbound => &mut self.inbound_sas,
            SaDirection::Outbound => &mut self.outbound_sas,
        }
    }

    /// Whether there is no SA in either direction.
    pub(super) fn is_bare(&self) -> bool {
        self.inbound_sas.is_empty() && self.outbound_sas.is_empty()
    }
}

/// All tunnels of charon's. Ids of removed ones are reused.
pub(super) struct TunnelTable {
    by_reqid: HashMap<Reqid, TunnelId>,
    tunnels: HashMap<TunnelId, CharonTunnel>,
    free: Vec<TunnelId>,
    next: u32,
    /// Tunnels whose names have changed since [`take_renamed`](Self::take_renamed).
    renamed: Vec<TunnelId>,
    /// Tunnels for which each resource is to have an SA of its own, or no longer is, since
    /// [`take_own_sas`](Self::take_own_sas).
    own_sas: Vec<(TunnelId, bool)>,
}

impl TunnelTable {
    /// An empty table; ids below `first` belong to others.
    pub(super) fn new(first: u32) -> Self {
        let (by_reqid, tunnels) = (HashMap::new(), HashMap::new());
        let (free, renamed, own_sas) = (Vec::new(), Vec::new(), Vec::new());
        Self { by_reqid, tunnels, free, next: first, renamed, own_sas }
    }

    /// The tunnel of a reqid, created if necessary. The caller counts its references, or calls
    /// [`release`](Self::release).
    pub(super) fn of(&mut self, reqid: Reqid) -> TunnelId {
        if let Some(id) = self.by_reqid.get(&reqid) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            TunnelId(self.next - 1)
        });
        self.by_reqid.insert(reqid, id);
        let name = ChildName::default();
        let (inbound_sas, outbound_sas, policies, acquired_ns) = (Vec::new(), Vec::new(), 0, HashMap::new());
        self.tunnels.insert(
            id,
            CharonTunnel {
                reqid,
                name,
                peer: IkePeer::default(),
                interface: None,
                mode: None,
                inbound_sas,
                outbound_sas,
                policies,
                policies_per_resource: 0,
                acquired_ns,
            },
        );
        id
    }

    /// The tunnel of a reqid, if there is one.
    pub(super) fn find(&self, reqid: Reqid) -> Option<TunnelId> {
        self.by_reqid.get(&reqid).copied()
    }

    pub(super) fn get(&self, id: TunnelId) -> Option<&CharonTunnel> {
        self.tunnels.get(&id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &CharonTunnel> {
        self.tunnels.values()
    }

    /// All tunnels, by their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TunnelId, &CharonTunnel)> {
        self.tunnels.iter().map(|(id, tunnel)| (*id, tunnel))
    }

    pub(super) fn get_mut(&mut self, id: TunnelId) -> Option<&mut CharonTunnel> {
        self.tunnels.get_mut(&id)
    }

    /// Gives a tunnel without policies another reqid of its charon's, unless another tunnel has
    /// that; returns whether it has it now.
    pub(super) fn renumber(&mut self, id: TunnelId, number: u32) -> bool {
        let Some(tunnel) = self.tunnels.get_mut(&id) else { return false };
        let reqid = Reqid { number, ..tunnel.reqid };
        if tunnel.reqid == reqid {
            return true;
        }
        if tunnel.policies > 0 || self.by_reqid.contains_key(&reqid) {
            return false;
        }
        self.by_reqid.remove(&tunnel.reqid);
        self.by_reqid.insert(reqid, id);
        tunnel.reqid = reqid;
        true
    }

    /// Names a tunnel; returns whether it had another name before.
    pub(super) fn rename(&mut self, id: TunnelId, name: ChildName) -> bool {
        let Some(tunnel) = self.tunnels.get_mut(&id).filter(|tunnel| tunnel.name != name) else {
            return false;
        };
        tunnel.name = name;
        self.renamed.push(id);
        true
    }

    /// Sets the peer of a tunnel.
    pub(super) fn set_peer(&mut self, id: TunnelId, peer: IkePeer) {
        if let Some(tunnel) = self.tunnels.get_mut(&id) {
            tunnel.peer = peer;
        }
    }

    /// The tunnels whose name has changed.
    pub(super) fn take_renamed(&mut self) -> Vec<(TunnelId, Option<ChildName>)> {
        let mut renamed = std::mem::take(&mut self.renamed);
        renamed.sort_unstable();
        renamed.dedup();
        let name = |id| self.get(id).map(|tunnel| tunnel.name.clone()).filter(ChildName::is_known);
        renamed.into_iter().map(|id| (id, name(id))).collect()
    }

    /// Counts a policy of a tunnel that has come, or gone.
    pub(super) fn count_policy(&mut self, id: TunnelId, is_per_resource: bool, has_come: bool) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else { return };
        let change = |count: &mut u32| {
            *count = if has_come { *count + 1 } else { count.saturating_sub(1) };
            *count
        };
        change(&mut tunnel.policies);
        if is_per_resource && change(&mut tunnel.policies_per_resource) == u32::from(has_come) {
            self.own_sas.push((id, has_come));
        }
    }

    /// The tunnels for which each resource is to have an SA of its own, or no longer is, in order.
    pub(super) fn take_own_sas(&mut self) -> Vec<(TunnelId, bool)> {
        std::mem::take(&mut self.own_sas)
    }

    /// Removes a tunnel without references.
    pub(super) fn release(&mut self, id: TunnelId) {
        let Some(tunnel) = self.tunnels.get(&id) else { return };
        if tunnel.is_bare() && tunnel.policies == 0 {
            if tunnel.name.is_known() {
                self.renamed.push(id);
            }
            self.by_reqid.remove(&tunnel.reqid);
            self.tunnels.remove(&id);
            self.free.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_used_again_and_sessions_kept_apart() {
        let mut table = TunnelTable::new(100);
        let one = Reqid { session: 1, number: 1 };
        let other = Reqid { session: 2, number: 1 };
        assert_eq!(table.of(one), TunnelId(100));
        assert_eq!(table.of(other), TunnelId(101));
        table.get_mut(TunnelId(100)).expect("there").policies = 1;
        table.release(TunnelId(100));
        assert_eq!(table.find(one), Some(TunnelId(100)), "a policy names it");
        table.release(TunnelId(101));
        assert_eq!(table.find(other), None);
        assert_eq!(table.of(Reqid { session: 2, number: 9 }), TunnelId(101));
    }
}
