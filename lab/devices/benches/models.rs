//! The deviation of the model engine's times, as its caller observes them, from its parameters.

use convoy_devices::model::{Model, ModelTiming, SharedBus};
use convoy_engine::{BusTiming, IdleEngine, Rig};
use convoy_ipsec::Proposal;

/// The model's parameters against the times its caller observes, one multi-packet at a time.
fn model_accuracy() {
    let timing = ModelTiming::default();
    let bus = SharedBus::new(BusTiming::PCI).expect("a thread");
    let mut model = Model::new("model", timing, bus);
    let transform = "aes128gcm16".parse::<Proposal>().expect("a proposal").transform;
    println!("\nmodel engine, aes128gcm16: predicted against median measured, us");
    for (burst, bytes) in [(1, 64), (1, 1450), (8, 512), (32, 64), (32, 1450)] {
        let mut rig = Rig::new(&mut model, transform, burst, bytes);
        let blocks: f64 = rig.packets().iter().map(|packet| f64::from(packet.job.blocks())).sum();
        let moved: u32 = rig.packets().iter().map(|packet| u32::from(packet.job.cipher_len)).sum();
        let transfer_ns = BusTiming::PCI.t_cycle_ns * f64::from(1 + moved.div_ceil(4));
        let predicted = timing.t_init_ns + timing.t_block_ns * blocks + 2.0 * transfer_ns;
        let mut measured: Vec<u64> = (0..101).filter_map(|_| rig.run()).collect();
        measured.sort_unstable();
        let median = measured[measured.len() / 2] as f64;
        println!(
            "{burst:>3} x {bytes:>4} B: {:>9.2} {:>9.2}  {:+.1} %",
            predicted / 1e3,
            median / 1e3,
            (median / predicted - 1.0) * 100.0
        );
    }
    match IdleEngine::new(model).calibrate(transform) {
        Ok(cost) => {
            println!("calibrated: {:.0} ns + {:.1} ns a block", cost.model.t_init, cost.model.t_block)
        }
        Err(error) => println!("not calibrated: {error}"),
    }
}

fn main() {
    // A test run of the benchmarks only checks that they are built.
    if !std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        model_accuracy();
    }
}
