//! Compares the simulator with a simple second implementation of its model
//! (docs/lab/simulator.md): lists, scans and sums, one event at a time, with its own window
//! and its own choice. Both must agree for every multi-packet, to the tick.

use convoy_scheduler::{DepthUnit, FullQueue};
use convoy_sim::{Packet, Platform, ProcessorKind, ProcessorSpec, Simulation};
use proptest::prelude::*;

use crate::support::{paper, processor};

/// A multi-packet as both implementations report it: processor, SA, scheduled, completed, `w`, `p`
/// and arrivals.
type Said = (usize, u32, u64, u64, u64, u64, Vec<u64>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Waiting {
    sa: u32,
    bytes: u64,
    arrived: u64,
}

#[derive(Clone, Debug)]
struct Multi {
    packets: Vec<Waiting>,
    scheduled: u64,
    w: u64,
    /// The expected time, and that at the core.
    p: u64,
    work: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    In,
    Compute,
    Out,
}

#[derive(Default)]
struct Unit {
    is_cpu: bool,
    t_init: f64,
    t_block: f64,
    depth: usize,
    /// How often a multi-packet crosses the bus, and how many crossings `p` includes.
    transfers: u64,
    predicted: u64,
    queue: Vec<Multi>,
    /// What is in service, since when, its phase, and when that phase ends; no end while it waits
    /// for the bus.
    service: Option<(Multi, u64, Phase, Option<u64>)>,
}

struct Plain {
    now: u64,
    window_size: usize,
    full_queue: FullQueue,
    depth_unit: DepthUnit,
    pool: usize,
    timeout: u64,
    byte_limit: u64,
    window_bytes: u64,
    window: Vec<Waiting>,
    units: Vec<Unit>,
    /// Units that have requested the bus, in order; the first one holds it.
    bus: Vec<usize>,
    requests: u64,
    conflicts: u64,
    source: Vec<(u32, u64)>,
    next_arrival: Option<u64>,
    /// The last instant at which the timeout expired and the scheduler was asked.
    asked: Option<u64>,
    said: Vec<Said>,
}

const BIT: u64 = 1_000;

fn transfer(bytes: u64) -> u64 {
    (1e6 / 66.0 * (1 + bytes.div_ceil(4)) as f64).round() as u64
}

impl Plain {
    fn new(platform: &Platform, traffic: &[Packet]) -> Self {
        let predicted = |of: &ProcessorSpec| match &of.bus {
            Some(_) if platform.scheduler.predicts_transfers => of.transfers.into(),
            _ => 0,
        };
        let unit = |is_cpu: bool, (init_ratio, enc_ratio): (f64, f64), depth, transfers, predicted| Unit {
            is_cpu,
            transfers,
            predicted,
            t_init: platform.reference.t_init_us * 1e6 * init_ratio,
            t_block: 128.0 / 230.0 * 1e6 * enc_ratio,
            depth,
            ..Unit::default()
        };
        let units = platform.processors.iter().flat_map(|of| {
            let is_cpu = of.kind == ProcessorKind::Cpu;
            let ratios = (of.init_ratio, of.enc_ratio);
            let predicted = predicted(of);
            (0..of.count).map(move |_| unit(is_cpu, ratios, of.depth, of.transfers.into(), predicted))
        });
        let mut source: Vec<_> =
            traffic.iter().map(|packet| (packet.sa, u64::from(packet.payload_bytes) + 40)).collect();
        source.reverse();
        Self {
            now: 0,
            window_size: platform.scheduler.window,
            full_queue: platform.scheduler.full_queue.parse().expect("a rule"),
            depth_unit: platform.scheduler.depth_unit.parse().expect("a unit"),
            pool: platform.scheduler.pool.unwrap_or(usize::MAX),
            timeout: (platform.scheduler.max_wait_us * 1e6) as u64,
            byte_limit: platform.scheduler.byte_limit.map_or(u64::MAX, u64::from),
            window_bytes: platform.scheduler.window_bytes.unwrap_or(u64::MAX),
            window: Vec::new(),
            units: units.collect(),
            bus: Vec::new(),
            requests: 0,
            conflicts: 0,
            next_arrival: source.last().map(|packet| packet.1 * 8 * BIT),
            source,
            asked: None,
            said: Vec::new(),
        }
    }

    fn run(mut self) -> Self {
        loop {
            let ends =
                self.units.iter().filter_map(|unit| unit.service.as_ref().and_then(|service| service.3));
            let timeout = self.window.first().map(|first| first.arrived + self.timeout);
            // Events that end at the same instant are handled first, and must not hide the timeout.
            let is_to_come = |at: u64| at > self.now || at == self.now && self.asked != Some(at);
            let timeout = timeout.filter(|timeout| self.timeout > 0 && is_to_come(*timeout));
            let Some(next) = ends.chain(self.next_arrival).chain(timeout).min() else { return self };
            self.now = next;
            // The scheduler is asked after an arrival, a completion and a timeout.
            if self.one_event(timeout == Some(next)) {
                self.dispatch();
            }
            // The source's clock restarts as soon as there is room.
            if self.next_arrival.is_none() && !self.is_full() {
                self.next_arrival = self.source.last().map(|packet| self.now + packet.1 * 8 * BIT);
            }
        }
    }

    /// Handles one of the events that are due now: the end of a transfer, otherwise of a
    /// computation, otherwise the timeout, which only asks the scheduler, otherwise an arrival.
    /// Returns whether the scheduler is to be asked.
    fn one_event(&mut self, is_timeout: bool) -> bool {
        let now = self.now;
        let due = |unit: &Unit, transfers: bool| {
            let service = unit.service.as_ref();
            let with_bus = |phase: Phase| phase != Phase::Compute;
            service.is_some_and(|(_, _, phase, end)| *end == Some(now) && with_bus(*phase) == transfers)
        };
        if let Some(at) = self.units.iter().position(|unit| due(unit, true)) {
            return self.transfer_ended(at);
        } else if let Some(at) = self.units.iter().position(|unit| due(unit, false)) {
            if self.units[at].is_cpu || self.units[at].transfers == 1 {
                self.complete(at);
            } else {
                self.ask_for_bus(at, Phase::Out);
                return false;
            }
        } else if is_timeout {
            self.asked = Some(now);
        } else if self.next_arrival == Some(now) {
            let (sa, bytes) = self.source.pop().expect("it arrives");
            self.window.push(Waiting { sa, bytes, arrived: now });
            self.next_arrival = None;
        }
        true
    }

    fn transfer_ended(&mut self, at: usize) -> bool {
        assert_eq!(self.bus.remove(0), at);
        if let Some(next) = self.bus.first().copied() {
            self.hold_bus(next);
        }
        let service = self.units[at].service.as_mut().expect("in service");
        match service.2 {
            Phase::In => {
                (service.2, service.3) = (Phase::Compute, Some(self.now + service.0.work));
                false
            }
            Phase::Out => {
                self.complete(at);
                true
            }
            Phase::Compute => unreachable!("no transfer"),
        }
    }

    fn ask_for_bus(&mut self, at: usize, phase: Phase) {
        let service = self.units[at].service.as_mut().expect("in service");
        (service.2, service.3) = (phase, None);
        self.requests += 1;
        self.conflicts += u64::from(!self.bus.is_empty());
        self.bus.push(at);
        if self.bus.len() == 1 {
            self.hold_bus(at);
        }
    }

    fn hold_bus(&mut self, at: usize) {
        let service = self.units[at].service.as_mut().expect("in service");
        let bytes = service.0.packets.iter().map(|packet| packet.bytes).sum();
        service.3 = Some(self.now + transfer(bytes));
    }

    fn start(&mut self, at: usize) {
        if self.units[at].service.is_some() || self.units[at].queue.is_empty() {
            return;
        }
        let multi = self.units[at].queue.remove(0);
        let end = Some(self.now + multi.work);
        self.units[at].service = Some((multi, self.now, Phase::Compute, end));
        if !self.units[at].is_cpu {
            self.ask_for_bus(at, Phase::In);
        }
    }

    fn complete(&mut self, at: usize) {
        let (multi, ..) = self.units[at].service.take().expect("in service");
        let arrivals = multi.packets.iter().map(|packet| packet.arrived).collect();
        self.said.push((at, multi.packets[0].sa, multi.scheduled, self.now, multi.w, multi.work, arrivals));
        self.start(at);
    }

    fn is_full(&self) -> bool {
        let bytes: u64 = self.window.iter().map(|packet| packet.bytes).sum();
        self.window.len() == self.window_size || bytes >= self.window_bytes
    }

    /// Packets in queues and in service.
    fn at_units(&self) -> usize {
        let of = |unit: &Unit| {
            let waiting: usize = unit.queue.iter().map(|multi| multi.packets.len()).sum();
            waiting + unit.service.as_ref().map_or(0, |(multi, ..)| multi.packets.len())
        };
        self.units.iter().map(of).sum()
    }

    /// What a multi-packet takes of a depth.
    fn size(&self, packets: &[Waiting]) -> usize {
        match self.depth_unit {
            DepthUnit::MultiPackets => 1,
            DepthUnit::Packets => packets.len(),
            DepthUnit::Bytes => packets.iter().map(|packet| packet.bytes as usize).sum(),
        }
    }

    /// Whether a multi-packet may be queued at a unit; one that is larger than the depth may wait
    /// alone.
    fn has_room(&self, unit: &Unit, group: &[Waiting]) -> bool {
        let waiting: usize = unit.queue.iter().map(|multi| self.size(&multi.packets)).sum();
        unit.service.is_none()
            || match waiting {
                0 => unit.depth > 0,
                _ => waiting + self.size(group) <= unit.depth,
            }
    }

    /// Rules 1 to 3.
    fn dispatch(&mut self) {
        while let Some(first) = self.window.first().copied() {
            let bytes: u64 = self.window.iter().map(|packet| packet.bytes).sum();
            let is_due = self.is_full()
                || self.timeout > 0 && self.now >= first.arrived + self.timeout
                || bytes >= self.byte_limit
                || self.source.is_empty();
            if !is_due || self.at_units() >= self.pool {
                return;
            }
            let mut group: Vec<Waiting> = Vec::new();
            for packet in self.window.iter().filter(|packet| packet.sa == first.sa) {
                let bytes: u64 = group.iter().map(|packet| packet.bytes).sum();
                if !group.is_empty() && bytes + packet.bytes > self.byte_limit {
                    break;
                }
                group.push(*packet);
            }
            let blocks: u64 = group.iter().map(|packet| packet.bytes.div_ceil(16)).sum();
            let skips = self.full_queue == FullQueue::Skip;
            let units = self.units.iter().enumerate();
            let choice = units.filter(|(_, unit)| !skips || self.has_room(unit, &group));
            let choice = choice.map(|(at, unit)| {
                // A crossing takes the address cycle and four cycles for each block.
                let cycles = unit.predicted as f64 * 1e6 / 66.0;
                let (t_init, t_block) = (unit.t_init + cycles, unit.t_block + cycles * 4.0);
                let p = (t_init + t_block * blocks as f64).round() as u64;
                let q: u64 = unit.queue.iter().map(|multi| multi.p).sum();
                let r = unit
                    .service
                    .as_ref()
                    .map_or(0, |(multi, since, ..)| (since + multi.p).saturating_sub(self.now));
                // The lowest f; on a tie the fastest accelerator, then the following ones, then the
                // CPU.
                (q + r + p, unit.is_cpu, p, at, q + r)
            });
            let Some((_, _, p, at, w)) = choice.min() else { return };
            if !self.has_room(&self.units[at], &group) {
                return;
            }
            self.window.retain(|packet| !group.contains(packet));
            let unit = &mut self.units[at];
            let work = (unit.t_init + unit.t_block * blocks as f64).round() as u64;
            unit.queue.push(Multi { packets: group, scheduled: self.now, w, p, work });
            self.start(at);
        }
    }
}

fn simulated(platform: &Platform, traffic: &[Packet]) -> (Vec<Said>, u64, u64) {
    let mut said = Vec::new();
    let mut observer = |served: &convoy_sim::Served<'_>| {
        said.push((
            served.processor,
            served.sa,
            served.scheduled_ticks,
            served.completed_ticks,
            served.predicted_wait_ticks,
            served.processing_ticks,
            served.packets.iter().map(|packet| packet.arrived_ticks).collect(),
        ));
    };
    let traffic = traffic.to_vec();
    let simulation = Simulation::new(platform.clone());
    let report = simulation.run_observed(traffic.into_iter(), &mut observer).expect("in range");
    (said, report.buses[0].requests, report.buses[0].conflicts)
}

