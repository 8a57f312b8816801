//! Both halves of a ring, in every order that loom finds. The kernel's half of a real one has the
//! same loads and stores (net/xdp/xsk_queue.h).

use std::mem::ManuallyDrop;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use super::*;

/// More than the ring has places.
const ENTRIES: u32 = 3;

/// The memory of a ring.
struct RingMemory {
    producer: AtomicU32,
    consumer: AtomicU32,
    flags: AtomicU32,
    entries: std::cell::UnsafeCell<[u32; RING as usize]>,
    witnesses: [UnsafeCell<()>; RING as usize],
}

// SAFETY: an entry is accessed with its witness, by which loom checks that it is one side's.
unsafe impl Sync for RingMemory {}
// SAFETY: as above.
unsafe impl Send for RingMemory {}

impl RingMemory {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            producer: AtomicU32::new(0),
            consumer: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            entries: std::cell::UnsafeCell::new([0; RING as usize]),
            witnesses: std::array::from_fn(|_| UnsafeCell::new(())),
        })
    }

    /// One side's ring, which must not unmap this memory.
    fn side(&self) -> ManuallyDrop<Ring<u32>> {
        ManuallyDrop::new(Ring {
            producer: (&self.producer).into(),
            consumer: (&self.consumer).into(),
            flags: (&self.flags).into(),
            entries: NonNull::new(self.entries.get()).expect("it is a field").cast(),
            own: 0,
            other: 0,
            mapping: (NonNull::dangling(), 0),
            witnesses: NonNull::from(&self.witnesses).cast(),
        })
    }
}

#[test]
fn entries_pass_a_ring_that_is_full_in_order_and_whole() {
    loom::model(|| {
        let memory = RingMemory::new();
        let kernel = thread::spawn({
            let memory = Arc::clone(&memory);
            move || {
                let mut side = memory.side();
                let mut taken = Vec::new();
                while taken.len() < ENTRIES as usize {
                    let filled = side.filled();
                    taken.extend((0..filled).map(|_| side.take()));
                    side.publish_taken();
                    thread::yield_now();
                }
                taken
            }
        });
        let mut side = memory.side();
        for entry in 0..ENTRIES {
            while side.room(1) == 0 {
                thread::yield_now();
            }
            side.put(entry);
            side.publish_put();
        }
        assert_eq!(kernel.join().expect("it takes all"), [0, 1, 2]);
    });
}

#[test]
fn entry_that_is_seen_can_be_taken() {
    loom::model(|| {
        let memory = RingMemory::new();
        let kernel = thread::spawn({
            let memory = Arc::clone(&memory);
            move || {
                let mut side = memory.side();
                side.put(7);
                side.publish_put();
            }
        });
        let mut side = memory.side();
        if side.is_filled() {
            assert_eq!((side.filled(), side.take()), (1, 7));
        }
        kernel.join().expect("it puts an entry");
    });
}
