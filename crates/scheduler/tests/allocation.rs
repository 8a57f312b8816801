//! In steady state nothing is allocated. Alone in its file, because the counter covers the whole
//! process.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use convoy_scheduler::{
    CostModel, Dispatch, EngineModel, Input, Item, OrderedRelease, Scheduler, SchedulerConfig,
};

const SAS: u32 = 100;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: `place` came from `System`, with this layout.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `place` came from `System`, with this layout.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A loaded gateway: two engines with full queues, and packets of 100 SAs in order.
struct Loaded {
    scheduler: Scheduler<u32>,
    order: OrderedRelease<u32>,
    working: VecDeque<(u64, Dispatch<u32>)>,
    released: Vec<u32>,
}

impl Loaded {
    fn new(window: usize) -> Self {
        let engine = |is_cpu, t_init| EngineModel {
            name: String::new(),
            is_cpu,
            depth: 10,
            costs: vec![Some(CostModel { t_init, t_block: 3.0 })],
        };
        let config = SchedulerConfig { window, classes: 2, ..SchedulerConfig::default() };
        let scheduler = Scheduler::new(config, vec![engine(true, 10.0), engine(false, 50.0)]);
        Self {
            scheduler: scheduler.expect("in range"),
            order: OrderedRelease::new(),
            working: VecDeque::with_capacity(64),
            released: Vec::with_capacity(32_768),
        }
    }

    fn run(&mut self, sas: impl Iterator<Item = u32>) {
        for (now, sa) in (0..).zip(sas) {
            let item = Item { sa, algorithm: 0, class: (sa % 2) as u8, blocks: 4, bytes: 64, payload: sa };
            while self.scheduler.room_for(item.class) == 0 {
                self.complete_oldest(now);
                while let Some(dispatch) = self.scheduler.dispatch(now, Input::More) {
                    let first = self.order.admit(dispatch.sa, dispatch.items.len());
                    self.working.push_back((first, dispatch));
                }
            }
            assert!(self.scheduler.push(now, item).is_ok());
        }
    }

    fn complete_oldest(&mut self, now: u64) {
        let Some((first, mut dispatch)) = self.working.pop_front() else { return };
        self.scheduler.complete(now, dispatch.engine, dispatch.ticket, Some(40));
        self.order.complete(dispatch.sa, first, &mut dispatch.items, &mut self.released);
        self.released.clear();
        self.scheduler.recycle(dispatch.items);
    }
}

/// Packets of equally probable SAs.
fn mixed(packets: usize) -> impl Iterator<Item = u32> {
    let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    std::iter::successors(Some(1), next).map(|state: u32| (state >> 16) % SAS).take(packets)
}

#[test]
fn steady_state_allocates_nothing() {
    for window in [1, 32, 1024] {
        let mut loaded = Loaded::new(window);
        // Buffers keep the capacity that they once needed, so let every SA have its longest burst
        // first.
        loaded.run((0..SAS).flat_map(|sa| std::iter::repeat_n(sa, 30_000)));
        loaded.run(mixed(50_000));
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        loaded.run(mixed(200_000));
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0, "window {window}");
    }
}
