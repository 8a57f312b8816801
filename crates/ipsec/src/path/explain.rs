//! What would become of a packet from the inside, without sending one.

use super::Tables;
use super::view::PolicyView;
use crate::drops::DropReason;
use crate::ip::flow::FlowKey;
use crate::sa::config::Mode;
use crate::sa::id::{SaIndex, TunnelId};
use crate::sad::path_mtu::LEAST_V6;
use crate::spd::selector::Selector;
use crate::spd::{Action, Policy, PolicyPlace};

/// A packet that might come from the inside.
#[derive(Clone, Copy, Debug)]
pub struct Supposed {
    /// Its flow.
    pub flow: FlowKey,
    /// Its length in bytes, IP header included.
    pub len: usize,
    /// The length of its IP headers, in bytes.
    pub header_len: usize,
    /// Whether it may not be fragmented; always so with IPv6.
    pub dont_fragment: bool,
}

/// How a packet fits an SA's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// In one outer packet of this length, in bytes.
    Whole(usize),
    /// Cut into fragments of at most this length, in bytes, each of which is protected.
    CutBefore(usize),
    /// In one outer packet of this length, in bytes, that is cut into fragments.
    CutAfter(usize),
    /// In IP-TFS payloads, with others.
    Aggregated,
    /// Not at all: its sender is notified of this MTU, in bytes.
    TooBig(usize),
}

/// Why a policy whose remote side a packet goes to does not select it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The source is not on its local side.
    Source,
    /// The destination is not on its remote side.
    Destination,
    /// Protocol or ports differ.
    Upper,
}

impl Tables {
    /// The policies that select a packet from the inside, in order; the first decides. The work
    /// grows with the number of policies.
    pub fn policies_of(&self, flow: &FlowKey) -> Vec<PolicyView> {
        let selects = |policy: &Policy| {
            policy.interface == flow.interface()
                && policy.is_outbound()
                && policy.selector.matches_outbound(flow)
        };
        let selecting = self.spd.policies(None).filter(|(_, _, policy)| selects(policy));
        selecting.map(|(_, slot, policy)| self.policy_view(slot, policy)).collect()
    }

    /// The first tunnel whose policy for an inside interface protects nothing but traffic of these
    /// selectors. The work grows with the number of policies.
    pub fn tunnel_within(&self, interface: u16, selectors: &[Selector]) -> Option<TunnelId> {
        self.spd.policies(None).find_map(|(_, _, policy)| match policy.action {
            Action::Protect(tunnel) if policy.is_outbound() && policy.interface == interface => {
                selectors.iter().any(|wide| wide.covers(&policy.selector)).then_some(tunnel)
            }
            _ => None,
        })
    }

    /// Policies that protect a similar packet, at most `most`, and why they do not select this
    /// one. The work grows with the number of policies.
    pub fn near_misses(&self, flow: &FlowKey, most: usize) -> Vec<(PolicyView, Miss)> {
        let near = |(_, slot, policy): (PolicyPlace, u32, &Policy)| {
            let is_protecting = matches!(policy.action, Action::Protect(_));
            let is_here = policy.interface == flow.interface() && is_protecting;
            let miss = if is_here { miss(&policy.selector, flow) } else { None };
            miss.map(|miss| (self.policy_view(slot, policy), miss))
        };
        self.spd.policies(None).filter_map(near).take(most).collect()
    }

    /// How a packet would fit an outbound SA of this worker.
    ///
    /// # Errors
    /// The reason for which the SA would drop it.
    pub fn fit(&self, sa: SaIndex, supposed: &Supposed) -> Result<Fit, DropReason> {
        let place = sa.outbound().ok_or(DropReason::OutboundNoSa)?;
        let (sa, cold) = self.sad.outbound.hot_and_cold(place.0).ok_or(DropReason::OutboundNoSa)?;
        sa.check_limits(cold, self.now_ns)?;
        let Supposed { flow, len, header_len, dont_fragment } = *supposed;
        let facts = &cold.common.facts;
        if facts.mode == Mode::Transport
            && (flow.source(), flow.destination()) != (facts.name.local, facts.name.remote)
        {
            return Err(DropReason::TransportAddress);
        }
        if facts.mode == Mode::Iptfs {
            return Ok(Fit::Aggregated);
        }
        let path_mtu = usize::from(cold.path.current(self.now_ns, self.config.mtu));
        let (largest, outer) = (cold.inner_mtu(path_mtu, header_len), cold.outer_len(len, header_len));
        let reported = if flow.is_v6() { largest.max(LEAST_V6.into()) } else { largest };
        Ok(if len <= largest {
            Fit::Whole(outer)
        } else if flow.is_v6() && len <= reported {
            Fit::CutAfter(outer)
        } else if dont_fragment || flow.is_v6() {
            Fit::TooBig(reported)
        } else if facts.mode == Mode::Transport {
            Fit::CutAfter(outer)
        } else {
            Fit::CutBefore(largest)
        })
    }
}

/// Why a selector does not select a flow, if only one thing differs.
fn miss(selector: &Selector, flow: &FlowKey) -> Option<Miss> {
    let has_source = selector.local.addresses.contains(flow.source());
    let has_destination = selector.remote.addresses.contains(flow.destination());
    match (has_source, has_destination) {
        (true, true) => (!selector.matches_outbound(flow)).then_some(Miss::Upper),
        (false, true) => Some(Miss::Source),
        (true, false) => Some(Miss::Destination),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named() {
        let side = |text: &str| text.parse().expect(text);
        let selector = Selector { local: side("10.1.0.0/16"), remote: side("10.2.0.0/16[udp/53]") };
        let flow = |source: &str, destination: &str, port| {
            FlowKey::new(source.parse().expect("one"), destination.parse().expect("one"), 17, Some((9, port)))
        };
        assert_eq!(miss(&selector, &flow("10.1.0.1", "10.2.0.1", 53)), None, "it is selected");
        assert_eq!(miss(&selector, &flow("10.1.0.1", "10.2.0.1", 54)), Some(Miss::Upper));
        assert_eq!(miss(&selector, &flow("10.9.0.1", "10.2.0.1", 53)), Some(Miss::Source));
        assert_eq!(miss(&selector, &flow("10.1.0.1", "10.9.0.1", 53)), Some(Miss::Destination));
        assert_eq!(miss(&selector, &flow("10.9.0.1", "10.9.0.1", 53)), None, "nothing is alike");
    }
}
