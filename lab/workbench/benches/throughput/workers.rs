//! What a second worker adds: packets a second through two gateways in memory, with one and two
//! workers on a core each. A thread has a worker of each gateway, so that both do the same work;
//! packets come to any worker, as flows do. Cases take turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use convoy_assembly::assemble;
use convoy_config::Config;
use convoy_dataplane::clock::Clock;
use convoy_dataplane::handoff::Handoff;
use convoy_dataplane::pipeline::PipelineResources;
use convoy_dataplane::worker::Worker;
use convoy_ipsec::Directory;
use convoy_packet::{Frame, FramePool};
use convoy_port::Port;
use convoy_port::memory::{self, Memory};
use convoy_scheduler::CostModel;
use convoy_state::Starts;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::headers::Headers;
use crate::path::{MTU, Setting, site, udp_packet, usual_engine};
use crate::report::{row, table};
use crate::time::median;

const PROPOSAL: &str = "aes128gcm16";
const BYTES: [usize; 2] = [64, 1450];
/// Tunnels, and the workers of which each has SAs.
const CASES: [(usize, u16); 4] = [(1, 1), (1, 2), (100, 1), (100, 2)];
/// Turns of each case.
const TURNS: usize = 11;
const TURN: Duration = Duration::from_millis(200);
/// Packets that a thread sends at once, and that its links hold.
const BURST: usize = 32;
const LINK_PACKETS: usize = 512;

/// Prints the table.
pub(crate) fn report() {
    let columns =
        ["bytes", "tunnels", "SAs of", "one worker, Mpps", "two, Mpps", "ratio", "handed over, of two"];
    let title = format!("Workers: million packets a second through both gateways, medians of {TURNS} turns");
    table(&title, &columns.map(str::to_owned));
    for bytes in BYTES {
        for (tunnels, resources) in CASES {
            case(bytes, tunnels, resources);
        }
    }
}

fn case(bytes: usize, tunnels: usize, resources: u16) {
    let mut rates = [Vec::new(), Vec::new()];
    let mut handed = 0.0;
    for _ in 0..TURNS {
        for (rates, workers) in rates.iter_mut().zip([1, 2]) {
            let (packets, handed_over) = turn(bytes, tunnels, resources, workers);
            rates.push(packets as f64 / TURN.as_secs_f64() / 1e6);
            handed = handed_over as f64 / packets.max(1) as f64;
        }
    }
    let [one, two] = rates.map(median);
    row(&[
        bytes.to_string(),
        tunnels.to_string(),
        if resources == 1 { "one worker" } else { "both workers" }.to_owned(),
        format!("{one:.2}"),
        format!("{two:.2}"),
        format!("{:.2}", two / one),
        format!("{:.0} %", 100.0 * handed),
    ]);
}

/// Has so many workers pass packets for a time; returns how many came out, and how many changed
/// their worker.
fn turn(bytes: usize, tunnels: usize, resources: u16, workers: u16) -> (u64, u64) {
    let lanes = lanes(bytes, tunnels, resources, workers);
    let (is_over, has_begun) = (AtomicBool::new(false), std::sync::Barrier::new(lanes.len() + 1));
    std::thread::scope(|scope| {
        let (is_over, has_begun) = (&is_over, &has_begun);
        let threads: Vec<_> = (0..)
            .zip(lanes)
            .map(|(core, mut lane)| {
                scope.spawn(move || {
                    pin(core);
                    has_begun.wait();
                    let before = lane.arrived;
                    while !is_over.load(Ordering::Relaxed) {
                        lane.step();
                    }
                    (lane.arrived - before, lane.workers.iter().map(Worker::handed_over).sum::<u64>())
                })
            })
            .collect();
        has_begun.wait();
        let began = Instant::now();
        std::thread::sleep(TURN.saturating_sub(began.elapsed()));
        is_over.store(true, Ordering::Relaxed);
        let counts = threads.into_iter().map(|thread| thread.join().expect("no packet is lost for good"));
        counts.fold((0, 0), |all, lane| (all.0 + lane.0, all.1 + lane.1))
    })
}

