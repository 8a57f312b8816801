//! Which policy decides about a packet, in words.

use convoy_ipsec::{Action, DropReason, FlowKey, Miss, PolicyView, TunnelId};

use super::Explanation;
use super::ask::PacketPolicies;

/// Says which policy decides; returns the tunnel that protects the packet.
pub(super) fn policy(
    reported: &mut Explanation,
    decision: &PacketPolicies,
    flow: &FlowKey,
) -> Option<TunnelId> {
    let Some((first, later)) = decision.selecting.split_first() else {
        reported.dropped(DropReason::OutboundNoPolicy);
        reported.fault("policy", no_policy(&decision.near, flow));
        return None;
    };
    reported.policy = Some(first.policy.name.clone());
    let protecting = later.iter().find(|view| matches!(view.policy.action, Action::Protect(_)));
    let also = protecting.map_or_else(String::new, |view| {
        format!("; {} selects it as well, but comes later", described(view))
    });
    match first.policy.action {
        Action::Protect(tunnel) => {
            reported.step("policy", format!("{} protects it{also}", described(first)));
            return Some(tunnel);
        }
        Action::Bypass => {
            if reported.outcome == "protected" {
                reported.outcome = "bypassed".to_owned();
            }
            let text = format!(
                "{} bypasses it: it leaves unencrypted, by the kernel's route{also}",
                described(first)
            );
            if protecting.is_some() { reported.fault("policy", text) } else { reported.step("policy", text) }
        }
        Action::Discard => {
            reported.dropped(DropReason::OutboundDiscard);
            reported.fault("policy", format!("{} discards it{also}", described(first)));
        }
    }
    None
}

fn described(view: &PolicyView) -> String {
    let policy = &view.policy;
    let (local, remote) = (policy.selector.local, policy.selector.remote);
    format!("policy {} ({local} === {remote}, priority {})", policy.name, policy.priority)
}

fn no_policy(near: &[(PolicyView, Miss)], flow: &FlowKey) -> String {
    let miss = |(view, miss): &(PolicyView, Miss)| {
        let selector = &view.policy.selector;
        let why = match miss {
            Miss::Source => format!("the source {} is not in {}", flow.source(), selector.local),
            Miss::Destination => {
                format!("the destination {} is not in {}", flow.destination(), selector.remote)
            }
            Miss::Upper => {
                format!("its protocol or ports are not those of {} === {}", selector.local, selector.remote)
            }
        };
        format!("tunnel {}: {why}", view.policy.name)
    };
    let near: Vec<String> = near.iter().map(miss).collect();
    if near.is_empty() {
        return "no tunnel covers this packet, and none comes close".to_owned();
    }
    format!("no tunnel covers this packet ({})", near.join("; "))
}
