//! Tunnels that stand in each other's way: the first policy that selects a packet is its policy (RFC 4301 section 4.4.1).

use std::collections::HashMap;

use convoy_ipsec::Selector;
use toml::Spanned;

use super::TunnelConfig;
use super::checker::Checker;
use super::file;

/// A policy, and whose it is: a tunnel's by its place, or a bypass's.
struct Policy {
    selector: Selector,
    tunnel: Option<usize>,
}

/// Tells of tunnels with the same selectors, and of selectors that an earlier policy has whole, so that they never match.
/// Selectors that overlap in part are what priorities are for.
pub(super) fn selectors_are_reached(
    c: &mut Checker<'_>,
    tunnels: &[(&file::Tunnel, TunnelConfig)],
    bypass: &[Selector],
    has_charon: bool,
) {
    let mut policies: Vec<Policy> =
        bypass.iter().map(|selector| Policy { selector: *selector, tunnel: None }).collect();
    // Whose keys come from charon have charon's policies.
    let is_ours = |at: &usize| tunnels[*at].1.manual.is_some() || !has_charon;
    let mut order: Vec<usize> = (0..tunnels.len()).filter(is_ours).collect();
    order.sort_by_key(|at| tunnels[*at].1.priority);
    for at in order {
        let (file, tunnel) = &tunnels[at];
        let own = tunnel.local_ts.iter().flat_map(|local| {
            let remotes = tunnel.remote_ts.iter();
            remotes.map(move |remote| Selector { local: *local, remote: *remote })
        });
        let earlier = policies.len();
        let span = file.remote_ts.as_ref().map_or(0..0, Spanned::span);
        // One word for each tunnel that is in the way.
        let mut told: HashMap<Option<usize>, Selector> = HashMap::new();
        for selector in own {
            let first = policies[..earlier].iter().find(|policy| policy.selector.covers(&selector));
            if let Some(first) = first.filter(|first| told.insert(first.tunnel, selector).is_none()) {
                let is_same = first.selector == selector;
                tell(c, &span, (tunnel, &selector), first.tunnel.map(|other| &tunnels[other].1), is_same);
            }
            policies.push(Policy { selector, tunnel: Some(at) });
        }
    }
}

fn tell(
    c: &mut Checker<'_>,
    span: &std::ops::Range<usize>,
    (tunnel, selector): (&TunnelConfig, &Selector),
    first: Option<&TunnelConfig>,
    is_same: bool,
) {
    let (key, name) = ("tunnel.remote_ts", &tunnel.name);
    match first {
        Some(first) if is_same && first.priority == tunnel.priority => {
            let what = format!(
                "tunnels {:?} and {name:?} both have {selector} with priority {}, so that {name:?} never gets a packet; \
                 change its selectors, or give one of them another priority",
                first.name, first.priority
            );
            c.add(span, key, what);
        }
        Some(first) => {
            let what = format!(
                "tunnel {name:?} gets no packet by {selector}: tunnel {:?} comes before it, by {}, and selects all of them",
                first.name,
                if first.priority == tunnel.priority { "its place in the file" } else { "its priority" }
            );
            c.warn(span, key, what);
        }
        None => {
            let what =
                format!("tunnel {name:?} gets no packet by {selector}: a [[bypass]] selects all of them");
            c.warn(span, key, what);
        }
    }
}
