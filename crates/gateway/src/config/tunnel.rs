//! `[[tunnel]]` and its keys.

use std::collections::HashMap;
use std::net::IpAddr;

use convoy_ipsec::{
    EcnMode, Integrity, KeyMaterial, Lifetime, Limits, Mode, OuterDf, OuterDscp, Proposal, SaProtocol,
    TrafficSelector, Transform,
};
use convoy_port::PortKind;
use toml::Spanned;

use super::checker::Checker;
use super::file::{self, Text};
use super::{ManualKeys, NAT_PORT, PortConfig, TunnelConfig};

pub(super) fn tunnel(
    c: &mut Checker<'_>,
    file: file::Tunnel,
    ports: &[PortConfig],
    allow_weak: bool,
) -> Option<TunnelConfig> {
    let protocols = [("esp", SaProtocol::Esp), ("ah", SaProtocol::Ah)];
    let protocol = c.one_of(file.protocol.as_ref(), "tunnel.protocol", &protocols);
    let mode = c.one_of(
        file.mode.as_ref(),
        "tunnel.mode",
        &[("tunnel", Mode::Tunnel), ("transport", Mode::Transport)],
    );
    let dfs = [("copy", OuterDf::Copy), ("set", OuterDf::Set), ("clear", OuterDf::Clear)];
    let df = c.one_of(file.df.as_ref(), "tunnel.df", &dfs);
    let dscp = outer_dscp(c, file.dscp.as_ref());
    let replay_window = c.in_range(file.replay_window.as_ref(), "tunnel.replay_window", 1024, (0, 65_536));
    if let Some(text) = file.replay_window.as_ref().filter(|_| (1..32).contains(&replay_window)) {
        c.add(&text.span(), "tunnel.replay_window", "0 (no check) or 32 to 65536 packets are possible");
    }
    let esn = file.esn || file.esp_proposal.get_ref().split('-').any(|word| word == "esn");
    c.only(
        file.replay_window.as_ref(),
        !esn || replay_window > 0,
        "tunnel.replay_window",
        "ESN needs the window",
    );
    let (local, remote) = (c.address(&file.local, "tunnel.local"), c.address(&file.remote, "tunnel.remote"));
    if let (Some(local), Some(remote)) = (local, remote)
        && local.is_ipv4() != remote.is_ipv4()
    {
        c.add(&file.remote.span(), "tunnel.remote", format!("it is not of the family of local = {local}"));
    }
    let local_ts = selectors(c, &file.local_ts, "tunnel.local_ts");
    let remote_ts = selectors(c, &file.remote_ts, "tunnel.remote_ts");
    let proposal = proposal(c, &file, protocol, allow_weak);
    let is_encapsulated = encapsulation(c, &file, protocol, ports);
    if let Some(local) = local {
        local_address_fits(c, &file.local, local, is_encapsulated, ports);
    }
    if mode == Mode::Transport {
        transport_selectors(c, &file.local_ts, &local_ts, local, "tunnel.local_ts");
        transport_selectors(c, &file.remote_ts, &remote_ts, remote, "tunnel.remote_ts");
    }
    let can_pad = mode == Mode::Tunnel && protocol == SaProtocol::Esp;
    c.only(file.tfc_bytes.as_ref(), can_pad, "tunnel.tfc_bytes", "padding is for ESP in tunnel mode");
    outer_header_is_made(c, &file, mode);
    c.only(file.remote_port.as_ref(), is_encapsulated, "tunnel.remote_port", "it is for encap = \"udp\"");
    let lifetime = lifetime(c, file.soft, file.hard);
    let manual = file.manual.zip(proposal).and_then(|(manual, proposal)| keys(c, &manual, proposal));
    let proposal = proposal?;
    Some(TunnelConfig {
        name: file.name.get_ref().clone(),
        protocol,
        mode,
        local: local?,
        remote: remote?,
        local_ts,
        remote_ts,
        proposal,
        is_encapsulated,
        remote_port: c.in_range(file.remote_port.as_ref(), "tunnel.remote_port", NAT_PORT, (1, u16::MAX)),
        esn,
        replay_window,
        lifetime,
        df,
        dscp,
        ecn: if file.ecn.is_none_or(Spanned::into_inner) { EcnMode::Normal } else { EcnMode::Compatibility },
        tfc_bytes: file.tfc_bytes.map_or(0, Spanned::into_inner),
        priority: file.priority.unwrap_or(1000),
        manual,
    })
}

