//! The same traffic through tunnels in tunnel mode and with IP-TFS (RFC 9347), in turns.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::arrivals::Load;
use super::demo::{Setting, WINDOWS};
use super::error::DemoError;
use super::lengths;
use super::measure::{Measurement, run_round};
use super::platform::Platform;
use super::rule::Rule;
use super::sites::TUNNELS;
use super::spread::Spread;
use super::traffic::Traffic;
use super::trial::Trial;
use super::turns::{Progress, TimeBudget};

/// The modes, as in a configuration.
const MODES: [&str; 2] = ["tunnel", "iptfs"];
/// Length of a small packet in bytes, IP header included.
const SMALL: usize = 64;
/// Length of a long packet in bytes, of which one ESP packet holds one.
const LONG: usize = 1400;
/// Rate at which hardly any two packets are at hand together, in thousand packets per second both
/// ways.
const SINGLY: u32 = 50;
/// Rounds of both modes with each traffic.
const ROUNDS: usize = 5;
/// Smallest relative difference of what is counted, and not timed, that is mentioned.
const NEGLIGIBLE: f64 = 0.05;

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

/// Measures every kind of traffic in both modes, in `time` together.
///
/// # Errors
/// [`DemoError`] if something cannot be set up.
pub(crate) fn compare_modes(
    time: Duration,
    seed: u64,
    setting: &mut Setting<'_>,
) -> Result<Vec<ModeComparison>, DemoError> {
    let mixed = setting.traffic;
    let [small, long] = [SMALL, LONG].map(|bytes| lengths(&[(bytes, 1)], TUNNELS, seed));
    let singly = Load::Offered(f64::from(SINGLY) * 1e3);
    let kinds = [
        (format!("{SMALL} bytes"), &small, Load::Saturating),
        ("as above".to_owned(), mixed, Load::Saturating),
        (format!("{LONG} bytes"), &long, Load::Saturating),
        (format!("{SMALL} bytes, {SINGLY}000/s"), &small, singly),
    ];
    let platforms = MODES.map(Platform::chosen);
    let mut budget = TimeBudget::new(time, kinds.len() * MODES.len() * ROUNDS);
    let mut compare = |(traffic, packets, load): (String, &[Arc<Traffic>; 2], Load)| {
        let mut reports = [(); 2].map(|()| Vec::new());
        for round in 0..ROUNDS {
            let part = format!("tunnel mode and IP-TFS, {traffic}");
            (setting.show)(&Progress { part: &part, round: Some((round + 1, ROUNDS)), view: None });
            let length = budget.run_length();
            let trials = platforms.each_ref().map(|platform| Trial {
                platform,
                rule: Rule::DEFAULT,
                window: WINDOWS[1],
                load,
                length,
                fail: None,
            });
            budget.run(length, trials.len(), || {
                run_round(&trials, round, packets, setting.costs, &mut reports)
            })?;
        }
        let [tunnel, iptfs] = reports.map(|rounds| Measurement::of(&rounds));
        Ok(ModeComparison { traffic, is_offered: load != Load::Saturating, tunnel, iptfs })
    };
    kinds.into_iter().map(&mut compare).collect()
}

/// What IP-TFS gains or costs, in one sentence.
impl fmt::Display for ModeComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { traffic, is_offered, tunnel, iptfs } = self;
        let ratio = |of: fn(&Measurement) -> f64| of(iptfs) / of(tunnel);
        let packets = ratio(Measurement::esp_packets_per_packet);
        write!(f, "{traffic}: IP-TFS sends ")?;
        if (packets - 1.0).abs() <= NEGLIGIBLE {
            write!(f, "as many ESP packets as tunnel mode")?;
        } else {
            write!(f, "{packets:.2} times as many ESP packets as tunnel mode")?;
        }
        write!(f, ", takes {} of the Ethernet", change(ratio(Measurement::ethernet_bytes_per_packet)))?;
        if *is_offered {
            let [with, without] = [iptfs, tunnel].map(|mode| mode.latency.p50_us);
            return write!(f, ", and has a median latency of {with:.1} us, tunnel mode of {without:.1} us.");
        }
        let cpu = iptfs.relative_to(tunnel, |round| round.cpu_ns_per_packet);
        write!(f, " and {}.", processor_time(&cpu))
    }
}

/// How much more or less a count is.
fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0).abs() * 100.0;
    match ratio {
        ratio if (ratio - 1.0).abs() <= NEGLIGIBLE => "as much".to_owned(),
        ..1.0 => format!("{percent:.0} % less"),
        _ => format!("{percent:.0} % more"),
    }
}

/// How much more or less processor time a mode takes, if it does so in every round.
fn processor_time(ratio: &Spread) -> String {
    let percent = (ratio.median - 1.0).abs() * 100.0;
    match ratio.against_one() {
        Ordering::Less => format!("{percent:.0} % less processor time"),
        Ordering::Greater => format!("{percent:.0} % more processor time"),
        Ordering::Equal => "no different processor time beyond the spread".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use convoy_dataplane::costs::Costs;

    use super::*;
    use crate::imix;
    use crate::measure::RoundFigures;

    fn compared() -> Vec<ModeComparison> {
        let mut costs = Costs::without_cache();
        let time = Duration::from_millis(2_400);
        let mut setting = Setting { traffic: &imix(1), costs: &mut costs, show: &mut |_| {} };
        compare_modes(time, 1, &mut setting).expect("memory does not fail")
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

    fn sentence(is_offered: bool, packets: f64, bytes: f64, cpu: [f64; 3]) -> String {
        let mut tunnel = measured(1.0, 1.0, [1.0; 3]);
        tunnel.latency.p50_us = 2.0;
        let iptfs = measured(packets, bytes, cpu);
        ModeComparison { traffic: "some".to_owned(), is_offered, tunnel, iptfs }.to_string()
    }

    fn measured(packets: f64, bytes: f64, cpu: [f64; 3]) -> Measurement {
        let round = |cpu| RoundFigures { cpu_ns_per_packet: cpu, ..RoundFigures::default() };
        Measurement {
            esp_packets: (packets * 1e3) as u64,
            ethernet_bytes: (bytes * 1e5) as u64,
            good: 1_000,
            ..Measurement::blank(Rule::DEFAULT, cpu.map(round).to_vec())
        }
    }

    #[test]
    fn gain_and_loss_in_every_round_are_called_so() {
        assert_eq!(
            sentence(false, 0.05, 0.4, [1.3, 1.2, 1.4]),
            "some: IP-TFS sends 0.05 times as many ESP packets as tunnel mode, takes 60 % less of the Ethernet and 30 % more \
             processor time."
        );
        assert_eq!(
            sentence(true, 1.0, 1.02, [0.1; 3]),
            "some: IP-TFS sends as many ESP packets as tunnel mode, takes as much of the Ethernet, and has a median latency of \
             0.0 us, tunnel mode of 2.0 us."
        );
    }

    #[test]
    fn processor_time_whose_rounds_contradict_each_other_is_no_difference() {
        let sentence = sentence(false, 1.0, 1.0, [0.7, 0.8, 1.1]);
        assert!(sentence.ends_with("and no different processor time beyond the spread."), "{sentence}");
    }
}
