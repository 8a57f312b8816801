//! The policies: the gateway's own and a key daemon's. Of either, one changes among thousands.

use std::collections::HashMap;

use super::{Ipsec, Tables};
use crate::ip::flow::FlowKey;
use crate::spd::{Action, Policy, PolicyChange, PolicyPlace, PolicyRank};

/// A policy's action, with a tunnel as its number at this worker.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    Protect(u32),
    Bypass,
    Discard,
}

/// The policy that selects a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    /// Its slot in the SPD.
    pub(super) slot: u32,
    pub(super) verdict: Verdict,
}

/// Packets and bytes that a policy has selected.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PolicyUse {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl Ipsec {
    /// Replaces all of the gateway's own policies; a key daemon's stay. Those that stay keep their
    /// counters; SAs are not touched.
    pub fn set_policies(&mut self, policies: Vec<Policy>) {
        let places = self.tables.spd.policies(None).map(|(place, ..)| place);
        let gone: Vec<PolicyPlace> = places.filter(|place| place.rank.is_own()).collect();
        let ranks = (0..).map(PolicyRank::own);
        self.change_own_policies(&gone, ranks.zip(policies).collect());
    }

    /// Removes the gateway's own policies at these places and adds others, all at once for every
    /// packet. Those that only get another rank keep their counters; SAs are not touched. The cost
    /// does not depend on the number of other policies.
    pub fn change_own_policies(&mut self, gone: &[PolicyPlace], came: Vec<(PolicyRank, Policy)>) {
        if gone.is_empty() && came.is_empty() {
            return;
        }
        let tables = &mut self.tables;
        let gone = gone.iter().filter_map(|place| tables.take_policy(*place));
        let before: HashMap<Policy, PolicyUse> = gone.collect();
        for (rank, policy) in came {
            let used = before.get(&policy).copied().unwrap_or_default();
            tables.put_policy(rank, policy, used);
        }
        tables.policy_changes += 1;
        self.forget_decisions();
    }

    /// Changes a key daemon's policies, all at once for every packet. One of which only the rank or
    /// name changes keeps its counters. The cost does not depend on the number of others.
    pub fn change_policies(&mut self, changes: &[PolicyChange]) {
        for PolicyChange { gone, came } in changes {
            let gone = gone.and_then(|place| self.tables.take_policy(place));
            if let Some((rank, policy)) = came {
                let place = PolicyPlace { priority: policy.priority, rank: *rank };
                let gone = gone.or_else(|| self.tables.take_policy(place));
                let stayed = gone.filter(|(before, _)| is_same_traffic(before, policy));
                let used = stayed.map(|(_, used)| used).unwrap_or_default();
                self.tables.put_policy(*rank, policy.clone(), used);
            }
        }
        if !changes.is_empty() {
            self.forget_decisions();
        }
    }

    /// The cost does not depend on the number of cached flows: they are decided again when they
    /// have packets.
    fn forget_decisions(&mut self) {
        self.outbound.flows.invalidate();
        self.inbound.flows.invalidate();
    }
}

impl Tables {
    /// The policy of a flow from the inside.
    #[inline]
    pub(super) fn decide_outbound(&self, flow: &FlowKey) -> Option<Decision> {
        self.decision(self.spd.find_outbound(flow)?)
    }

    /// The policy of an unprotected flow from the outside.
    #[inline]
    pub(super) fn decide_inbound(&self, flow: &FlowKey) -> Option<Decision> {
        self.decision(self.spd.find_inbound(flow)?)
    }

    #[inline]
    fn decision(&self, slot: u32) -> Option<Decision> {
        Some(Decision { slot, verdict: self.verdicts[slot as usize] })
    }

    fn put_policy(&mut self, rank: PolicyRank, policy: Policy, used: PolicyUse) {
        let verdict = match policy.action {
            Action::Bypass => Verdict::Bypass,
            Action::Discard => Verdict::Discard,
            Action::Protect(id) => {
                let number = self.tunnels.number(id);
                self.tunnels.add_selector(number, policy.selector, policy.interface);
                Verdict::Protect(number)
            }
        };
        let slot = self.spd.insert(rank, policy) as usize;
        if slot == self.verdicts.len() {
            self.verdicts.push(verdict);
            self.uses.push(used);
        } else {
            (self.verdicts[slot], self.uses[slot]) = (verdict, used);
        }
    }

    fn take_policy(&mut self, place: PolicyPlace) -> Option<(Policy, PolicyUse)> {
        let (slot, policy) = self.spd.remove(place)?;
        if let Verdict::Protect(number) = self.verdicts[slot as usize] {
            self.tunnels.remove_selector(number, &policy.selector);
        }
        Some((policy, self.uses[slot as usize]))
    }
}

/// Whether two policies do the same with the same packets, whatever their names.
fn is_same_traffic(one: &Policy, other: &Policy) -> bool {
    let traffic = |policy: &Policy| (policy.direction, policy.interface, policy.selector, policy.action);
    traffic(one) == traffic(other)
}
