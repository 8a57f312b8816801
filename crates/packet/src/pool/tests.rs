use super::*;
use crate::FrameError;
use crate::frame::SMALL_FRAME_BYTES;

#[test]
fn a_frame_grows_and_shrinks_at_both_ends() {
    let mut pool = FramePool::new(1, 0);
    let mut frame = pool.take(FrameSize::Small).expect("one frame");
    frame.fill(&[1, 2, 3]).expect("fits");
    frame.prepend(2).expect("headroom").copy_from_slice(&[8, 9]);
    frame.append(1).expect("tailroom").copy_from_slice(&[4]);
    assert_eq!(&frame[..], [8, 9, 1, 2, 3, 4]);
    frame.trim_front(3).expect("six bytes");
    frame.truncate(2);
    assert_eq!(&frame[..], [2, 3]);
    assert_eq!(frame.headroom() + frame.len() + frame.tailroom(), SMALL_FRAME_BYTES);
}

#[test]
fn no_room_is_an_error_that_names_both_numbers() {
    let mut pool = FramePool::new(1, 0);
    let mut frame = pool.take(FrameSize::Small).expect("one frame");
    assert_eq!(frame.prepend(129).err(), Some(FrameError::NoHeadroom { need: 129, have: 128 }));
    assert_eq!(frame.append(1921).err(), Some(FrameError::NoTailroom { need: 1921, have: 1920 }));
    assert_eq!(frame.trim_front(1).err(), Some(FrameError::TooShort { need: 1, have: 0 }));
}

#[test]
fn a_dropped_frame_comes_home() {
    let mut pool = FramePool::new(2, 1);
    let mut burst = Vec::new();
    assert_eq!(pool.take_burst(FrameSize::Small, 5, &mut burst), 2);
    assert!(pool.take(FrameSize::Small).is_none());
    drop(burst);
    assert_eq!(pool.available(FrameSize::Small), 2);
    assert!(pool.take(FrameSize::Small).is_some());
}

#[test]
fn a_frame_given_to_another_pool_goes_to_its_own() {
    let mut first = FramePool::new(1, 0);
    let mut second = FramePool::new(1, 0);
    let frame = first.take(FrameSize::Small).expect("one frame");
    second.give_back(frame);
    assert_eq!(second.available(FrameSize::Small), 1);
    assert_eq!(first.available(FrameSize::Small), 1);
}

#[test]
fn a_frame_may_outlive_its_pool() {
    let mut pool = FramePool::new(2, 0);
    let mut frame = pool.take(FrameSize::Small).expect("one frame");
    drop(pool);
    frame.fill(b"still here").expect("fits");
    assert_eq!(&frame[..], b"still here");
}

#[test]
fn sizes_are_chosen_by_packet_and_tail() {
    assert_eq!(FrameSize::for_packet(1500, 300), Some(FrameSize::Small));
    assert_eq!(FrameSize::for_packet(1900, 100), Some(FrameSize::Jumbo));
    assert_eq!(FrameSize::for_packet(9000, 300), Some(FrameSize::Jumbo));
    assert_eq!(FrameSize::for_packet(9900, 300), Some(FrameSize::Huge));
    assert_eq!(
        FrameSize::for_packet(65_535, 320),
        Some(FrameSize::Huge),
        "the longest packet, and what ESP adds"
    );
    assert_eq!(FrameSize::for_packet(67_500, 0), None);
}

#[test]
fn a_frame_knows_its_size_and_goes_back_to_its_own_kind() {
    let mut pool = FramePool::new(1, 1).with_huge(1);
    for size in FrameSize::ALL {
        let frame = pool.take(size).expect("one of each");
        assert_eq!((frame.size(), frame.capacity(), pool.available(size)), (size, size.bytes(), 0));
        pool.give_back(frame);
        assert_eq!((pool.available(size), pool.total(size)), (1, 1));
    }
    assert!(FramePool::new(1, 1).take(FrameSize::Huge).is_none());
}

#[test]
fn what_a_device_was_to_do_to_a_packet_goes_with_it_and_never_to_the_next() {
    let mut pool = FramePool::new(1, 0);
    let seal = Offload::Seal { sa: 7, esp_start: 20, seq_high: Some([0, 0, 0, 1]) };
    let mut frame = pool.take(FrameSize::Small).expect("one frame");
    assert_eq!(frame.offload(), Offload::None);
    frame.set_offload(seal);
    frame.append(100).expect("tailroom");
    frame.truncate(50);
    assert_eq!(frame.offload(), seal);
    pool.give_back(frame);
    let mut frame = pool.take(FrameSize::Small).expect("one frame");
    assert_eq!(frame.offload(), Offload::None);
    frame.set_offload(seal);
    frame.fill(b"another packet").expect("fits");
    assert_eq!(frame.offload(), Offload::None);
}

#[test]
fn a_burst_of_frames_of_many_pools_is_sorted_to_theirs() {
    let mut pools: Vec<FramePool> = (0..3).map(|_| FramePool::new(4, 2)).collect();
    let mut burst = Vec::new();
    for _ in 0..2 {
        for pool in &mut pools {
            pool.take_burst(FrameSize::Small, 2, &mut burst);
            pool.take_burst(FrameSize::Jumbo, 1, &mut burst);
        }
    }
    assert_eq!(burst.len(), 18);
    pools[1].give_back_burst(&mut burst);
    for pool in &mut pools {
        assert_eq!((pool.available(FrameSize::Small), pool.available(FrameSize::Jumbo)), (4, 2));
        assert_eq!(pool.take_burst(FrameSize::Small, 9, &mut burst), 4);
        assert_eq!(pool.take_burst(FrameSize::Jumbo, 9, &mut burst), 2);
    }
}

