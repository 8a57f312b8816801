//! Networks behind charon's tunnels that no `remote_ts` covers. Those of a `[[tunnel]]` that has no
//! `remote_ts` are routed into the gateway. To others no route leads, so that packets would leave
//! unencrypted by the host's other routes: they are blocked instead, and the operator is warned.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

use convoy_ipsec::{AddressRange, TrafficSelector};
use convoy_kernel::Prefix;

use crate::charon::{Behind, Standing};

/// Blocked networks, at most: each costs the kernel a route.
const NETWORKS: usize = 1 << 16;
/// Children that the operator is warned of, at most; there may be any number of them without a
/// name.
const CHILDREN: usize = 1024;
/// How long after a failure the helper is asked again to block.
const AGAIN: Duration = Duration::from_secs(10);

/// Networks that no `remote_ts` covers, blocked or routed. They stay so after their SA is gone,
/// until the gateway ends or a configuration covers them.
#[derive(Default)]
pub(crate) struct Blocked {
    /// The networks that the configuration covers.
    covered: HashSet<Prefix>,
    /// Their prefix lengths.
    lengths: BTreeSet<u8>,
    networks: BTreeSet<Prefix>,
    /// Those of them that are routed instead, each with this side of their policy.
    routed: BTreeMap<Prefix, Vec<TrafficSelector>>,
    warned: HashSet<String>,
    is_full: bool,
    /// When to ask the helper.
    due: Option<Instant>,
}

impl Blocked {
    /// Switches to a configuration that covers these networks; what it covers is no longer blocked.
    pub(crate) fn cover(&mut self, covered: Vec<Prefix>) {
        self.lengths = covered.iter().map(|network| network.bits).collect();
        // Warnings are repeated for each configuration.
        self.warned.clear();
        self.routed.clear();
        // For an interface's address only the network counts.
        self.covered = covered.into_iter().filter_map(|network| start(network, network.bits)).collect();
        let mut networks = std::mem::take(&mut self.networks);
        networks.retain(|network| !self.is_covered(*network));
        self.is_full &= networks.len() >= NETWORKS;
        self.networks = networks;
    }

    fn is_covered(&self, network: Prefix) -> bool {
        let lengths = self.lengths.range(..=network.bits);
        lengths.filter_map(|bits| start(network, *bits)).any(|around| self.covered.contains(&around))
    }

    /// Blocks or routes what is behind these tunnels and not covered; returns warnings for the
    /// operator. `is_possible` says whether the host keeps packets from leaving at all, and
    /// `can_route` whether it has routes into the gateway.
    pub(crate) fn block(&mut self, behind: &[Behind], is_possible: bool, can_route: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        for Behind { child, selector, standing } in behind {
            let networks = selector.remote.addresses.prefixes();
            let networks = networks.map(|(address, bits)| Prefix { address, bits });
            let uncovered: Vec<_> = networks.filter(|network| !self.is_covered(*network)).collect();
            if uncovered.is_empty() {
                continue;
            }
            // Without a route into the gateway, a tunnel cannot take them.
            let is_taken = *standing == Standing::Taken && can_route;
            let is_outside = *standing == Standing::Outside || *standing == Standing::Taken && !can_route;
            if is_outside && self.is_new(child) {
                let what = if is_possible { "are dropped, since they would otherwise" } else { "may" };
                warnings.push(format!(
                    "charon's child {child} has traffic selectors outside every [[tunnel]]: {selector}; packets \
                     to {} {what} leave unencrypted; add a [[tunnel]] whose remote_ts covers it, or with the name of the child or its \
                     connection and no remote_ts",
                    selector.remote
                ));
            }
            if is_possible {
                warnings.extend(self.insert(uncovered.clone()));
            }
            if is_taken {
                self.route(&uncovered, selector.local);
            }
        }
        warnings
    }

