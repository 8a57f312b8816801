//! What this process's threads had of the cores: time that they ran, and time that they waited for
//! a core while they could have run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// A thread is busy if it ran or wanted to run for this fraction of the time.
const BUSY: f64 = 0.5;

/// What the threads of a run had of the cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CoreUse {
    /// Time that they ran, in ns.
    pub ran_ns: u64,
    /// Time that they could have run and waited for a core, in ns.
    pub waited_ns: u64,
    /// Threads that ran or waited for at least half of the time.
    pub busy_threads: usize,
}

impl CoreUse {
    /// Of several runs together, with the most threads that were busy at once.
    pub fn of_all(runs: impl IntoIterator<Item = Self>) -> Self {
        runs.into_iter().fold(Self::default(), |all, run| Self {
            ran_ns: all.ran_ns + run.ran_ns,
            waited_ns: all.waited_ns + run.waited_ns,
            busy_threads: all.busy_threads.max(run.busy_threads),
        })
    }

    /// Fraction of the time for which threads waited, out of the time that they wanted to run, 0 to
    /// 1.
    pub fn waited_share(&self) -> f64 {
        self.waited_ns as f64 / (self.ran_ns + self.waited_ns).max(1) as f64
    }
}

/// Times of each thread so far, by its number.
pub(crate) struct ThreadTimes(BTreeMap<u32, ThreadTime>);

#[derive(Clone, Copy, Default)]
struct ThreadTime {
    ran_ns: u64,
    waited_ns: u64,
}

impl ThreadTimes {
    /// Times until now, from `/proc/self/task`; of no thread if the kernel does not say.
    pub(crate) fn now() -> Self {
        let folder = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let time = |entry: std::fs::DirEntry| {
            let thread = entry.file_name().to_str()?.parse().ok()?;
            Some((thread, ThreadTime::parse(&std::fs::read_to_string(entry.path().join("schedstat")).ok()?)?))
        };
        Self(folder.filter_map(time).collect())
    }

    /// What the threads had since `before`, which is `elapsed` ago. A thread that ended meanwhile
    /// is left out.
    pub(crate) fn since(&self, before: &Self, elapsed: Duration) -> CoreUse {
        let mut all = CoreUse::default();
        for (thread, now) in &self.0 {
            let then = before.0.get(thread).copied().unwrap_or_default();
            let ran_ns = now.ran_ns.saturating_sub(then.ran_ns);
            let waited_ns = now.waited_ns.saturating_sub(then.waited_ns);
            all.ran_ns += ran_ns;
            all.waited_ns += waited_ns;
            let is_busy = (ran_ns + waited_ns) as f64 >= BUSY * elapsed.as_nanos() as f64;
            all.busy_threads += usize::from(is_busy);
        }
        all
    }
}

impl ThreadTime {
    /// The line of a `schedstat` file: time run, time waited, both in ns, and a count.
    fn parse(line: &str) -> Option<Self> {
        let mut figures = line.split_ascii_whitespace().map(str::parse::<u64>);
        let (ran_ns, waited_ns) = (figures.next()?.ok()?, figures.next()?.ok()?);
        Some(Self { ran_ns, waited_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(threads: &[(u32, &str)]) -> ThreadTimes {
        let time = |(thread, line): &(u32, &str)| (*thread, ThreadTime::parse(line).expect("a line"));
        ThreadTimes(threads.iter().map(time).collect())
    }

    #[test]
    fn use_counts_from_before_and_a_new_thread_from_its_start() {
        let before = times(&[(1, "100 50 3\n")]);
        let after = times(&[(1, "700 150 9\n"), (2, "90 10 1\n")]);
        let used = after.since(&before, Duration::from_nanos(1_000));
        assert_eq!(used, CoreUse { ran_ns: 690, waited_ns: 110, busy_threads: 1 });
        assert_eq!(used.waited_share(), 110.0 / 800.0);
    }

    #[test]
    fn runs_together_have_the_sum_of_times_and_the_most_busy_threads() {
        let run = |busy_threads| CoreUse { ran_ns: 3, waited_ns: 1, busy_threads };
        let all = CoreUse::of_all([run(2), run(3), run(1)]);
        assert_eq!(all, CoreUse { ran_ns: 9, waited_ns: 3, busy_threads: 3 });
        assert_eq!(CoreUse::default().waited_share(), 0.0);
    }

    #[test]
    fn line_without_two_figures_is_no_time() {
        assert!(ThreadTime::parse("").is_none());
        assert!(ThreadTime::parse("12 x 3").is_none());
    }
}
