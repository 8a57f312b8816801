//! The open parameters of the IXP425 paper, changed one and two at a time.

use convoy_sim::{Platform, StageSpec};

use crate::FigureError;
use crate::open::{Case, Change, one_and_two_at_a_time};

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
    let changes: [Change<Platforms>; 17] = [
        ("byte", "a byte that costs the XScale nothing", |it| byte_cost(it, 0.0)),
        ("byte", "a byte that costs the XScale 10 ns", |it| byte_cost(it, 10.0)),
        ("look-up", "look-up 10 % of IPsec's time", |it| lookup_share(it, 0.1)),
        ("look-up", "look-up 40 % of IPsec's time", |it| lookup_share(it, 0.4)),
        ("framework", "a framework of 10 % of IPsec's time", |it| framework_share(it, 0.1)),
        ("framework", "a framework of 40 % of IPsec's time", |it| framework_share(it, 0.4)),
        ("fragment", "a fragment of 10 us", |it| each_of("fragment", it, 10.0)),
        ("fragment", "a fragment of 40 us", |it| each_of("fragment", it, 40.0)),
        ("constant", "half of a request's constant part work of NPE B", |it| work(&mut it.ixp425, 0.5)),
        ("constant", "all of a request's constant part work of NPE B", |it| work(&mut it.ixp425, 1.0)),
        ("clocks", "DES in 45 clocks a byte on the Pentium III", |it| clocks(it, 45.0)),
        ("clocks", "DES in 98 clocks a byte on the Pentium III", |it| clocks(it, 98.0)),
        ("IPsec", "IPsec as slow on the Pentium III as on the XScale", |it| {
            set(&mut it.pentium3, "ipsec", 157.9);
        }),
        ("NPEs", "NPEs of 2 us a packet", |it| npes(&mut it.ixp425, 2.0)),
        ("NPEs", "NPEs of 6.7 us a packet", |it| npes(&mut it.ixp425, 6.7)),
        ("buffers", "4 buffers and 4 places", |it| buffers(it, 4)),
        ("buffers", "64 buffers and 64 places", |it| buffers(it, 64)),
    ];
    Ok(one_and_two_at_a_time(&base, &changes))
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
    let times = ipsec_us / self::ipsec_us(ixp425, &IPSEC);
    for name in IPSEC {
        if let Some(stage) = stage(ixp425, name) {
            stage.packet_us *= times;
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
    let lookup = ipsec_us(ixp425, &IPSEC) * share;
    let headers = ipsec_us(ixp425, &IPSEC[..2]) - lookup;
    set(ixp425, "sa-lookup", lookup);
    set(ixp425, "ipsec-headers", headers);
    // At the ratio of the clocks.
    vary(ixp425, "npe-lookup", "sa-lookup", lookup * 533.0 / 133.0);
}

/// Changes the share of the framework, half of it before a request and half after, in the time for
/// IPsec; the share of the headers changes by the opposite amount.
fn framework_share(platforms: &mut Platforms, share: f64) {
    let ixp425 = &mut platforms.ixp425;
    let all = ipsec_us(ixp425, &IPSEC);
    let headers = all * (1.0 - share) - ipsec_us(ixp425, &IPSEC[..1]);
    set(ixp425, "ipsec-headers", headers);
    for name in &IPSEC[2..] {
        set(ixp425, name, all * share / 2.0);
    }
    // The Pentium III's time is derived from the XScale's without the framework.
    set(&mut platforms.pentium3, "ipsec", all * (1.0 - share) / 1.6);
}

/// Time of these stages for a packet, in us.
fn ipsec_us(ixp425: &mut Platform, names: &[&str]) -> f64 {
    names.iter().filter_map(|name| stage(ixp425, name).map(|stage| stage.packet_us)).sum()
}

/// Makes a part of the constant time of a request work of NPE B.
fn work(ixp425: &mut Platform, part: f64) {
    let all = ipsec_us(ixp425, &["queue-manager"]);
    set(ixp425, "queue-manager", all * (1.0 - part));
    ixp425.reference.t_init_us = all * part;
}

/// The time of software on the Pentium III of 1 GHz, in clocks per byte.
fn clocks(platforms: &mut Platforms, per_byte: f64) {
    platforms.pentium3.reference.block_mbps = 8e3 / per_byte;
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
