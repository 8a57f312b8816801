//! Arrival times of packets.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::Packet;
use crate::time::{TICKS_PER_SECOND, ticks};

/// When packets arrive. No packet arrives faster than the source's line permits, and the clock is
/// stopped while the source waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Back to back at the line rate (docs/lab/simulator.md: arrival).
    #[default]
    BackToBack,
    /// This many packets per second, evenly spaced.
    Paced(f64),
    /// This many packets per second on average, as a Poisson process.
    Poisson(f64),
    /// This many packets per second on average in bursts, whose beginnings are a Poisson process
    /// and whose lengths are geometric with a mean of 32 packets; the packets of a burst arrive
    /// back to back.
    Bursty(f64),
    /// At the times of their timestamps.
    Captured,
}

/// Mean length of the bursts of [`Arrivals::Bursty`], in packets: as many as a port reads at once.
const BURST: f64 = 32.0;

/// Time between packets.
pub(crate) struct Gaps {
    arrivals: Arrivals,
    random: Xoshiro256PlusPlus,
    /// Time of one byte on the line, in ticks.
    byte: f64,
    /// Mean gap of paced and random arrivals, in ticks.
    mean: f64,
    /// Accumulated rounding error, in ticks, so that the mean rate is exact over millions of
    /// packets.
    rest: f64,
}

impl Gaps {
    pub(crate) fn new(arrivals: Arrivals, rate_mbps: f64, seed: u64) -> Self {
        let mean = match arrivals {
            Arrivals::Paced(rate) | Arrivals::Poisson(rate) => TICKS_PER_SECOND / rate,
            Arrivals::Bursty(rate) => TICKS_PER_SECOND / rate * BURST,
            Arrivals::BackToBack | Arrivals::Captured => 0.0,
        };
        // A different random stream from that of sizes and SAs.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        random.jump();
        Self { arrivals, random, byte: 8.0 * TICKS_PER_SECOND / (rate_mbps * 1e6), mean, rest: 0.0 }
    }

    /// Time from the previous arrival to that of this packet, in ticks. Must be called once for
    /// each packet, with the bytes that it occupies on the line.
    #[inline]
    pub(crate) fn next(&mut self, packet: &Packet, on_line: u32) -> u64 {
        let line = (f64::from(on_line) * self.byte + 0.5) as i64 as u64;
        line.max(match self.arrivals {
            Arrivals::BackToBack => 0,
            Arrivals::Paced(_) => {
                let exact = self.mean + self.rest;
                self.rest = exact - exact.floor();
                exact as u64
            }
            Arrivals::Poisson(_) => self.exponential(),
            // The gaps between bursts alone have the mean of the rate: a line that is much faster
            // than the rate adds little.
            Arrivals::Bursty(_) => {
                if self.uniform() * BURST <= 1.0 {
                    self.exponential()
                } else {
                    0
                }
            }
            Arrivals::Captured => packet.gap_ticks,
        })
    }

    fn exponential(&mut self) -> u64 {
        ticks(-self.uniform().ln() * self.mean / TICKS_PER_SECOND)
    }

    /// A number of 53 bits in (0, 1].
    fn uniform(&mut self) -> f64 {
        ((self.random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_gap(arrivals: Arrivals) -> f64 {
        let mut gaps = Gaps::new(arrivals, 1e9, 1);
        let packet = Packet { payload_bytes: 40, gap_ticks: 77, ..Packet::default() };
        let sum: u64 = (0..100_000).map(|_| gaps.next(&packet, 40)).sum();
        sum as f64 / 1e5
    }

    #[test]
    fn a_line_takes_a_nanosecond_for_a_bit() {
        let mut gaps = Gaps::new(Arrivals::BackToBack, 1000.0, 1);
        let packet = Packet { payload_bytes: 40, gap_ticks: 9, ..Packet::default() };
        assert_eq!(gaps.next(&packet, 40), 320_000);
        // The line limits the rate.
        let mut gaps = Gaps::new(Arrivals::Captured, 1000.0, 1);
        assert_eq!(gaps.next(&packet, 40), 320_000);
    }

    #[test]
    fn gaps_have_the_mean_that_was_asked_for() {
        assert!((mean_gap(Arrivals::Paced(3e6)) - 1e12 / 3e6).abs() < 0.001);
        assert!((mean_gap(Arrivals::Poisson(1e6)) / 1e6 - 1.0).abs() < 0.01);
        assert!((mean_gap(Arrivals::Bursty(1e6)) / 1e6 - 1.0).abs() < 0.05);
        assert_eq!(mean_gap(Arrivals::Captured), 77.0);
    }
}
