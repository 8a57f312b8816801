//! Keeps the kernel from forwarding packets of the tunnels' networks past the gateway, which would
//! know nothing of them (RFC 4301 section 5.2). The helper sets an nftables table for it
//! ([`convoy_kernel::guard`]).

mod watch;

use std::fmt::Write;

use convoy_config::{Config, TunnelConfig};
use convoy_ipsec::{Mode, Ports, TrafficSelector};
use convoy_kernel::guard::{FlowSide, GuardedFlow, InsideInterface, guard_table};
use convoy_kernel::{GuardPlan, Prefix};
use convoy_port::{IKE_PORT, NATT_PORT};

use crate::networks::{distinct, here, named, networks};

pub use watch::GuardWatch;

/// Networks that messages name; of further ones they only give the number.
const NAMED: usize = 4;

/// Whether an inside port is at an interface of the kernel's, which then forwards beside the
/// gateway.
pub fn has_inside_interface(config: &Config) -> bool {
    inside_interfaces(config).next().is_some()
}

fn inside_interfaces(config: &Config) -> impl Iterator<Item = InsideInterface> {
    let inside = config.ports.iter().filter(|port| !port.is_outside);
    let shared = inside.filter_map(|port| {
        let name = port.settings.interface()?.to_owned();
        Some(InsideInterface { name, is_tunnels: port.settings.routed_interface().is_some() })
    });
    let own = config.interfaces.iter();
    shared.chain(own.map(|interface| InsideInterface { name: interface.name.clone(), is_tunnels: true }))
}

/// The networks behind tunnels with an interface of their own, as far as their selectors name any:
/// of what is selected as a whole, routes decide.
fn selected(config: &Config) -> impl Iterator<Item = Prefix> {
    let tunnels = config.tunnels.iter().filter(|tunnel| tunnel.interface.is_some());
    let prefixes = tunnels.flat_map(|tunnel| &tunnel.remote_ts).filter_map(|it| it.addresses.as_prefix());
    prefixes.filter(|(_, bits)| *bits > 0).map(|(address, bits)| Prefix { address, bits })
}

/// The guard of a configuration; `None` without an inside port at an interface of its own, and if
/// the configuration disables it. `blocked` are networks behind tunnels that the configuration does
/// not cover.
pub fn plan(config: &Config, blocked: &[Prefix]) -> Option<GuardPlan> {
    if !config.guard || !has_inside_interface(config) {
        return None;
    }
    let outside = || config.ports.iter().filter(|port| port.is_outside);
    let addresses = outside().flat_map(|port| &port.addresses).map(|(address, _)| *address);
    let udp_ports = outside().filter_map(|port| port.settings.udp_port()).chain([IKE_PORT, NATT_PORT]);
    Some(GuardPlan {
        mark: config.routing.mark,
        inside: inside_interfaces(config).collect(),
        remote: distinct(networks(config).into_iter().chain(selected(config)).chain(blocked.iter().copied())),
        here: here(config),
        outer: named(addresses.chain(config.tunnels.iter().map(|tunnel| tunnel.local))),
        peers: named(config.tunnels.iter().map(|tunnel| tunnel.remote)),
        udp_ports: distinct(udp_ports),
        bypass: config.bypass.iter().filter_map(|(local, remote)| flow(local, remote)).collect(),
        transport: transport(config),
        transport_mark: config.routing.transport_mark(),
    })
}

/// This host's own traffic that tunnels in transport mode protect.
fn transport(config: &Config) -> Vec<GuardedFlow> {
    let tunnels = config.tunnels.iter().filter(|tunnel| tunnel.mode == Mode::Transport);
    let selectors = tunnels.flat_map(TunnelConfig::selectors);
    // Without the ends' addresses it is not known what is theirs.
    let is_between_hosts =
        |selector: &TrafficSelector| selector.addresses.first() == selector.addresses.last();
    let known = selectors.filter(|it| is_between_hosts(&it.local) && is_between_hosts(&it.remote));
    known.filter_map(|it| flow(&it.local, &it.remote)).collect()
}

