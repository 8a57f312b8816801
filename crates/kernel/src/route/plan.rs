//! The plan of routes into the tunnels: the rules and routes that the kernel needs, computed
//! without asking it.

use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::prefix::Prefix;

/// A network behind a tunnel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Route {
    /// Its destination.
    pub prefix: Prefix,
    /// The source address of this host's own packets, so that the tunnel's policy selects them; of
    /// the prefix's family.
    pub source: Option<IpAddr>,
    /// Without a source, it is one of the host's addresses in these networks, as long as there is
    /// one.
    pub local: Vec<Prefix>,
}

/// The numbers that distinguish this gateway's rules and routes from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routing {
    /// The routing table of the networks behind tunnels; default routes are in the table after it.
    pub table: u32,
    /// The priority of the first rule; there are [`RULES`] in a row.
    pub priority: u32,
    /// The mark of the gateway's own packets, which never go into a tunnel.
    pub mark: u32,
}

impl Routing {
    /// The mark of this host's own packets that tunnels in transport mode protect.
    pub fn transport_mark(&self) -> u32 {
        self.mark.wrapping_add(1)
    }

    /// The tables that are ours: of networks, and of default routes.
    pub(super) fn tables(&self) -> [u32; 2] {
        [self.table, self.table.saturating_add(1)]
    }

    /// Whether a rule with our protocol is this gateway's, now or from before.
    pub(super) fn owns(&self, rule: &Rule) -> bool {
        let is_ours = self.tables().contains(&rule.table) || rule.table == MAIN;
        let priorities = self.priority..self.priority.saturating_add(RULES);
        is_ours && priorities.contains(&rule.priority)
    }
}

/// The routing protocol number (`rtm_protocol`) of every rule and route that is ours.
pub const PROTOCOL: u8 = 145;
/// The number of consecutive priorities that the rules use.
pub const RULES: u32 = 4;
/// The kernel's table `main`.
const MAIN: u32 = 254;

/// What to route into the tunnels, and what never.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutePlan {
    /// The interface inside.
    pub device: String,
    /// The interface's addresses with prefix lengths, set again when the interface has lost them.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Addresses that peers have chosen for this host, which the interface has only while they are
    /// in the plan.
    pub virtual_ips: BTreeSet<IpAddr>,
    /// The numbers of our rules and routes.
    pub routing: Routing,
    /// The networks behind the tunnels.
    pub routes: Vec<Route>,
    /// Networks to which no packet may go, as it would leave unencrypted. If one of them is also in
    /// `routes`, it is routed.
    pub blocked: Vec<Prefix>,
    /// Networks of this side, excluded from a network behind a tunnel that contains them.
    pub here: Vec<Prefix>,
    /// The gateway's own outer addresses: packets with one of them as their source take no default
    /// route into a tunnel; for IPv6 only answers.
    pub outer: Vec<IpAddr>,
    /// The peers' outer addresses, which are reached outside the tunnels.
    pub peers: Vec<IpAddr>,
    /// The mark of this host's own packets that tunnels in transport mode protect, if there are
    /// any.
    pub transport_mark: Option<u32>,
}

/// What happens to packets to a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// Other rules decide.
    Throw,
    /// They go to the interface with this index.
    Device { index: u32, source: Option<IpAddr> },
    /// They are dropped: the interface is down, or there is no gateway any more.
    Blackhole,
}

impl Target {
    pub(super) fn is_device(self) -> bool {
        matches!(self, Self::Device { .. })
    }

    /// The lowest metric comes first.
    pub(super) fn metric(self) -> u32 {
        match self {
            Self::Throw => 1,
            Self::Device { .. } => 1024,
            Self::Blackhole => 1 << 20,
        }
    }
}

/// A route as in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KernelRoute {
    pub(super) table: u32,
    pub(super) prefix: Prefix,
    pub(super) target: Target,
}

impl KernelRoute {
    /// Whether two routes lead into the same interface and have different sources.
    pub(super) fn differs_by_source(&self, other: &Self) -> bool {
        let Target::Device { index, source } = self.target else { return false };
        let Target::Device { index: other_index, source: other_source } = other.target else { return false };
        (self.table, self.prefix, index) == (other.table, other.prefix, other_index) && source != other_source
    }
}

/// The traffic that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RuleTraffic {
    All,
    /// Answers of this host's services.
    Answers(Service),
}

/// A kind of answer: from a port below those of clients, or an echo reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Service {
    Tcp,
    Udp,
    Echo,
}

