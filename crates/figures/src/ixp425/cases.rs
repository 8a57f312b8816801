//! The open parameters of the IXP425 paper, changed one at a time.

use convoy_sim::{Platform, StagePosition, StageSpec};

use crate::FigureError;
use crate::paper::Case;

/// The gateway and the PC with which it is compared.
#[derive(Clone)]
pub(super) struct Platforms {
    pub(super) ixp425: Platform,
    pub(super) pentium3: Platform,
}

/// Time that the XScale spends on IPsec with 1450 bytes at 45 Mbit/s, in us.
const PACKET_AT_45_MBPS_US: f64 = 1450.0 * 8.0 / 45.0;
/// The XScale's time for a forwarded packet, at wire speed with 512 bytes.
const FORWARDED_512_US: f64 = 42.46;

/// All cases; the first is convoy's choice.
pub(super) fn all() -> Result<Vec<Case<Platforms>>, FigureError> {
    let base = Platforms { ixp425: Platform::open("ixp425")?, pentium3: Platform::open("pentium3")? };
    type Change = fn(&mut Platforms);
    let changes: [(&'static str, Change); 16] = [
        ("", |_| {}),
        ("a byte that costs the XScale nothing", |it| byte_cost(it, 0.0)),
        ("a byte that costs the XScale 10 ns", |it| byte_cost(it, 10.0)),
        ("look-up 10 % of IPsec's time", |it| lookup_share(it, 0.1)),
        ("look-up 40 % of IPsec's time", |it| lookup_share(it, 0.4)),
        ("a fragment of 10 us", |it| each_of("fragment", it, 10.0)),
        ("a fragment of 40 us", |it| each_of("fragment", it, 40.0)),
        ("half of the turnaround's constant part a latency", |it| latency(&mut it.ixp425, 0.5)),
        ("all of the turnaround's constant part a latency", |it| latency(&mut it.ixp425, 1.0)),
        ("software that takes a Pentium III 1.5 times as many clocks", |it| clocks(it, 1.5)),
        ("software that takes a Pentium III twice as many clocks", |it| clocks(it, 2.0)),
        ("IPsec as slow on the Pentium III as on the XScale", |it| set(&mut it.pentium3, "ipsec", 157.9)),
        ("NPEs of 2 us a packet", |it| npes(&mut it.ixp425, 2.0)),
        ("NPEs of 6.7 us a packet", |it| npes(&mut it.ixp425, 6.7)),
        ("4 buffers and 4 places", |it| buffers(it, 4)),
        ("64 buffers and 64 places", |it| buffers(it, 64)),
    ];
    let case = |(name, change): (&'static str, Change)| {
        let mut platforms = base.clone();
        change(&mut platforms);
        Case { name, platforms }
    };
    Ok(changes.into_iter().map(case).collect())
}

fn stage<'a>(platform: &'a mut Platform, name: &str) -> Option<&'a mut StageSpec> {
    platform.stages.iter_mut().find(|stage| stage.name == name)
}

fn set(platform: &mut Platform, name: &str, packet_us: f64) {
    if let Some(stage) = stage(platform, name) {
        stage.packet_us = packet_us;
    }
}

fn each_of(name: &str, platforms: &mut Platforms, packet_us: f64) {
    set(&mut platforms.ixp425, name, packet_us);
    set(&mut platforms.pentium3, name, packet_us);
}

