//! Time in ticks of the time stamp counter, which runs at the nominal rate whatever the core's
//! frequency; in ns on other architectures.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

/// Name of a tick.
pub(crate) const UNIT: &str = if cfg!(target_arch = "x86_64") { "TSC cycles" } else { "ns" };
/// Rounds per median.
pub(crate) const ROUNDS: usize = 41;
/// Duration of a subject's work in each round.
const ROUND: Duration = Duration::from_micros(500);

/// The current time.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> u64 {
    // SAFETY: reading the time stamp counter touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The current time.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Ticks per ns.
pub(crate) fn ticks_per_ns() -> f64 {
    let (start, first) = (Instant::now(), ticks());
    while start.elapsed() < Duration::from_millis(50) {
        std::hint::spin_loop();
    }
    (ticks() - first) as f64 / start.elapsed().as_nanos() as f64
}

/// A measured function: does its work once and returns the ticks that it took.
pub(crate) type Subject<'a> = Box<dyn FnMut() -> u64 + 'a>;

/// The median time of each subject. All subjects take turns in each round, so that disturbances
/// affect all alike.
pub(crate) fn medians(mut subjects: Vec<Subject<'_>>) -> Vec<f64> {
    let mut times = vec![Vec::with_capacity(ROUNDS); subjects.len()];
    // The first round warms up.
    for round in 0..=ROUNDS {
        for (subject, times) in subjects.iter_mut().zip(&mut times) {
            let mean = mean_of_round(subject);
            if round > 0 {
                times.push(mean);
            }
        }
    }
    times.into_iter().map(median).collect()
}

fn mean_of_round(subject: &mut Subject<'_>) -> f64 {
    let (began, mut sum, mut count) = (Instant::now(), 0, 0u32);
    while count < 8 || began.elapsed() < ROUND {
        sum += subject();
        count += 1;
    }
    sum as f64 / f64::from(count)
}

/// The median.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
