//! The networks behind charon's tunnels, to which no packet may leave unencrypted.

use std::collections::{HashMap, HashSet};

use convoy_ike::state::PolicyStep;
use convoy_ipsec::{Action, PolicyPlace, Selector, TunnelId};

/// How the configuration has the networks of a policy that no `remote_ts` covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has a tunnel that takes its networks from charon.
    Taken,
    /// That depends on the child's name, which is not known yet.
    Pending,
    /// It has none.
    Outside,
}

/// The traffic of a policy in tunnel mode.
pub(crate) struct Behind {
    /// charon's name of the child, or its number while it has none.
    pub(crate) child: String,
    /// The traffic.
    pub(crate) selector: Selector,
    /// How the configuration has its networks.
    pub(crate) standing: Standing,
}

/// The traffic of charon's current tunnel mode policies.
#[derive(Default)]
pub(super) struct PolicyNetworks {
    all: HashMap<PolicyPlace, (TunnelId, Selector)>,
    /// Those added since [`take_new`](Self::take_new).
    new: HashSet<PolicyPlace>,
}

impl PolicyNetworks {
    /// Applies a change of a policy.
    pub(super) fn note(&mut self, step: &PolicyStep) {
        if let Some(place) = step.change.gone {
            self.all.remove(&place);
            self.new.remove(&place);
        }
        let Some((rank, policy)) =
            step.change.came.as_ref().filter(|(_, policy)| step.is_tunnel_mode && policy.interface == 0)
        else {
            return;
        };
        if let Action::Protect(tunnel) = policy.action {
            let place = PolicyPlace { priority: policy.priority, rank: *rank };
            self.all.insert(place, (tunnel, policy.selector));
            self.new.insert(place);
        }
    }

    /// What was added since the last call and still exists. A policy whose tunnel gets another name
    /// is added again.
    pub(super) fn take_new(&mut self) -> Vec<(TunnelId, Selector)> {
        self.new.drain().filter_map(|place| self.all.get(&place).copied()).collect()
    }

    /// Everything that exists.
    pub(super) fn take_all(&mut self) -> Vec<(TunnelId, Selector)> {
        self.new.clear();
        self.all.values().copied().collect()
    }
}
