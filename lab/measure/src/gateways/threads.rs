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
}

/// The packet rate that these threads would carry with a core each, in packets/s, and the busiest
/// one, which is the bound. `None` without a time.
///
/// It counts nothing that only separate cores cost, such as moving packets between their caches.
pub fn rate_on_own_cores(costs: &[ThreadCost]) -> Option<(f64, Role)> {
    let busiest = costs.iter().max_by(|one, other| one.ns.total_cmp(&other.ns))?;
    (busiest.ns > 0.0).then(|| (1e9 / busiest.ns, busiest.role))
}

/// CPU time of a thread of this process so far, in ns; `None` if the kernel does not count it.
pub(super) fn cpu_ns(thread: Pid) -> Option<u64> {
    let statistics = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    statistics.split_whitespace().next()?.parse().ok()
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
        let cost = |role, ns| ThreadCost { role, ns };
        let costs = [cost(Role::Worker, 500.0), cost(Role::PacketIo, 2_000.0), cost(Role::Cryptography, 1.0)];
        assert_eq!(rate_on_own_cores(&costs), Some((500_000.0, Role::PacketIo)));
        assert_eq!(rate_on_own_cores(&[]), None);
        assert_eq!(rate_on_own_cores(&[cost(Role::Worker, 0.0)]), None);
    }

    #[test]
    fn a_thread_that_naps_takes_less_cpu_time_than_one_that_polls() {
        let spent = |waiting: Waiting| {
            let work = move || {
                let (before, began) = (cpu_ns(gettid()), Instant::now());
                while began.elapsed() < Duration::from_millis(100) {
                    waiting.wait();
                }
                // The kernel adds up a thread's time when it is next scheduled.
                std::thread::sleep(Duration::from_millis(1));
                cpu_ns(gettid()).zip(before).map(|(after, before)| after - before)
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
