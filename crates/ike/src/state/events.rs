//! Events in the gateway, in charon's terms.

use std::net::{IpAddr, SocketAddr};

use convoy_ipsec::{Expiry, SaNumber, TunnelId};

use super::State;
use super::backend::Backend;
use crate::protocol::{Event, WireSelector};

/// Interval after which charon is asked again for an SA that it has not negotiated, in ns.
const ACQUIRE_INTERVAL_NS: u64 = 1_000_000_000;

impl State {
    /// An SA has reached a limit of its lifetime. One that has ended is removed at once, in case
    /// charon has forgotten it. `None` if it is not charon's.
    pub fn expired(&mut self, sa: SaNumber, expiry: Expiry, backend: &mut dyn Backend) -> Option<Event> {
        let key = *self.by_number.get(&sa)?;
        let installed = self.sas.get(&key)?;
        let is_hard = expiry == Expiry::Hard;
        let is_ours = self.tunnels.get(installed.tunnel).is_some_and(|t| t.reqid.session == self.session);
        let destination = installed.id.destination;
        if is_hard {
            self.remove_sa(key, backend);
            self.tell_policies(backend);
        }
        let event = Event::Expire { spi: key.spi, protocol: key.protocol, destination, is_hard };
        is_ours.then_some(event)
    }

    /// A packet was selected for a tunnel that has no outbound SA. `None` if no trap asks for one,
    /// or charon was asked less than a second ago. `now_ns` is monotonic.
    pub fn acquire(
        &mut self,
        tunnel: TunnelId,
        now_ns: u64,
        source: WireSelector,
        destination: WireSelector,
    ) -> Option<Event> {
        let session = self.session;
        let entry = self.tunnels.get_mut(tunnel)?;
        let is_recent = entry.acquired_ns.is_some_and(|at| now_ns.saturating_sub(at) < ACQUIRE_INTERVAL_NS);
        let reqid = entry.reqid;
        if !entry.outbound_sas.is_empty() || is_recent || reqid.session != session {
            return None;
        }
        entry.acquired_ns = Some(now_ns);
        let has_trap = self.policies.has_trap(session, tunnel);
        has_trap.then_some(Event::Acquire { reqid: reqid.number, source, destination })
    }

    /// The peer of an inbound SA has changed its address or port. charon answers with `UpdateSa`.
    /// `None` if it is not charon's.
    pub fn mapped(&self, sa: SaNumber, source: SocketAddr) -> Option<Event> {
        let key = self.by_number.get(&sa)?;
        let installed = self.sas.get(key)?;
        let tunnel = self.tunnels.get(installed.tunnel)?;
        let destination = installed.id.destination;
        let event = Event::Mapping { spi: key.spi, protocol: key.protocol, destination, source };
        (tunnel.reqid.session == self.session).then_some(event)
    }
}

impl WireSelector {
    /// One end of a packet; for ICMP, `port` is type and code.
    pub fn of_packet(address: IpAddr, protocol: u8, port: u16) -> Self {
        Self { first: address, last: address, protocol, first_port: port, last_port: port }
    }
}
