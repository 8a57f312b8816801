//! Frames that other threads return to a pool, in every order that loom finds. Loom reports an
//! access to a frame's record or bytes, or to the queue, that does not happen after the one before.

use loom::thread;

use crate::{Frame, FramePool, FrameSize, Region};

/// A pool of small frames alone, and this many of them.
fn pool_and_frames(count: usize) -> (FramePool, Vec<Frame>) {
    let mut pool = FramePool::new(count, 0);
    let mut frames = Vec::new();
    pool.take_burst(FrameSize::Small, count, &mut frames);
    (pool, frames)
}

/// Writes its bytes and lets it return by itself.
fn write_and_drop(mut frame: Frame, byte: u8) {
    frame.fill(&[byte]).expect("it fits");
}

/// All frames that the pool has, with what they hold, lowest first.
fn taken(pool: &mut FramePool) -> Vec<(u32, Frame)> {
    let mut frames = Vec::new();
    while let Some(mut frame) = pool.take(FrameSize::Small) {
        frame.append(1).expect("it has room");
        frames.push((frame.id(), frame));
    }
    frames.sort_by_key(|(id, _)| *id);
    frames
}

#[test]
fn frames_of_two_threads_come_back_once_with_what_was_written() {
    loom::model(|| {
        let (mut pool, mut frames) = pool_and_frames(3);
        let mut expected: Vec<u32> = frames.iter().map(Frame::id).collect();
        expected.sort_unstable();
        let last = frames.pop().expect("three frames");
        let threads: Vec<_> = frames
            .into_iter()
            .zip(1..)
            .map(|(frame, byte)| thread::spawn(move || write_and_drop(frame, byte)))
            .collect();
        let early = taken(&mut pool);
        write_and_drop(last, 3);
        threads.into_iter().for_each(|thread| thread.join().expect("it returns a frame"));
        let mut all = early;
        all.extend(taken(&mut pool));
        all.sort_by_key(|(id, _)| *id);
        assert_eq!(all.iter().map(|(id, _)| *id).collect::<Vec<_>>(), expected);
        let mut bytes: Vec<u8> = all.iter().map(|(_, frame)| frame[0]).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, [1, 2, 3]);
    });
}

#[test]
fn frame_that_is_taken_and_returned_again_does_not_break_the_chain_of_another_thread() {
    loom::model(|| {
        let (mut pool, mut frames) = pool_and_frames(2);
        let (first, second) = (frames.pop().expect("two"), frames.pop().expect("two"));
        let thread = thread::spawn(move || write_and_drop(first, 1));
        drop(second);
        // Maybe the same frame again, between two steps of the other thread.
        drop(pool.take(FrameSize::Small));
        thread.join().expect("it returns a frame");
        assert_eq!(taken(&mut pool).len(), 2);
    });
}

#[test]
fn burst_for_another_pool_returns_as_one_chain_beside_single_frames() {
    loom::model(|| {
        let (mut pool, mut frames) = pool_and_frames(3);
        let single = frames.pop().expect("three frames");
        let thread = thread::spawn(move || {
            let mut other = FramePool::new(0, 0);
            frames.iter_mut().for_each(|frame| frame.fill(&[7]).expect("it fits"));
            other.give_back_burst(&mut frames);
        });
        drop(single);
        let early = taken(&mut pool).len();
        assert!([1, 3].contains(&early), "a chain is taken as a whole");
        thread.join().expect("it returns two frames");
        assert_eq!(pool.available(FrameSize::Small), 3);
    });
}

#[test]
fn closed_queue_is_freed_once_by_the_last_to_leave() {
    loom::model(|| {
        let free_before = Region::of_process().free_chunks();
        let (pool, frames) = pool_and_frames(2);
        let threads: Vec<_> = frames
            .into_iter()
            .zip(1..)
            .map(|(frame, byte)| thread::spawn(move || write_and_drop(frame, byte)))
            .collect();
        drop(pool);
        threads.into_iter().for_each(|thread| thread.join().expect("it returns a frame"));
        assert_eq!(Region::of_process().free_chunks(), free_before);
    });
}
