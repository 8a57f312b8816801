//! The threads of a gateway: how they wait for work, and their CPU time.

use std::time::Duration;

use nix::unistd::Pid;
use serde::Serialize;

/// How long a thread without work sleeps, in addition to the system's timer slack (50 us): far less
/// than its queues take to fill.
const NAP: Duration = Duration::from_micros(50);

/// What a thread does when it finds no work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Waiting {
    /// It looks again: it has a core of its own.
    Polls,
    /// It sleeps for a moment, so that the threads with which it shares a core can work.
    Sleeps,
}

impl Waiting {
    /// Waits for work.
    #[inline]
    pub(crate) fn wait(self) {
        match self {
            Self::Polls => std::hint::spin_loop(),
            Self::Sleeps => std::thread::sleep(NAP),
        }
    }
}

/// What a thread of a gateway does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Role {
    /// The worker: everything that is not moved off its core.
    #[serde(rename = "worker")]
    Worker,
    /// The system calls of both links.
    #[serde(rename = "packet I/O")]
    PacketIo,
    /// The cipher.
    #[serde(rename = "cryptography")]
    Cryptography,
}

impl Role {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::PacketIo => "packet I/O",
            Self::Cryptography => "cryptography",
        }
    }
}

/// CPU time of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ThreadCost {
    /// The thread.
    pub role: Role,
    /// Its CPU time for a packet that leaves the gateway, in ns, in and outside the kernel.
    pub ns: f64,
    /// Share of the time in which it could run that it waited for a core, 0 to 1.
    pub waited_share: f64,
}

/// The packet rate that these threads would carry with a core each, in packets/s, and the busiest
/// one, which is the bound. `None` without a time.
///
/// It counts nothing that only separate cores cost, such as moving packets between their caches.
pub fn rate_on_own_cores(costs: &[ThreadCost]) -> Option<(f64, Role)> {
    let busiest = costs.iter().max_by(|one, other| one.ns.total_cmp(&other.ns))?;
    (busiest.ns > 0.0).then(|| (1e9 / busiest.ns, busiest.role))
}

/// What a thread has had of the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CoreTime {
    /// Time that it ran, in ns.
    pub(super) cpu_ns: u64,
    /// Time that it could have run and waited for a core, in ns.
    waited_ns: u64,
}

impl CoreTime {
    /// The times of a thread of this process so far; `None` if the kernel does not count them.
    pub(super) fn of(thread: Pid) -> Option<Self> {
        let statistics = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        let mut times = statistics.split_whitespace().map(str::parse);
        Some(Self { cpu_ns: times.next()?.ok()?, waited_ns: times.next()?.ok()? })
    }

    /// The times since an earlier reading.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
        }
    }

    /// The thread's cost of each of `packets` packets.
    pub(super) fn cost(self, role: Role, packets: u64) -> ThreadCost {
        let could_run_ns = (self.cpu_ns + self.waited_ns).max(1);
        ThreadCost {
            role,
            ns: self.cpu_ns as f64 / packets as f64,
            waited_share: self.waited_ns as f64 / could_run_ns as f64,
        }
    }
}

/// The latest thread of this process that has this name.
pub(super) fn latest_named(name: &str) -> Option<Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let id = |task: std::fs::DirEntry| {
        let found = std::fs::read_to_string(task.path().join("comm")).ok()?;
        if found.trim_end() == name { task.file_name().to_str()?.parse().ok() } else { None }
    };
    tasks.filter_map(|task| id(task.ok()?)).max().map(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use nix::unistd::gettid;

    use super::*;

    #[test]
    fn the_busiest_thread_bounds_what_cores_of_their_own_carry() {
        let cost = |role, ns| ThreadCost { role, ns, waited_share: 0.0 };
        let costs = [cost(Role::Worker, 500.0), cost(Role::PacketIo, 2_000.0), cost(Role::Cryptography, 1.0)];
        assert_eq!(rate_on_own_cores(&costs), Some((500_000.0, Role::PacketIo)));
        assert_eq!(rate_on_own_cores(&[]), None);
        assert_eq!(rate_on_own_cores(&[cost(Role::Worker, 0.0)]), None);
    }

    #[test]
    fn cost_is_the_time_between_two_readings_and_the_share_that_was_waited() {
        let [before, after] =
            [(500, 30), (2_500, 530)].map(|(cpu_ns, waited_ns)| CoreTime { cpu_ns, waited_ns });
        let cost = after.since(before).cost(Role::Worker, 10);
        assert_eq!((cost.ns, cost.waited_share), (200.0, 0.2));
        assert_eq!(before.since(before).cost(Role::Worker, 10).waited_share, 0.0);
    }

    #[test]
    fn a_thread_that_naps_takes_less_cpu_time_than_one_that_polls() {
        let spent = |waiting: Waiting| {
            let work = move || {
                let (before, began) = (CoreTime::of(gettid()), Instant::now());
                while began.elapsed() < Duration::from_millis(100) {
                    waiting.wait();
                }
                // The kernel adds up a thread's time when it is next scheduled.
                std::thread::sleep(Duration::from_millis(1));
                CoreTime::of(gettid()).zip(before).map(|(after, before)| after.since(before).cpu_ns)
            };
            std::thread::Builder::new().name("napper".to_owned()).spawn(work).expect("a thread").join()
        };
        // A busy machine takes the core away from either now and then.
        let mut found = Vec::new();
        let is_less = (0..50).any(|_| {
            let both = [Waiting::Polls, Waiting::Sleeps].map(|waiting| spent(waiting).expect("no panic"));
            let [Some(polls), Some(sleeps)] = both else { return true };
            found.push((sleeps, polls));
            sleeps * 2 < polls
        });
        assert!(is_less, "{found:?}");
    }

    #[test]
    fn a_thread_is_found_by_its_name() {
        let (tell, reported) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let work = move || {
            tell.send(gettid()).expect("the test listens");
            let _ = ended.recv();
        };
        let thread =
            std::thread::Builder::new().name("to-be-found".to_owned()).spawn(work).expect("a thread");
        let id = reported.recv().expect("it tells");
        assert_eq!(latest_named("to-be-found"), Some(id));
        assert_eq!(latest_named("never-made"), None);
        drop(end);
        thread.join().expect("no panic");
    }
}
