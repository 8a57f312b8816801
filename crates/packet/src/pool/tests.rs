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
    assert_eq!(FrameSize::for_packet(9600, 300), Some(FrameSize::Huge));
    assert_eq!(
        FrameSize::for_packet(65_535, 320),
        Some(FrameSize::Huge),
        "the longest packet, and what ESP adds"
    );
    assert_eq!(FrameSize::for_packet(66_000, 0), None);
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
