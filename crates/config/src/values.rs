//! From the file's text to its meaning: every value checked, every error collected.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use convoy_dataplane::handoff::MAX_WORKERS;
use convoy_ipsec::{AdmittedAlgorithms, IpsecConfig, Selector};
use convoy_kernel::Routing;
use convoy_kernel::route::ROUTE_RULES;
use convoy_port::{PortConfig, TunSettings, UdpSettings};
use convoy_settings::{Checker, ConfigErrors, Problem, Severity, Source, in_order};
use toml::Spanned;

use super::cluster::{cluster, service_addresses_are_held_by_leaders, tunnels_are_elsewhere};
use super::dpdk::dpdk;
use super::ends::peer_is_not_inside;
use super::engine::{buses, buses_are_used, engines};
use super::file::{self, File, WordOrNumber};
use super::forwarding::{
    give_address_for_transport, groups_come_in, guard_is_on, kernel_forwards_nothing, redirects_are_off,
    transport_comes_in,
};
use super::host::host_fits;
use super::hosts_behind::hosts_are_forwarded;
use super::idle_workers::workers_have_sas;
use super::interface::{by_if_id, interfaces};
use super::keys::{keys_differ, spis_differ};
use super::monitor::monitors;
use super::overlap::selectors_are_reached;
use super::port::{names_are_no_engine_s, others_have_one_queue, ports_fit, prefixes_are_free};
use super::scheduler::scheduler;
use super::tunnel::{TunnelEnvironment, is_set, tunnel};
use super::{Basis, Config, MssLimit, OnStop, StatePath};
use crate::Kinds;
use crate::inner_mtu::inner_mtu;

/// The default control socket.
pub(super) const CONTROL: &str = "/run/convoy/control.sock";
/// The default of the routing table, the rules' priority and the mark: the port of ESP in UDP,
/// easily recognised.
pub(super) const ROUTING: u32 = 4500;
/// Tables below are the kernel's own, or named by distributions.
const FIRST_TABLE: u32 = 256;
/// The priority of the kernel's rule for its table `main`.
const MAIN_PRIORITY: u32 = 32_766;
/// The smallest MTU of a link that carries IPv6 (RFC 8200 section 5); Linux disables IPv6 on an
/// interface with less.
const LEAST_V6_MTU: u16 = 1280;

/// The fewest and the most flows that can be cached: with the most, a worker uses 192 MiB.
const FLOWS: RangeInclusive<usize> = 64..=1 << 20;
/// The longest that a worker may poll before it sleeps, in us.
const MOST_BUSY_POLL_US: u16 = 1_000;
/// The longest time for which a worker may gather packets, in us.
const MOST_MODERATION_US: u16 = 1_000;
/// The largest MTU of a port: that of jumbo frames, including what protection adds.
pub(super) const LARGEST_MTU: u16 = 9400;
/// The least and the greatest maximum segment size of TCP, in bytes: the least that Linux takes,
/// and what an IPv4 packet holds.
const MSS_BYTES: (u16, u16) = (88, 65_495);

/// Checks a whole file, of which a cluster shares what begins at the byte `shared`. `problems` are
/// those found while reading it.
pub(super) fn check(
    file: &File,
    problems: Vec<Problem>,
    source: &Source<'_>,
    shared: Option<usize>,
    basis: &Basis<'_>,
) -> Result<Config, ConfigErrors> {
    let mut checker = Checker::new(source, basis.machine, problems);
    let config = config(&mut checker, file, basis.kinds);
    tunnels_are_elsewhere(&mut checker, file, shared);
    let problems = in_order(checker.into_problems());
    match config {
        Some(config) if problems.iter().all(|problem| problem.severity == Severity::Warning) => {
            Ok(Config { warnings: problems, ..config })
        }
        _ => Err(ConfigErrors(problems)),
    }
}

/// Whether the metrics' server has a page for browsers, which needs its address.
fn metrics_page(c: &mut Checker<'_>, gateway: &file::Gateway) -> bool {
    let page = gateway.metrics_page.as_ref().filter(|is_on| *is_on.get_ref());
    let has_address = gateway.metrics.is_some() || gateway.at.unread.contains(&"metrics");
    let needs = "the page is served at the address of gateway.metrics, which is not set";
    c.only(page, has_address, "gateway.metrics_page", needs);
    page.is_some()
}

