//! The same traffic through tunnels in tunnel mode and with IP-TFS (RFC 9347), in turns.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use convoy_dataplane::costs::Costs;
use serde::Serialize;

use super::arrivals::Load;
use super::error::DemoError;
use super::measure::{Measurement, in_turns};
use super::platform::Platform;
use super::rule::Rule;
use super::sites::TUNNELS;
use super::traffic::Traffic;
use super::trial::Trial;
use super::verdict::NOISE;
use super::{ROUNDS, WINDOWS, lengths};

/// The modes, as in a configuration.
const MODES: [&str; 2] = ["tunnel", "iptfs"];
/// Length of a small packet in bytes, IP header included.
const SMALL: usize = 64;
/// Length of a long packet in bytes, of which one ESP packet holds one.
const LONG: usize = 1400;
/// Rate at which hardly any two packets are at hand together, in thousand packets per second both
/// ways.
const SINGLY: u32 = 50;

/// The same traffic in both modes.
#[derive(Clone, Debug, Serialize)]
pub struct ModeComparison {
    /// The traffic, in a few words.
    pub traffic: String,
    /// Whether packets came at a given rate. Then the gateways wait most of the time, and neither
    /// throughput nor processor time says anything.
    pub is_offered: bool,
    /// In tunnel mode.
    pub tunnel: Measurement,
    /// With IP-TFS.
    pub iptfs: Measurement,
}

impl ModeComparison {
    /// Tunnel mode and IP-TFS, with their names.
    pub fn modes(&self) -> [(&'static str, &Measurement); 2] {
        [(MODES[0], &self.tunnel), (MODES[1], &self.iptfs)]
    }
}

/// Measures every kind of traffic in both modes, in `length` together. `mixed` is the traffic of
/// the demo's other parts.
///
/// # Errors
/// [`DemoError`] if something cannot be set up.
pub(crate) fn compare_modes(
    mixed: &[Arc<Traffic>; 2],
    costs: &mut Costs,
    length: Duration,
    seed: u64,
) -> Result<Vec<ModeComparison>, DemoError> {
    let [small, long] = [SMALL, LONG].map(|bytes| lengths(&[(bytes, 1)], TUNNELS, seed));
    let singly = Load::Offered(f64::from(SINGLY) * 1e3);
    let kinds = [
        (format!("{SMALL} bytes, full load"), &small, Load::Saturating),
        ("traffic as above, full load".to_owned(), mixed, Load::Saturating),
        (format!("{LONG} bytes, full load"), &long, Load::Saturating),
        (format!("{SMALL} bytes, {SINGLY} thousand packets/s"), &small, singly),
    ];
    let length = length / (kinds.len() * MODES.len() * ROUNDS) as u32;
    let compare = |(name, packets, load)| compare(name, packets, costs, load, length);
    kinds.into_iter().map(compare).collect()
}

fn compare(
    traffic: String,
    packets: &[Arc<Traffic>; 2],
    costs: &mut Costs,
    load: Load,
    length: Duration,
) -> Result<ModeComparison, DemoError> {
    let platforms = MODES.map(Platform::chosen);
    let trials = platforms.each_ref().map(|platform| {
        let (rule, window) = (Rule::DEFAULT, WINDOWS[1]);
        Trial { platform, rule, window, load, length, fail: None }
    });
    let measured = in_turns(&trials, ROUNDS, packets, costs)?;
    let [tunnel, iptfs] =
        measured.try_into().unwrap_or_else(|_| unreachable!("two trials have two measurements"));
    Ok(ModeComparison { traffic, is_offered: load != Load::Saturating, tunnel, iptfs })
}

/// What IP-TFS gains or costs, in one sentence.
impl fmt::Display for ModeComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { traffic, is_offered, tunnel, iptfs } = self;
        let ratio = |of: fn(&Measurement) -> f64| of(iptfs) / of(tunnel);
        let packets = ratio(Measurement::esp_packets_per_packet);
        write!(f, "{traffic}: IP-TFS sends ")?;
        if is_noise(packets) {
            write!(f, "as many ESP packets as tunnel mode")?;
        } else {
            write!(f, "{packets:.2} times as many ESP packets as tunnel mode")?;
        }
        write!(f, ", takes {} of the Ethernet", change(ratio(Measurement::ethernet_bytes_per_packet)))?;
        if *is_offered {
            let [with, without] = [iptfs, tunnel].map(|mode| mode.latency.p50_us);
            return write!(f, ", and has a median latency of {with:.1} us, tunnel mode of {without:.1} us.");
        }
        write!(f, " and {} processor time.", change(ratio(|mode| mode.cpu_ns_per_packet)))
    }
}