fn traffic() -> impl Strategy<Value = Vec<Packet>> {
    // Half of the cases have few sizes, so that events coincide.
    let bytes = prop_oneof![Just(0u32), Just(24), Just(472), 0u32..1460];
    let packet =
        (bytes, 0u32..6).prop_map(|(payload_bytes, sa)| Packet { payload_bytes, sa, ..Packet::default() });
    proptest::collection::vec(packet, 0..120)
}

fn platforms() -> impl Strategy<Value = Platform> {
    let timeout = prop_oneof![Just(0.0), (1u32..40).prop_map(f64::from)];
    let byte_limit = prop_oneof![Just(None), (40u32..3000).prop_map(Some)];
    let window_bytes = prop_oneof![2 => Just(None), 1 => (40u64..3000).prop_map(Some)];
    let ratio = prop_oneof![Just(1.0), Just(3.0), 0.5f64..8.0];
    let rules =
        (prop::sample::select(FullQueue::ALL.to_vec()), prop::sample::select(DepthUnit::ALL.to_vec()));
    let pool = prop_oneof![2 => Just(None), 1 => (1usize..40).prop_map(Some)];
    let rules = (rules, pool, 1u32..3, any::<bool>());
    (0usize..4, 1usize..12, 0usize..9, ratio, timeout, (byte_limit, window_bytes), rules).prop_map(
        |(accelerators, window, depth, ratio, timeout, bytes, rules)| {
            let ((full_queue, depth_unit), pool, transfers, predicts_transfers) = rules;
            let mut platform = paper();
            platform.set_accelerators(accelerators);
            platform.scheduler.window = window;
            platform.scheduler.max_wait_us = timeout;
            platform.scheduler.full_queue = full_queue.to_string();
            platform.scheduler.depth_unit = depth_unit.to_string();
            (platform.scheduler.pool, platform.scheduler.predicts_transfers) = (pool, predicts_transfers);
            (platform.scheduler.byte_limit, platform.scheduler.window_bytes) = bytes;
            platform.set_enc_ratio(ratio);
            // An accelerator of another speed, in addition to the identical ones.
            let mut other = processor("other", ProcessorKind::Accelerator, Some("pci"));
            (other.enc_ratio, other.count) = (0.5, accelerators % 2);
            platform.processors.push(other);
            platform.processors[1..].iter_mut().for_each(|accelerator| accelerator.transfers = transfers);
            platform.set_depth(if depth_unit == DepthUnit::Bytes { depth * 500 } else { depth });
            platform
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(8_000) })]

    #[test]
    fn multi_packet_for_multi_packet_as_the_model_says(platform in platforms(), traffic in traffic()) {
        let plain = Plain::new(&platform, &traffic).run();
        let (said, requests, conflicts) = simulated(&platform, &traffic);
        for (at, (simulated, plain)) in said.iter().zip(&plain.said).enumerate() {
            prop_assert_eq!(simulated, plain, "multi-packet {}", at);
        }
        prop_assert_eq!(said.len(), plain.said.len());
        prop_assert_eq!((requests, conflicts), (plain.requests, plain.conflicts));
    }
}
