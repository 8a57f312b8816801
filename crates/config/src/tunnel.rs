//! `[[tunnel]]` and its keys.

mod iptfs;
mod lifetime;
mod proposals;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use convoy_ipsec::{
    AddressRange, AdmittedAlgorithms, EcnMode, Mode, NatKeepalive, OuterDf, OuterDscp, Ports, Proposal,
    SaProtocol, TrafficSelector,
};
use convoy_settings::{Checker, Text};
use toml::Spanned;

use self::iptfs::iptfs;
use self::lifetime::lifetime;
pub use self::proposals::unknown_proposal;
use self::proposals::{longest, only_proposal, proposals};

use super::cluster::tunnel_group;
use super::ends::{
    PeerEnd, local, local_address_fits, no_nat_is_in_the_way, not_carried, remote, unspecified_like,
};
use super::file;
use super::interface::tunnel_interface;
use super::keys::keys;
use super::{NATT_PORT, PortConfig, TunnelConfig};

/// What a tunnel is checked against.
pub(super) struct TunnelEnvironment<'a> {
    /// The ports; none if some are invalid.
    pub(super) ports: &'a [PortConfig],
    /// The names of the cluster's groups, if there is a cluster.
    pub(super) groups: Option<&'a [&'a str]>,
    /// The interfaces that charon chooses by a number.
    pub(super) by_if_id: &'a HashSet<&'a str>,
    pub(super) admitted: AdmittedAlgorithms,
    pub(super) has_charon: bool,
}

/// One tunnel; `None` if something necessary is invalid.
pub(super) fn tunnel(
    c: &mut Checker<'_>,
    file: &file::Tunnel,
    environment: &TunnelEnvironment<'_>,
) -> Option<TunnelConfig> {
    let name = c.needed(&file.at, file.name.as_ref(), "tunnel.name", "\"site-b\"");
    let protocols = [("esp", SaProtocol::Esp), ("ah", SaProtocol::Ah)];
    let protocol = c.one_of(file.protocol.as_ref(), "tunnel.protocol", &protocols);
    let modes = [("tunnel", Mode::Tunnel), ("transport", Mode::Transport), ("iptfs", Mode::Iptfs)];
    let mode = c.one_of(file.mode.as_ref(), "tunnel.mode", &modes);
    let has_keys = file.manual.is_some() || file.at.unread.contains(&"manual");
    let group = tunnel_group(c, file, environment.groups);
    let interface = tunnel_interface(c, file, has_keys, mode == Some(Mode::Transport), environment.by_if_id);
    // Of a cluster's members, only the leader would know networks that charon brings.
    let charon_has_networks =
        !has_keys && environment.has_charon && environment.groups.is_none() && file.interface.is_none();
    let remote_ts = match &file.remote_ts {
        None if charon_has_networks && mode != Some(Mode::Transport) => Vec::new(),
        list => side(c, file, list.as_ref(), SelectorsKey::REMOTE),
    };
    if let (Some(text), Some(Mode::Iptfs), Some(SaProtocol::Ah)) = (&file.mode, mode, protocol) {
        c.add(&text.span(), "tunnel.mode", "AH has no AGGFRAG mode; use protocol = \"esp\"");
    }
    let rest = if has_keys {
        with_keys(c, file, environment, protocol, mode, &remote_ts)
    } else {
        without_keys(c, file, environment, protocol)
    };
    let rest = rest?;
    Some(TunnelConfig {
        name: name?.get_ref().clone(),
        group: group?,
        interface,
        protocol: protocol?,
        mode: mode?,
        remote_ts,
        priority: file.priority.as_ref().map_or(1000, |priority| *priority.get_ref()),
        ..rest
    })
}