/// The mark of what transport mode protects, if there is such a tunnel, and an interface into which
/// the guard can have it routed.
pub fn transport_mark(config: &Config) -> Option<u32> {
    let is_routed = config.guard && inside_interfaces(config).any(|inside| inside.is_tunnels);
    (is_routed && !transport(config).is_empty()).then(|| config.routing.transport_mark())
}

/// Traffic by two selectors; `None` if nftables cannot express it: fragments alone.
fn flow(local: &TrafficSelector, remote: &TrafficSelector) -> Option<GuardedFlow> {
    let side = |selector: &TrafficSelector| {
        let ports = match selector.ports {
            Ports::Any => None,
            Ports::Range(first, last) => Some((first, last)),
            Ports::Opaque => return None,
        };
        let (first, last) = (selector.addresses.first(), selector.addresses.last());
        Some(FlowSide { first, last, protocol: selector.protocol, ports })
    };
    Some(GuardedFlow { local: side(local)?, remote: side(remote)? })
}

/// The effect of the guard of a gateway with this configuration, in a sentence; `None` without a
/// guard.
pub fn overview(config: &Config) -> Option<String> {
    let plan = plan(config, &[])?;
    let names: Vec<&str> = plan.inside.iter().map(|inside| inside.name.as_str()).collect();
    let networks = plan.remote.iter().take(NAMED).map(|prefix| format!("{}/{}", prefix.address, prefix.bits));
    let mut networks = networks.collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = plan.remote.len().checked_sub(NAMED) {
        let _ = write!(networks, " and {more} more");
    }
    if networks.is_empty() {
        return None;
    }
    Some(format!(
        "the guard (nftables table {}) drops unprotected packets from and to {networks} that do not pass {}",
        guard_table(config.routing.table),
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(gateway: &str, inside: &str, remote_ts: &str) -> Config {
        let text = format!(
            "[gateway]\n{gateway}\n[[port]]\nname = \"inside\"\n{inside}\naddress = [\"10.1.0.1/32\"]\n\
             [[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n\
             [[tunnel]]\nname = \"site\"\nlocal = \"192.0.2.1\"\nremote = \"198.51.100.1\"\n\
             local_ts = [\"10.1.0.0/24\"]\nremote_ts = [{remote_ts}]\nesp_proposal = \"aes128gcm16\"\n\
             [[bypass]]\nlocal_ts = \"10.1.0.0/24[tcp/22]\"\nremote_ts = \"10.2.0.9/32\"\n"
        );
        Config::parse("test.toml", &text).expect("good")
    }

    const TUN: &str = "kind = \"tun\"\ndevice = \"convoy0\"";

    #[test]
    fn a_gateway_at_an_interface_of_the_kernel_s_has_a_guard() {
        let with_tun = config("", TUN, "\"10.2.0.0/24\"");
        let guard = plan(&with_tun, &[]).expect("a guard");
        assert!(guard.inside[0].is_tunnels && guard.inside[0].name == "convoy0");
        assert_eq!((guard.remote.len(), guard.udp_ports), (1, vec![500, 4500]));
        assert_eq!(guard.bypass[0].local.ports, Some((22, 22)));
        assert_eq!(
            overview(&with_tun).as_deref(),
            Some(
                "the guard (nftables table convoy_4500) drops unprotected packets from and to 10.2.0.0/24 that do \
                 not pass convoy0"
            )
        );
        assert!(plan(&config("guard = false", TUN, "\"10.2.0.0/24\""), &[]).is_none());
    }

    #[test]
    fn many_networks_are_counted() {
        let networks: Vec<String> = (0..7).map(|third| format!("\"10.2.{third}.0/24\"")).collect();
        let reported = overview(&config("", TUN, &networks.join(", "))).expect("a guard");
        assert!(reported.contains("10.2.3.0/24 and 3 more that"), "{reported}");
    }
}