impl RuleTraffic {
    /// If our route is a blackhole, IPv6 first finds no route at all, then takes the host's outer
    /// address as the source and asks again: a rule for all packets from there would let the host's
    /// own traffic leave in clear.
    fn from_outer(is_v6: bool) -> Vec<Self> {
        let services = [Service::Tcp, Service::Udp, Service::Echo];
        if is_v6 { services.map(Self::Answers).into() } else { vec![Self::All] }
    }
}

/// A routing rule as in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rule {
    pub(super) is_v6: bool,
    pub(super) priority: u32,
    /// Only for packets with this source.
    pub(super) from: Option<IpAddr>,
    /// Only for this traffic.
    pub(super) traffic: RuleTraffic,
    /// Only for packets without this mark.
    pub(super) unmarked: Option<u32>,
    /// Only for packets with this mark.
    pub(super) marked: Option<u32>,
    /// Whether it ignores default routes.
    pub(super) ignores_default: bool,
    pub(super) table: u32,
}

impl RoutePlan {
    fn table(&self, prefix: Prefix) -> u32 {
        self.routing.tables()[usize::from(prefix.bits == 0)]
    }

    /// All networks that are routed or blocked.
    fn prefixes(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.routes.iter().map(|route| route.prefix).chain(self.blocked.iter().copied())
    }

    /// Whether a network of the host's own could be inside one that is routed or blocked.
    pub(super) fn may_contain_others(&self) -> bool {
        self.prefixes().any(|prefix| prefix.bits > 0 && prefix != Prefix::host(prefix.address))
    }

    /// The routes: to the interface if it is up and has this index, and behind each of them a
    /// blackhole, as for each blocked network. `connected` are the networks on the host's other
    /// interfaces.
    pub(super) fn entries(&self, device: Option<u32>, connected: &[Prefix]) -> BTreeSet<KernelRoute> {
        let mut entries = BTreeSet::new();
        let behind: HashSet<Prefix> = self.routes.iter().map(|route| route.prefix).collect();
        let own = self.here.iter().chain(connected).copied();
        let stays: BTreeSet<Prefix> = own.filter(|own| !behind.contains(own)).collect();
        let peers: BTreeSet<Prefix> = self.peers.iter().copied().map(Prefix::host).collect();
        if let Some(index) = device {
            entries.extend(self.routes.iter().map(|Route { prefix, source, .. }| KernelRoute {
                table: self.table(*prefix),
                prefix: *prefix,
                target: Target::Device { index, source: *source },
            }));
        }
        for any in [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()] {
            let prefix = Prefix { address: any, bits: 0 };
            let table = self.table(prefix);
            if self.transport_mark.is_some() {
                let device = device.map(|index| Target::Device { index, source: None });
                let is_routed = behind.contains(&prefix);
                let targets = device.filter(|_| !is_routed).into_iter().chain([Target::Blackhole]);
                entries.extend(targets.map(|target| KernelRoute { table, prefix, target }));
            }
        }
        for prefix in self.prefixes() {
            let table = self.table(prefix);
            entries.insert(KernelRoute { table, prefix, target: Target::Blackhole });
            let stays = prefix.those_within(&stays).filter(|own| own.bits > prefix.bits);
            let thrown = stays.chain(prefix.those_within(&peers));
            entries.extend(thrown.map(|prefix| KernelRoute { table, prefix, target: Target::Throw }));
        }
        entries
    }

