//! Arrival of packets at a port at a given rate, independent of the gateway's progress.

use std::collections::VecDeque;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Packets that wait at a port, as in the ring of a network interface; further ones are dropped.
pub(crate) const RING_PACKETS: usize = 512;

/// Offered load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// There are always more packets.
    Saturating,
    /// Packets per second in both directions together, as a Poisson process with a fixed seed.
    Offered(f64),
}

/// A Poisson process of arrivals at one port.
pub(crate) struct TrialArrivals {
    ns_per_packet: f64,
    random: StdRng,
    /// Time of the next arrival; `None` until the first call.
    next_ns: Option<f64>,
    /// Arrival times of waiting packets.
    ring: VecDeque<u64>,
}

impl TrialArrivals {
    /// Arrivals at `packets_per_second`; the same seed gives the same intervals.
    pub(crate) fn new(packets_per_second: f64, seed: u64) -> Self {
        Self {
            ns_per_packet: 1e9 / packets_per_second,
            random: StdRng::seed_from_u64(seed),
            next_ns: None,
            ring: VecDeque::with_capacity(RING_PACKETS),
        }
    }

    /// Advances to `now_ns`; returns how many packets found the ring full.
    pub(crate) fn come(&mut self, now_ns: u64) -> u64 {
        let mut lost = 0;
        let mut next_ns = self.next_ns.unwrap_or(now_ns as f64);
        while next_ns <= now_ns as f64 {
            if self.ring.len() < RING_PACKETS {
                self.ring.push_back(next_ns as u64);
            } else {
                lost += 1;
            }
            // Inverse of the exponential distribution function; 1 - u is never 0.
            let u: f64 = self.random.random();
            next_ns -= self.ns_per_packet * (1.0 - u).ln();
        }
        self.next_ns = Some(next_ns);
        lost
    }

    /// Number of waiting packets.
    pub(crate) fn waiting(&self) -> usize {
        self.ring.len()
    }

    /// Takes the oldest waiting packet and returns its arrival time.
    pub(crate) fn take(&mut self) -> Option<u64> {
        self.ring.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_at_their_rate_and_keep_the_time_at_which_they_came() {
        let mut arrivals = TrialArrivals::new(1e6, 7);
        let (mut came, mut last) = (0, 0);
        for now_ns in (0..20_000_000).step_by(10_000) {
            assert_eq!(arrivals.come(now_ns), 0);
            while let Some(at) = arrivals.take() {
                assert!((last..=now_ns).contains(&at));
                (last, came) = (at, came + 1);
            }
        }
        // 20 ms at one per microsecond; the standard deviation of a Poisson process is the square
        // root of its mean.
        assert!((19_400..20_600).contains(&came), "{came}");
    }

    #[test]
    fn what_finds_the_ring_full_is_lost_and_counted() {
        let mut arrivals = TrialArrivals::new(1e6, 7);
        assert_eq!(arrivals.come(0), 0);
        let lost = arrivals.come(2_000_000);
        assert_eq!(arrivals.waiting(), RING_PACKETS);
        assert!((1_200..1_800).contains(&lost), "{lost}");
    }
}
