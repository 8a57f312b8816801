//! Memory does not grow with the length of a trace. This test is alone in its file because the
//! counter covers the whole process.
#![allow(unsafe_code)]

#[path = "all/support/mod.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use convoy_sim::{Pattern, Simulation, StagePosition, StageSpec, SyntheticSpec};

struct Counting;

static ALLOCATED_BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED_BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: `place` came from `System`, with this layout.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED_BYTES.fetch_add(size as u64, Ordering::Relaxed);
        // SAFETY: `place` came from `System`, with this layout.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocated(simulation: &Simulation, packets: u64) -> u64 {
    let before = ALLOCATED_BYTES.load(Ordering::Relaxed);
    simulation.run_pattern(Pattern::Trace, &SyntheticSpec::default(), packets).expect("in range");
    ALLOCATED_BYTES.load(Ordering::Relaxed) - before
}

#[test]
fn ten_times_the_packets_allocate_no_more() {
    let mut with_stages = support::paper();
    let stage = |name: &str, place| StageSpec {
        name: name.to_owned(),
        place,
        packet_us: 1.0,
        ..StageSpec::default()
    };
    with_stages.stages = vec![stage("receive", StagePosition::Before), stage("send", StagePosition::After)];
    for platform in [support::paper(), with_stages] {
        let simulation = Simulation::new(platform);
        let [few, many] = [30_000, 300_000].map(|packets| allocated(&simulation, packets));
        // A buffer may still grow when a multi-packet is the longest so far.
        assert!(many < few + 4_096, "{few} {many}");
    }
}
