//! How a processor's actual times differ from the scheduler's estimates.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::platform::DeviationSpec;

/// The deviation of one processor, with its own random numbers, so that every policy meets the same
/// stalls.
pub(crate) struct Deviation {
    spec: DeviationSpec,
    times: Xoshiro256PlusPlus,
    stalls: Xoshiro256PlusPlus,
    /// The current or next loss of the core, from and until, in ticks.
    stall: (u64, u64),
}

impl Deviation {
    /// The deviation of the processor with this number in runs with this seed.
    pub(crate) fn new(spec: DeviationSpec, number: u64, seed: u64) -> Self {
        // Numbers are small, and those of seed 1 are the processors' own.
        let number = number.wrapping_add(seed.wrapping_sub(1) << 16);
        let mut deviation = Self {
            spec,
            times: Xoshiro256PlusPlus::seed_from_u64(number),
            stalls: Xoshiro256PlusPlus::seed_from_u64(!number),
            stall: (u64::MAX, u64::MAX),
        };
        if spec.stall_us > 0.0 {
            deviation.stall = deviation.stall_after(0);
        }
        deviation
    }

    /// The actual time of a multi-packet with this estimate that is assigned now, in ticks, while
    /// the core is not lost.
    pub(crate) fn actual(&mut self, now: u64, estimate: u64) -> u64 {
        let DeviationSpec { ratio, from_us, spread, .. } = self.spec;
        let ratio = if now as f64 >= from_us * 1e6 { ratio } else { 1.0 };
        let random = if spread > 0.0 { 1.0 + spread * (2.0 * uniform(&mut self.times) - 1.0) } else { 1.0 };
        (estimate as f64 * ratio * random) as u64
    }

    /// When work of this many ticks ends that starts at `start`, which never goes back.
    pub(crate) fn end(&mut self, start: u64, work: u64) -> u64 {
        let (mut at, mut left) = (start, work);
        loop {
            let (from, until) = self.stall;
            if at.saturating_add(left) <= from {
                return at + left;
            }
            if until > at {
                left -= from.saturating_sub(at).min(left);
                at = until;
            }
            self.stall = self.stall_after(until);
        }
    }

    fn stall_after(&mut self, tick: u64) -> (u64, u64) {
        let every = self.spec.stall_every_us * 1e6;
        let from = tick + (-every * (1.0 - uniform(&mut self.stalls)).ln()) as u64;
        (from, from + (self.spec.stall_us * 1e6) as u64)
    }
}

impl DeviationSpec {
    /// What the processor with this number loses to stalls until `until_us`, in us, in runs with
    /// this seed.
    pub fn lost_us(&self, number: u64, seed: u64, until_us: f64) -> f64 {
        let mut deviation = Deviation::new(*self, number, seed);
        let (until, mut lost) = ((until_us * 1e6) as u64, 0);
        while deviation.stall.0 < until {
            let (from, to) = deviation.stall;
            lost += to.min(until) - from;
            deviation.stall = deviation.stall_after(to);
        }
        lost as f64 * 1e-6
    }
}

/// A number from 0 up to but excluding 1.
fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actual_times_have_the_mean_and_the_spread_that_were_asked_for() {
        let spec = DeviationSpec { ratio: 2.0, spread: 0.5, ..DeviationSpec::default() };
        let mut deviation = Deviation::new(spec, 1, 1);
        let times: Vec<u64> = (0..100_000).map(|_| deviation.actual(0, 1_000)).collect();
        let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
        assert!((1_990.0..2_010.0).contains(&mean), "{mean}");
        assert!(times.iter().all(|time| (1_000..=3_000).contains(time)));
        assert!(times.iter().any(|time| *time < 1_020) && times.iter().any(|time| *time > 2_980));
    }

    #[test]
    fn an_engine_becomes_slower_at_the_time_that_was_asked_for() {
        let spec = DeviationSpec { ratio: 5.0, from_us: 3.0, ..DeviationSpec::default() };
        let mut deviation = Deviation::new(spec, 1, 1);
        assert_eq!([2_999_999, 3_000_000].map(|now| deviation.actual(now, 100)), [100, 500]);
    }

    #[test]
    fn work_takes_longer_by_the_time_for_which_the_core_is_lost() {
        let spec = DeviationSpec { stall_every_us: 90.0, stall_us: 10.0, ..DeviationSpec::default() };
        let mut deviation = Deviation::new(spec, 1, 1);
        let (mut at, mut work) = (0, 0u64);
        for _ in 0..1_000_000 {
            at = deviation.end(at, 1_000_000);
            work += 1_000_000;
        }
        let lost = 1.0 - work as f64 / at as f64;
        assert!((0.099..0.101).contains(&lost), "{lost}");
        let lost_us = spec.lost_us(1, 1, at as f64 * 1e-6);
        assert!((lost_us - (at - work) as f64 * 1e-6).abs() <= 10.0, "{lost_us}");
        // A stall that passed while the core was idle costs nothing.
        let idle = deviation.stall.1 + 1;
        let next = deviation.end(idle, 0);
        assert_eq!(next, idle);
    }
}
