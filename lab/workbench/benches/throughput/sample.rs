//! The whole path for a sampling profiler: while a gateway works, the thread is named after its
//! direction, so that samples of the two directions can be separated. `bench/instructions` runs
//! this under perf to attribute cycles.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use nix::sys::prctl::set_name;

use crate::path::{PathDirection, Rig, Setting, usual_engine};
use crate::time::{median, ticks};

/// Packets available at once: few enough that their frames stay in the L2 cache, many enough that
/// renaming the thread is rare.
pub(crate) const AT_HAND: usize = 256;

/// Runs for `length` and prints the ticks per packet of each direction, as medians over all passes.
///
/// # Panics
/// If packets are lost.
pub(crate) fn run(proposal: &str, bytes: usize, sas: usize, length: Duration) {
    let setting = Setting { link: AT_HAND, ..Setting::timed(proposal, bytes, sas) };
    let mut rig = Rig::new(&setting, &mut usual_engine);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..sas.max(AT_HAND).div_ceil(AT_HAND) {
        rig.pass(AT_HAND, [false; 2]);
    }
    let began = Instant::now();
    while began.elapsed() < length {
        rig.fill(AT_HAND);
        for way in PathDirection::ALL {
            name_thread(if way == PathDirection::Out { c"out" } else { c"in" });
            let began = ticks();
            rig.part(way, AT_HAND, false);
            times[way as usize].push((ticks() - began) as f64 / AT_HAND as f64);
        }
        name_thread(c"rest");
        rig.empty(AT_HAND);
    }
    let [out, inward] = times.map(median);
    println!("{out:.1} {inward:.1}");
}

fn name_thread(name: &CStr) {
    set_name(name).expect("a thread may name itself");
}
