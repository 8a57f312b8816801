//! The thread's side: work of one worker is passed to its processor together, as far as that pays.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use convoy_ipsec::{KeyMaterial, SaIndex, Transform};
use convoy_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use convoy_sync::channel::channel;
use convoy_sync::ring::{Consumer, Producer, RingBuffer};
use convoy_sync::thread::{self, JoinHandle};

use super::random::Random;
use crate::interface::{lay_out, open_up, split_time};
use crate::{Completion, EngineError, Outcome, Submission, far_below, wipe_stack};

/// A worker's trains that may wait for the thread.
pub(crate) const DEPTH: usize = 32;
/// Polls of empty rings before the thread sleeps: long enough for the next burst of a busy worker,
/// short enough not to keep an idle machine's core busy.
const SPINS: u32 = if cfg!(convoy_loom) { 1 } else { 2_000 };

/// Processes one worker's packets on the thread.
pub trait Processor {
    /// The transforms it supports.
    fn transforms(&self) -> Vec<Transform>;

    /// Installs the keys of an SA. If it refuses them, the SA's packets fail.
    fn install(&mut self, sa: SaIndex, keys: &KeyMaterial);

    /// Removes the keys of an SA.
    fn remove(&mut self, sa: SaIndex);

    /// Packets that keep it busy, so that it pays to look for as many before it starts.
    fn gathers(&self) -> usize {
        1
    }

    /// Processes trains, whose packets are laid out; returns whether it could. Packets without keys
    /// stay pending.
    fn process(&mut self, submissions: &mut [Submission]) -> bool;

    /// The duration of work that started at `began` and ends now, in ns; a model has a time of its
    /// own.
    fn took_ns(&self, began: Instant) -> u64 {
        began.elapsed().as_nanos() as u64
    }
}

pub(super) enum ThreadOrder {
    /// With the time of its submission, if several workers share the thread.
    Work(Submission, Option<Instant>),
    Install(SaIndex, Box<KeyMaterial>),
    Remove(SaIndex),
    WakeBy(Waker),
}

/// A worker's ends of its rings.
pub(super) type RingEnds = (Producer<ThreadOrder>, Consumer<Completion>);

/// What the thread is distinguished from orders.
struct ThreadControl {
    is_stopping: AtomicBool,
    /// Polls of empty rings before it sleeps.
    spins: AtomicU32,
}

/// The thread, as seen by its workers.
pub(super) struct ThreadHandle {
    handle: Option<JoinHandle<()>>,
    control: Arc<ThreadControl>,
    is_shared: bool,
}

impl ThreadHandle {
    /// Makes it sleep as soon as its rings are empty.
    pub(super) fn sleep_at_once(&self) {
        self.control.spins.store(0, Ordering::Relaxed);
    }

    pub(super) fn is_alive(&self) -> bool {
        self.handle.as_ref().is_some_and(|handle| !thread::has_ended(handle))
    }

    pub(super) fn wake(&self) {
        if let Some(handle) = &self.handle {
            handle.thread().unpark();
        }
    }

    /// The time, if the thread needs to know when work was submitted.
    pub(super) fn stamp(&self) -> Option<Instant> {
        self.is_shared.then(Instant::now)
    }
}

impl Drop for ThreadHandle {
    fn drop(&mut self) {
        self.control.is_stopping.store(true, Ordering::Release);
        self.wake();
        if let Some(handle) = self.handle.take() {
            // Its panic was reported when it died.
            let _ = handle.join();
        }
    }
}

