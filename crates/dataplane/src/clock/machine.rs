//! The machine's monotonic time by the processor's time stamp counter. Reading the counter takes a
//! third of what reading the system's clock takes, which is a seventh of the time of a short packet
//! that arrives alone.
//!
//! Each thread reads the system's clock again after [`SPAN_NS`]. The time is therefore that of the
//! system within a few microseconds, also after clock adjustments, suspension, and migration of a
//! virtual machine. The counter is used only where the kernel itself keeps time by it.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Instant;

/// How long a thread extrapolates from its last reading of the system's clock, in ns.
const SPAN_NS: u64 = 1_000_000;
/// Interval between the two readings from which the counter's rate is computed, in ns: long
/// compared with a reading, short enough that the machine has not slept in between.
const BASE_NS: std::ops::RangeInclusive<u64> = 200_000..=1_000_000_000;
/// A reading of both clocks that takes more ticks than this was interrupted and is discarded.
const UNINTERRUPTED_TICKS: u64 = 1_000;
/// 1 ns per tick as a rate, which is a fixed-point number.
const ONE: u64 = 1 << 32;
/// Plausible rates: 0.1 to 10 ticks per ns.
const RATES: std::ops::RangeInclusive<u64> = ONE / 10..=ONE * 10;

/// The system's clock and the counter, read together.
#[derive(Clone, Copy)]
struct ClockReading {
    ticks: u64,
    ns: u64,
}

/// The system's clock and, where it was read at the same instant, the counter.
#[derive(Clone, Copy)]
struct SystemReading {
    ns: u64,
    ticks: Option<u64>,
}

/// A thread's view of the time stamp counter.
struct TickCounter {
    /// Its last reading of the system's clock.
    ticks: Cell<u64>,
    ns: Cell<u64>,
    /// Ticks after that reading for which the thread extrapolates; 0 while the rate is unknown.
    span: Cell<u64>,
    /// In 1 / [`ONE`] ns per tick.
    rate: Cell<u64>,
    /// An earlier reading, from which the rate is computed.
    base: Cell<Option<ClockReading>>,
}

thread_local! {
    static COUNTER: TickCounter = const { TickCounter::new() };
}

/// Now, in ns since a moment that is the same for the whole process. Within a thread it never goes
/// back; two threads agree within a few microseconds.
#[inline]
pub(super) fn now_ns() -> u64 {
    COUNTER.with(|counter| counter.now_ns(ticks(), system_reading))
}

impl TickCounter {
    const fn new() -> Self {
        Self {
            ticks: Cell::new(0),
            ns: Cell::new(0),
            span: Cell::new(0),
            rate: Cell::new(0),
            base: Cell::new(None),
        }
    }

    #[inline]
    fn now_ns(&self, ticks: u64, ask: impl FnOnce() -> SystemReading) -> u64 {
        let passed = ticks.wrapping_sub(self.ticks.get());
        if passed < self.span.get() {
            return self.ns.get() + ((passed * self.rate.get()) >> 32);
        }
        self.begin_span(ask())
    }

    /// Starts a new span at a reading.
    #[cold]
    fn begin_span(&self, SystemReading { ns: system_ns, ticks }: SystemReading) -> u64 {
        // The latest time that may have been returned already.
        let reported_ns = self.ns.get() + ((self.span.get() * self.rate.get()) >> 32);
        let ns = system_ns.max(reported_ns);
        self.ns.set(ns);
        self.span.set(0);
        let Some(ticks) = ticks else { return ns };
        if let Some(rate) = self.learn_rate(ClockReading { ticks, ns: system_ns }) {
            // If ahead of the system's clock, run slower, so that it catches up within this span or
            // the next ones.
            let ahead_ns = (ns - system_ns).min(SPAN_NS / 2);
            self.ticks.set(ticks);
            self.rate.set(rate - rate * ahead_ns / SPAN_NS);
            self.span.set(SPAN_NS * ONE / rate);
        }
        ns
    }

    /// The counter's rate since an earlier reading; `None` while no suitable reading exists.
    fn learn_rate(&self, reading: ClockReading) -> Option<u64> {
        let Some(base) = self.base.get() else {
            self.base.set(Some(reading));
            return None;
        };
        let passed_ns = reading.ns - base.ns;
        if passed_ns < *BASE_NS.start() {
            return None;
        }
        // Replace the base if it is too old or unusable.
        let ticks = u128::from(reading.ticks.wrapping_sub(base.ticks)).max(1);
        let rate = (u128::from(passed_ns) * u128::from(ONE) / ticks) as u64;
        let is_good = passed_ns <= *BASE_NS.end() && RATES.contains(&rate);
        if !is_good || passed_ns > *BASE_NS.end() / 2 {
            self.base.set(Some(reading));
        }
        is_good.then_some(rate)
    }
}