/// Another cost per byte, after which the fitted values are fitted again: wire speed at 512 bytes,
/// and 45 Mbit/s at 1450.
fn byte_cost(platforms: &mut Platforms, byte_ns: f64) {
    let packet_us = (FORWARDED_512_US - 512.0 * byte_ns * 1e-3) / 2.0;
    for name in ["receive", "transmit"] {
        each_of(name, platforms, packet_us);
        for platform in [&mut platforms.ixp425, &mut platforms.pentium3] {
            if let Some(stage) = stage(platform, name) {
                stage.byte_ns = byte_ns / 2.0;
            }
        }
        // 60 % more at 64 bytes.
        let software = packet_us + 0.3 * (2.0 * packet_us + 64.0 * byte_ns * 1e-3);
        for variant in ["software-io", "one-npe"] {
            vary(&mut platforms.ixp425, variant, name, software);
        }
    }
    let ipsec_us = PACKET_AT_45_MBPS_US - 2.0 * packet_us - 1478.0 * byte_ns * 1e-3;
    let ixp425 = &mut platforms.ixp425;
    let before: f64 = IPSEC.iter().filter_map(|name| stage(ixp425, name).map(|stage| stage.packet_us)).sum();
    for name in IPSEC {
        if let Some(stage) = stage(ixp425, name) {
            stage.packet_us *= ipsec_us / before;
        }
    }
}

/// A stage's time in a variant, if the variant sets one.
fn vary(platform: &mut Platform, variant: &str, name: &str, packet_us: f64) {
    let keys = platform.variants.get_mut(variant).and_then(|it| it.get_mut("stage"));
    let keys = keys.and_then(|it| it.get_mut(name)).and_then(toml::Value::as_table_mut);
    if let Some(value) = keys.and_then(|keys| keys.get_mut("packet_us")) {
        *value = packet_us.into();
    }
}

/// The stages of IPsec on the XScale.
const IPSEC: [&str; 4] = ["sa-lookup", "ipsec-headers", "crypto-request", "crypto-callback"];

/// Changes the share of the look-up in the time for IPsec; the share of the headers changes by the
/// opposite amount.
fn lookup_share(platforms: &mut Platforms, share: f64) {
    let ixp425 = &mut platforms.ixp425;
    let all: f64 = IPSEC.iter().filter_map(|name| stage(ixp425, name).map(|stage| stage.packet_us)).sum();
    let rest: f64 = IPSEC[2..].iter().filter_map(|name| stage(ixp425, name).map(|it| it.packet_us)).sum();
    set(ixp425, "sa-lookup", all * share);
    set(ixp425, "ipsec-headers", all * (1.0 - share) - rest);
    // At the ratio of the clocks.
    vary(ixp425, "npe-lookup", "sa-lookup", all * share * 533.0 / 133.0);
}

/// Attributes a part of the constant time of a request to interrupts and the queue manager instead
/// of the coprocessor.
fn latency(ixp425: &mut Platform, part: f64) {
    let all = ixp425.reference.t_init_us;
    ixp425.reference.t_init_us = all * (1.0 - part);
    // The stage comes before `crypto-in` and serves any number of packets at once.
    let at = ixp425.stages.iter().position(|stage| stage.name == "crypto-in").unwrap_or(0);
    let waits = StageSpec {
        name: "queue-manager".to_owned(),
        place: StagePosition::Before,
        servers: ixp425.source.frames,
        packet_us: all * part,
        ..StageSpec::default()
    };
    ixp425.stages.insert(at, waits);
    for (name, changes) in &mut ixp425.variants {
        if ["software-crypto", "forwarding"].contains(&name.as_str())
            && let Some(stages) = changes.get_mut("stage").and_then(toml::Value::as_table_mut)
        {
            let off = toml::Table::from_iter([("enabled".to_owned(), false.into())]);
            stages.insert("queue-manager".to_owned(), off.into());
        }
    }
}

/// Software that takes this multiple of the published number of clocks.
fn clocks(platforms: &mut Platforms, times: f64) {
    platforms.pentium3.reference.block_mbps /= times;
}

fn npes(ixp425: &mut Platform, packet_us: f64) {
    set(ixp425, "npe-receive", packet_us);
    set(ixp425, "npe-transmit", packet_us);
}

fn buffers(platforms: &mut Platforms, count: usize) {
    for platform in [&mut platforms.ixp425, &mut platforms.pentium3] {
        platform.source.frames = count;
        platform.source.queue_packets = Some(count);
        platform.set_depth(count);
    }
}