#[test]
fn a_frame_is_four_bytes_and_so_is_one_that_may_be_missing() {
    assert_eq!((size_of::<Frame>(), size_of::<Option<Frame>>()), (4, 4));
}

/// Fills a frame with bytes that identify its owner, so that a second owner would be noticed.
fn mark(frame: &mut Frame, owner: u64) {
    frame.fill(&owner.to_le_bytes()).expect("fits");
}

fn assert_mark(frame: &Frame, owner: u64) {
    assert_eq!(frame[..], owner.to_le_bytes(), "a frame has two owners");
}

#[test]
fn frames_that_many_threads_free_come_home_and_none_has_two_owners() {
    const FRAMES: usize = if cfg!(miri) { 16 } else { 64 };
    const TURNS: u64 = if cfg!(miri) { 30 } else { 20_000 };
    const THREADS: usize = 4;
    let mut pool = FramePool::new(FRAMES, 0);
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| std::sync::mpsc::channel::<(u64, Frame)>()).unzip();
    std::thread::scope(|scope| {
        for (thread, receiver) in receivers.into_iter().enumerate() {
            scope.spawn(move || {
                let mut own = FramePool::new(0, 0);
                let mut burst = Vec::new();
                for (owner, frame) in receiver {
                    assert_mark(&frame, owner);
                    match (thread + owner as usize) % 3 {
                        0 => drop(frame),
                        1 => own.give_back(frame),
                        _ => burst.push(frame),
                    }
                    if burst.len() == 3 {
                        own.give_back_burst(&mut burst);
                    }
                }
            });
        }
        for turn in 0..TURNS {
            let mut frame = loop {
                match pool.take(FrameSize::Small) {
                    Some(frame) => break frame,
                    None => std::thread::yield_now(),
                }
            };
            mark(&mut frame, turn);
            senders[turn as usize % THREADS].send((turn, frame)).expect("it listens");
        }
        drop(senders);
    });
    assert_eq!(pool.available(FrameSize::Small), FRAMES);
    let mut all = Vec::new();
    assert_eq!(pool.take_burst(FrameSize::Small, FRAMES + 1, &mut all), FRAMES);
    all.sort_by_key(|frame| frame.offset());
    assert!(all.windows(2).all(|pair| pair[0].offset() + SMALL_FRAME_BYTES <= pair[1].offset()));
}

#[test]
fn the_memory_of_a_dropped_pool_is_used_again_once_the_last_frame_is_back() {
    const CHUNKS: usize = if cfg!(miri) { 100 } else { 4096 };
    // More frames in total than the region holds.
    let turns = 2 * Region::of_process().bytes() / (CHUNKS * FrameSize::Small.bytes());
    for turn in 0..turns {
        let mut pool = FramePool::new(CHUNKS, 0);
        let frames: Vec<Frame> = (0..turn % 3).filter_map(|_| pool.take(FrameSize::Small)).collect();
        drop(pool);
        drop(frames);
    }
}

#[test]
fn a_pool_and_its_last_frames_may_end_at_the_same_time() {
    for turn in 0..if cfg!(miri) { 5 } else { 500 } {
        let mut pool = FramePool::new(4, 0);
        let mut burst = Vec::new();
        pool.take_burst(FrameSize::Small, 4, &mut burst);
        burst.truncate(4 - turn % 3);
        std::thread::scope(|scope| {
            for frame in burst {
                scope.spawn(move || drop(frame));
            }
            scope.spawn(move || drop(pool));
        });
    }
}

proptest::proptest! {
    /// Frames are taken, returned, dropped and lost with their pool in any order: no frame is ever
    /// handed out twice, and in the end all are available again.
    #[test]
    fn frames_are_had_once(steps in proptest::collection::vec((0_u8..5, 0_usize..3, proptest::prelude::any::<u16>()), 1..200)) {
        const COUNTS: [usize; 3] = [5, 3, 2];
        let make = || FramePool::in_region(COUNTS[0], COUNTS[1], COUNTS[2]).expect("there is room");
        let mut pools = [make(), make()];
        let mut out: Vec<(u64, Frame)> = Vec::new();
        for (turn, (what, size, which)) in (0_u64..).zip(steps) {
            let pool = &mut pools[usize::from(which) % 2];
            match what {
                0 | 1 => {
                    let size = FrameSize::ALL[size];
                    let available = pool.available(size);
                    let frame = pool.take(size);
                    proptest::prop_assert_eq!(frame.is_some(), available > 0);
                    out.extend(frame.map(|mut frame| {
                        mark(&mut frame, turn);
                        (turn, frame)
                    }));
                }
                _ if out.is_empty() => {}
                _ => {
                    let (owner, frame) = out.swap_remove(usize::from(which) % out.len());
                    assert_mark(&frame, owner);
                    match what {
                        2 => pool.give_back(frame),
                        3 => drop(frame),
                        _ => {
                            out.push((owner, frame));
                            if which % 16 == 0 {
                                *pool = make();
                            }
                        }
                    }
                }
            }
            for (owner, frame) in &out {
                assert_mark(frame, *owner);
            }
        }
        out.clear();
        for pool in &mut pools {
            for (size, count) in FrameSize::ALL.into_iter().zip(COUNTS) {
                proptest::prop_assert_eq!((pool.available(size), pool.take_burst(size, 9, &mut Vec::new())), (count, count));
            }
        }
    }
}