fn config(c: &mut Checker<'_>, file: &File, kinds: &'static Kinds) -> Option<Config> {
    c.unique(file.tunnel.iter().map(|tunnel| tunnel.name.as_ref()), "tunnel.name");
    c.unique(file.port.iter().map(|port| port.common.name.as_ref()), "port.name");
    c.unique(file.bus.iter().map(|bus| bus.name.as_ref()), "bus.name");
    spis_differ(c, &file.tunnel);
    let cluster = cluster(c, file);
    let mut ports: Vec<PortConfig> =
        file.port.iter().filter_map(|entry| PortConfig::check(c, entry)).collect();
    let all_ports = ports.len() == file.port.len();
    if all_ports {
        ports_fit(c, file, &ports);
        kernel_forwards_nothing(c, &file.port, &ports);
    }
    prefixes_are_free(c, &file.port);
    service_addresses_are_held_by_leaders(c, file, cluster.as_ref());
    let buses = buses(c, &file.bus);
    buses_are_used(c, file, &buses, &kinds.engines);
    let (scheduler, classes) = scheduler(c, &file.scheduler, kinds.rivals);
    let gateway = &file.gateway;
    guard_is_on(c, gateway.guard.as_ref());
    let workers = c.in_range(gateway.workers.as_ref(), "gateway.workers", 1, 1..=MAX_WORKERS);
    others_have_one_queue(c, &file.port, workers);
    let engines = engines(c, &file.engine, workers);
    names_are_no_engine_s(c, &file.port, &engines);
    let charon = charon(c, gateway, all_ports.then_some(&ports));
    let admitted = admitted(c, gateway);
    let groups: Vec<&str> =
        file.group.iter().filter_map(|group| Some(group.name.as_ref()?.get_ref().as_str())).collect();
    let tunnel_environment = TunnelEnvironment {
        by_if_id: &by_if_id(file),
        ports: if all_ports { &ports } else { &[] },
        groups: file.cluster.is_some().then_some(&groups),
        admitted,
        has_charon: charon.is_some() || gateway.at.unread.contains(&"charon"),
    };
    let entries = file.tunnel.iter();
    let tunnels: Vec<_> = entries
        .filter_map(|entry| tunnel(c, entry, &tunnel_environment).map(|tunnel| (entry, tunnel)))
        .collect();
    let bypass: Vec<Selector> = file.bypass.iter().filter_map(|entry| bypass(c, entry)).collect();
    let interfaces = interfaces(c, file, &tunnels);
    let monitors = monitors(c, &tunnels, tunnel_environment.ports, &interfaces);
    keys_differ(c, &tunnels);
    selectors_are_reached(c, &tunnels, &bypass, tunnel_environment.has_charon);
    redirects_are_off(c, &tunnels, tunnel_environment.ports);
    hosts_are_forwarded(c, &tunnels, tunnel_environment.ports);
    groups_come_in(c, &tunnels, tunnel_environment.ports);
    transport_comes_in(c, gateway.guard.as_ref(), &tunnels, tunnel_environment.ports);
    for (entry, tunnel) in &tunnels {
        peer_is_not_inside(c, entry.remote_ts.as_ref().map_or(&[], |list| list.get_ref()), tunnel);
    }
    give_address_for_transport(&mut ports, &tunnels);
    let ends = [("block", OnStop::Block), ("open", OnStop::Open)];
    let orders = [("per-sa", true), ("none", false)];
    let config = Config {
        file: String::new(),
        kinds,
        charon,
        charon_user: gateway.charon_user.as_ref().map(|text| text.get_ref().clone()),
        control: gateway.control.as_ref().map_or(CONTROL, |text| text.get_ref()).into(),
        verify_one_in: gateway.verify_one_in.as_ref().map_or(0, |number| *number.get_ref()),
        user: gateway.user.as_ref().map(|text| text.get_ref().clone()),
        on_stop: c.one_of(gateway.on_stop.as_ref(), "gateway.on_stop", &ends)?,
        guard: is_set(gateway.guard.as_ref(), true),
        routing: routing(c, gateway),
        state: StatePath::of(gateway.state.as_ref().map(|text| text.get_ref().as_str())),
        admitted,
        check_icmp: is_set(gateway.check_icmp.as_ref(), true),
        mss_clamp: mss_clamp(c, gateway.mss_clamp.as_ref()),
        flow_cache: flow_cache(c, gateway),
        busy_poll_us: c.in_range(
            gateway.busy_poll_us.as_ref(),
            "gateway.busy_poll_us",
            0,
            0..=MOST_BUSY_POLL_US,
        ),
        moderation_us: c.in_range(
            gateway.moderation_us.as_ref(),
            "gateway.moderation_us",
            0,
            0..=MOST_MODERATION_US,
        ),
        metrics: gateway.metrics.as_ref().and_then(|text| c.read(text, "gateway.metrics")),
        metrics_per_tunnel: gateway.metrics_per_tunnel.as_ref().map(|text| *text.get_ref()),
        metrics_page: metrics_page(c, gateway),
        workers,
        mtu: c.in_range(gateway.mtu.as_ref(), "gateway.mtu", 1500, 576..=LARGEST_MTU),
        scheduler,
        classes,
        ordered: c.one_of(file.scheduler.order.as_ref(), "scheduler.order", &orders)?,
        engines,
        dpdk: dpdk(c, &file.dpdk),
        cluster,
        buses,
        tunnels: tunnels.into_iter().map(|(_, tunnel)| tunnel).collect(),
        monitors,
        ports,
        interfaces,
        bypass: bypass.iter().map(|selector| (selector.local, selector.remote)).collect(),
        warnings: Vec::new(),
    };
    ipv6_fits(c, gateway, &config);
    host_fits(c, file, &config);
    own_ports_exist(c, file, &config);
    workers_have_sas(c, gateway.workers.as_ref(), &config);
    Some(config)
}

