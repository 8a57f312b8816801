//! Packets a second of the simulator on the paper's platform.

use std::hint::black_box;

use convoy_sim::{Pattern, Platform, Simulation, SyntheticSpec};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const PACKETS: u64 = 500_000;

fn platform(window: usize, accelerators: usize) -> Platform {
    let text = include_str!("../../../platforms/pci-accelerators.toml");
    let mut platform = Platform::from_toml("pci-accelerators.toml", text).expect("the paper's platform");
    platform.scheduler.window = window;
    platform.set_accelerators(accelerators);
    platform
}

fn paper(c: &mut Criterion) {
    let mut group = c.benchmark_group("the paper's platform");
    group.throughput(Throughput::Elements(PACKETS)).sample_size(20);
    for (window, accelerators, pattern) in [
        (30, 1, Pattern::Trace),
        (30, 1, Pattern::Exponential),
        (1, 1, Pattern::Exponential),
        (30, 2, Pattern::Trace),
    ] {
        let simulation = Simulation::new(platform(window, accelerators));
        let spec = SyntheticSpec::paper(pattern);
        let name = format!("{pattern}, W = {window}, {accelerators} accelerators");
        group.bench_function(name, |b| {
            b.iter(|| black_box(simulation.run_pattern(pattern, &spec, PACKETS).expect("in range")));
        });
    }
    group.finish();
}

criterion_group!(benches, paper);
criterion_main!(benches);
