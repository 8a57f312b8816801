//! A device or a library on a thread of its own, fed by a ring. What is at hand goes to it together, as far as it gains by that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::task::Waker;
use std::thread::JoinHandle;

use convoy_ipsec::{KeyMaterial, SaIndex, Transform};
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::interface::split_time;
use crate::{Completion, EngineError, MultiPacket, Outcome, Refused};

/// Looks at an empty ring before the thread sleeps: long enough for the next burst of a busy worker, short enough not to
/// burn an idle machine's core.
const SPINS: u32 = 2_000;

/// What lives on the thread.
pub(crate) trait Worker {
    /// What it can do.
    fn transforms(&self) -> Vec<Transform>;

    /// Takes the keys of an SA. Of one that it refuses it has none, and the packets fail.
    fn install(&mut self, sa: SaIndex, keys: &KeyMaterial);

    /// Forgets the keys of an SA.
    fn remove(&mut self, sa: SaIndex);

    /// Packets with which it is busy, so that it is worth looking for as many before it begins.
    fn gathers(&self) -> usize {
        1
    }

    /// Does multi-packets; how long that took, in ns, or `None` if it failed. What has no keys stays pending.
    fn process(&mut self, multi_packets: &mut [MultiPacket]) -> Option<u64>;
}

enum Order {
    Work(MultiPacket),
    Install(SaIndex, Box<KeyMaterial>),
    Remove(SaIndex),
    WakeBy(Waker),
}

/// The worker's end.
pub(crate) struct Remote {
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
    /// Starts the thread, pinned to `core` if one is named, with what `make` makes there; also says what it can do.
    pub(crate) fn start<W: Worker>(
        name: &str,
        core: Option<usize>,
        depth: usize,
        make: impl FnOnce(&str) -> Result<W, EngineError> + Send + 'static,
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
                if let Some(id) = core {
                    core_affinity::set_for_current(core_affinity::CoreId { id });
                }
                match make(&thread_name) {
                    Ok(worker) => {
                        let _ = ready.send(Ok(worker.transforms()));
                        work(worker, incoming, outgoing, &stop);
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

    pub(crate) fn install(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.order(Order::Install(sa, Box::new(keys.clone())))?;
        let at = sa.0 as usize;
        if self.keyed.len() <= at {
            self.keyed.resize(at + 1, false);
        }
        self.keyed[at] = true;
        Ok(())
    }

    pub(crate) fn remove(&mut self, sa: SaIndex) {
        if self.has_key(sa) {
            self.keyed[sa.0 as usize] = false;
            // A thread that has died holds no keys either.
            let _ = self.order(Order::Remove(sa));
        }
    }

    pub(crate) fn has_key(&self, sa: SaIndex) -> bool {
        self.keyed.get(sa.0 as usize).copied().unwrap_or(false)
    }

    pub(crate) fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
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

    pub(crate) fn poll(&mut self, completions: &mut Vec<Completion>) {
        while let Ok(completion) = self.done.pop() {
            self.in_flight -= 1;
            completions.push(completion);
        }
    }

    /// Has the thread wake somebody whenever something is done; `false` if it has died.
    pub(crate) fn wake_by(&mut self, waker: &Waker) -> bool {
        self.order(Order::WakeBy(waker.clone())).is_ok()
    }

    /// Whether something is done that was not polled.
    pub(crate) fn has_completions(&self) -> bool {
        !self.done.is_empty()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(crate) fn probe(&self) -> Result<(), EngineError> {
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

/// What the thread has beside its worker.
struct Thread {
    done: Producer<Completion>,
    at_hand: Vec<MultiPacket>,
    /// Packets of `at_hand`.
    packets: usize,
    waker: Option<Waker>,
}

impl Thread {
    fn take(&mut self, multi_packet: MultiPacket) {
        self.packets += multi_packet.packets.len();
        self.at_hand.push(multi_packet);
    }

    /// Does all that is at hand.
    fn process(&mut self, worker: &mut impl Worker) {
        if self.at_hand.is_empty() {
            return;
        }
        let took_ns = worker.process(&mut self.at_hand);
        let outcome = if took_ns.is_some() { Outcome::Done } else { Outcome::Failed };
        let part = split_time(took_ns.unwrap_or_default(), &self.at_hand);
        for multi_packet in self.at_hand.drain(..) {
            let service_ns = took_ns.map(|_| part(&multi_packet));
            // The ring holds as many as may be in flight, so there is room.
            let _ = self.done.push(Completion { multi_packet, outcome, service_ns });
        }
        self.packets = 0;
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

fn work<W: Worker>(
    mut worker: W,
    mut orders: Consumer<Order>,
    done: Producer<Completion>,
    stop: &AtomicBool,
) {
    let gathers = worker.gathers();
    let mut thread = Thread { done, at_hand: Vec::new(), packets: 0, waker: None };
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
            Order::Work(multi_packet) => thread.take(multi_packet),
            Order::Install(sa, keys) => worker.install(sa, &keys),
            Order::Remove(sa) => worker.remove(sa),
            Order::WakeBy(waker) => thread.waker = Some(waker),
        }
        // Keys and packets keep their order, so nothing stays at hand when keys come next.
        if thread.packets >= gathers || !matches!(orders.peek(), Ok(Order::Work(_))) {
            thread.process(&mut worker);
        }
    }
}
