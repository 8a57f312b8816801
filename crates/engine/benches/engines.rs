//! Time per packet of every real engine for the main proposals at 64, 512 and 1450 bytes, in
//! multi-packets of 1 and of 32.

use std::time::Duration;

use convoy_engine::{Engine, Multibuffer, Rig, Software};
use convoy_ipsec::{Proposal, Transform};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

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

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
        .sample_size(20);
    targets = bench
}

criterion_main!(benches);
