//! The open parameters of the GRIP papers, changed one at a time.

use convoy_sim::{Platform, StageSpec};

use crate::FigureError;
use crate::paper::Case;

/// Packets per second of 893 and of 989 Mbit/s of video with an MTU of 9000 bytes.
const HDTV_PPS: f64 = 893e6 / 8.0 / 8942.0;
const IPERF_PPS: f64 = 989e6 / 8.0 / 8942.0;

/// All cases; the first is convoy's choice.
pub(super) fn all() -> Result<Vec<Case<Platform>>, FigureError> {
    let base = Platform::open("grip-inline")?;
    type Change = fn(&mut Platform);
    let changes: [(&'static str, Change); 7] = [
        ("", |_| {}),
        ("times fitted to iperf-SMP", |it| fit(it, [0.35, 0.04, 0.04], 2.0 / IPERF_PPS)),
        ("times fitted to iperf-UP", |it| fit(it, [0.70, 0.09, 0.04], 1.0 / IPERF_PPS)),
        ("half of the kernel's time by the byte", half_by_the_byte),
        ("three quarters of the memory's peak", |it| memory(it, 0.75)),
        ("no copy in the cache", uncached),
        ("an application and a libc of 0.1 %", |it| {
            for name in ["application", "libc"] {
                change(it, name, |stage| stage.packet_us = 0.001 * 2e6 / HDTV_PPS);
            }
        }),
    ];
    let case = |(name, change): (&'static str, Change)| {
        let mut platforms = base.clone();
        change(&mut platforms);
        Case { name, platforms }
    };
    Ok(changes.into_iter().map(case).collect())
}

fn change(platform: &mut Platform, name: &str, how: impl Fn(&mut StageSpec)) {
    platform.stages.iter_mut().filter(|stage| stage.name == name).for_each(how);
}

/// Sets the times of kernel, IPsec and driver to these fractions of the CPUs' time for a packet, in
/// seconds.
fn fit(platform: &mut Platform, parts: [f64; 3], seconds: f64) {
    for (name, part) in ["kernel", "ipsec", "driver"].into_iter().zip(parts) {
        change(platform, name, |stage| stage.packet_us = part * seconds * 1e6);
    }
}

/// The time for copies and checksums would grow with the packet.
fn half_by_the_byte(platform: &mut Platform) {
    change(platform, "kernel", |stage| {
        stage.packet_us /= 2.0;
        stage.byte_ns = stage.packet_us * 1e3 / 8988.0;
    });
}

fn memory(platform: &mut Platform, part: f64) {
    platform.buses.iter_mut().filter(|bus| bus.name == "memory").for_each(|bus| bus.clock_mhz *= part);
}

/// The changes of the variant of this name. The improvements remove what it adds.
fn uncached(platform: &mut Platform) {
    for (name, enabled) in
        [("copy2-write", true), ("copy3-read", true), ("copy3-write", true), ("flush", false)]
    {
        change(platform, name, |stage| stage.enabled = enabled);
    }
}