/// Without a core of its own, a thread shares one; the figures then show it.
fn pin(core: usize) {
    let mut cores = CpuSet::new();
    if cores.set(core).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &cores);
    }
}

/// One thread's part: a worker of each gateway, and a source and a sink at the outer ends.
struct Lane {
    workers: [Worker; 2],
    source: Memory,
    sink: Memory,
    pool: FramePool,
    packets: Vec<Vec<u8>>,
    next: usize,
    burst: Vec<Frame>,
    /// Packets that came out; empty between steps.
    out: Vec<Frame>,
    arrived: u64,
}

impl Lane {
    /// Sends what there is room for, lets both workers work, and takes what has come.
    fn step(&mut self) {
        while self.burst.len() < BURST {
            let Some(frame) = self.pool.take_filled(&self.packets[self.next], 64) else { break };
            self.burst.push(frame);
            self.next = (self.next + 1) % self.packets.len();
        }
        self.source.send(&mut self.pool, &mut self.burst).expect("a link does not fail");
        for worker in &mut self.workers {
            worker.round(true).expect("a link does not fail");
        }
        let came =
            self.sink.receive(&mut self.pool, LINK_PACKETS, &mut self.out).expect("a link does not fail");
        self.arrived += came as u64;
        self.pool.give_back_burst(&mut self.out);
    }
}

/// A lane for each worker of two gateways.
fn lanes(bytes: usize, tunnels: usize, resources: u16, workers: u16) -> Vec<Lane> {
    let setting = Setting { workers, resources, ..Setting::timed(PROPOSAL, bytes, tunnels) };
    let mut gateways = [1, 2].map(|number| gateway(&site(&setting, number)).into_iter());
    let mut lanes = Vec::new();
    for _ in 0..workers {
        let (source, inside_a) = memory::link("source", "inside", LINK_PACKETS, MTU);
        let (outside_a, outside_b) = memory::link("outside", "outside", LINK_PACKETS, MTU);
        let (inside_b, sink) = memory::link("inside", "sink", LINK_PACKETS, MTU);
        let ends = [(inside_a, outside_a), (inside_b, outside_b)];
        let mut ends = ends.into_iter().zip(&mut gateways).map(|((inside, outside), gateway)| {
            let (pipeline, handoff) = gateway.next().expect("one for each worker");
            Worker::new(pipeline, vec![Box::new(inside)], vec![Box::new(outside)]).among(handoff)
        });
        let workers = [ends.next().expect("the first gateway"), ends.next().expect("the second")];
        drop(ends);
        let packets =
            (0..tunnels).map(|at| udp_packet(Headers::default(), bytes, at * 7_919 % tunnels)).collect();
        let pool = FramePool::new(2 * LINK_PACKETS, 0);
        lanes.push(Lane {
            workers,
            source,
            sink,
            pool,
            packets,
            next: 0,
            burst: Vec::new(),
            out: Vec::new(),
            arrived: 0,
        });
    }
    lanes
}

/// The pipelines of a gateway's workers, with their ends of the rings between them.
fn gateway(config: &Config) -> Vec<(convoy_dataplane::pipeline::Pipeline, Handoff)> {
    let mut costs = assemble::costs();
    costs.set_fixed("engine", CostModel { t_init: 100.0, t_block: 5.0 });
    let (clock, directory) = (Clock::start(), Arc::new(Directory::new(config.workers)));
    let handoffs = Handoff::between(usize::from(config.workers)).expect("an eventfd for each");
    let worker = |(number, handoff)| {
        let resources =
            PipelineResources { directory: Arc::clone(&directory), ..PipelineResources::from(clock.clone()) };
        let engines = vec![usual_engine()];
        let made = assemble::pipeline(config, number, engines, &costs, resources, &Starts::Unlimited);
        (made.expect("a good configuration").0, handoff)
    };
    (0..config.workers).zip(handoffs).map(worker).collect()
}
