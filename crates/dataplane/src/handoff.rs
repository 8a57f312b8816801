//! Packets between workers. An SA belongs to one worker, which alone assigns its sequence numbers.
//! Packets of it that arrive at another worker are handed over here: one ring for each pair of
//! workers; a sleeping worker is woken.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::Wake;

use convoy_packet::{Frame, FramePool};
use convoy_sync::atomic::{AtomicBool, Ordering, fence};
use convoy_sync::ring::{Consumer, Producer, PushError, RingBuffer};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::memory::POOL_FRAMES;

/// The most workers: a word has a bit for each.
pub const MAX_WORKERS: u16 = 64;
/// Capacity of the ring from one worker to another, in packets.
const RING_PACKETS: usize = 1024;

/// A packet as received, and whether it is outbound.
type ReceivedPacket = (bool, Frame);
/// A packet with the number of the worker that owns its SA, and whether it is outbound.
pub type Addressed = (u16, bool, Frame);

/// Wakes one worker that sleeps in `poll(2)`.
pub struct Waker {
    event: EventFd,
    is_asleep: AtomicBool,
}

impl Waker {
    fn new() -> io::Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self { event, is_asleep: AtomicBool::new(false) })
    }

    /// Makes the worker check its rings, now or before it next sleeps.
    pub fn wake(&self) {
        // Fails only if very many wakes are pending already.
        let _ = self.event.write(1);
    }

    fn wake_sleeper(&self) {
        // Pairs with the fence in `begin_sleep`: either this side sees that the worker sleeps, or
        // the worker sees the new packets.
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }
}

/// Engines with threads of their own wake their worker this way.
impl Wake for Waker {
    fn wake(self: Arc<Self>) {
        self.wake_sleeper();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_sleeper();
    }
}

/// Outcome of handing packets over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandoffCounts {
    /// Packets queued for other workers.
    pub handed_over: u64,
    /// Packets dropped because a ring was full.
    pub dropped: u64,
}

/// One worker's ends of all rings.
pub struct Handoff {
    /// By worker; `None` for itself.
    to: Vec<Option<(Producer<ReceivedPacket>, Arc<Waker>)>>,
    from: Vec<Consumer<ReceivedPacket>>,
    waker: Arc<Waker>,
    /// The ring to read first, so that all are served in turn.
    turn: usize,
}

impl Handoff {
    /// The ends of `workers` workers, with a ring from each to every other.
    ///
    /// # Errors
    /// The system's, if it cannot create an eventfd.
    pub fn between(workers: usize) -> io::Result<Vec<Self>> {
        let wakers: Vec<Arc<Waker>> =
            (0..workers).map(|_| Waker::new().map(Arc::new)).collect::<Result<_, _>>()?;
        let mut ends: Vec<Self> = wakers
            .iter()
            .map(|waker| Self { to: Vec::new(), from: Vec::new(), waker: Arc::clone(waker), turn: 0 })
            .collect();
        for giver in 0..workers {
            for taker in 0..workers {
                let ring = (giver != taker).then(|| RingBuffer::new(ring_packets(workers)));
                let end = ring.map(|(producer, consumer)| {
                    ends[taker].from.push(consumer);
                    (producer, Arc::clone(&wakers[taker]))
                });
                ends[giver].to.push(end);
            }
        }
        Ok(ends)
    }

    /// Whether there are other workers.
    pub fn has_others(&self) -> bool {
        !self.from.is_empty()
    }

    /// Wakes this worker.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Hands packets to the workers that own their SAs. If a worker's ring is full the packets are
    /// dropped and their frames returned to `pool`, so that an overloaded worker does not hold up
    /// the others.
    pub fn give(&mut self, items: &mut Vec<Addressed>, pool: &mut FramePool) -> HandoffCounts {
        let (mut given, mut woken) = (HandoffCounts::default(), 0_u64);
        for (to, is_outbound, frame) in items.drain(..) {
            let item = (is_outbound, frame);
            let pushed = match self.to.get_mut(usize::from(to)) {
                Some(Some((ring, _))) => ring.push(item),
                _ => Err(PushError::Full(item)),
            };
            match pushed {
                Ok(()) => {
                    given.handed_over += 1;
                    woken |= 1 << (to % MAX_WORKERS);
                }
                Err(PushError::Full((_, frame))) => {
                    given.dropped += 1;
                    pool.give_back(frame);
                }
            }
        }
        for (at, (_, waker)) in self.to.iter().enumerate().filter_map(|(at, to)| Some((at, to.as_ref()?))) {
            if woken >> at & 1 == 1 {
                waker.wake_sleeper();
            }
        }
        given
    }

    /// Takes up to `limit` packets that other workers handed over, appends each to the burst of its
    /// direction, and returns how many there were.
    pub fn take(&mut self, limit: usize, outbound: &mut Vec<Frame>, inbound: &mut Vec<Frame>) -> usize {
        let mut taken = 0;
        let rings = self.from.len();
        for step in 0..rings {
            let ring = &mut self.from[(self.turn + step) % rings];
            while taken < limit {
                let Ok((is_outbound, frame)) = ring.pop() else { break };
                if is_outbound {
                    outbound.push(frame)
                } else {
                    inbound.push(frame)
                }
                taken += 1;
            }
        }
        self.turn = (self.turn + 1) % rings.max(1);
        taken
    }

