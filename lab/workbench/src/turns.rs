//! Runs in turns: their order in each round, their duration, and the report of what goes on.

use std::time::{Duration, Instant};

use super::report::LiveView;

/// Shortest run.
const SHORTEST: Duration = Duration::from_millis(5);

/// Places of `count` runs in a round: each round begins with the next run, and every second one
/// goes backwards.
pub(crate) fn order(round: usize, count: usize) -> Vec<usize> {
    let place = |step| if round.is_multiple_of(2) { round + step } else { round + count - step };
    (0..count).map(|step| place(step) % count).collect()
}

/// What the demo does at present.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// What is measured.
    pub part: &'a str,
    /// The round, from 1 on, and the number of rounds; `None` for a part without rounds.
    pub round: Option<(usize, usize)>,
    /// The state of the running trial, in parts with a single one.
    pub view: Option<&'a LiveView>,
}

/// Distributes the time of a part among its runs. Setting up a run takes time as well, more where
/// other programs have the core, so that the duration of the runs is chosen before each round.
pub(crate) struct TimeBudget {
    ends: Instant,
    runs_left: u32,
    /// Longest duration of a run.
    longest: Duration,
    /// Time of setting up, over all runs so far.
    set_up: Duration,
    runs_done: u32,
}

impl TimeBudget {
    /// A budget of `time` from now on for so many runs.
    pub(crate) fn new(time: Duration, runs: usize) -> Self {
        let runs = runs.max(1) as u32;
        let longest = time / runs;
        Self { ends: Instant::now() + time, runs_left: runs, longest, set_up: Duration::ZERO, runs_done: 0 }
    }

    /// Duration of the runs of the next round.
    pub(crate) fn run_length(&self) -> Duration {
        self.run_length_at(Instant::now())
    }

    fn run_length_at(&self, now: Instant) -> Duration {
        if self.runs_done == 0 {
            // How long setting up takes is not known yet.
            return (self.longest / 2).max(SHORTEST);
        }
        let each = self.ends.saturating_duration_since(now) / self.runs_left.max(1);
        let set_up = self.set_up / self.runs_done;
        each.saturating_sub(set_up).min(self.longest).max(SHORTEST)
    }

    /// Does `runs` runs of duration `length` each.
    pub(crate) fn run<T>(&mut self, length: Duration, runs: usize, all: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = all();
        self.count_runs(length, runs as u32, began.elapsed());
        done
    }

    fn count_runs(&mut self, length: Duration, runs: u32, took: Duration) {
        self.set_up += took.saturating_sub(length * runs);
        self.runs_done += runs;
        self.runs_left = self.runs_left.saturating_sub(runs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_every_run_once_and_begins_with_another() {
        let orders: Vec<Vec<usize>> = (0..4).map(|round| order(round, 4)).collect();
        assert_eq!(orders, [[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]);
        assert_eq!(order(3, 0), Vec::<usize>::new());
    }

    #[test]
    fn runs_are_shorter_where_setting_them_up_takes_long() {
        let mut budget = TimeBudget::new(Duration::from_secs(10), 100);
        let start = budget.ends - Duration::from_secs(10);
        assert_eq!(budget.run_length_at(start), Duration::from_millis(50));
        budget.count_runs(Duration::from_millis(50), 1, Duration::from_millis(100));
        // 9.9 s for 99 runs, less 50 ms for each.
        let next = budget.run_length_at(start + Duration::from_millis(100));
        assert_eq!(next, Duration::from_millis(50));
    }

    #[test]
    fn run_has_a_shortest_duration_when_the_time_is_over() {
        let mut budget = TimeBudget::new(Duration::from_secs(1), 10);
        budget.count_runs(SHORTEST, 1, Duration::from_secs(1));
        assert_eq!(budget.run_length_at(budget.ends + Duration::from_secs(1)), SHORTEST);
    }
}