    /// The rules. Networks behind tunnels precede all other routes of the host. Default routes into
    /// a tunnel follow all but its default routes.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let Routing { priority, mark, .. } = self.routing;
        let [networks, defaults] = self.routing.tables();
        let mut rules = Vec::new();
        for is_v6 in [false, true] {
            let has = |is_default: bool| {
                self.prefixes()
                    .any(|prefix| prefix.address.is_ipv6() == is_v6 && (prefix.bits == 0) == is_default)
            };
            let rule = |at: u32, table| Rule {
                is_v6,
                priority: priority.saturating_add(at),
                from: None,
                traffic: RuleTraffic::All,
                unmarked: None,
                marked: None,
                ignores_default: false,
                table,
            };
            if let Some(mark) = self.transport_mark {
                rules.push(Rule { marked: Some(mark), ..rule(0, defaults) });
            }
            if has(false) {
                rules.push(Rule { unmarked: Some(mark), ..rule(0, networks) });
            }
            if has(true) {
                rules.push(Rule { ignores_default: true, ..rule(1, MAIN) });
                let outer = self.outer.iter().copied().filter(|address| address.is_ipv6() == is_v6);
                rules.extend(outer.flat_map(|address| {
                    let from = rule(2, MAIN);
                    let traffic = RuleTraffic::from_outer(is_v6).into_iter();
                    traffic.map(move |traffic| Rule { from: Some(address), traffic, ..from })
                }));
                rules.push(Rule { unmarked: Some(mark), ..rule(3, defaults) });
            }
        }
        rules.sort();
        rules.dedup();
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        let (address, bits) = text.split_once('/').expect("a prefix");
        Prefix { address: address.parse().expect("an address"), bits: bits.parse().expect("a length") }
    }

    fn plan(routes: &[&str], here: &[&str], peers: &[&str]) -> RoutePlan {
        let outer = ["192.0.2.1", "2001:db8::1"];
        RoutePlan {
            device: "convoy0".to_owned(),
            addresses: Vec::new(),
            virtual_ips: BTreeSet::new(),
            routing: Routing { table: 4500, priority: 4500, mark: 4500 },
            routes: routes
                .iter()
                .map(|text| Route { prefix: prefix(text), source: None, local: Vec::new() })
                .collect(),
            blocked: Vec::new(),
            here: here.iter().map(|text| prefix(text)).collect(),
            outer: outer.iter().map(|text| text.parse().expect("an address")).collect(),
            peers: peers.iter().map(|text| text.parse().expect("an address")).collect(),
            transport_mark: None,
        }
    }

    /// The routes in the words of ip(8).
    fn words(plan: &RoutePlan, device: Option<u32>, connected: &[&str]) -> Vec<String> {
        let connected: Vec<Prefix> = connected.iter().map(|text| prefix(text)).collect();
        let entries = plan.entries(device, &connected);
        let word = |target| match target {
            Target::Throw => "throw",
            Target::Device { .. } => "device",
            Target::Blackhole => "blackhole",
        };
        let text = |entry: &KernelRoute| {
            format!("{} {}/{} {}", entry.table, entry.prefix.address, entry.prefix.bits, word(entry.target))
        };
        entries.iter().map(text).collect()
    }

    #[test]
    fn prefixes_contain_what_is_in_them() {
        for (outer, inner) in [("0.0.0.0/0", "10.0.0.0/8"), ("10.0.0.0/8", "10.1.0.0/24"), ("::/0", "::/128")]
        {
            assert!(prefix(outer).contains(prefix(inner)), "{inner} is in {outer}");
            assert!(!prefix(inner).contains(prefix(outer)), "{outer} is not in {inner}");
        }
        for (one, other) in [("10.1.0.0/16", "10.2.0.0/24"), ("0.0.0.0/0", "::/0"), ("fd00::/8", "fe80::/64")]
        {
            assert!(!prefix(one).contains(prefix(other)) && !prefix(other).contains(prefix(one)));
        }
    }

    #[test]
    fn the_networks_within_one_are_those_that_it_contains() {
        let all = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.0.0.0/24",
            "10.1.0.0/16",
            "10.255.255.255/32",
            "11.0.0.0/8",
            "::/0",
            "fd00::/8",
        ];
        let all: BTreeSet<Prefix> = all.into_iter().map(prefix).collect();
        for network in &all {
            let within: Vec<Prefix> = network.those_within(&all).collect();
            let contained: Vec<Prefix> =
                all.iter().copied().filter(|other| network.contains(*other)).collect();
            assert_eq!(within, contained, "{network:?}");
        }
    }

    #[test]
    fn ten_thousand_networks_on_each_side_are_no_burden() {
        let networks = |first: u32| {
            (0..10_000).map(move |number: u32| format!("{first}.{}.{}.0/24", number >> 8, number & 255))
        };
        let [routes, here]: [Vec<String>; 2] = [11, 10].map(|first| networks(first).collect());
        let [routes, here] =
            [&routes, &here].map(|texts| texts.iter().map(String::as_str).collect::<Vec<_>>());
        let plan = plan(&routes, &here, &["192.0.2.2"]);
        assert_eq!(plan.entries(Some(7), &[prefix("192.168.0.0/24")]).len(), 20_000);
    }

    #[test]
    fn behind_each_route_stands_one_that_drops_and_is_alone_while_the_interface_is_down() {
        let plan = plan(&["10.2.0.0/24"], &["10.1.0.0/24"], &["192.0.2.2"]);
        assert_eq!(words(&plan, Some(7), &[]), ["4500 10.2.0.0/24 device", "4500 10.2.0.0/24 blackhole"]);
        assert_eq!(words(&plan, None, &[]), ["4500 10.2.0.0/24 blackhole"]);
        let metrics: Vec<u32> =
            plan.entries(Some(7), &[]).iter().map(|entry| entry.target.metric()).collect();
        assert!(metrics.is_sorted(), "{metrics:?}");
    }

    #[test]
    fn what_is_on_this_side_stays_where_a_network_behind_a_tunnel_contains_it() {
        let plan = plan(&["10.0.0.0/8", "10.2.0.0/24"], &["10.1.0.0/24", "10.2.0.0/24"], &["10.9.9.9"]);
        assert_eq!(
            words(&plan, None, &["10.50.0.0/24", "192.168.0.0/24"]),
            [
                "4500 10.0.0.0/8 blackhole",
                "4500 10.1.0.0/24 throw",
                // On this side of one tunnel and behind another: a hub.
                "4500 10.2.0.0/24 blackhole",
                "4500 10.9.9.9/32 throw",
                "4500 10.50.0.0/24 throw",
            ]
        );
    }

    #[test]
    fn a_full_tunnel_leaves_the_host_its_networks_its_outer_addresses_and_the_way_to_the_peer() {
        let plan = plan(&["0.0.0.0/0", "::/0"], &["10.1.0.0/24"], &["198.51.100.1", "2001:db8::2"]);
        assert_eq!(
            words(&plan, Some(7), &[]),
            [
                "4501 0.0.0.0/0 device",
                "4501 0.0.0.0/0 blackhole",
                "4501 10.1.0.0/24 throw",
                "4501 198.51.100.1/32 throw",
                "4501 ::/0 device",
                "4501 ::/0 blackhole",
                "4501 2001:db8::2/128 throw",
            ]
        );
        let rules = plan.rules();
        let v4: Vec<(u32, u32)> =
            rules.iter().filter(|rule| !rule.is_v6).map(|rule| (rule.priority, rule.table)).collect();
        assert_eq!(v4, [(4501, 254), (4502, 254), (4503, 4501)]);
        let v6: Vec<u32> = rules.iter().filter(|rule| rule.is_v6).map(|rule| rule.priority).collect();
        assert_eq!(v6, [4501, 4502, 4502, 4502, 4503]);
        assert!(rules.iter().all(|rule| plan.routing.owns(rule)));
    }

    #[test]
    fn networks_need_one_rule_a_family() {
        let rules = plan(&["10.2.0.0/24", "10.3.0.0/24", "fd00:2::/64"], &[], &[]).rules();
        assert_eq!(rules.len(), 2);
        assert!(rules.iter().all(|rule| rule.unmarked == Some(4500) && rule.table == 4500));
        assert_eq!(plan(&[], &[], &[]).rules(), []);
    }

    #[test]
    fn what_is_blocked_is_dropped_but_for_what_is_the_hosts_own_or_routed() {
        let blocked = ["10.3.0.0/16", "10.2.0.0/24", "fd00:3::/64"].map(prefix).to_vec();
        let plan = RoutePlan { blocked, ..plan(&["10.2.0.0/24"], &["10.3.1.0/24"], &["10.3.9.9"]) };
        assert!(plan.may_contain_others());
        assert_eq!(
            words(&plan, Some(7), &["10.3.50.0/24", "192.168.0.0/24"]),
            [
                "4500 10.2.0.0/24 device",
                "4500 10.2.0.0/24 blackhole",
                "4500 10.3.0.0/16 blackhole",
                "4500 10.3.1.0/24 throw",
                "4500 10.3.9.9/32 throw",
                "4500 10.3.50.0/24 throw",
                "4500 fd00:3::/64 blackhole",
            ]
        );
        assert_eq!(plan.rules().iter().filter(|rule| rule.is_v6).count(), 1, "of what is blocked alone");
    }

    #[test]
    fn a_default_route_that_is_blocked_has_the_rules_of_one_that_is_routed() {
        let routed = plan(&["0.0.0.0/0"], &["10.1.0.0/24"], &["198.51.100.1"]);
        let blocked = vec![prefix("0.0.0.0/0")];
        let plan = RoutePlan { blocked, ..plan(&[], &["10.1.0.0/24"], &["198.51.100.1"]) };
        let expected = ["4501 0.0.0.0/0 blackhole", "4501 10.1.0.0/24 throw", "4501 198.51.100.1/32 throw"];
        assert_eq!(words(&plan, Some(7), &[]), expected);
        assert_eq!(plan.rules(), routed.rules());
    }
}
