//! Tunnels that shadow each other: the first policy that selects a packet is its policy (RFC 4301
//! section 4.4.1).

use std::collections::{BTreeMap, HashSet};

use convoy_ipsec::{OrderedSelectors, Selector};
use convoy_settings::Checker;
use toml::Spanned;

use super::TunnelConfig;
use super::file;

/// Reports tunnels with the same selectors, and selectors entirely covered by an earlier policy, so
/// that they never match. For partly overlapping selectors there are priorities. Each interface has
/// policies of its own; bypasses are for the shared one.
pub(super) fn selectors_are_reached(
    c: &mut Checker<'_>,
    tunnels: &[(&file::Tunnel, TunnelConfig)],
    bypass: &[Selector],
    has_charon: bool,
) {
    let mut by_interface: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for (at, (_, tunnel)) in tunnels.iter().enumerate() {
        // Tunnels with keys from charon have charon's policies.
        if tunnel.has_static_keys() || !has_charon {
            by_interface.entry(tunnel.interface.as_deref()).or_default().push(at);
        }
    }
    for (interface, order) in by_interface {
        are_reached(c, tunnels, if interface.is_none() { bypass } else { &[] }, order);
    }
}

/// Reports selectors that are never reached among the tunnels of one interface.
fn are_reached(
    c: &mut Checker<'_>,
    tunnels: &[(&file::Tunnel, TunnelConfig)],
    bypass: &[Selector],
    mut order: Vec<usize>,
) {
    order.sort_by_key(|at| tunnels[*at].1.priority);
    let mut selectors = bypass.to_vec();
    // The owner of each: a tunnel by its index, or a bypass.
    let mut owners: Vec<Option<usize>> = vec![None; bypass.len()];
    let mut own = Vec::new();
    for at in order {
        let (first, tunnel) = (selectors.len(), &tunnels[at].1);
        selectors.extend(tunnel.selectors());
        owners.resize(selectors.len(), Some(at));
        own.push((at, first..selectors.len()));
    }
    let ordered = OrderedSelectors::new(selectors);
    for (at, places) in own {
        let (file, tunnel) = &tunnels[at];
        let span = file.remote_ts.as_ref().map_or(0..0, Spanned::span);
        let earlier = places.start;
        if places.is_empty() {
            c.warn(&span, "tunnel.remote_ts", never(tunnel));
        }
        // One message for each tunnel that is in the way.
        let mut reported = HashSet::new();
        for selector in &ordered.selectors()[places] {
            let first = ordered.first_covering(selector, earlier);
            let Some(first) = first.filter(|first| reported.insert(owners[*first])) else { continue };
            let is_same = ordered.selectors()[first] == *selector;
            report(c, &span, tunnel, selector, owners[first].map(|other| &tunnels[other].1), is_same);
        }
    }
}

/// A tunnel without a pair of selectors that can match.
fn never(tunnel: &TunnelConfig) -> String {
    format!(
        "tunnel {:?} matches no packets: no selector of local_ts has the family, protocol and ports of one of remote_ts",
        tunnel.name
    )
}

fn report(
    c: &mut Checker<'_>,
    span: &std::ops::Range<usize>,
    tunnel: &TunnelConfig,
    selector: &Selector,
    first: Option<&TunnelConfig>,
    is_same: bool,
) {
    let (key, name) = ("tunnel.remote_ts", &tunnel.name);
    match first {
        Some(first) if is_same && first.priority == tunnel.priority => {
            let what = format!(
                "tunnels {:?} and {name:?} both have {selector} with priority {}, so {name:?} never matches; \
                 change its selectors, or give one of them another priority",
                first.name, first.priority
            );
            c.add(span, key, what);
        }
        Some(first) => {
            let why =
                if first.priority == tunnel.priority { "is earlier in the file" } else { "has priority" };
            c.warn(span, key, never_matches(name, selector, &format!("tunnel {:?} {why}", first.name)));
        }
        None => c.warn(span, key, never_matches(name, selector, "a [[bypass]] has priority")),
    }
}

fn never_matches(tunnel: &str, selector: &Selector, why: &str) -> String {
    let Selector { local, remote } = selector;
    format!("tunnel {tunnel:?} never matches {local} → {remote}: {why} and covers it")
}