/// A tunnel with static keys, without its name, protocol, mode and remote selectors.
fn with_keys(
    c: &mut Checker<'_>,
    file: &file::Tunnel,
    environment: &TunnelEnvironment<'_>,
    protocol: Option<SaProtocol>,
    mode: Option<Mode>,
    remote_ts: &[TrafficSelector],
) -> Option<TunnelConfig> {
    let proposal_text =
        c.needed(&file.at, file.esp_proposal.as_ref(), "tunnel.esp_proposal", "\"aes128gcm16\"");
    let proposal = proposal_text.and_then(|text| {
        let list = proposals(c, text, protocol, environment.admitted)?;
        only_proposal(c, text, &list)
    });
    let local_text = c.needed(&file.at, file.local.as_ref(), "tunnel.local", "\"192.0.2.1\"");
    let local = local_text.and_then(|text| local(c, text));
    let roams = roaming(c, file, mode);
    let peer = peer(c, file, local, roams);
    let local_ts = side(c, file, file.local_ts.as_ref(), SelectorsKey::LOCAL);
    let is_encapsulated = protocol.map(|protocol| encapsulation(c, file, protocol, environment.ports));
    if let (Some(text), Some(local), Some(is_encapsulated)) = (local_text, local, is_encapsulated) {
        local_address_fits(c, text, local, is_encapsulated, environment.ports);
    }
    if let (Some(local), Some((remote, None)), false) = (local, &peer, roams) {
        no_nat_is_in_the_way(c, file, local, *remote, is_encapsulated == Some(false));
    }
    if mode == Some(Mode::Transport) {
        transport_selectors(c, file.local_ts.as_ref(), &local_ts, local, "tunnel.local_ts");
        let known = peer.as_ref().map(|(remote, _)| *remote).filter(|remote| !remote.is_unspecified());
        transport_selectors(c, file.remote_ts.as_ref(), remote_ts, known, "tunnel.remote_ts");
    }
    if let Some(mode) = mode {
        outer_header_is_made(c, file, mode);
        let can_pad = mode == Mode::Tunnel && protocol.is_none_or(|protocol| protocol == SaProtocol::Esp);
        c.only(
            file.tfc_bytes.as_ref(),
            can_pad,
            "tunnel.tfc_bytes",
            "padding is only for ESP in tunnel mode",
        );
    }
    let is_in_udp = is_encapsulated.unwrap_or(true);
    c.only(file.remote_port.as_ref(), is_in_udp, "tunnel.remote_port", "it is only for encap = \"udp\"");
    let nat_keepalive = nat_keepalive(c, file, is_in_udp);
    let (esn, replay_window) = anti_replay(c, file, proposal);
    let dfs = [("copy", OuterDf::Copy), ("set", OuterDf::Set), ("clear", OuterDf::Clear)];
    let df = c.one_of(file.df.as_ref(), "tunnel.df", &dfs);
    let dscp = match (&file.dscp, mode) {
        // A payload of AGGFRAG mode has packets of many classes (RFC 9347 section 2.2.5.3).
        (None, Some(Mode::Iptfs)) => OuterDscp::Set(0),
        (text, _) => outer_dscp(c, text.as_ref()),
    };
    let iptfs = iptfs(c, file, mode);
    let lifetime = lifetime(c, file.soft.as_ref(), file.hard.as_ref());
    let remote_port = c.in_range(file.remote_port.as_ref(), "tunnel.remote_port", NATT_PORT, 1..=u16::MAX);
    let manual = file.manual.as_ref().zip(proposal).map(|(manual, proposal)| keys(c, manual, proposal));
    let (remote, remote_name) = peer?;
    Some(TunnelConfig {
        local_ts,
        is_encapsulated: is_encapsulated?,
        remote_name,
        roams,
        remote_port,
        nat_keepalive,
        esn,
        replay_window,
        lifetime,
        df: df?,
        dscp,
        iptfs,
        ecn: if is_set(file.ecn.as_ref(), true) { EcnMode::Normal } else { EcnMode::Compatibility },
        tfc_bytes: file.tfc_bytes.as_ref().map_or(0, |bytes| *bytes.get_ref()),
        manual: manual.unwrap_or_default(),
        ..TunnelConfig::plain(local?, remote, proposal?)
    })
}

