//! An engine on the caller's core whose time is measured: a stamp is taken before and after each
//! call that does cryptography.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Instant;

use convoy_engine::{
    Completion, Engine, EngineControl, EngineDescription, EngineError, EngineQueue, InPlace, Refused,
    Submission,
};
use convoy_ipsec::{CryptoPacket, KeyMaterial, SaIndex};

/// Accumulated time of engines.
#[derive(Clone, Default)]
pub(super) struct EngineTime(Arc<Sums>);

#[derive(Default)]
struct Sums {
    ns: AtomicU64,
    calls: AtomicU64,
    last: Mutex<Option<Instant>>,
}

impl EngineTime {
    /// When the last call ended.
    pub(super) fn last_end(&self) -> Option<Instant> {
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accumulated time in ns, and number of calls.
    pub(super) fn read(&self) -> (u64, u64) {
        (self.0.ns.load(Ordering::Relaxed), self.0.calls.load(Ordering::Relaxed))
    }

    fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        let ended = Instant::now();
        self.0.ns.fetch_add((ended - began).as_nanos() as u64, Ordering::Relaxed);
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        done
    }
}

/// The wrapped engine.
pub(super) struct TimedEngine {
    engine: Box<dyn Engine>,
    engine_time: EngineTime,
}

impl TimedEngine {
    pub(super) fn new(engine: Box<dyn Engine>, engine_time: &EngineTime) -> Self {
        Self { engine, engine_time: engine_time.clone() }
    }
}

impl InPlace for TimedEngine {
    fn process(&mut self, packets: &mut [CryptoPacket]) {
        let engine = &mut self.engine;
        self.engine_time.time(|| {
            // The worker processes in place only after it has asked for this.
            if let Some(in_place) = engine.in_place() {
                in_place.process(packets);
            }
        });
    }
}

impl EngineControl for TimedEngine {
    fn description(&self) -> &EngineDescription {
        self.engine.description()
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.engine.install_key(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.engine.remove_key(sa);
    }
}

impl EngineQueue for TimedEngine {
    fn submit(&mut self, submission: Submission) -> Result<(), Box<Refused>> {
        let engine = &mut self.engine;
        self.engine_time.time(|| engine.submit(submission))
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        if self.engine.gathered() == 0 {
            return self.engine.poll(completions);
        }
        let engine = &mut self.engine;
        self.engine_time.time(|| engine.poll(completions));
    }

    fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        self.engine.in_place().is_some().then_some(self as &mut dyn InPlace)
    }

    fn gathered(&self) -> usize {
        self.engine.gathered()
    }

    fn wake_by(&mut self, waker: &Waker) -> bool {
        self.engine.wake_by(waker)
    }

    fn has_completions(&self) -> bool {
        self.engine.has_completions()
    }
}
