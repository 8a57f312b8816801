//! A packet memory of a given size. A process has only one, so this is a test binary of its own.

use convoy_packet::{CHUNK_BYTES, FramePool, FrameSize, Region, RegionError};

#[test]
fn a_region_of_a_size_has_room_for_that_and_says_when_there_is_no_more() {
    let need = FramePool::chunks(8192, 512, 64);
    let region = Region::make(need).expect("there is memory");
    // Rounded up to pages of 2 MiB.
    assert!(region.bytes() > need * CHUNK_BYTES && region.bytes() <= need * CHUNK_BYTES + (2 << 20));
    assert!(Region::make(need / 2).is_ok_and(|same| std::ptr::eq(same, region)));
    let error = Region::make(2 * need).err();
    assert!(matches!(error, Some(RegionError::Made { .. })), "{error:?}");

    let pool = FramePool::in_region(8192, 512, 64).expect("this is what it is for");
    let left = region.free_chunks();
    assert!(FramePool::in_region(left, 0, 0).is_ok());
    let error = FramePool::in_region(left + 1, 0, 0).err();
    assert!(matches!(error, Some(RegionError::Full { .. })), "{error:?}");
    drop(pool);
    assert_eq!(region.free_chunks(), region.bytes() / CHUNK_BYTES - 1);

    // Every byte of every frame can be written and belongs to no other frame.
    let mut pool = FramePool::in_region(8192, 512, 64).expect("it is free again");
    let mut all = Vec::new();
    for size in FrameSize::ALL {
        pool.take_burst(size, usize::MAX, &mut all);
    }
    assert_eq!(all.len(), 8192 + 512 + 64);
    for (number, frame) in all.iter_mut().enumerate() {
        frame.reset(0).expect("no headroom is wanted");
        let bytes = frame.capacity();
        frame.append(bytes).expect("all of it").fill(number as u8);
    }
    for (number, frame) in all.iter().enumerate() {
        assert!(frame.iter().all(|byte| *byte == number as u8), "frame {number}");
    }
}