/// The assumed proposal of a tunnel that names none.
const PROPOSAL: &str = "aes128gcm16";

/// Checks a tunnel whose keys a daemon negotiates. Ends, local selectors and proposal may
/// still be given: routes and `convoy-lab sim plan` use them.
fn without_keys(
    c: &mut Checker<'_>,
    file: &file::Tunnel,
    environment: &TunnelEnvironment<'_>,
    protocol: Option<SaProtocol>,
) -> Option<TunnelConfig> {
    daemon_has_the_rest(c, file, environment.has_charon);
    let proposal_text = file.esp_proposal.as_ref();
    let list = proposal_text.map(|text| proposals(c, text, protocol, environment.admitted));
    let local = file.local.as_ref().map(|text| local(c, text));
    let peer = file.remote.as_ref().map(|text| remote(c, text, local.flatten()));
    let address = match &peer {
        Some(Some(PeerEnd::Address(address))) => Some(*address),
        _ => None,
    };
    let known = local.flatten().or(address);
    let unknown = known.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), unspecified_like);
    let local_ts = match &file.local_ts {
        Some(list) => selectors(c, Some(list), "tunnel.local_ts"),
        None => everything(),
    };
    let named = match list {
        Some(list) => longest(&list?, protocol?),
        None => None,
    };
    let is_assumed = named.is_none();
    let proposal = named.or_else(|| PROPOSAL.parse().ok())?;
    let local = local.map_or(Some(unknown), |local| local)?;
    let (remote, remote_name) = peer.map_or(Some((unknown, None)), |peer| Some(peer?.parts(unknown)))?;
    Some(TunnelConfig { local_ts, is_assumed, remote_name, ..TunnelConfig::plain(local, remote, proposal) })
}

/// The address and the name of a static peer. One that may roam need have neither.
fn peer(
    c: &mut Checker<'_>,
    file: &file::Tunnel,
    local: Option<IpAddr>,
    roams: bool,
) -> Option<(IpAddr, Option<String>)> {
    let unknown = local.map(unspecified_like);
    if file.remote.is_none() && roams {
        return Some((unknown?, None));
    }
    let text = c.needed(&file.at, file.remote.as_ref(), "tunnel.remote", "\"192.0.2.2\"")?;
    let peer = remote(c, text, local)?;
    Some(peer.parts(unknown?))
}

/// Whether the peer's address is learned from its packets.
fn roaming(c: &mut Checker<'_>, file: &file::Tunnel, mode: Option<Mode>) -> bool {
    let key = "tunnel.roaming";
    let roams = is_set(file.roaming.as_ref(), false);
    let Some(text) = file.roaming.as_ref().filter(|_| roams) else { return false };
    if mode == Some(Mode::Transport) {
        let what = "in transport mode the peer is an endpoint of the packets themselves, so it cannot roam";
        c.add(&text.span(), key, what);
    }
    let resources = file.manual.as_ref().and_then(|manual| manual.resources.as_ref());
    if resources.is_some_and(|resources| *resources.get_ref() > 1) {
        let what =
            "a peer with SAs of several workers (`resources`) sends from several ports, so it cannot roam";
        c.add(&text.span(), key, what);
    }
    // RFC 4303 section 3.4.3: without a window nothing tells a replay from a new packet.
    if file.replay_window.as_ref().is_some_and(|window| *window.get_ref() == 0) {
        c.add(&text.span(), key, "it needs the anti-replay window; set replay_window to 32 or more");
    }
    true
}

/// The key of one side's selectors, and an example of its value.
struct SelectorsKey {
    key: &'static str,
    example: &'static str,
}

impl SelectorsKey {
    const LOCAL: Self = Self { key: "tunnel.local_ts", example: "[\"10.1.0.0/24\"]" };
    const REMOTE: Self = Self { key: "tunnel.remote_ts", example: "[\"10.2.0.0/24\"]" };
}

