//! `[tunnel.monitor]`: how a tunnel is probed, by pings to a host behind the peer or by ESP echoes
//! to the peer.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use convoy_dataplane::monitor::Means;
use convoy_ipsec::{Mode, SaProtocol, Selector, TrafficSelector};
use convoy_packet::protocol::{ICMP, ICMP_V6};
use convoy_port::PortConfig;
use convoy_settings::{Checker, Text};

use super::file;
use super::tunnel::is_set;
use super::{InterfaceConfig, TunnelConfig};

/// The least and the greatest time between two probes, in ms.
const INTERVAL_MS: RangeInclusive<u32> = 100..=60_000;
/// Intervals without an answer after which a tunnel counts as lost by default.
const MISSES: u32 = 3;
/// The longest time without an answer, in ms.
const LONGEST_MS: u32 = 600_000;

/// How a tunnel is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorConfig {
    /// The tunnel's name.
    pub tunnel: String,
    /// The inside interface that it has for itself.
    pub interface: Option<String>,
    /// By what it is probed.
    pub means: Means,
    /// Time between two probes.
    pub interval: Duration,
    /// After so long without an answer the tunnel counts as lost.
    pub lost_after: Duration,
}

/// The monitors of all tunnels that have one.
pub(super) fn monitors(
    c: &mut Checker<'_>,
    tunnels: &[(&file::Tunnel, TunnelConfig)],
    ports: &[PortConfig],
    interfaces: &[InterfaceConfig],
) -> Vec<MonitorConfig> {
    // What is wrong with the ports is reported.
    if ports.is_empty() {
        return Vec::new();
    }
    let of_tunnel = |(entry, tunnel): &(&file::Tunnel, TunnelConfig)| {
        monitor(c, entry.monitor.as_ref()?, tunnel, &addresses(tunnel, ports, interfaces))
    };
    tunnels.iter().filter_map(of_tunnel).collect()
}

/// The addresses inside that pings of a tunnel may come from, in the order of preference.
fn addresses(tunnel: &TunnelConfig, ports: &[PortConfig], interfaces: &[InterfaceConfig]) -> Vec<IpAddr> {
    let own = interfaces.iter().filter(|interface| Some(&interface.name) == tunnel.interface.as_ref());
    let own = own.flat_map(|interface| &interface.addresses);
    let shared = ports.iter().filter(|port| !port.is_outside).flat_map(|port| &port.addresses);
    own.chain(shared).map(|(address, _)| *address).collect()
}

fn monitor(
    c: &mut Checker<'_>,
    keys: &file::Monitor,
    tunnel: &TunnelConfig,
    addresses: &[IpAddr],
) -> Option<MonitorConfig> {
    let key = "tunnel.monitor.interval_ms";
    let interval_ms = c.in_range(keys.interval_ms.as_ref(), key, 1_000, INTERVAL_MS);
    let key = "tunnel.monitor.lost_after_ms";
    let least_ms = 2 * interval_ms;
    let lost_after_ms =
        c.in_range(keys.lost_after_ms.as_ref(), key, MISSES * interval_ms, least_ms..=LONGEST_MS);
    let is_echo = is_set(keys.echo.as_ref(), false);
    let means = if is_echo { echo(c, keys, tunnel) } else { ping(c, keys, tunnel, addresses)? };
    Some(MonitorConfig {
        tunnel: tunnel.name.clone(),
        interface: tunnel.interface.clone(),
        means,
        interval: Duration::from_millis(interval_ms.into()),
        lost_after: Duration::from_millis(lost_after_ms.into()),
    })
}

fn echo(c: &mut Checker<'_>, keys: &file::Monitor, tunnel: &TunnelConfig) -> Means {
    let what = "the tunnel is probed by ESP echoes (echo = true); remove one of the two";
    c.only(keys.ping.as_ref(), false, "tunnel.monitor.ping", what);
    let what = "it is only for pings; ESP echoes are between the gateways themselves";
    c.only(keys.source.as_ref(), false, "tunnel.monitor.source", what);
    let can_echo = tunnel.mode != Mode::Transport && tunnel.protocol == SaProtocol::Esp;
    let what = "ESP echoes are only for ESP in mode = \"tunnel\" and \"iptfs\"; name an address to ping";
    c.only(keys.echo.as_ref(), can_echo, "tunnel.monitor.echo", what);
    let is_paced = tunnel.mode == Mode::Iptfs && tunnel.iptfs.packet_rate > 0;
    let what = "echoes between the packets of a constant rate (packet_rate) would show them; name an address to ping";
    c.only(keys.echo.as_ref(), !is_paced, "tunnel.monitor.echo", what);
    Means::Echo
}

fn ping(
    c: &mut Checker<'_>,
    keys: &file::Monitor,
    tunnel: &TunnelConfig,
    addresses: &[IpAddr],
) -> Option<Means> {
    let key = "tunnel.monitor.ping";
    let example = "\"10.2.0.1\", an address behind the peer, or echo = true between two gateways of convoy's";
    let text = c.needed(&keys.at, keys.ping.as_ref(), key, example)?;
    let target = c.address(text, key)?;
    let in_transport = tunnel.mode == Mode::Transport;
    let what =
        "in transport mode the peer is a host itself; a monitor is for mode = \"tunnel\" and \"iptfs\"";
    c.only(keys.ping.as_ref(), !in_transport, key, what);
    let source = source(c, keys, text, target, tunnel, addresses)?;
    Some(Means::Ping { target, source })
}

/// The source of the pings: the one given, or the first address inside with which the tunnel takes
/// them.
fn source(
    c: &mut Checker<'_>,
    keys: &file::Monitor,
    text: &Text,
    ping: IpAddr,
    tunnel: &TunnelConfig,
    addresses: &[IpAddr],
) -> Option<IpAddr> {
    let protocol = if ping.is_ipv6() { ICMP_V6 } else { ICMP };
    let takes = |side: &TrafficSelector, address: IpAddr| {
        side.addresses.contains(address) && side.protocol.is_none_or(|only| only == protocol)
    };
    let selectors: Vec<Selector> =
        tunnel.selectors().filter(|selector| takes(&selector.remote, ping)).collect();
    let takes_any = tunnel.remote_ts.is_empty();
    if selectors.is_empty() && !takes_any {
        let what =
            format!("no ping to {ping} passes the tunnel's remote_ts; name an address behind the peer");
        c.add(&text.span(), "tunnel.monitor.ping", what);
        return None;
    }
    let passes = |address: IpAddr| {
        let is_taken = || takes_any || selectors.iter().any(|pair| takes(&pair.local, address));
        address.is_ipv6() == ping.is_ipv6() && is_taken()
    };
    let Some(given) = &keys.source else {
        let found = addresses.iter().copied().find(|address| passes(*address));
        if found.is_none() {
            let what = "no address of an inside port is in the tunnel's local_ts, so no answer would come back; add \
                        source = an address of this host that is";
            c.add(&keys.at.span, "tunnel.monitor.source", what);
        }
        return found;
    };
    let source = c.address(given, "tunnel.monitor.source")?;
    if !passes(source) {
        let what = format!("no ping from {source} to {ping} passes the tunnel's local_ts and remote_ts");
        c.add(&given.span(), "tunnel.monitor.source", what);
        return None;
    }
    Some(source)
}
