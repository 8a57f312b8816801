//! SAs of another gateway's charon that end before their lifetimes, as newer ones carry their
//! traffic.

use convoy_ipsec::{SaDirection, SaNumber, TunnelId};

use super::CharonState;
use super::backend::SaBackend;
use super::record::RESTORED;
use super::sas::SaKey;
use super::tunnels::CharonTunnel;
use crate::protocol::WirePolicyDirection;

/// How long the old SAs must have been idle, in seconds: the peer may still send by them.
const IDLE_S: u32 = 10;
/// Tunnels whose use is asked for in one call, at most.
const MOST: usize = 256;

impl CharonState {
    /// Removes restored SAs whose tunnels have a successor: a tunnel of the present charon with the
    /// same policies that has received packets, while the old SAs have been idle for a while.
    /// Returns how many SAs it removed. Call every few seconds.
    pub fn retire_succeeded(&mut self, backend: &mut dyn SaBackend) -> usize {
        let is_former = |tunnel: &CharonTunnel| {
            tunnel.reqid.session & RESTORED != 0 && tunnel.reqid.session != self.session && !tunnel.is_bare()
        };
        let former = self.tunnels.iter().filter(|(_, tunnel)| is_former(tunnel)).map(|(id, _)| id);
        let pairs = former.filter_map(|id| Some((id, self.successor(id)?))).take(MOST);
        let pairs: Vec<(TunnelId, TunnelId)> = pairs.collect();
        let mut removed = 0;
        for (old, new) in pairs {
            if self.has_received(new, backend) && self.is_idle(old, backend) {
                removed += self.remove_sas_of(old, backend);
            }
        }
        if removed > 0 {
            self.tell_policies(backend);
        }
        removed
    }

    /// The tunnel of the present charon that serves the policies of another one.
    fn successor(&self, of: TunnelId) -> Option<TunnelId> {
        let policies = self.policies.regular(of);
        let out = policies.iter().find(|(_, spec)| spec.id.direction == WirePolicyDirection::Out)?;
        let is_complete = |tunnel: &CharonTunnel| {
            tunnel.reqid.session == self.session
                && !tunnel.inbound_sas.is_empty()
                && !tunnel.outbound_sas.is_empty()
        };
        let candidates = self.policies.tunnels_of(&out.1.id);
        candidates.into_iter().find(|id| *id != of && self.tunnels.get(*id).is_some_and(is_complete))
    }

    fn has_received(&self, tunnel: TunnelId, backend: &mut dyn SaBackend) -> bool {
        let numbers = self.numbers(tunnel, &[SaDirection::Inbound]);
        numbers.into_iter().any(|number| backend.usage(number).is_some_and(|usage| usage.packets > 0))
    }

    fn is_idle(&self, tunnel: TunnelId, backend: &mut dyn SaBackend) -> bool {
        let numbers = self.numbers(tunnel, &[SaDirection::Inbound, SaDirection::Outbound]);
        let is_idle = |number| {
            backend.usage(number).is_none_or(|usage| usage.idle_s.is_none_or(|idle_s| idle_s >= IDLE_S))
        };
        numbers.into_iter().all(is_idle)
    }

    fn numbers(&self, tunnel: TunnelId, directions: &[SaDirection]) -> Vec<SaNumber> {
        let Some(tunnel) = self.tunnels.get(tunnel) else { return Vec::new() };
        directions.iter().flat_map(|way| tunnel.sas(*way)).copied().collect()
    }

    fn remove_sas_of(&mut self, tunnel: TunnelId, backend: &mut dyn SaBackend) -> usize {
        let numbers = self.numbers(tunnel, &[SaDirection::Inbound, SaDirection::Outbound]);
        let keys: Vec<SaKey> =
            numbers.iter().filter_map(|number| self.by_number.get(number)).copied().collect();
        let count = keys.len();
        keys.into_iter().for_each(|key| self.remove_sa(key, backend));
        count
    }
}
