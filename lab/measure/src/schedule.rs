//! Send times of a trial's packets.

use serde::Serialize;

const NS: f64 = 1e9;
/// Extra time granted to a tester that falls behind: this fraction (1/8) of the trial's length,
/// plus this many ns.
const OVERTIME_PART: u64 = 8;
const OVERTIME_NS: u64 = 100_000_000;

/// A period in which packets are sent at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Phase {
    /// Packets per second and direction, evenly spaced.
    pub packets_per_second: f64,
    /// Duration in seconds.
    pub seconds: f64,
}

impl Phase {
    /// A phase of this many packets.
    pub fn of_packets(packets: u64, packets_per_second: f64) -> Self {
        Self { packets_per_second, seconds: packets as f64 / packets_per_second }
    }

    /// Number of packets; at least one.
    pub fn packets(&self) -> u64 {
        ((self.packets_per_second * self.seconds).round() as u64).max(1)
    }
}

/// Send times of consecutive phases.
pub(crate) struct Schedule {
    /// For each phase: number of its first packet, when that is due in ns, number of packets, and
    /// gap between packets in ns.
    phases: Vec<(u64, f64, u64, f64)>,
}

impl Schedule {
    pub(crate) fn new(phases: &[Phase]) -> Self {
        let (mut first, mut begin_ns) = (0, 0.0);
        let phases = phases.iter().map(|phase| {
            let (packets, gap_ns) = (phase.packets(), NS / phase.packets_per_second);
            let this = (first, begin_ns, packets, gap_ns);
            first += packets;
            begin_ns += packets as f64 * gap_ns;
            this
        });
        Self { phases: phases.collect() }
    }

    /// Number of packets of all phases.
    pub(crate) fn packets(&self) -> u64 {
        self.phases.last().map_or(0, |(first, _, packets, _)| first + packets)
    }

    /// How long a tester may take to send them, in ns: the planned time and the extra time.
    pub(crate) fn most_ns(&self) -> u64 {
        let ns = self
            .phases
            .last()
            .map_or(0.0, |(_, begin_ns, packets, gap_ns)| begin_ns + *packets as f64 * gap_ns)
            as u64;
        ns + ns / OVERTIME_PART + OVERTIME_NS
    }

    /// How many packets are due this long after the first one.
    pub(crate) fn due(&self, elapsed_ns: u64) -> u64 {
        let elapsed = elapsed_ns as f64;
        let begun = self.phases.iter().rev().find(|(_, begin_ns, ..)| *begin_ns <= elapsed);
        begun.map_or(0, |(first, begin_ns, packets, gap_ns)| {
            first + (((elapsed - begin_ns) / gap_ns) as u64 + 1).min(*packets)
        })
    }

    /// When a packet is due, in ns after the first one.
    pub(crate) fn time_of(&self, sequence: u64) -> u64 {
        let of = self.phases.iter().rev().find(|(first, ..)| *first <= sequence);
        of.map_or(0, |(first, begin_ns, _, gap_ns)| (begin_ns + (sequence - first) as f64 * gap_ns) as u64)
    }

    /// The sequence numbers of each phase's packets.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = std::ops::Range<u64>> {
        self.phases.iter().map(|(first, _, packets, _)| *first..first + packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_due_evenly_and_phases_follow_one_another() {
        let phase = |packets_per_second, seconds| Phase { packets_per_second, seconds };
        let schedule = Schedule::new(&[phase(1000.0, 1.0), phase(100.0, 0.5)]);
        assert_eq!(schedule.packets(), 1050);
        assert_eq!([0, 999_999, 1_000_000, 999_000_000].map(|ns| schedule.due(ns)), [1, 1, 2, 1000]);
        assert_eq!(
            [1_000_000_000, 1_009_999_999, 1_010_000_000].map(|ns| schedule.due(ns)),
            [1001, 1001, 1002]
        );
        assert_eq!(schedule.due(u64::MAX / 2), 1050);
        assert_eq!([1, 1000, 1049].map(|at| schedule.time_of(at)), [1_000_000, 1_000_000_000, 1_490_000_000]);
        assert_eq!(schedule.ranges().collect::<Vec<_>>(), [0..1000, 1000..1050]);
    }
}
