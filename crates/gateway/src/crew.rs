//! The workers' threads: started together, and stopped together within a bounded time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use convoy_port::PortError;
use convoy_process::panics::words;
use convoy_process::supervise::Fault;
use convoy_report::events::Events;

use crate::error::RunError;
use crate::worker_handles::WorkerHandles;
use crate::worker_thread::{Common, DRAIN, WorkerCommand, WorkerThread};

/// Time for a worker to end beyond the time for its packets.
const GRACE: Duration = Duration::from_secs(2);
/// Interval between two checks for ended threads.
const PAUSE: Duration = Duration::from_millis(10);

/// The threads of all workers.
pub(crate) struct Crew {
    /// By number; those left behind or ended are removed.
    threads: Vec<(usize, JoinHandle<Result<(), PortError>>)>,
    common: Arc<Common>,
}

impl Crew {
    /// Starts a thread for each worker, which reports its end to `faults`, whatever causes it.
    ///
    /// # Errors
    /// The system's, if it cannot create a thread; those already started end then.
    pub(crate) fn start(
        threads: Vec<(WorkerThread, Receiver<WorkerCommand>)>,
        events: &Events,
        faults: &Sender<Fault>,
    ) -> io::Result<Self> {
        let mut crew = Self { threads: Vec::new(), common: Arc::default() };
        for (number, (mut worker, commands)) in threads.into_iter().enumerate() {
            let (common, events) = (Arc::clone(&crew.common), events.clone());
            let thread = Builder::new().name(format!("worker {number}"));
            let ending = Ending(faults.clone());
            let spawned = thread.spawn(move || {
                let _ending = ending;
                worker.work(&commands, &common, &events)
            });
            match spawned {
                Ok(thread) => crew.threads.push((number, thread)),
                Err(error) => {
                    crew.common.is_stopping.store(true, Ordering::Release);
                    return Err(error);
                }
            }
        }
        Ok(crew)
    }

    /// Lets packets in flight leave, and ends all threads. `pause` waits for the given time, and
    /// returns whether the operator wants to hurry.
    ///
    /// # Errors
    /// That of the first worker that ended by an error; or the workers that do not end, which are
    /// left behind.
    pub(crate) fn stop(
        &mut self,
        handles: &WorkerHandles,
        pause: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<(), RunError> {
        self.common.is_stopping.store(true, Ordering::Release);
        handles.wake();
        let until = Instant::now() + DRAIN + GRACE;
        let mut result = Ok(());
        while !self.threads.is_empty() {
            for (number, thread) in self.threads.extract_if(.., |(_, thread)| thread.is_finished()) {
                result = result.and(outcome(number, thread));
            }
            let left: Vec<usize> = self.threads.iter().map(|(number, _)| *number).collect();
            if Instant::now() >= until {
                self.threads.clear();
                return result.and(Err(RunError::Hung(left)));
            }
            if !left.is_empty() && pause(PAUSE) {
                self.threads.clear();
                return result.and(Err(RunError::Hurried(left)));
            }
        }
        result
    }
}

/// Reports that its worker has ended when it is dropped, by a panic as well.
struct Ending(Sender<Fault>);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.send(Fault::WorkerEnded);
    }
}

fn outcome(number: usize, thread: JoinHandle<Result<(), PortError>>) -> Result<(), RunError> {
    match thread.join() {
        Ok(ended) => ended.map_err(RunError::Port),
        Err(panic) => Err(RunError::Worker { number, reason: words(&*panic).to_owned() }),
    }
}
