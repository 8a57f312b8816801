use proptest::prelude::*;

use super::*;
use crate::{FramePool, FrameSize};

#[test]
fn there_is_one_region_a_process_and_it_begins_on_a_huge_page() {
    let region = Region::of_process();
    assert!(std::ptr::eq(region, Region::of_process()));
    assert_eq!(region.base().addr().get() % HUGE_PAGE_BYTES, 0);
    assert_eq!(region.bytes() % HUGE_PAGE_BYTES, 0);
}

#[test]
fn a_region_that_is_there_is_taken_if_it_is_large_enough() {
    let region = Region::of_process();
    let made = Region::make(FramePool::chunks(64, 4, 1)).expect("there is more");
    assert!(std::ptr::eq(made, region));
    let chunks = region.bytes() / CHUNK_BYTES;
    let error = Region::make(2 * chunks).err().expect("there is less");
    assert_eq!(
        error,
        RegionError::Made { have: region.bytes() >> 20, need: (2 * region.bytes() + HUGE_PAGE_BYTES) >> 20 }
    );
    // Chunk 0 is reserved.
    assert!(Region::make(chunks).is_err() && Region::make(chunks - 1).is_ok());
}

#[test]
fn what_no_region_can_have_is_reported_with_both_sizes() {
    let chunks = Region::of_process().bytes() / CHUNK_BYTES;
    let error = FramePool::in_region(chunks, 0, 0).err().expect("one chunk has no owner");
    assert_eq!(error, RegionError::Full { need: chunks * 2, have: Region::of_process().bytes() >> 20 });
    let words = error.to_string();
    assert!(words.contains("has no free block of"), "{words}");
    let error = Region::map((MOST_CHUNKS + 1) * CHUNK_BYTES, true).err().expect("too large");
    assert_eq!(
        error.to_string(),
        "131072 MiB of packet memory were requested, and a process can have at most 131072 MiB"
    );
}

#[test]
fn a_frame_lies_at_its_offset_from_the_base() {
    let mut pool = FramePool::new(3, 2).with_huge(1);
    let base = Region::of_process().base().addr().get();
    for size in FrameSize::ALL {
        let mut frame = pool.take(size).expect("one of each");
        assert_eq!(frame.as_ptr().addr() - base, frame.offset());
        assert_eq!((frame.offset() - frame.headroom()) % CHUNK_BYTES, 0, "{size:?}");
        frame.prepend(14).expect("headroom");
        assert_eq!(frame.as_ptr().addr() - base, frame.offset());
    }
}

proptest! {
    /// Ranges are taken and returned in any order: no chunk is handed out twice, and in the end all
    /// free chunks form one range again.
    #[test]
    fn ranges_are_taken_once_and_grow_together_again(steps in prop::collection::vec((any::<bool>(), 0_u32..40, any::<prop::sample::Index>()), 1..120)) {
        let all = Chunks { first: 1, count: 255 };
        let mut free = FreeRanges(vec![all]);
        let mut taken: Vec<Chunks> = Vec::new();
        for (takes, count, which) in steps {
            if takes || taken.is_empty() {
                let largest = free.0.iter().map(|range| range.count).max().unwrap_or(0);
                let got = free.take(count);
                prop_assert_eq!(got.is_some(), count <= largest);
                taken.extend(got);
            } else {
                free.give_back(taken.swap_remove(which.index(taken.len())));
            }
            let mut owners = [0; 256];
            for range in free.0.iter().chain(&taken) {
                (range.first..range.first + range.count).for_each(|chunk| owners[chunk as usize] += 1);
            }
            prop_assert!(owners[1..].iter().all(|owners| *owners == 1), "{:?}", owners);
        }
        taken.into_iter().for_each(|range| free.give_back(range));
        prop_assert_eq!(free.0, [all]);
    }
}