/// The system's clock in ns, and the counter at the same instant unless the counter is not used or
/// the reading was interrupted.
fn system_reading() -> SystemReading {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    // Looked up by the first reading of the process, before a worker's system calls are filtered:
    // afterwards it may not open files.
    let is_timekeeper = is_timekeeper();
    let before = ticks();
    // 584 years fit.
    let ns = start.elapsed().as_nanos() as u64;
    let took = ticks().wrapping_sub(before);
    SystemReading { ns, ticks: (is_timekeeper && took <= UNINTERRUPTED_TICKS).then_some(before) }
}

/// Whether the kernel itself uses the counter as its clock source: it has then verified that the
/// counter is steady and equal on all cores.
fn is_timekeeper() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    static IS_TIMEKEEPER: OnceLock<bool> = OnceLock::new();
    *IS_TIMEKEEPER.get_or_init(|| {
        cfg!(target_arch = "x86_64") && std::fs::read_to_string(SOURCE).is_ok_and(|name| name.trim() == "tsc")
    })
}

/// The time stamp counter.
#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: reading the time stamp counter touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Never called: there is no such counter.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated machine whose counter has 2.5 ticks per ns.
    struct Machine {
        counter: TickCounter,
        asked: u32,
    }

    impl Machine {
        fn new() -> Self {
            Self { counter: TickCounter::new(), asked: 0 }
        }

        /// The time returned when the system's clock reads `system_ns` and the counter `ticks`.
        fn reported(&mut self, system_ns: u64, ticks: u64) -> u64 {
            self.counter.now_ns(ticks, || {
                self.asked += 1;
                SystemReading { ns: system_ns, ticks: Some(ticks) }
            })
        }

        fn reported_at(&mut self, ns: u64) -> u64 {
            self.reported(ns, 1_000_000 + ns * 5 / 2)
        }
    }

    #[test]
    fn the_system_is_asked_until_the_rate_is_known_and_then_once_a_span() {
        let mut machine = Machine::new();
        for ns in [0, 100_000, 199_999, 200_000] {
            assert_eq!(machine.reported_at(ns), ns);
        }
        assert_eq!(machine.asked, 4);
        for ns in [200_100, 700_000, 200_000 + SPAN_NS - 1_000] {
            assert!(machine.reported_at(ns).abs_diff(ns) <= 1, "rounded: {ns}");
        }
        assert_eq!(machine.asked, 4, "by the counter alone");
        assert_eq!(machine.reported_at(200_000 + SPAN_NS + 1), 200_000 + SPAN_NS + 1);
        assert_eq!(machine.asked, 5);
    }

    #[test]
    fn it_never_goes_back_whatever_becomes_of_the_counter() {
        let mut machine = Machine::new();
        machine.reported_at(0);
        machine.reported_at(300_000);
        let before = machine.reported_at(1_000_000);
        // The machine slept, and its counter restarted.
        let mut last = before;
        for step in 0..4_000 {
            let now = machine.reported(1_000_100 + step * 1_000, step * 2_500);
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
        assert!(last.abs_diff(1_000_100 + 3_999_000) < 100, "{last} is the system's again");
    }

    #[test]
    fn a_counter_that_becomes_faster_does_not_run_away_from_the_systems_clock() {
        let mut machine = Machine::new();
        machine.reported_at(0);
        machine.reported_at(300_000);
        let mut last = 0;
        for us in 300..200_000 {
            let ns = us * 1_000;
            let now = machine.reported(ns, 1_750_000 + (ns - 300_000) * 51 / 20);
            assert!(now >= last, "{now} after {last}");
            assert!(
                now.abs_diff(ns) <= 2 * SPAN_NS / 50,
                "{now} at {ns}: more than two spans of the difference"
            );
            last = now;
        }
        assert!(last.abs_diff(199_999_000) <= 1_000, "{last}");
    }

    #[test]
    fn a_base_that_is_too_old_tells_no_rate() {
        let mut machine = Machine::new();
        machine.reported_at(0);
        let late = 3_600_000_000_000;
        assert_eq!(machine.reported_at(late), late);
        assert_eq!(machine.reported_at(late + 100), late + 100);
        assert_eq!(machine.asked, 3, "an hour tells no rate");
        machine.reported_at(late + 200_000);
        assert!(machine.reported_at(late + 300_000).abs_diff(late + 300_000) <= 1);
        assert_eq!(machine.asked, 4);
    }

    #[test]
    fn the_time_is_the_systems() {
        let before = Instant::now();
        let first = now_ns();
        let after = Instant::now();
        let mut last = first;
        while after.elapsed().as_millis() < 5 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
        // These bounds hold however the thread is interrupted.
        assert!(last - first <= before.elapsed().as_nanos() as u64 + 20_000, "{}", last - first);
        assert!(now_ns() - first >= 4_900_000);
    }
}
