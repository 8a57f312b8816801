//! Nanoseconds a packet for push, dispatch, complete and recycle, over 100 SAs with a saturated source; and for the
//! order of release. One CPU and three accelerators, whose queues are kept full.

use std::collections::VecDeque;
use std::hint::black_box;

use convoy_scheduler::{
    CostModel, EngineModel, Input, Item, OrderedRelease, Policy, Scheduler, SchedulerConfig,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const PACKETS: u64 = 10_000;

fn engines() -> Vec<EngineModel> {
    let engine = |at| EngineModel {
        name: String::new(),
        is_cpu: at == 0,
        depth: 10,
        costs: vec![Some(CostModel { t_init: 2_000.0, t_block: 556.5 })],
    };
    (0..4).map(engine).collect()
}

/// Packets of equiprobable SAs.
fn sas() -> Vec<u32> {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let states = std::iter::successors(Some(1), next);
    states.map(|state: u64| (state >> 33) as u32 % 100).take(PACKETS as usize).collect()
}

struct Source {
    scheduler: Scheduler<u32>,
    /// Engine, ticket and packets.
    working: VecDeque<(usize, u64, Vec<u32>)>,
    now: u64,
}

impl Source {
    fn new(policy: Policy, window: usize) -> Self {
        let config = SchedulerConfig { policy, window, ..SchedulerConfig::default() };
        let scheduler = Scheduler::new(config, engines()).expect("in range");
        Self { scheduler, working: VecDeque::with_capacity(128), now: 0 }
    }

    /// Feeds all packets through; whenever the queues are full the oldest multi-packet ends.
    fn run(&mut self, sas: &[u32]) {
        for sa in sas {
            while self.scheduler.room() == 0 {
                self.step();
            }
            let item = Item { sa: *sa, algorithm: 0, class: 0, blocks: 8, bytes: 104, payload: *sa };
            let _ = self.scheduler.push(self.now, item);
        }
    }

    fn step(&mut self) {
        if let Some(dispatch) = self.scheduler.dispatch(self.now, Input::More) {
            self.working.push_back((dispatch.engine, dispatch.ticket, dispatch.items));
            return;
        }
        let Some((engine, ticket, items)) = self.working.pop_front() else { return };
        self.now += 3_000;
        // As the simulator does: what it predicts is what happens, and corrects nothing.
        black_box(self.scheduler.complete(self.now, engine, ticket, None));
        self.scheduler.recycle(items);
    }
}

fn packet(c: &mut Criterion) {
    let sas = sas();
    let mut group = c.benchmark_group("push, dispatch, complete");
    group.throughput(Throughput::Elements(PACKETS));
    for window in [1, 32, 256] {
        let mut source = Source::new(Policy::FinishingTime, window);
        group.bench_function(format!("finishing-time, window {window}"), |b| b.iter(|| source.run(&sas)));
    }
    let mut source = Source::new(Policy::RoundRobin, 32);
    group.bench_function("round-robin, window 32", |b| b.iter(|| source.run(&sas)));
    group.finish();
}

fn order(c: &mut Criterion) {
    let sas = sas();
    let mut group = c.benchmark_group("admit, complete");
    group.throughput(Throughput::Elements(PACKETS));
    let mut order = OrderedRelease::new();
    let (mut indices, mut released) = (Vec::new(), Vec::new());
    group.bench_function("in order per SA, 32 at a time from the last", |b| {
        b.iter(|| {
            for burst in sas.chunks(32) {
                indices.extend(burst.iter().map(|sa| (*sa, order.admit(*sa))));
                while let Some((sa, index)) = indices.pop() {
                    order.complete(sa, index, Some(sa), &mut released);
                }
                black_box(&released);
                released.clear();
            }
        });
    });
    group.finish();
}

criterion_group!(benches, packet, order);
criterion_main!(benches);
