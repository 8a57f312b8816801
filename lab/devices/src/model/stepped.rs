//! A bus in virtual time: events happen only when somebody looks.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ModelTiming;
use super::platform::{FinishedJob, ModelPlatform};
use super::thread::{ModelJob, compute, finish, queue};
use convoy_engine::{BusTiming, Completion};

/// A bus and its devices in a time kept by the caller, for simulations: the same on every machine
/// and in every run. Clones are the same bus.
#[derive(Clone)]
pub struct SteppedBus(Arc<SharedSteps>);

struct SharedSteps {
    now_ns: Box<dyn Fn() -> u64 + Send + Sync>,
    state: Mutex<State>,
}

struct State {
    platform: ModelPlatform<ModelJob>,
    bus: BusTiming,
    /// By device.
    done: Vec<Sender<Completion>>,
    finished: Vec<FinishedJob<ModelJob>>,
}

impl SteppedBus {
    /// A bus without devices, in the time of `now_ns`.
    pub fn new(timing: BusTiming, now_ns: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let state = State {
            platform: ModelPlatform::new(timing),
            bus: timing,
            done: Vec::new(),
            finished: Vec::new(),
        };
        Self(Arc::new(SharedSteps { now_ns: Box::new(now_ns), state: Mutex::new(state) }))
    }

    /// The time of its next event, in ns; `None` while its devices have no work.
    pub fn next_ns(&self) -> Option<u64> {
        self.state().platform.next_ps().map(|at_ps| at_ps.div_ceil(1_000))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn join(&self, timing: ModelTiming, done: Sender<Completion>) -> usize {
        let mut state = self.state();
        state.done.push(done);
        state.platform.add(timing.into())
    }

    pub(super) fn submit(&self, device: usize, job: ModelJob) {
        let at_ps = (self.0.now_ns)() * 1_000;
        let State { platform, bus, finished, .. } = &mut *self.state();
        queue(platform, bus, at_ps, device, job, finished);
    }

    pub(super) fn leave(&self, device: usize) {
        self.state().platform.clear(device);
    }

    /// Processes due events, and delivers completions.
    pub(super) fn catch_up(&self) {
        let now_ps = (self.0.now_ns)() * 1_000;
        let State { platform, done, finished, .. } = &mut *self.state();
        platform.advance(now_ps, &mut compute, finished);
        for finished in finished.drain(..) {
            let ended_ps = finished.ended_ps;
            finish(finished, ended_ps, done);
        }
    }
}