/// To what the maximum segment size is lowered; what fits by default.
fn mss_clamp(c: &mut Checker<'_>, value: Option<&Spanned<WordOrNumber>>) -> MssLimit {
    let Some(value) = value else { return MssLimit::Auto };
    let (least, most) = MSS_BYTES;
    let what = match value.get_ref() {
        WordOrNumber::Word(word) if word == "auto" => return MssLimit::Auto,
        WordOrNumber::Word(word) if word == "off" => return MssLimit::Off,
        WordOrNumber::Word(word) => {
            format!("{word:?} is none of \"auto\", \"off\" and a number of bytes from {least} to {most}")
        }
        WordOrNumber::Number(number) => match u16::try_from(*number) {
            Ok(bytes) if (least..=most).contains(&bytes) => return MssLimit::To(bytes),
            _ => format!("{number} is out of range; it must be {least} to {most}, \"auto\" or \"off\""),
        },
    };
    c.add(&value.span(), "gateway.mss_clamp", what);
    MssLimit::Auto
}

/// Each worker has a UDP port above that of ESP in UDP, if workers have ports of their own.
fn own_ports_exist(c: &mut Checker<'_>, file: &File, config: &Config) {
    let highest = u16::MAX - config.workers;
    for entry in file.port.iter().filter(|_| config.has_own_ports()) {
        let Some(keys) = entry.kind.as_ref().and_then(|keys| keys.of::<UdpSettings>()) else { continue };
        if let Some(text) = keys.udp_port.as_ref().filter(|text| *text.get_ref() > highest) {
            let what = format!(
                "it must be at most {highest}: with `charon` or `resources`, each worker ({}) also uses a UDP port above it",
                config.workers
            );
            c.add(&text.span(), "port.udp_port", what);
        }
    }
}