fn is_noise(ratio: f64) -> bool {
    (ratio - 1.0).abs() <= NOISE
}

fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0).abs() * 100.0;
    match ratio {
        ratio if is_noise(ratio) => "as much".to_owned(),
        ..1.0 => format!("{percent:.0} % less"),
        _ => format!("{percent:.0} % more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imix;

    fn compared() -> Vec<ModeComparison> {
        let mut costs = Costs::without_cache();
        let length = Duration::from_millis(2_400);
        compare_modes(&imix(1), &mut costs, length, 1).expect("memory does not fail")
    }

    #[test]
    fn small_packets_at_hand_share_esp_packets_and_every_packet_arrives_as_it_was_sent() {
        let compared = compared();
        for comparison in &compared {
            for (mode, measured) in comparison.modes() {
                assert!(measured.is_perfect && measured.sent > 0, "{mode}: {comparison}");
                assert_eq!(measured.sent, measured.good, "{mode}: {comparison}");
                assert!(measured.cpu_ns_per_packet > 0.0, "{mode}: {comparison}");
            }
            // In tunnel mode each packet has an ESP packet of its own.
            assert_eq!(comparison.tunnel.esp_packets, comparison.tunnel.good);
            assert!(comparison.iptfs.esp_packets <= comparison.iptfs.good, "{comparison}");
        }
        let small = &compared[0];
        // 64 bytes; 38 of Ethernet, IPv4 20, UDP 8, ESP 8, IV 8, padding and trailer 4, ICV 16.
        assert_eq!(small.tunnel.ethernet_bytes, 166 * small.tunnel.good);
        assert!(small.iptfs.esp_packets * 3 < small.iptfs.good, "{small}");
        assert!(small.iptfs.ethernet_bytes_per_packet() < 120.0, "{small}");
    }

    fn sentence(is_offered: bool, [packets, bytes, cpu]: [f64; 3]) -> String {
        let mut one = compared_with([1.0; 3]);
        let with = compared_with([packets, bytes, cpu]);
        one.latency.p50_us = 2.0;
        ModeComparison { traffic: "some".to_owned(), is_offered, tunnel: one, iptfs: with }.to_string()
    }

    fn compared_with([packets, bytes, cpu]: [f64; 3]) -> Measurement {
        Measurement {
            esp_packets: (packets * 1e3) as u64,
            ethernet_bytes: (bytes * 1e5) as u64,
            cpu_ns_per_packet: cpu * 1e3,
            good: 1_000,
            ..Measurement::blank(Rule::DEFAULT)
        }
    }

    #[test]
    fn a_gain_a_loss_and_neither_are_called_so() {
        assert_eq!(
            sentence(false, [0.05, 0.4, 1.3]),
            "some: IP-TFS sends 0.05 times as many ESP packets as tunnel mode, takes 60 % less of the Ethernet and 30 % more \
             processor time."
        );
        assert_eq!(
            sentence(true, [1.0, 1.02, 0.1]),
            "some: IP-TFS sends as many ESP packets as tunnel mode, takes as much of the Ethernet, and has a median latency of \
             0.0 us, tunnel mode of 2.0 us."
        );
    }
}
