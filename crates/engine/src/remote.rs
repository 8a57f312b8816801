//! The library on a thread of its own core, fed by a ring a multi-packet at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Instant;

use convoy_ipsec::{KeyMaterial, SaIndex, Transform};
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use super::core::Core;
use crate::{Completion, EngineError, MultiPacket, Outcome, Refused};

/// Looks at an empty ring before the thread sleeps: long enough for the next burst of a busy worker, short enough not to
/// burn an idle machine's core.
const SPINS: u32 = 2_000;

enum Order {
    Work(MultiPacket),
    Install(SaIndex, Box<KeyMaterial>),
    Remove(SaIndex),
}

/// The worker's end.
pub(super) struct Remote {
    name: String,
    orders: Producer<Order>,
    done: Consumer<Completion>,
    thread: Option<JoinHandle<()>>,
    is_stopping: Arc<AtomicBool>,
    /// SAs whose keys the thread has or will have before their packets.
    keyed: Vec<bool>,
    depth: usize,
    in_flight: usize,
}

impl Remote {
    /// Starts the thread; also says what it can do.
    pub(super) fn start(
        name: &str,
        core: usize,
        depth: usize,
    ) -> Result<(Self, Vec<Transform>), EngineError> {
        // Keys travel by the same ring, in order with the packets that need them.
        let (orders, incoming) = RingBuffer::new(depth * 2 + 64);
        let (outgoing, done) = RingBuffer::new(depth + 1);
        let is_stopping = Arc::new(AtomicBool::new(false));
        let device = |reason: String| EngineError::Device { engine: name.to_owned(), reason };
        let (ready, started) = channel();
        let stop = Arc::clone(&is_stopping);
        let thread_name = name.to_owned();
        let thread = std::thread::Builder::new()
            .name(thread_name.clone())
            .spawn(move || {
                core_affinity::set_for_current(core_affinity::CoreId { id: core });
                match Core::new(&thread_name) {
                    Ok(core) => {
                        let _ = ready.send(Ok(core.transforms()));
                        work(core, incoming, outgoing, &stop);
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                    }
                }
            })
            .map_err(|error| device(format!("its thread cannot be made: {error}")))?;
        let transforms = started.recv().map_err(|_| device("its thread ended at once".to_owned()))??;
        let remote = Self {
            name: name.to_owned(),
            orders,
            done,
            thread: Some(thread),
            is_stopping,
            keyed: Vec::new(),
            depth,
            in_flight: 0,
        };
        Ok((remote, transforms))
    }

    fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn gone(&self) -> EngineError {
        EngineError::Device { engine: self.name.clone(), reason: "its thread has died".to_owned() }
    }

    /// Keys are rare: where the ring is full, this waits for room.
    fn order(&mut self, mut order: Order) -> Result<(), EngineError> {
        while let Err(PushError::Full(back)) = self.orders.push(order) {
            if !self.is_alive() {
                return Err(self.gone());
            }
            order = back;
            self.wake();
            std::thread::yield_now();
        }
        self.wake();
        Ok(())
    }

    pub(super) fn install(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.order(Order::Install(sa, Box::new(keys.clone())))?;
        let at = sa.0 as usize;
        if self.keyed.len() <= at {
            self.keyed.resize(at + 1, false);
        }
        self.keyed[at] = true;
        Ok(())
    }

    pub(super) fn remove(&mut self, sa: SaIndex) {
        if self.has_key(sa) {
            self.keyed[sa.0 as usize] = false;
            // A thread that has died holds no keys either.
            let _ = self.order(Order::Remove(sa));
        }
    }

    pub(super) fn has_key(&self, sa: SaIndex) -> bool {
        self.keyed.get(sa.0 as usize).copied().unwrap_or(false)
    }

    pub(super) fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        if !self.is_alive() {
            return Err(Box::new(Refused { multi_packet, reason: self.gone() }));
        }
        let no_room = || EngineError::NoRoom(self.name.clone());
        if self.in_flight > self.depth {
            return Err(Box::new(Refused { multi_packet, reason: no_room() }));
        }
        match self.orders.push(Order::Work(multi_packet)) {
            Ok(()) => {
                self.in_flight += 1;
                self.wake();
                Ok(())
            }
            Err(PushError::Full(Order::Work(multi_packet))) => {
                Err(Box::new(Refused { multi_packet, reason: no_room() }))
            }
            Err(PushError::Full(_)) => Ok(()),
        }
    }

    pub(super) fn poll(&mut self, completions: &mut Vec<Completion>) {
        while let Ok(completion) = self.done.pop() {
            self.in_flight -= 1;
            completions.push(completion);
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn probe(&self) -> Result<(), EngineError> {
        if self.is_alive() { Ok(()) } else { Err(self.gone()) }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // Its panic was reported when it died.
            let _ = thread.join();
        }
    }
}

fn work(mut core: Core, mut orders: Consumer<Order>, mut done: Producer<Completion>, stop: &AtomicBool) {
    let mut idle = 0;
    while !stop.load(Ordering::Acquire) {
        let Ok(order) = orders.pop() else {
            idle += 1;
            if idle < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::park();
                idle = 0;
            }
            continue;
        };
        idle = 0;
        match order {
            // An SA that the library refuses has no keys here, and its packets fail.
            Order::Install(sa, keys) => drop(core.install(sa, &keys)),
            Order::Remove(sa) => core.remove(sa),
            Order::Work(mut multi_packet) => {
                let began = Instant::now();
                let is_done = core.process(&mut multi_packet);
                let service_ns = Some(began.elapsed().as_nanos() as u64);
                let outcome = if is_done { Outcome::Done } else { Outcome::Failed };
                // The ring holds as many as may be in flight, so there is room.
                let _ = done.push(Completion { multi_packet, outcome, service_ns });
            }
        }
    }
}