/// One side's selectors. With an interface of its own, a tunnel needs none: routes decide.
fn side(
    c: &mut Checker<'_>,
    file: &file::Tunnel,
    list: Option<&Spanned<Vec<Text>>>,
    SelectorsKey { key, example }: SelectorsKey,
) -> Vec<TrafficSelector> {
    if list.is_none() && file.interface.is_some() {
        return everything();
    }
    let list = c.needed(&file.at, list, key, example);
    selectors(c, list, key)
}

/// Everything of both families.
pub(super) fn everything() -> Vec<TrafficSelector> {
    let families = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    families.into_iter().filter_map(all_of).collect()
}

fn all_of(family: IpAddr) -> Option<TrafficSelector> {
    let addresses = AddressRange::prefix(family, 0).ok()?;
    Some(TrafficSelector { addresses, protocol: None, ports: Ports::Any })
}

/// Keys that would be ignored if a daemon negotiates.
fn daemon_has_the_rest(c: &mut Checker<'_>, file: &file::Tunnel, has_charon: bool) {
    let what = "it is only for tunnels with static keys ([tunnel.manual]); charon negotiates it as configured in swanctl.conf";
    c.only(file.encap.as_ref(), false, "tunnel.encap", what);
    c.only(file.remote_port.as_ref(), false, "tunnel.remote_port", what);
    c.only(file.roaming.as_ref(), false, "tunnel.roaming", what);
    c.only(file.nat_keepalive.as_ref(), false, "tunnel.nat_keepalive", what);
    c.only(file.esn.as_ref(), false, "tunnel.esn", what);
    c.only(file.replay_window.as_ref(), false, "tunnel.replay_window", what);
    c.only(file.df.as_ref(), false, "tunnel.df", what);
    c.only(file.dscp.as_ref(), false, "tunnel.dscp", what);
    c.only(file.ecn.as_ref(), false, "tunnel.ecn", what);
    c.only(file.tfc_bytes.as_ref(), false, "tunnel.tfc_bytes", what);
    if let Some(iptfs) = &file.iptfs {
        c.add(&iptfs.at.span, "tunnel.iptfs", what);
    }
    c.only(file.priority.as_ref(), !has_charon, "tunnel.priority", what);
    for (limits, key) in [(&file.soft, "tunnel.soft"), (&file.hard, "tunnel.hard")] {
        if let Some(limits) = limits {
            c.add(&limits.at.span, key, what);
        }
    }
    if let Some(name) = file.name.as_ref().filter(|_| !has_charon) {
        let what = "the tunnel has no keys, so its packets are dropped; add [tunnel.manual], or charon = \
                    \"/run/convoy/charon.sock\" in [gateway]";
        c.warn(&name.span(), "tunnel.manual", what);
    }
}

pub(super) fn is_set(value: Option<&Spanned<bool>>, default: bool) -> bool {
    value.map_or(default, |value| *value.get_ref())
}

/// Whether sequence numbers have 64 bits, and how many packets the anti-replay window holds.
fn anti_replay(c: &mut Checker<'_>, file: &file::Tunnel, proposal: Option<Proposal>) -> (bool, u32) {
    let (key, given) = ("tunnel.replay_window", file.replay_window.as_ref());
    let packets = c.in_range(given, key, 1024, 0..=65_536);
    if let Some(text) = given.filter(|_| (1..32).contains(&packets)) {
        c.add(&text.span(), key, "it must be 0 (no check) or 32 to 65536 packets");
    }
    let esn = is_set(file.esn.as_ref(), false) || proposal.is_some_and(|proposal| proposal.esn);
    c.only(given, !esn || packets > 0, key, "ESN needs the anti-replay window, so it must not be 0");
    (esn, packets)
}

fn selectors(c: &mut Checker<'_>, list: Option<&Spanned<Vec<Text>>>, key: &str) -> Vec<TrafficSelector> {
    let Some(list) = list else { return Vec::new() };
    if list.get_ref().is_empty() {
        c.add(&list.span(), key, "it is empty; list at least one, such as 10.1.0.0/24");
    }
    let texts = list.get_ref().iter();
    texts.filter_map(|text| c.read(text, key)).collect()
}