    /// Whether all packets handed over have been taken.
    pub fn is_empty(&self) -> bool {
        self.from.iter().all(Consumer::is_empty)
    }

    /// Call before sleeping on [`fd`](Self::fd). Returns `false` if the worker must not sleep,
    /// because packets were handed over or `has_news` reports other work.
    pub fn begin_sleep(&self, has_news: impl FnOnce() -> bool) -> bool {
        self.waker.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let may_sleep = self.is_empty() && !has_news();
        if !may_sleep {
            self.end_sleep(false);
        }
        may_sleep
    }

    /// Call after the sleep. With `is_woken`, [`fd`](Self::fd) was readable; this clears it.
    pub fn end_sleep(&self, is_woken: bool) {
        self.waker.is_asleep.store(false, Ordering::Relaxed);
        if is_woken {
            let _ = self.waker.event.read();
        }
    }

    /// Becomes readable when another thread wants this worker.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.waker.event.as_fd()
    }
}

/// Stalled workers together hold at most half of a sender's frames, so that it can go on with the
/// others.
fn ring_packets(workers: usize) -> usize {
    RING_PACKETS.min(POOL_FRAMES.0 / 2 / workers.max(2))
}

#[cfg(all(test, convoy_loom))]
mod models;

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_packet::FrameSize;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn item(pool: &mut FramePool, to: u16, byte: u8) -> Addressed {
        let mut frame = pool.take(FrameSize::Small).expect("a frame");
        frame.fill(&[byte]).expect("fits");
        (to, byte.is_multiple_of(2), frame)
    }

    #[test]
    fn a_worker_that_is_alone_has_no_others() {
        let has_others = |workers| Handoff::between(workers).expect("event files")[0].has_others();
        assert_eq!([1, 2].map(has_others), [false, true]);
    }

    #[test]
    fn packets_come_to_the_worker_they_are_for_in_order() {
        let mut pool = FramePool::new(64, 0);
        let mut ends = Handoff::between(3).expect("event files");
        let mut items: Vec<_> = (0..30).map(|at| item(&mut pool, 1 + u16::from(at % 3 == 0), at)).collect();
        let given = ends[0].give(&mut items, &mut pool);
        assert_eq!(given, HandoffCounts { handed_over: 30, dropped: 0 });
        assert!(items.is_empty() && ends[0].is_empty());
        let (mut outbound, mut inbound) = (Vec::new(), Vec::new());
        assert_eq!(ends[1].take(15, &mut outbound, &mut inbound), 15);
        assert_eq!(ends[1].take(15, &mut outbound, &mut inbound), 5);
        assert!(ends[1].is_empty() && !ends[2].is_empty());
        let bytes: Vec<u8> = outbound.iter().map(|frame| frame[0]).collect();
        assert_eq!(bytes, [2, 4, 8, 10, 14, 16, 20, 22, 26, 28]);
        assert!(inbound.iter().all(|frame| frame[0] % 2 == 1));
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_others_pass_it() {
        let mut pool = FramePool::new(RING_PACKETS + 8, 0);
        let mut ends = Handoff::between(3).expect("event files");
        let mut items: Vec<_> = (0..RING_PACKETS).map(|_| item(&mut pool, 1, 0)).collect();
        items.extend([(1, 4), (2, 5), (1, 6), (0, 7), (9, 8)].map(|(to, byte)| item(&mut pool, to, byte)));
        let given = ends[0].give(&mut items, &mut pool);
        assert_eq!(given, HandoffCounts { handed_over: RING_PACKETS as u64 + 1, dropped: 4 });
        assert!(items.is_empty() && !ends[2].is_empty());
        assert_eq!(pool.available(FrameSize::Small), 3 + 4, "what was dropped came back");
    }

    #[test]
    fn rings_that_are_not_emptied_leave_half_of_the_frames() {
        for workers in 1..=usize::from(MAX_WORKERS) {
            let packets = ring_packets(workers);
            assert!(packets >= 64 && packets * (workers - 1) <= POOL_FRAMES.0 / 2, "{workers}: {packets}");
        }
        assert_eq!(ring_packets(2), RING_PACKETS);
    }

    #[test]
    fn a_sleeper_is_woken_and_who_has_work_does_not_sleep() {
        let mut pool = FramePool::new(4, 0);
        let mut ends = Handoff::between(2).expect("event files");
        let mut sleeper = ends.pop().expect("two ends");
        let mut giver = ends.pop().expect("two ends");
        assert!(sleeper.begin_sleep(|| false));
        giver.give(&mut vec![item(&mut pool, 1, 0)], &mut pool);
        let mut fds = [PollFd::new(sleeper.fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut fds, PollTimeout::ZERO), Ok(1));
        sleeper.end_sleep(true);
        assert!(!sleeper.begin_sleep(|| false));
        sleeper.take(1, &mut Vec::new(), &mut Vec::new());
        assert!(sleeper.begin_sleep(|| false));
        assert_eq!(poll(&mut [PollFd::new(sleeper.fd(), PollFlags::POLLIN)], PollTimeout::ZERO), Ok(0));
    }
}
