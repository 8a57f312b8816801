//! The open parameters of the GRIP papers, changed one and two at a time.

use convoy_sim::{Platform, StageSpec};

use crate::FigureError;
use crate::open::{Case, Change, one_and_two_at_a_time};

/// Packets per second of 893 Mbit/s of video with an MTU of 9000 bytes.
const HDTV_PPS: f64 = 893e6 / 8.0 / 8942.0;
/// Variants in which the kernel has a time of its own.
const WITH_KERNEL: [&str; 3] = ["iperf", "iperf-uniprocessor", "standard-card"];

/// All cases; the first is convoy's choice.
pub(super) fn all() -> Result<Vec<Case<Platform>>, FigureError> {
    let base = Platform::open("grip-inline")?;
    let changes: [Change<Platform>; 10] = [
        ("iperf", "the kernel's time of HDTV with iperf", |it| {
            for variant in &WITH_KERNEL[..2] {
                vary(it, variant, "kernel", |_| 44.9);
            }
        }),
        ("SMP", "SMP that costs nothing", |it| {
            for (name, packet_us) in [("ipsec", 6.4), ("driver", 4.8), ("application", 2.9), ("libc", 11.6)] {
                vary(it, "iperf-uniprocessor", name, |_| packet_us);
            }
        }),
        ("kernel", "half of the kernel's time by the byte", half_by_the_byte),
        ("memory", "three quarters of the memory's peak", |it| memory(it, 0.75)),
        ("cache", "no copy in the cache", uncached),
        ("application", "an application and a libc of 0.1 %", |it| {
            for name in ["application", "libc"] {
                change(it, name, |stage| stage.packet_us = 0.001 * 2e6 / HDTV_PPS);
            }
        }),
        ("interrupts", "interrupts of 10 us", |it| change(it, "interrupts", |stage| stage.packet_us = 10.0)),
        ("interrupts", "interrupts of 16 us", |it| change(it, "interrupts", |stage| stage.packet_us = 16.0)),
        ("interrupts", "interrupts of 22 us", |it| change(it, "interrupts", |stage| stage.packet_us = 22.0)),
        ("threads", "two packets at a time with a standard card", |it| {
            if let Some(cores) = of(it, "standard-card", &["cores", "host"]) {
                cores.insert("count".to_owned(), 2.into());
            }
        }),
    ];
    Ok(one_and_two_at_a_time(&base, &changes))
}

/// A table of a variant, by its keys.
fn of<'a>(platform: &'a mut Platform, variant: &str, keys: &[&str]) -> Option<&'a mut toml::Table> {
    let table = platform.variants.get_mut(variant)?;
    keys.iter().try_fold(table, |table, key| table.get_mut(*key)?.as_table_mut())
}

/// Changes a stage's time in a variant that sets one.
fn vary(platform: &mut Platform, variant: &str, stage: &str, how: impl Fn(f64) -> f64) {
    let value = of(platform, variant, &["stage", stage]).and_then(|keys| keys.get_mut("packet_us"));
    if let Some(value) = value
        && let Some(packet_us) = value.as_float()
    {
        *value = how(packet_us).into();
    }
}

fn change(platform: &mut Platform, name: &str, how: impl Fn(&mut StageSpec)) {
    platform.stages.iter_mut().filter(|stage| stage.name == name).for_each(how);
}

/// The time for copies and checksums would grow with the packet.
fn half_by_the_byte(platform: &mut Platform) {
    change(platform, "kernel", |stage| {
        stage.packet_us /= 2.0;
        stage.byte_ns = stage.packet_us * 1e3 / 8988.0;
    });
    for variant in WITH_KERNEL {
        vary(platform, variant, "kernel", |packet_us| packet_us / 2.0);
        if let Some(kernel) = of(platform, variant, &["stage", "kernel"])
            && let Some(packet_us) = kernel.get("packet_us").and_then(toml::Value::as_float)
        {
            kernel.insert("byte_ns".to_owned(), (packet_us * 1e3 / 8988.0).into());
        }
    }
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
