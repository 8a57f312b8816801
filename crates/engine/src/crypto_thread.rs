//! Engines on a thread of their own: a device or a library, fed through a ring by each worker that
//! it serves.

#[cfg(all(test, convoy_loom))]
mod models;
mod random;
#[cfg(test)]
mod tests;
mod thread;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use convoy_ipsec::{KeyMaterial, SaIndex, Transform};
use convoy_sync::ring::{Consumer, Producer, PushError};

use crate::{
    Completion, EngineControl, EngineDescription, EngineError, EngineKind, EngineQueue, Placement, Refused,
    Submission, Takes,
};
#[cfg(feature = "dpdk")]
pub(crate) use random::Random;
pub use thread::Processor;
use thread::{DEPTH, ThreadHandle, ThreadOrder};

/// One worker's end of an engine with a thread of its own, pinned to a core or not. The thread ends
/// with its last end.
pub struct CryptoThread {
    description: EngineDescription,
    orders: Producer<ThreadOrder>,
    /// Key orders for which the ring had no room: the worker waits for no thread. Packets stay
    /// behind them.
    waiting: VecDeque<ThreadOrder>,
    done: Consumer<Completion>,
    thread: Arc<ThreadHandle>,
    /// SAs whose keys the thread has or will have before their packets.
    keyed: Vec<bool>,
    in_flight: usize,
}

impl CryptoThread {
    /// Starts the thread, pinned to `core` if given, with what `make` creates there for each of
    /// this many workers, whose SAs are independent. `describe` receives its transforms. Returns an
    /// end for each worker.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the thread or what it needs cannot be created.
    pub fn start<P: Processor>(
        name: &str,
        core: Option<usize>,
        workers: usize,
        make: impl FnMut(&str) -> Result<P, EngineError> + Send + 'static,
        describe: impl FnOnce(Vec<Transform>) -> EngineDescription,
    ) -> Result<Vec<Self>, EngineError> {
        let (thread, ends, transforms) = thread::start(name, core, workers, make)?;
        let (thread, description) = (Arc::new(thread), describe(transforms));
        let end = |(orders, done)| Self {
            description: description.clone(),
            orders,
            waiting: VecDeque::new(),
            done,
            thread: Arc::clone(&thread),
            keyed: Vec::new(),
            in_flight: 0,
        };
        Ok(ends.into_iter().map(end).collect())
    }

    /// Makes the thread sleep as soon as it has no work, since its core has other threads to run.
    /// It otherwise polls for a moment, which spares a busy worker the system call that wakes it.
    pub fn sleep_at_once(&self) {
        self.thread.sleep_at_once();
    }

    /// The description of an engine of this kind on a thread of its own, given its transforms.
    pub fn describe(name: &str, kind: EngineKind) -> impl FnOnce(Vec<Transform>) -> EngineDescription {
        let name = name.to_owned();
        move |transforms| EngineDescription {
            name,
            kind,
            device: None,
            placement: Placement::Lookaside,
            transforms,
            depth: DEPTH,
            gathers: 1,
            is_model: false,
            // If the thread dies, everything it has is lost.
            needs_input_kept: true,
            takes: Takes::Trains,
            slack_ns: 0,
        }
    }

    fn has_key(&self, sa: SaIndex) -> bool {
        self.keyed.get(sa.0 as usize).copied().unwrap_or(false)
    }

    fn gone(&self) -> EngineError {
        let reason = "its thread has ended".to_owned();
        EngineError::Device { engine: self.description.name.clone(), reason }
    }

    fn no_room(&self) -> EngineError {
        EngineError::NoRoom(self.description.name.clone())
    }

    fn order(&mut self, order: ThreadOrder) -> Result<(), EngineError> {
        if !self.thread.is_alive() {
            return Err(self.gone());
        }
        self.waiting.push_back(order);
        self.send_waiting();
        Ok(())
    }

    /// Sends what waits for room in the ring; returns whether nothing waits any more.
    fn send_waiting(&mut self) -> bool {
        while let Some(order) = self.waiting.pop_front() {
            if let Err(PushError::Full(back)) = self.orders.push(order) {
                self.waiting.push_front(back);
                break;
            }
        }
        self.thread.wake();
        self.waiting.is_empty()
    }
}

impl EngineControl for CryptoThread {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.description.check_transform(keys.transform())?;
        self.order(ThreadOrder::Install(sa, Box::new(keys.clone())))?;
        let at = sa.0 as usize;
        if self.keyed.len() <= at {
            self.keyed.resize(at + 1, false);
        }
        self.keyed[at] = true;
        Ok(())
    }

    fn remove_key(&mut self, sa: SaIndex) {
        if self.has_key(sa) {
            self.keyed[sa.0 as usize] = false;
            // A thread that has died holds no keys either.
            let _ = self.order(ThreadOrder::Remove(sa));
        }
    }

    fn probe(&mut self) -> Result<(), EngineError> {
        if !self.thread.is_alive() {
            return Err(self.gone());
        }
        // A thread that hangs would be given packets again, and hold them up until its next
        // deadline.
        if self.in_flight > self.done.slots() {
            let reason = "its thread has not returned the packets that it had".to_owned();
            return Err(EngineError::Device { engine: self.description.name.clone(), reason });
        }
        Ok(())
    }
}

impl EngineQueue for CryptoThread {
    fn submit(&mut self, submission: Submission) -> Result<(), Box<Refused>> {
        if !self.has_key(submission.sa) {
            return Err(self.description.refuse_unkeyed(submission));
        }
        if !self.thread.is_alive() {
            return Err(Box::new(Refused { submission, reason: self.gone() }));
        }
        let is_behind_keys = !self.waiting.is_empty() && !self.send_waiting();
        if is_behind_keys || self.in_flight > self.description.depth {
            return Err(Box::new(Refused { submission, reason: self.no_room() }));
        }
        match self.orders.push(ThreadOrder::Work(submission, self.thread.stamp())) {
            Ok(()) => {
                self.in_flight += 1;
                self.thread.wake();
                Ok(())
            }
            Err(PushError::Full(ThreadOrder::Work(submission, _))) => {
                Err(Box::new(Refused { submission, reason: self.no_room() }))
            }
            Err(PushError::Full(_)) => Ok(()),
        }
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        if !self.waiting.is_empty() {
            self.send_waiting();
        }
        while let Ok(completion) = self.done.pop() {
            self.in_flight -= 1;
            completions.push(completion);
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn wake_by(&mut self, waker: &Waker) -> bool {
        self.order(ThreadOrder::WakeBy(waker.clone())).is_ok()
    }

    fn has_completions(&self) -> bool {
        !self.done.is_empty()
    }
}
