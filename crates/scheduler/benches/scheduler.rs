//! Nanoseconds a packet for push, dispatch, complete and recycle over 1 and 100 SAs with a
//! saturated source, with the order of release and without; and for the order alone. One CPU and
//! three accelerators, whose queues are kept full.
//!
//! For instructions, which no other load changes, with the newest of `target/release/deps`:
//! `valgrind --tool=callgrind --toggle-collect='*Source::run*' scheduler-* count 32 100`, with the
//! window and the SAs; a third word `ordered` adds the order, and the name of a policy takes
//! engines that differ.

use std::collections::VecDeque;
use std::hint::black_box;

use convoy_scheduler::{
    CostModel, Dispatch, EngineModel, Input, Item, OrderedRelease, Scheduler, SchedulerConfig,
    SchedulingPolicy,
};
use criterion::{Criterion, Throughput, criterion_group};

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

/// Packets of this many equiprobable SAs.
fn sas(count: u32) -> Vec<u32> {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let states = std::iter::successors(Some(1), next);
    states.map(|state: u64| (state >> 33) as u32 % count).take(PACKETS as usize).collect()
}

/// As large as a packet's record in the gateway.
struct Packet {
    _job: [u64; 12],
}

struct Source {
    scheduler: Scheduler<Packet>,
    order: Option<OrderedRelease<Packet>>,
    /// Each with its position in the order.
    working: VecDeque<(u64, Dispatch<Packet>)>,
    released: Vec<Packet>,
    now: u64,
}

impl Source {
    fn new(policy: SchedulingPolicy, window: usize, is_ordered: bool) -> Self {
        let config = SchedulerConfig { policy, window, ..SchedulerConfig::default() };
        let scheduler = Scheduler::new(config, engines()).expect("in range");
        let order = is_ordered.then(OrderedRelease::new);
        Self { scheduler, order, working: VecDeque::with_capacity(128), released: Vec::new(), now: 0 }
    }

    /// `software` and `multibuffer` on another core, with the costs of
    /// docs/lab/results/engine-costs.csv: engines that differ, as a policy meets them.
    fn unlike(policy: SchedulingPolicy, window: usize) -> Self {
        let engine = |(is_cpu, t_init, t_block)| EngineModel {
            name: String::new(),
            is_cpu,
            depth: 64,
            costs: vec![Some(CostModel { t_init, t_block })],
        };
        let engines = [(true, 251.0, 42.2), (false, 1_037.0, 7.0)].map(engine).to_vec();
        let config = SchedulerConfig { policy, window, ..SchedulerConfig::default() };
        let scheduler = Scheduler::new(config, engines).expect("in range");
        Self { scheduler, ..Self::new(policy, window, false) }
    }

    /// Feeds all packets through; whenever the queues are full the oldest multi-packet completes.
    #[inline(never)]
    fn run(&mut self, sas: &[u32]) {
        for sa in sas {
            while self.scheduler.room() == 0 {
                self.step();
            }
            let payload = Packet { _job: [0; 12] };
            let item = Item { sa: *sa, algorithm: 0, class: 0, blocks: 8, bytes: 104, payload };
            let _ = self.scheduler.push(self.now, item);
        }
    }

    fn step(&mut self) {
        if let Some(dispatch) = self.scheduler.dispatch(self.now, Input::More) {
            let admit = |order: &mut OrderedRelease<_>| order.admit(dispatch.sa, dispatch.items.len());
            let place = self.order.as_mut().map_or(0, admit);
            return self.working.push_back((place, dispatch));
        }
        let Some((place, Dispatch { engine, ticket, sa, mut items, .. })) = self.working.pop_front() else {
            return;
        };
        self.now += 3_000;
        // As in the simulator: predictions are exact, and nothing is corrected.
        black_box(self.scheduler.complete(self.now, engine, ticket, None));
        if let Some(order) = &mut self.order {
            order.complete(sa, place, &mut items, &mut self.released);
            self.released.clear();
        }
        self.scheduler.recycle(items);
    }
}

fn packet(c: &mut Criterion) {
    let mut group = c.benchmark_group("push, dispatch, complete");
    group.throughput(Throughput::Elements(PACKETS));
    for (is_ordered, count, window) in
        [(false, 1, 32), (false, 100, 1), (false, 100, 32), (false, 100, 256), (true, 1, 32), (true, 100, 32)]
    {
        let sas = sas(count);
        let mut source = Source::new(SchedulingPolicy::FinishingTime, window, is_ordered);
        let order = if is_ordered { ", with order" } else { "" };
        let name = format!("finishing-time, window {window}, {count} SAs{order}");
        group.bench_function(name, |b| b.iter(|| source.run(&sas)));
    }
    for (policy, count) in [SchedulingPolicy::FinishingTime, SchedulingPolicy::Sufferage]
        .into_iter()
        .flat_map(|of| [1, 100, 10_000].map(|count| (of, count)))
    {
        let sas = sas(count);
        let mut source = Source::unlike(policy, 32);
        let name = format!("unlike engines, {policy}, window 32, {count} SAs");
        group.bench_function(name, |b| b.iter(|| source.run(&sas)));
    }
    group.finish();
}

fn order(c: &mut Criterion) {
    let sas = sas(100);
    let mut group = c.benchmark_group("admit, complete");
    group.throughput(Throughput::Elements(PACKETS));
    let mut order = OrderedRelease::new();
    let (mut indices, mut released) = (Vec::new(), Vec::new());
    group.bench_function("in order per SA, 32 at a time from the last", |b| {
        b.iter(|| {
            for burst in sas.chunks(32) {
                indices.extend(burst.iter().map(|sa| (*sa, order.admit(*sa, 1))));
                while let Some((sa, index)) = indices.pop() {
                    order.complete(sa, index, &mut vec![sa], &mut released);
                }
                black_box(&released);
                released.clear();
            }
        });
    });
    group.finish();
}

/// Runs the packets of a benchmark once, for callgrind to count.
fn count(window: &str, sas_count: &str, is_ordered: bool) {
    let (window, count) = (window.parse().expect("a window"), sas_count.parse().expect("a number of SAs"));
    let sas = sas(count);
    Source::new(SchedulingPolicy::FinishingTime, window, is_ordered).run(&sas);
    println!("{} packets", sas.len());
}

/// The count with engines that differ, under a policy.
fn count_unlike(window: &str, sas_count: &str, policy: &str) {
    let (window, count) = (window.parse().expect("a window"), sas_count.parse().expect("a number of SAs"));
    let sas = sas(count);
    Source::unlike(policy.parse().expect("a policy"), window).run(&sas);
    println!("{} packets", sas.len());
}

criterion_group!(benches, packet, order);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["count", window, sas] => count(window, sas, false),
        ["count", window, sas, "ordered"] => count(window, sas, true),
        ["count", window, sas, policy] => count_unlike(window, sas, policy),
        _ => {
            benches();
            Criterion::default().configure_from_args().final_summary();
        }
    }
}