pub(super) fn bypass(c: &mut Checker<'_>, file: &file::Bypass) -> Option<Selector> {
    let local = c.needed(&file.at, file.local_ts.as_ref(), "bypass.local_ts", "\"192.0.2.1[tcp/22]\"");
    let remote = c.needed(&file.at, file.remote_ts.as_ref(), "bypass.remote_ts", "\"0.0.0.0/0\"");
    let local = local.and_then(|text| c.read(text, "bypass.local_ts"));
    let remote = remote.and_then(|text| c.read(text, "bypass.remote_ts"));
    Some(Selector { local: local?, remote: remote? })
}

/// Flows of each direction and family whose policy is cached.
fn flow_cache(c: &mut Checker<'_>, file: &file::Gateway) -> usize {
    const KEY: &str = "gateway.flow_cache";
    let flows = c.in_range(file.flow_cache.as_ref(), KEY, IpsecConfig::default().flow_cache, FLOWS);
    if let Some(written) = file.flow_cache.as_ref().filter(|_| !flows.is_power_of_two()) {
        let (below, above) = (flows.next_power_of_two() / 2, flows.next_power_of_two());
        let what = format!("{flows} is not a power of two; the nearest are {below} and {above}");
        c.add(&written.span(), KEY, what);
    }
    flows
}

/// The algorithms that `allow_weak` and `fips` admit.
fn admitted(c: &mut Checker<'_>, gateway: &file::Gateway) -> AdmittedAlgorithms {
    let allow_weak = is_set(gateway.allow_weak.as_ref(), false);
    let Some(fips) = gateway.fips.as_ref().filter(|fips| *fips.get_ref()) else {
        return if allow_weak { AdmittedAlgorithms::All } else { AdmittedAlgorithms::Strong };
    };
    if allow_weak {
        c.add(&fips.span(), "gateway.fips", "it excludes allow_weak = true");
    }
    AdmittedAlgorithms::Approved
}

/// The numbers that distinguish the gateway's rules and routes from others.
fn routing(c: &mut Checker<'_>, file: &file::Gateway) -> Routing {
    let tables = FIRST_TABLE..=u32::MAX - 1;
    let priorities = 1..=MAIN_PRIORITY - ROUTE_RULES;
    Routing {
        table: c.in_range(file.route_table.as_ref(), "gateway.route_table", ROUTING, tables),
        priority: c.in_range(file.rule_priority.as_ref(), "gateway.rule_priority", ROUTING, priorities),
        mark: c.in_range(file.mark.as_ref(), "gateway.mark", ROUTING, 1..=u32::MAX),
    }
}

/// IKE travels in UDP.
fn charon(c: &mut Checker<'_>, file: &file::Gateway, ports: Option<&Vec<PortConfig>>) -> Option<PathBuf> {
    let text = file.charon.as_ref()?;
    let carries_ike = |port: &PortConfig| port.is_outside && port.traits().carries_ike;
    if ports.is_some_and(|ports| !ports.iter().any(carries_ike)) {
        let what = "IKE needs an outside port of kind \"udp\", \"af_packet\", \"af_xdp\" or \"dpdk\", and there is none";
        c.add(&text.span(), "gateway.charon", what);
    }
    Some(text.get_ref().into())
}

/// IPv6 inside requires an interface with a sufficient MTU.
fn ipv6_fits(c: &mut Checker<'_>, file: &file::Gateway, config: &Config) {
    let is_computed =
        |port: &&PortConfig| port.settings.of::<TunSettings>().is_some_and(|tun| tun.mtu.is_none());
    let inside = config.ports.iter().filter(is_computed);
    let has_v6 = inside.flat_map(|port| &port.addresses).any(|(address, _)| address.is_ipv6());
    let inner = |mtu| inner_mtu(&Config { mtu, ..config.clone() }).bytes;
    let leaves = inner(config.mtu);
    if let Some(mtu) = file.mtu.as_ref().filter(|_| has_v6 && leaves < LEAST_V6_MTU) {
        let least = (config.mtu..=LARGEST_MTU).find(|mtu| inner(*mtu) >= LEAST_V6_MTU).unwrap_or(LARGEST_MTU);
        let what = format!(
            "it leaves {leaves} bytes inside, but an inside port has an IPv6 address, which needs \
             {LEAST_V6_MTU}; use {least} or more"
        );
        c.add(&mtu.span(), "gateway.mtu", what);
    }
}
