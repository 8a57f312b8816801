//! Nanoseconds a packet: push, dispatch and complete, over 100 SAs and four engines.

use std::hint::black_box;

use convoy_scheduler::{CostModel, EngineModel, Input, Item, Scheduler, SchedulerConfig};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const PACKETS: u64 = 10_000;

fn engines() -> Vec<EngineModel> {
    (0..4)
        .map(|at| EngineModel {
            name: String::new(),
            is_cpu: at == 0,
            depth: 10,
            costs: vec![Some(CostModel { t_init: 2_000.0, t_block: 556.5 })],
        })
        .collect()
}

fn run(scheduler: &mut Scheduler<u32>, sas: &[u32]) {
    let mut sas = sas.iter();
    let mut input = Input::More;
    let mut now = 0;
    loop {
        while scheduler.room() > 0 {
            let Some(sa) = sas.next() else {
                input = Input::Ended;
                break;
            };
            let item = Item { sa: *sa, algorithm: 0, class: 0, blocks: 8, bytes: 104, payload: *sa };
            let _ = scheduler.push(now, item);
        }
        let Some(dispatch) = scheduler.dispatch(now, input) else { break };
        now += 1;
        scheduler.complete(now, dispatch.engine, dispatch.ticket, None);
        scheduler.recycle(black_box(dispatch.items));
    }
}

fn scheduler(c: &mut Criterion) {
    let sas: Vec<u32> = (0..PACKETS as u32).map(|k| k.wrapping_mul(2_654_435_761) % 100).collect();
    let mut group = c.benchmark_group("scheduler");
    group.throughput(Throughput::Elements(PACKETS));
    for window in [1, 32, 256] {
        let config = SchedulerConfig { window, ..SchedulerConfig::default() };
        let mut scheduler = Scheduler::new(config, engines()).expect("in range");
        group.bench_function(format!("window {window}, 100 SAs, 4 engines"), |b| {
            b.iter(|| run(&mut scheduler, &sas))
        });
    }
    group.finish();
}

criterion_group!(benches, scheduler);
criterion_main!(benches);