fn proposal(
    c: &mut Checker<'_>,
    file: &file::Tunnel,
    protocol: SaProtocol,
    allow_weak: bool,
) -> Option<Proposal> {
    let span = file.esp_proposal.span();
    let proposal: Proposal = c.read(&file.esp_proposal, "tunnel.esp_proposal")?;
    // What AH needs is integrity alone.
    let is_weak = match (protocol, proposal.transform) {
        (SaProtocol::Ah, Transform::Chained { integrity, .. }) => integrity == Some(Integrity::HmacMd5_96),
        (_, transform) => transform.is_weak(),
    };
    if is_weak && !allow_weak {
        let what = format!(
            "{proposal} is weak (no encryption, no integrity, or a broken algorithm); take aes128gcm16, or set \
             allow_weak = true in [gateway]"
        );
        c.add(&span, "tunnel.esp_proposal", what);
    }
    let is_integrity_alone = proposal.transform.cipher_key_len() == 0;
    if protocol == SaProtocol::Ah && !is_integrity_alone {
        c.add(&span, "tunnel.esp_proposal", "AH takes an integrity algorithm alone, such as sha256");
    }
    Some(proposal)
}

fn selectors(c: &mut Checker<'_>, list: &Spanned<Vec<Text>>, key: &str) -> Vec<TrafficSelector> {
    if list.get_ref().is_empty() {
        c.add(&list.span(), key, "it is empty; name at least one, such as 10.1.0.0/24");
    }
    list.get_ref().iter().filter_map(|text| c.read(text, key)).collect()
}

/// In transport mode packets go between the two ends themselves.
fn transport_selectors(
    c: &mut Checker<'_>,
    list: &Spanned<Vec<Text>>,
    selectors: &[TrafficSelector],
    end: Option<IpAddr>,
    key: &str,
) {
    let Some(end) = end else { return };
    if selectors.iter().any(|selector| !selector.addresses.contains(end)) {
        let what = format!("in transport mode packets go between the two ends themselves; write [\"{end}\"]");
        c.add(&list.span(), key, what);
    }
}

/// Only tunnel mode makes an outer header; in transport mode the packet keeps its own.
fn outer_header_is_made(c: &mut Checker<'_>, file: &file::Tunnel, mode: Mode) {
    let is_made = mode == Mode::Tunnel;
    let what = "it is for mode = \"tunnel\", which makes an outer header";
    c.only(file.df.as_ref(), is_made, "tunnel.df", what);
    c.only(file.dscp.as_ref(), is_made, "tunnel.dscp", what);
    c.only(file.ecn.as_ref(), is_made, "tunnel.ecn", what);
}

fn outer_dscp(c: &mut Checker<'_>, text: Option<&Text>) -> OuterDscp {
    let Some(text) = text.filter(|text| text.get_ref() != "copy") else { return OuterDscp::Copy };
    match text.get_ref().parse().ok().filter(|value| *value < 64) {
        Some(value) => OuterDscp::Set(value),
        None => {
            c.add(&text.span(), "tunnel.dscp", "\"copy\" or a number from \"0\" to \"63\" is possible");
            OuterDscp::Copy
        }
    }
}

/// Whether ESP travels in UDP. `auto` follows the ports: without a key daemon no NAT is found.
fn encapsulation(
    c: &mut Checker<'_>,
    file: &file::Tunnel,
    protocol: SaProtocol,
    ports: &[PortConfig],
) -> bool {
    let kinds = || ports.iter().filter(|port| port.is_outside).map(|port| port.kind);
    let is_only = |kind| kinds().next().is_some() && kinds().all(|other| other == kind);
    let words = [("auto", None), ("udp", Some(true)), ("none", Some(false))];
    let asked = c.one_of(file.encap.as_ref(), "tunnel.encap", &words);
    let is_esp = protocol == SaProtocol::Esp;
    let is_encapsulated = asked.unwrap_or(is_esp && !is_only(PortKind::Raw));
    let span = file.encap.as_ref().map_or(file.name.span(), Spanned::span);
    if is_encapsulated && !is_esp {
        c.add(&span, "tunnel.encap", "AH cannot travel in UDP; use \"none\"");
    } else if is_encapsulated && is_only(PortKind::Raw) {
        c.add(&span, "tunnel.encap", "ESP in UDP needs a port of kind \"udp\" outside, and there is none");
    } else if !is_encapsulated && is_only(PortKind::Udp) {
        let what = "what is not in UDP needs a port of kind \"raw\" outside, and there is none";
        c.add(&span, "tunnel.encap", what);
    }
    is_encapsulated
}

