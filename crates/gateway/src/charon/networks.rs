//! The networks behind charon's tunnels, for whoever sees to it that no packet to them leaves
//! unencrypted.

use std::collections::{HashMap, HashSet};

use convoy_ike::state::PolicyStep;
use convoy_ipsec::{Action, PolicyPlace, Selector, TunnelId};

/// What a policy in tunnel mode protects.
pub(crate) struct Behind {
    /// charon's name of the child, or its number as long as it has none.
    pub(crate) child: String,
    /// The traffic.
    pub(crate) selector: Selector,
}

/// What charon's policies in tunnel mode protect now.
#[derive(Default)]
pub(super) struct Networks {
    all: HashMap<PolicyPlace, (TunnelId, Selector)>,
    /// Those that came since [`take_new`](Self::take_new).
    new: HashSet<PolicyPlace>,
}

impl Networks {
    /// Takes in a change of a policy.
    pub(super) fn note(&mut self, step: &PolicyStep) {
        if let Some(place) = step.change.gone {
            self.all.remove(&place);
            self.new.remove(&place);
        }
        let Some((rank, policy)) = step.change.came.as_ref().filter(|_| step.is_tunnel_mode) else { return };
        if let Action::Protect(tunnel) = policy.action {
            let place = PolicyPlace { priority: policy.priority, rank: *rank };
            self.all.insert(place, (tunnel, policy.selector));
            self.new.insert(place);
        }
    }

    /// What came since the last call and is still there.
    pub(super) fn take_new(&mut self) -> Vec<(TunnelId, Selector)> {
        self.new.drain().filter_map(|place| self.all.get(&place).copied()).collect()
    }

    /// All that is there.
    pub(super) fn take_all(&mut self) -> Vec<(TunnelId, Selector)> {
        self.new.clear();
        self.all.values().copied().collect()
    }
}