    /// Routes those of the networks that have a place, for packets from this side.
    fn route(&mut self, networks: &[Prefix], local: TrafficSelector) {
        for network in networks.iter().filter(|network| self.networks.contains(network)) {
            let locals = self.routed.entry(*network).or_default();
            if !locals.contains(&local) {
                locals.push(local);
                self.due.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Whether the operator was not warned so before, since the configuration was read; notes it.
    pub(crate) fn is_new(&mut self, warning: &str) -> bool {
        self.warned.len() < CHILDREN && self.warned.insert(warning.to_owned())
    }

    /// Blocks more networks; returns a warning if there is no room.
    fn insert(&mut self, networks: Vec<Prefix>) -> Option<String> {
        for network in networks {
            if self.networks.len() < NETWORKS {
                if self.networks.insert(network) {
                    self.due.get_or_insert_with(Instant::now);
                }
            } else if !self.networks.contains(&network) && !std::mem::replace(&mut self.is_full, true) {
                let Prefix { address, bits } = network;
                return Some(format!(
                    "the limit of {NETWORKS} blocked networks outside every [[tunnel]] is reached: packets to \
                     {address}/{bits} and to further networks may leave unencrypted"
                ));
            }
        }
        None
    }

    /// Whether the helper must be asked to block what it does not block yet.
    pub(crate) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    /// Records that the helper was asked, and whether it succeeded.
    pub(crate) fn asked(&mut self, is_done: bool) {
        self.due = (!is_done).then(|| Instant::now() + AGAIN);
    }

    /// Those that are routed into the gateway, each with this side of their policy.
    pub(crate) fn routed(&self) -> &BTreeMap<Prefix, Vec<TrafficSelector>> {
        &self.routed
    }

    /// All of them, also those that are routed.
    pub(crate) fn networks(&self) -> &BTreeSet<Prefix> {
        &self.networks
    }
}

/// The network of `bits` bits around the first address of another.
fn start(network: Prefix, bits: u8) -> Option<Prefix> {
    let around = AddressRange::prefix(network.address, bits).ok()?;
    Some(Prefix { address: around.first(), bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        let range: AddressRange = text.parse().expect("a network");
        let (address, bits) = range.as_prefix().expect("a prefix");
        Prefix { address, bits }
    }

    fn behind(child: &str, remote: &str) -> Behind {
        let side = |text: &str| text.parse().expect("a selector");
        let selector = convoy_ipsec::Selector { local: side("10.1.0.0/24"), remote: side(remote) };
        Behind { child: child.to_owned(), selector, standing: Standing::Outside }
    }

    fn texts(blocked: &Blocked) -> Vec<String> {
        blocked.networks().iter().map(|Prefix { address, bits }| format!("{address}/{bits}")).collect()
    }

    #[test]
    fn what_no_tunnel_covers_is_blocked_and_reported_once_for_each_child() {
        let mut blocked = Blocked::default();
        blocked.cover(vec![prefix("10.2.0.0/16"), Prefix { address: [10, 9, 0, 1].into(), bits: 24 }]);
        let covered = [behind("net", "10.2.7.0/24"), behind("net", "10.9.0.5/32")];
        assert!(blocked.block(&covered, true, true).is_empty() && !blocked.is_due());
        let warnings =
            blocked.block(&[behind("rw", "10.3.0.1/32"), behind("rw", "10.3.0.2-10.3.0.4")], true, true);
        let expected = "charon's child rw has traffic selectors outside every [[tunnel]]: 10.1.0.0/24 === 10.3.0.1/32; packets \
                        to 10.3.0.1/32 are dropped, since they would otherwise leave unencrypted; add a [[tunnel]] whose \
                        remote_ts covers it, or with the name of the child or its connection and no remote_ts";
        assert_eq!(warnings, [expected]);
        assert_eq!(texts(&blocked), ["10.3.0.1/32", "10.3.0.2/31", "10.3.0.4/32"]);
        assert!(blocked.is_due());
        blocked.asked(true);
        assert!(blocked.block(&[behind("rw", "10.3.0.1/32")], true, true).is_empty() && !blocked.is_due());
        assert_eq!(
            blocked.block(&[behind("wide", "10.0.0.0/8")], true, true).len(),
            1,
            "wider than what is routed"
        );
        blocked.cover(vec![prefix("10.3.0.0/24")]);
        assert_eq!(texts(&blocked), ["10.0.0.0/8"]);
    }

    #[test]
    fn networks_of_a_tunnel_that_takes_them_from_charon_are_routed_without_a_warning() {
        let mut blocked = Blocked::default();
        let with = |standing| [Behind { standing, ..behind("site/net", "10.2.0.0/24") }];
        assert!(
            blocked.block(&with(Standing::Pending), true, true).is_empty() && blocked.routed().is_empty()
        );
        assert_eq!(texts(&blocked), ["10.2.0.0/24"], "until the name is known");
        assert!(blocked.block(&with(Standing::Taken), true, true).is_empty());
        assert_eq!(blocked.routed().keys().copied().collect::<Vec<_>>(), [prefix("10.2.0.0/24")]);
        blocked.asked(true);
        blocked.block(&with(Standing::Taken), true, true);
        assert!(!blocked.is_due(), "nothing is new");
        blocked.cover(Vec::new());
        assert_eq!((blocked.routed().len(), texts(&blocked).len()), (0, 1), "it stays blocked");
        let warnings = blocked.block(&with(Standing::Taken), true, false);
        assert!(warnings.len() == 1 && blocked.routed().is_empty(), "no route: {warnings:?}");
    }

    #[test]
    fn where_nothing_is_routed_nothing_is_blocked_but_reported() {
        let mut blocked = Blocked::default();
        let warnings = blocked.block(&[behind("rw", "fd00:3::/64")], false, false);
        assert!(
            warnings.len() == 1 && warnings[0].contains("fd00:3::/64 may leave unencrypted"),
            "{warnings:?}"
        );
        assert!(blocked.networks().is_empty() && !blocked.is_due());
    }

    #[test]
    fn what_is_blocked_is_bounded_and_the_bound_reported_once() {
        let mut blocked = Blocked::default();
        let hosts = (0..=NETWORKS as u32 + 5)
            .map(|host| behind("rw", &std::net::Ipv4Addr::from_bits(0x0a00_0000 + host).to_string()));
        let warnings = blocked.block(&hosts.collect::<Vec<_>>(), true, true);
        assert_eq!((warnings.len(), blocked.networks().len()), (2, NETWORKS));
        assert!(
            warnings[1].contains("65536 blocked networks") && warnings[1].contains("10.1.0.0/32"),
            "{warnings:?}"
        );
    }
}
