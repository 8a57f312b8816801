//! Events in the gateway, in charon's terms.

use std::net::{IpAddr, SocketAddr};

use convoy_ipsec::{Expiry, SaNumber, TunnelId};

use super::CharonState;
use super::backend::SaBackend;
use crate::protocol::{SaEvent, WireSelector};

/// Interval after which charon is asked again for an SA that it has not negotiated, in ns.
const ACQUIRE_INTERVAL_NS: u64 = 1_000_000_000;
/// Interval after which charon is asked again for an SA of one resource, in ns. Packets have
/// another meanwhile, and a peer may have refused more of them.
const RESOURCE_INTERVAL_NS: u64 = 30_000_000_000;

impl CharonState {
    /// An SA has reached a limit of its lifetime. One that has ended is removed at once, in case
    /// charon has forgotten it. `None` if it is not charon's.
    pub fn expired(&mut self, sa: SaNumber, expiry: Expiry, backend: &mut dyn SaBackend) -> Option<SaEvent> {
        let key = *self.by_number.get(&sa)?;
        let installed = self.sas.get(&key)?;
        let is_hard = expiry == Expiry::Hard;
        let is_ours = self.tunnels.get(installed.tunnel).is_some_and(|t| t.reqid.session == self.session);
        let destination = installed.id.destination;
        if is_hard {
            self.remove_sa(key, backend);
            self.tell_policies(backend);
        }
        let event = SaEvent::Expire { spi: key.spi, protocol: key.protocol, destination, is_hard };
        is_ours.then_some(event)
    }

    /// A packet was selected for a tunnel that has no outbound SA, or none of this resource. `None`
    /// if no policy asks for one, or charon was asked recently. `now_ns` is monotonic.
    pub fn acquire(
        &mut self,
        tunnel: TunnelId,
        resource: Option<u32>,
        now_ns: u64,
        source: WireSelector,
        destination: WireSelector,
    ) -> Option<SaEvent> {
        let session = self.session;
        let is_wanted = self.lacks_sa(tunnel, resource);
        let entry = self.tunnels.get_mut(tunnel)?;
        let interval_ns = if resource.is_some() { RESOURCE_INTERVAL_NS } else { ACQUIRE_INTERVAL_NS };
        let asked_ns = entry.acquired_ns.get(&resource);
        let is_recent = asked_ns.is_some_and(|at| now_ns.saturating_sub(*at) < interval_ns);
        let reqid = entry.reqid;
        if !is_wanted || is_recent || reqid.session != session {
            return None;
        }
        entry.acquired_ns.insert(resource, now_ns);
        let has_policy = resource.is_some() || self.policies.has_trap(session, tunnel);
        has_policy.then_some(SaEvent::Acquire { reqid: reqid.number, resource, source, destination })
    }

    /// Whether a tunnel has no outbound SA; of a resource, whether it has others but not that one,
    /// and is to have it.
    fn lacks_sa(&self, tunnel: TunnelId, resource: Option<u32>) -> bool {
        let Some(entry) = self.tunnels.get(tunnel) else { return false };
        let sas = &entry.outbound_sas;
        if resource.is_none() {
            return sas.is_empty();
        }
        let installed = |number| self.by_number.get(number).and_then(|key| self.sas.get(key));
        let has_it = sas.iter().filter_map(installed).any(|sa| sa.resource == resource);
        entry.policies_per_resource > 0 && !sas.is_empty() && !has_it
    }

    /// The peer of an inbound SA has changed its address or port. charon answers with `UpdateSa`.
    /// `None` if it is not charon's.
    pub fn mapped(&self, sa: SaNumber, source: SocketAddr) -> Option<SaEvent> {
        let key = self.by_number.get(&sa)?;
        let installed = self.sas.get(key)?;
        let tunnel = self.tunnels.get(installed.tunnel)?;
        let destination = installed.id.destination;
        let event = SaEvent::Mapping { spi: key.spi, protocol: key.protocol, destination, source };
        (tunnel.reqid.session == self.session).then_some(event)
    }
}

impl WireSelector {
    /// One end of a packet; for ICMP, `port` is type and code.
    pub fn of_packet(address: IpAddr, protocol: u8, port: u16) -> Self {
        Self { first: address, last: address, protocol, first_port: port, last_port: port }
    }
}
