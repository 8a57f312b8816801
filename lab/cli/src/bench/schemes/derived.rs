//! What cores of their own would carry, derived from the CPU time of threads that share cores.

use convoy_measure::{Role, ThreadCost, rate_on_own_cores};
use serde::Serialize;

use super::super::spread::Spread;

/// CPU time of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ThreadTime {
    pub(super) thread: Role,
    /// For a packet, in ns, over the rounds.
    pub(super) ns: Spread,
    /// Share of the time in which it could run that it waited for a core, in the round in which
    /// that was longest.
    pub(super) waited_share: f64,
}

/// A thread that waits for less does not change its bursts, and so its times, noticeably.
const WAITED_SHARE: f64 = 0.05;

impl ThreadTime {
    /// Whether it waited for its core so long that its time may be another with a core to itself.
    pub(super) fn has_waited(&self) -> bool {
        self.waited_share > WAITED_SHARE
    }
}

/// A derived rate: nothing of it was measured on cores of their own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Derived {
    /// Throughput in Mbit/s if each thread had a core, over the rounds.
    pub(super) mbps: Spread,
    /// The thread that bounds it.
    pub(super) busiest: Role,
    /// Whether one of the threads waited for its core.
    pub(super) has_waited: bool,
}

/// The CPU time of each thread over the rounds, of which each has the costs of all threads.
pub(super) fn thread_times(rounds: &[&[ThreadCost]]) -> Vec<ThreadTime> {
    let roles = rounds.iter().find(|costs| !costs.is_empty()).copied().unwrap_or_default();
    let time = |role: Role| {
        let own = || rounds.iter().flat_map(|costs| costs.iter()).filter(|cost| cost.role == role);
        let waited_share = own().map(|cost| cost.waited_share).fold(0.0, f64::max);
        Some(ThreadTime { thread: role, ns: Spread::of(own().map(|cost| cost.ns))?, waited_share })
    };
    roles.iter().filter_map(|cost| time(cost.role)).collect()
}

impl Derived {
    /// From the costs of each round and their medians; `to_mbps` turns packets/s into Mbit/s.
    pub(super) fn of(rounds: &[&[ThreadCost]], times: &[ThreadTime], to_mbps: f64) -> Option<Self> {
        let median = |time: &ThreadTime| ThreadCost {
            role: time.thread,
            ns: time.ns.median,
            waited_share: time.waited_share,
        };
        let medians: Vec<ThreadCost> = times.iter().map(median).collect();
        let (_, busiest) = rate_on_own_cores(&medians)?;
        let rates = rounds.iter().filter_map(|costs| rate_on_own_cores(costs));
        let mbps = Spread::of(rates.map(|(rate, _)| rate * to_mbps))?;
        Some(Self { mbps, busiest, has_waited: times.iter().any(ThreadTime::has_waited) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(worker: f64, io: f64) -> Vec<ThreadCost> {
        let cost = |role, ns| ThreadCost { role, ns, waited_share: 0.01 };
        vec![cost(Role::Worker, worker), cost(Role::PacketIo, io)]
    }

    #[test]
    fn the_busiest_thread_of_each_round_bounds_its_rate_and_that_of_the_medians_is_named() {
        let rounds = [costs(500.0, 1_000.0), costs(1_250.0, 800.0), costs(400.0, 2_000.0)];
        let rounds: Vec<&[ThreadCost]> = rounds.iter().map(Vec::as_slice).collect();
        let times = thread_times(&rounds);
        assert_eq!(times.iter().map(|time| time.ns.median).collect::<Vec<f64>>(), [500.0, 1_000.0]);
        // 1, 0.8 and 0.5 million packets of 1,000 bits per second.
        let derived = Derived::of(&rounds, &times, 1e-3).expect("there are times");
        assert_eq!((derived.mbps.median, derived.busiest), (800.0, Role::PacketIo));
        assert!(!derived.has_waited);
    }

    #[test]
    fn a_rate_is_marked_if_a_thread_waited_for_its_core_in_any_round() {
        let (calm, mut busy) = (costs(500.0, 1_000.0), costs(500.0, 1_000.0));
        busy[0].waited_share = 0.3;
        let rounds = [busy.as_slice(), calm.as_slice()];
        let times = thread_times(&rounds);
        assert_eq!(times.iter().map(ThreadTime::has_waited).collect::<Vec<_>>(), [true, false]);
        assert!(Derived::of(&rounds, &times, 1.0).expect("there are times").has_waited);
    }

    #[test]
    fn threads_without_counted_time_derive_nothing() {
        assert_eq!(thread_times(&[&[], &[]]), []);
        assert_eq!(Derived::of(&[&[], &[]], &[], 1.0), None);
    }
}