/// In transport mode packets go between the two ends themselves.
fn transport_selectors(
    c: &mut Checker<'_>,
    list: Option<&Spanned<Vec<Text>>>,
    selectors: &[TrafficSelector],
    end: Option<IpAddr>,
    key: &str,
) {
    let (Some(list), Some(end)) = (list, end) else { return };
    if selectors.iter().any(|selector| !selector.addresses.contains(end)) {
        let what = format!("in transport mode packets go between the two ends themselves; write [\"{end}\"]");
        c.add(&list.span(), key, what);
    }
}

/// In transport mode a packet keeps its own header.
fn outer_header_is_made(c: &mut Checker<'_>, file: &file::Tunnel, mode: Mode) {
    let is_made = mode != Mode::Transport;
    let what = "it is only for mode = \"tunnel\" or \"iptfs\", which have an outer header";
    c.only(file.df.as_ref(), is_made, "tunnel.df", what);
    c.only(file.dscp.as_ref(), is_made, "tunnel.dscp", what);
    let what = "it is only for mode = \"tunnel\"; with \"iptfs\" the outer header has no ECN";
    c.only(file.ecn.as_ref(), mode == Mode::Tunnel, "tunnel.ecn", what);
}

fn outer_dscp(c: &mut Checker<'_>, text: Option<&Text>) -> OuterDscp {
    let Some(text) = text.filter(|text| text.get_ref() != "copy") else { return OuterDscp::Copy };
    match text.get_ref().parse().ok().filter(|value| *value < 64) {
        Some(value) => OuterDscp::Set(value),
        None => {
            c.add(&text.span(), "tunnel.dscp", "it must be \"copy\" or a number from \"0\" to \"63\"");
            OuterDscp::Copy
        }
    }
}

/// Whether ESP travels in UDP. `auto` follows the ports: without a key daemon no NAT is detected.
fn encapsulation(
    c: &mut Checker<'_>,
    file: &file::Tunnel,
    protocol: SaProtocol,
    ports: &[PortConfig],
) -> bool {
    let outside = || ports.iter().filter(|port| port.is_outside).map(PortConfig::traits);
    let is_some = outside().next().is_some();
    let is_native_only = is_some && outside().all(|port| !port.carries_udp);
    let words = [("auto", None), ("udp", Some(true)), ("none", Some(false))];
    let is_esp = protocol == SaProtocol::Esp;
    let by_ports = is_esp && !is_native_only;
    let Some(asked) = c.one_of(file.encap.as_ref(), "tunnel.encap", &words) else { return by_ports };
    let is_encapsulated = asked.unwrap_or(by_ports);
    let at = || file.name.as_ref().map_or_else(|| file.at.span.clone(), Spanned::span);
    let span = file.encap.as_ref().map_or_else(at, Spanned::span);
    if is_encapsulated && !is_esp {
        c.add(&span, "tunnel.encap", "AH cannot travel in UDP; use \"none\"");
    } else if let Some(what) = not_carried(is_encapsulated, ports) {
        c.add(&span, "tunnel.encap", what);
    }
    is_encapsulated
}

/// Whether keep-alives are sent. Without a key daemon no NAT is detected: `auto` decides by the
/// addresses.
fn nat_keepalive(c: &mut Checker<'_>, file: &file::Tunnel, is_in_udp: bool) -> NatKeepalive {
    let key = "tunnel.nat_keepalive";
    c.only(file.nat_keepalive.as_ref(), is_in_udp, key, "it is only for encap = \"udp\"");
    let words =
        [("auto", NatKeepalive::Auto), ("always", NatKeepalive::Always), ("never", NatKeepalive::Never)];
    c.one_of(file.nat_keepalive.as_ref(), key, &words).unwrap_or_default()
}
