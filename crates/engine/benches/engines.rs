//! Time per packet of every real engine for the main proposals at 64, 512 and 1450 bytes, in
//! multi-packets of 1 and of 32; then the deviation of the model engine's times from its
//! parameters.

use std::time::Duration;

use convoy_engine::{
    BusTiming, Engine, IdleEngine, Model, ModelTiming, Multibuffer, Rig, SharedBus, Software,
};
use convoy_ipsec::{Proposal, Transform};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};

const PROPOSALS: [&str; 7] = [
    "aes128gcm16",
    "aes256gcm16",
    "chacha20poly1305",
    "aes128gmac",
    "aes128-sha1",
    "aes128-sha256",
    "aes128ctr-sha256",
];
const BYTES: [usize; 3] = [64, 512, 1450];
const BURSTS: [usize; 2] = [1, 32];

/// The available engines with real times.
fn engines() -> Vec<Box<dyn Engine>> {
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("software"))];
    match Multibuffer::inline("multibuffer") {
        Ok(engine) => engines.push(Box::new(engine)),
        Err(error) => println!("without multibuffer: {error}"),
    }
    engines
}

fn transform(proposal: &str) -> Transform {
    proposal.parse::<Proposal>().expect("a proposal of the list").transform
}

fn bench(c: &mut Criterion) {
    for mut engine in engines() {
        let mut group = c.benchmark_group(&engine.description().name);
        for proposal in PROPOSALS {
            let transform = transform(proposal);
            if !engine.description().transforms.contains(&transform) {
                continue;
            }
            for (burst, bytes) in BURSTS.into_iter().flat_map(|burst| BYTES.map(|bytes| (burst, bytes))) {
                let mut rig = Rig::new(engine.as_mut(), transform, burst, bytes);
                group.throughput(Throughput::Elements(burst as u64));
                group.bench_function(BenchmarkId::new(format!("{proposal}/{bytes}"), burst), |bencher| {
                    bencher.iter(|| rig.run());
                });
            }
        }
    }
}

/// The model's parameters against the times its caller observes, one multi-packet at a time.
fn model_accuracy() {
    let timing = ModelTiming::default();
    let bus = SharedBus::new(BusTiming::PCI).expect("a thread");
    let mut model = Model::new("model", timing, bus);
    let transform = transform("aes128gcm16");
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

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
        .sample_size(20);
    targets = bench
}

fn main() {
    benches();
    // A test run of the benchmarks only checks that they run.
    if !std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        model_accuracy();
    }
    Criterion::default().configure_from_args().final_summary();
}
