//! The heartbeat by which the agent keeps the lease: it stops when the gateway, its helper or a
//! worker hangs, so that another member leads.
//!
//! Each part is asked again and again, and notes when it last worked. What the agent gets is the
//! oldest of these times.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use convoy_process::monotonic_ns;
use convoy_process::supervise;

use super::Place;
use super::line::AgentLine;

/// Heartbeats in the time of a lease: four in the third that the agent waits for one.
const PER_LEASE: u32 = 12;

/// When each part last worked.
struct PulseParts {
    times_ns: Vec<AtomicU64>,
}

impl PulseParts {
    fn new(count: usize) -> Arc<Self> {
        let now_ns = monotonic_ns();
        Arc::new(Self { times_ns: (0..count).map(|_| AtomicU64::new(now_ns)).collect() })
    }

    fn works(&self, part: usize) {
        self.times_ns[part].store(monotonic_ns(), Ordering::Relaxed);
    }

    fn oldest_ns(&self) -> u64 {
        self.times_ns.iter().map(|time_ns| time_ns.load(Ordering::Relaxed)).min().unwrap_or_default()
    }
}

/// Sends heartbeats on threads of their own, as long as there is an agent.
///
/// # Errors
/// The system's, if it cannot create a thread.
pub(super) fn start(lease: Duration, place: &Place, line: Arc<AgentLine>) -> std::io::Result<()> {
    let Place { handles, helper, gateway, faults, .. } = place.clone();
    let pause = lease / PER_LEASE;
    let workers = handles.len();
    let parts = PulseParts::new(workers + 1 + usize::from(helper.is_some()));
    if let Some(helper) = helper {
        let (parts, line) = (Arc::clone(&parts), Arc::clone(&line));
        supervise::spawn("helper's pulse", &faults, move || {
            while line.is_open() {
                // One that refuses works; one that does not answer holds this thread.
                if helper.is_alive() {
                    parts.works(workers + 1);
                }
                std::thread::sleep(pause);
            }
        })?;
    }
    supervise::spawn("cluster's pulse", &faults, move || {
        while line.beat(parts.oldest_ns()) {
            for worker in 0..workers {
                let parts = Arc::clone(&parts);
                handles.send(worker, move |_| parts.works(worker));
            }
            let of_gateway = Arc::clone(&parts);
            gateway.beat(Box::new(move |()| of_gateway.works(workers)));
            std::thread::sleep(pause);
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use convoy_cluster::messages::ToAgent;
    use convoy_config::SharedConfig;
    use convoy_dataplane::pipeline::Clock;
    use convoy_report::events::Events;

    use std::sync::mpsc::{Sender, channel};

    use super::super::program::FRAMING;

    use super::super::{Led, MemberGateway, Stopped, StoredSas};
    use super::*;
    use crate::worker_handles::WorkerHandles;

    type Beat = Box<dyn FnOnce(()) + Send>;

    /// A gateway that is only asked for its heartbeat.
    struct Beating(Sender<Beat>);

    impl MemberGateway for Beating {
        fn lead(&self, _: &str, _: StoredSas) -> Option<Led> {
            None
        }

        fn term_has_begun(&self) {}

        fn stand_by(&self, _: &str) -> Option<Stopped> {
            None
        }

        fn beat(&self, works: Beat) {
            let _ = self.0.send(works);
        }

        fn reload(&self) {}
    }

    /// The next heartbeat that the agent gets.
    fn beat(agent: &mut UnixStream) -> u64 {
        match FRAMING.receive(agent).expect("a message") {
            Some(ToAgent::Beat { at_ns }) => at_ns,
            _ => panic!("no heartbeat"),
        }
    }

    #[test]
    fn a_heartbeat_has_the_time_of_the_part_that_worked_longest_ago() {
        let (ours, mut agent) = UnixStream::pair().expect("a pair");
        let (beats, received) = channel();
        let line = Arc::new(AgentLine::new(ours));
        let gateway = Arc::new(Beating(beats));
        let place = Place {
            handles: WorkerHandles::new([]),
            clock: Clock::start(),
            helper: None,
            events: Events::default(),
            shared: SharedConfig::default(),
            gateway,
            faults: channel().0,
        };
        start(Duration::from_millis(60), &place, line).expect("started");
        let first_ns = beat(&mut agent);
        let asked = received.recv().expect("asked");
        assert_eq!(beat(&mut agent), first_ns, "the gateway has not answered");
        assert_eq!(beat(&mut agent), first_ns);
        asked(());
        while beat(&mut agent) == first_ns {}
    }
}