/// Starts the thread; returns also the ends of each worker and the transforms of its processors.
pub(super) fn start<P: Processor>(
    name: &str,
    core: Option<usize>,
    workers: usize,
    mut make: impl FnMut(&str) -> Result<P, EngineError> + Send + 'static,
) -> Result<(ThreadHandle, Vec<RingEnds>, Vec<Transform>), EngineError> {
    let (mut ends, mut rings) = (Vec::new(), Vec::new());
    for _ in 0..workers {
        // Keys use the same ring, in order with the packets that need them.
        let (orders, incoming) = RingBuffer::new(DEPTH * 2 + 64);
        let (outgoing, done) = RingBuffer::new(DEPTH + 1);
        ends.push((orders, done));
        rings.push((incoming, outgoing));
    }
    let control =
        Arc::new(ThreadControl { is_stopping: AtomicBool::new(false), spins: AtomicU32::new(SPINS) });
    let device = |reason: String| EngineError::Device { engine: name.to_owned(), reason };
    let (ready, started) = channel();
    let (of_thread, thread_name) = (Arc::clone(&control), name.to_owned());
    let is_shared = workers > 1;
    let handle = thread::Builder::new()
        .name(thread_name.clone())
        .spawn(move || {
            if let Some(id) = core
                && !pin(id)
            {
                let _ = ready.send(Err(no_core(&thread_name, id)));
                return;
            }
            let queue = |(orders, done)| Ok(WorkerQueue::new(make(&thread_name)?, orders, done));
            match rings.into_iter().map(queue).collect::<Result<Vec<WorkerQueue<P>>, EngineError>>() {
                Ok(queues) => {
                    let transforms = queues.first().map(|queue| queue.processor.transforms());
                    let _ = ready.send(Ok(transforms.unwrap_or_default()));
                    work(queues, is_shared, &of_thread);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            }
        })
        .map_err(|error| device(format!("its thread cannot be made: {error}")))?;
    let thread = ThreadHandle { handle: Some(handle), control, is_shared };
    let transforms = started.recv().map_err(|_| device("its thread ended while it started".to_owned()))??;
    Ok((thread, ends, transforms))
}

/// Keeps this thread on a core; `false` if the system refuses.
#[cfg(target_os = "linux")]
fn pin(core: usize) -> bool {
    use nix::sched::{CpuSet, sched_setaffinity};
    let mut cores = CpuSet::new();
    cores.set(core).is_ok() && sched_setaffinity(nix::unistd::Pid::from_raw(0), &cores).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn pin(_: usize) -> bool {
    false
}

fn no_core(engine: &str, core: usize) -> EngineError {
    let reason = format!(
        "its thread cannot be pinned to core {core}: this machine has no such core, or does not allow it"
    );
    EngineError::Device { engine: engine.to_owned(), reason }
}

/// Serves the workers in turn.
fn work<P: Processor>(mut queues: Vec<WorkerQueue<P>>, is_shared: bool, control: &ThreadControl) {
    let mut random = Random::default();
    let mut idle = 0;
    let mut busy_since = None;
    while !control.is_stopping.load(Ordering::Acquire) {
        let mut is_busy = false;
        for queue in &mut queues {
            if let Ok(first) = queue.orders.pop() {
                is_busy = true;
                if is_shared {
                    busy_since.get_or_insert_with(Instant::now);
                }
                queue.serve(first, busy_since, &mut random);
            }
        }
        if is_busy {
            idle = 0;
            continue;
        }
        busy_since = None;
        idle += 1;
        if idle < control.spins.load(Ordering::Relaxed) {
            thread::spin_loop();
        } else {
            thread::park();
            idle = 0;
        }
    }
}

/// The thread's state of one worker.
struct WorkerQueue<P> {
    processor: P,
    gathers: usize,
    orders: Consumer<ThreadOrder>,
    done: Producer<Completion>,
    at_hand: Vec<Submission>,
    /// Packets of `at_hand`.
    packets: usize,
    /// When the oldest of them was submitted, if known.
    given: Option<Instant>,
    /// When this worker was last served.
    served: Option<Instant>,
    waker: Option<Waker>,
}

impl<P: Processor> WorkerQueue<P> {
    fn new(processor: P, orders: Consumer<ThreadOrder>, done: Producer<Completion>) -> Self {
        Self {
            gathers: processor.gathers(),
            processor,
            orders,
            done,
            at_hand: Vec::new(),
            packets: 0,
            given: None,
            served: None,
            waker: None,
        }
    }

    /// Takes orders until the processor has enough or there are no more, and executes them.
    fn serve(&mut self, first: ThreadOrder, busy_since: Option<Instant>, random: &mut Random) {
        let mut order = first;
        loop {
            match order {
                ThreadOrder::Work(submission, given) => {
                    self.given = self.given.or(given);
                    self.packets += submission.packets.len();
                    self.at_hand.push(submission);
                }
                ThreadOrder::Install(sa, keys) => self.change_keys(|processor| processor.install(sa, &keys)),
                ThreadOrder::Remove(sa) => self.change_keys(|processor| processor.remove(sa)),
                ThreadOrder::WakeBy(waker) => self.waker = Some(waker),
            }
            // Keys and packets keep their order, so pending work is done before keys change.
            if self.packets >= self.gathers || !matches!(self.orders.peek(), Ok(ThreadOrder::Work(..))) {
                break;
            }
            let Ok(next) = self.orders.pop() else { break };
            order = next;
        }
        if !self.at_hand.is_empty() {
            self.process(busy_since, random);
        }
    }

    /// Installs or removes keys. What that leaves on the thread's stack is wiped, once for
    /// consecutive key orders; after a removal also what the packets left there.
    fn change_keys(&mut self, change: impl FnOnce(&mut P)) {
        far_below(|| change(&mut self.processor));
        if !matches!(self.orders.peek(), Ok(ThreadOrder::Install(..) | ThreadOrder::Remove(_))) {
            wipe_stack();
        }
    }

    /// Executes the pending work.
    fn process(&mut self, busy_since: Option<Instant>, random: &mut Random) {
        let began = Instant::now();
        for Submission { packets, templates, .. } in &mut self.at_hand {
            lay_out(templates, packets, &mut |iv| random.fill(iv));
        }
        let is_done = self.processor.process(&mut self.at_hand);
        for Submission { packets, templates, .. } in &mut self.at_hand {
            open_up(templates, packets);
        }
        let took_ns = is_done.then(|| self.processor.took_ns(began) + self.held_up_ns(began, busy_since));
        let outcome = if took_ns.is_some() { Outcome::Done } else { Outcome::Failed };
        let part = split_time(took_ns.unwrap_or_default(), &self.at_hand);
        for submission in self.at_hand.drain(..) {
            let service_ns = took_ns.map(|_| part(&submission));
            // The ring holds as many as may be in flight, so there is room.
            let _ = self.done.push(Completion { submission, outcome, service_ns });
        }
        self.packets = 0;
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// How long other workers delayed work that started at `began`, in ns: since it could have
    /// started if the thread had this worker alone. A worker knows nothing of the others and has to
    /// learn how long its packets take with them.
    fn held_up_ns(&mut self, began: Instant, busy_since: Option<Instant>) -> u64 {
        let Some(busy_since) = busy_since else { return 0 };
        let could_begin = [self.given.take(), self.served.replace(Instant::now())].into_iter().flatten();
        let could_begin = could_begin.fold(busy_since, Instant::max);
        began.saturating_duration_since(could_begin).as_nanos() as u64
    }
}
