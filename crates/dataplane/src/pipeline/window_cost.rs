//! The cost on this machine of sorting a packet by its SA in the window.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

use convoy_ipsec::CryptoPacket;
use convoy_scheduler::{CostModel, EngineModel, Input, Item, Scheduler, SchedulerConfig};

/// Packets of a window, and the SAs that they alternate between.
const WINDOW: u32 = 32;
const SAS: u32 = 16;
/// Windows timed together, and the number of repetitions; the fastest counts.
const WINDOWS: u64 = 64;
const RUNS: usize = 16;

/// A payload of the size of a packet's record.
type RecordBytes = [u8; size_of::<CryptoPacket>()];

/// In ns; measured once per process, which takes about a millisecond.
pub fn window_cost_ns() -> f64 {
    static COST_NS: OnceLock<f64> = OnceLock::new();
    *COST_NS.get_or_init(|| (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min))
}

/// A packet's time in a run of windows, in ns.
fn run() -> f64 {
    let engine = EngineModel {
        name: String::new(),
        is_cpu: true,
        depth: 1,
        costs: vec![Some(CostModel { t_init: 100.0, t_block: 1.0 })],
    };
    let config = SchedulerConfig { window: WINDOW as usize, ..SchedulerConfig::default() };
    let Ok(mut scheduler) = Scheduler::<RecordBytes>::new(config, vec![engine]) else { return 0.0 };
    let began = Instant::now();
    for now in 0..WINDOWS {
        for packet in 0..WINDOW {
            let payload = black_box([0; size_of::<CryptoPacket>()]);
            let item = Item { sa: packet % SAS, algorithm: 0, class: 0, blocks: 8, bytes: 128, payload };
            let _ = scheduler.push(now, item);
        }
        while let Some(dispatch) = scheduler.dispatch(now, Input::Ended) {
            scheduler.complete(now, dispatch.engine, dispatch.ticket, None);
            scheduler.recycle(black_box(dispatch.items));
        }
    }
    began.elapsed().as_nanos() as f64 / (WINDOWS * u64::from(WINDOW)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_measured_once_and_is_some_time() {
        let cost_ns = window_cost_ns();
        println!("{cost_ns} ns");
        assert!(cost_ns > 1.0, "{cost_ns} ns");
        assert_eq!(window_cost_ns(), cost_ns);
    }
}