/// Packets leave by the socket of their source address.
fn local_address_fits(
    c: &mut Checker<'_>,
    text: &Text,
    local: IpAddr,
    is_encapsulated: bool,
    ports: &[PortConfig],
) {
    let kind = if is_encapsulated { PortKind::Udp } else { PortKind::Raw };
    let Some(port) = ports.iter().find(|port| port.is_outside && port.kind == kind) else { return };
    let is_any = |address: &IpAddr| address.is_unspecified() && address.is_ipv4() == local.is_ipv4();
    let has = |(address, _): &(IpAddr, u8)| *address == local || is_any(address);
    if !port.addresses.is_empty() && !port.addresses.iter().any(has) {
        let known: Vec<String> = port.addresses.iter().map(|(address, _)| address.to_string()).collect();
        let what = format!("port {:?} has no address {local}; it has {}", port.name, known.join(", "));
        c.add(&text.span(), "tunnel.local", what);
    }
}

fn lifetime(
    c: &mut Checker<'_>,
    soft: Option<Spanned<file::Limits>>,
    hard: Option<Spanned<file::Limits>>,
) -> Lifetime {
    let span = soft.as_ref().map(Spanned::span);
    let (soft, hard) = (limits(soft), limits(hard));
    let is_late =
        |soft: Option<u64>, hard: Option<u64>| soft.zip(hard).is_some_and(|(soft, hard)| soft >= hard);
    let late = is_late(soft.bytes, hard.bytes)
        || is_late(soft.packets, hard.packets)
        || is_late(soft.time_ns, hard.time_ns);
    if let Some(span) = span.filter(|_| late) {
        c.add(&span, "tunnel.soft", "each soft limit must be below the hard one, to leave time for a new SA");
    }
    Lifetime { soft, hard }
}

fn limits(file: Option<Spanned<file::Limits>>) -> Limits {
    let file = file.map(Spanned::into_inner).unwrap_or_default();
    let time_ns = file.seconds.map(|seconds| seconds.saturating_mul(1_000_000_000));
    Limits { bytes: file.bytes, packets: file.packets, time_ns }
}

/// Inbound SAs are told apart by SPI and protocol, outbound ones also by their peer.
pub(super) fn spis_differ(c: &mut Checker<'_>, tunnels: &[file::Tunnel]) {
    let mut taken: HashMap<(u32, String, String), &str> = HashMap::new();
    for tunnel in tunnels {
        let Some(manual) = &tunnel.manual else { continue };
        let protocol = tunnel.protocol.as_ref().map_or("esp", |text| text.get_ref().as_str());
        let ways = [
            (&manual.spi_in, "", "tunnel.manual.spi_in"),
            (&manual.spi_out, tunnel.remote.get_ref().as_str(), "tunnel.manual.spi_out"),
        ];
        for (spi, peer, key) in ways {
            let place = (*spi.get_ref(), protocol.to_owned(), peer.to_owned());
            if let Some(other) = taken.insert(place, tunnel.name.get_ref()) {
                let what = format!(
                    "SPI {:#010x} of tunnel {:?} is also that of tunnel {other:?}; give one of them another",
                    spi.get_ref(),
                    tunnel.name.get_ref()
                );
                c.add(&spi.span(), key, what);
            }
        }
    }
}

fn keys(c: &mut Checker<'_>, file: &file::Manual, proposal: Proposal) -> Option<ManualKeys> {
    for (spi, key) in [(&file.spi_in, "tunnel.manual.spi_in"), (&file.spi_out, "tunnel.manual.spi_out")] {
        if *spi.get_ref() < 256 {
            let what = format!("SPI {:#010x} is reserved; take one above 0x000000ff", spi.get_ref());
            c.add(&spi.span(), key, what);
        }
    }
    let mut material = |secret: &Spanned<file::Secret>, key: &str| {
        let bytes = match hex::decode(secret.get_ref().0.as_str()) {
            Ok(bytes) => bytes,
            Err(error) => {
                c.add(&secret.span(), key, format!("no hexadecimal number: {error}"));
                return None;
            }
        };
        KeyMaterial::new(proposal.transform, bytes)
            .map_err(|error| c.add(&secret.span(), key, format!("{proposal}: {error}")))
            .ok()
    };
    let keys_in = material(&file.key_in, "tunnel.manual.key_in");
    let keys_out = material(&file.key_out, "tunnel.manual.key_out");
    // The IVs of these count up at both ends, which know nothing of each other's.
    if proposal.transform.salt_len() > 0 && *file.key_in.get_ref().0 == *file.key_out.get_ref().0 {
        let what = "it is the same as key_in: both directions would use each nonce, which breaks this cipher; take \
                    another key";
        c.add(&file.key_out.span(), "tunnel.manual.key_out", what);
    }
    Some(ManualKeys {
        spi_in: *file.spi_in.get_ref(),
        spi_out: *file.spi_out.get_ref(),
        keys_in: keys_in?,
        keys_out: keys_out?,
    })
}
