//! A worker that falls asleep while another hands packets over or an engine has completions, in
//! every order that loom finds. eventfd(2) is the real one: it is read when all threads have ended.

use std::sync::Arc;

use convoy_packet::FrameSize;
use loom::thread;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::*;

fn is_readable(end: &Handoff) -> bool {
    poll(&mut [PollFd::new(end.fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1)
}

fn two_ends() -> (Handoff, Handoff) {
    let mut ends = Handoff::between(2).expect("event files");
    let sleeper = ends.pop().expect("two ends");
    (ends.pop().expect("two ends"), sleeper)
}

fn addressed(pool: &mut FramePool, byte: u8) -> Vec<Addressed> {
    let mut frame = pool.take(FrameSize::Small).expect("a frame");
    frame.fill(&[byte]).expect("it fits");
    vec![(1, true, frame)]
}

/// What the sleeper receives until its rings are empty.
fn taken(sleeper: &mut Handoff) -> Vec<u8> {
    let (mut outbound, mut inbound) = (Vec::new(), Vec::new());
    sleeper.take(8, &mut outbound, &mut inbound);
    outbound.iter().map(|frame| frame[0]).collect()
}

#[test]
fn packets_handed_over_wake_a_worker_that_falls_asleep() {
    loom::model(|| {
        let (mut giver, mut sleeper) = two_ends();
        let thread = thread::spawn(move || {
            let mut pool = FramePool::new(1, 0);
            let given = giver.give(&mut addressed(&mut pool, 7), &mut pool);
            assert_eq!(given, HandoffCounts { handed_over: 1, dropped: 0 });
        });
        let sleeps = sleeper.begin_sleep(|| false);
        thread.join().expect("it hands a packet over");
        assert!(!sleeps || is_readable(&sleeper), "the worker sleeps with a packet in its ring");
        sleeper.end_sleep(sleeps);
        assert_eq!(taken(&mut sleeper), [7]);
    });
}

#[test]
fn worker_that_was_woken_once_does_not_sleep_through_what_comes_next() {
    loom::model(|| {
        let (mut giver, mut sleeper) = two_ends();
        let thread = thread::spawn(move || {
            let mut pool = FramePool::new(2, 0);
            for byte in [1, 2] {
                giver.give(&mut addressed(&mut pool, byte), &mut pool);
            }
        });
        let mut received = Vec::new();
        if sleeper.begin_sleep(|| false) {
            sleeper.end_sleep(is_readable(&sleeper));
        }
        received.extend(taken(&mut sleeper));
        let sleeps = sleeper.begin_sleep(|| false);
        thread.join().expect("it hands two packets over");
        let is_rest_waiting = !sleeper.is_empty();
        assert!(!sleeps || !is_rest_waiting || is_readable(&sleeper), "the worker sleeps through a packet");
        received.extend(taken(&mut sleeper));
        assert_eq!(received, [1, 2]);
    });
}

#[test]
fn completion_of_an_engine_wakes_a_worker_that_falls_asleep() {
    loom::model(|| {
        let (_, sleeper) = two_ends();
        let (mut engine, done) = RingBuffer::new(1);
        let waker: std::task::Waker = Arc::clone(&sleeper.waker).into();
        let thread = thread::spawn(move || {
            engine.push(7).expect("it has room");
            waker.wake_by_ref();
        });
        let sleeps = sleeper.begin_sleep(|| !done.is_empty());
        thread.join().expect("it completes");
        assert!(!sleeps || is_readable(&sleeper), "the worker sleeps with a completion at hand");
    });
}
