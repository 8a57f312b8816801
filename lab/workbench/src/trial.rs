//! One run of the two gateways with one rule and one window.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use convoy_assembly::assemble;
use convoy_dataplane::costs::Costs;
use convoy_dataplane::pipeline::{Clock, EngineEvent, Health, SlotCounters};
use convoy_dataplane::worker::{Side, Worker, WorkerEvent};
use convoy_port::{Port, PortCounters, memory};
use convoy_scheduler::EngineSnapshot;
use convoy_state::Starts;

use super::DemoError;
use super::arrivals::{Load, TrialArrivals};
use super::core_use::{CoreUse, ThreadTimes};
use super::cores::GatewayCore;
use super::cpu::cpu_time;
use super::delivery::{Delivery, DeliveryLatency};
use super::failing::make_fail;
use super::platform::Platform;
use super::port::{TrafficPort, Way};
use super::report::{DemoEngineReport, LiveView, TrialReport};
use super::rule::Rule;
use super::sites::both;
use super::traffic::Traffic;

/// Capacity of the link between the gateways in packets, per direction.
const LINK_PACKETS: usize = 1024;
/// MTU of the link in bytes.
const LINK_MTU: usize = 1500;
/// What a packet on an Ethernet needs beside itself, in bytes: preamble, header, checksum, gap.
const ETHERNET_BYTES: u64 = 8 + 14 + 4 + 12;
/// Interval of the live view.
const SHOW_EVERY: Duration = Duration::from_millis(250);
/// Longest wait for the last packets to arrive: where other programs have most of the cores, an
/// engine may take seconds for what it holds.
const DRAIN: Duration = Duration::from_secs(30);

/// Fraction of a run without recording of latencies, while the engines' cost models are still being
/// corrected.
const WARM_UP: f64 = 0.2;

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The platform, with its engines.
    pub platform: &'a Platform,
    /// The rule.
    pub rule: Rule,
    /// The window, in packets.
    pub window: usize,
    /// Offered load.
    pub load: Load,
    /// How long packets are sent.
    pub length: Duration,
    /// The engine that fails half-way, if any.
    pub fail: Option<&'a str>,
}

/// Two gateways and their counters.
struct Pair {
    gateways: [Worker; 2],
    deliveries: [Arc<Delivery>; 2],
    events: Vec<String>,
    /// Engines of the first gateway that were quarantined.
    quarantined: Vec<String>,
    /// Whether the thread may sleep while nothing moves. It may not where latency is measured, as
    /// that would include its sleep.
    sleeps: bool,
}

pub(crate) fn run_trial(
    trial: &Trial<'_>,
    traffic: &[Arc<Traffic>; 2],
    costs: &mut Costs,
    show: &mut dyn FnMut(&LiveView),
) -> Result<TrialReport, DemoError> {
    let (_core, pair) = GatewayCore::with(|| Pair::new(trial, traffic, costs));
    let mut pair = pair?;
    for delivery in &pair.deliveries {
        delivery.sending.store(true, Ordering::Relaxed);
    }
    let (began, cpu_before, threads_before) = (Instant::now(), cpu_time(), ThreadTimes::now());
    let (mut next_show, mut is_recording, mut all_events) = (SHOW_EVERY, false, Vec::new());
    while began.elapsed() < trial.length {
        pair.round()?;
        if !is_recording && began.elapsed() >= trial.length.mul_f64(WARM_UP) {
            pair.deliveries.iter().for_each(|delivery| delivery.recording.store(true, Ordering::Relaxed));
            is_recording = true;
        }
        if began.elapsed() >= next_show {
            next_show += SHOW_EVERY;
            let view = pair.view(trial, began.elapsed());
            all_events.extend(view.events.iter().cloned());
            show(&view);
        }
    }
    for delivery in &pair.deliveries {
        delivery.sending.store(false, Ordering::Relaxed);
    }
    let elapsed = pair.drain(began)?;
    let cpu = cpu_time().saturating_sub(cpu_before);
    let core_use = ThreadTimes::now().since(&threads_before, began.elapsed());
    let view = pair.view(trial, elapsed);
    all_events.extend(view.events.iter().cloned());
    show(&view);
    Ok(pair.report(view, TrialTime { elapsed, cpu, core_use }, all_events))
}

/// What a trial took: by the clock, of the processor, and what its threads had of the cores.
struct TrialTime {
    elapsed: Duration,
    cpu: Duration,
    core_use: CoreUse,
}

impl Pair {
    fn new(trial: &Trial<'_>, traffic: &[Arc<Traffic>; 2], costs: &mut Costs) -> Result<Self, DemoError> {
        let deliveries = [(); 2].map(|()| Arc::new(Delivery::new()));
        let (link_a, link_b) = memory::link("outside", "outside", LINK_PACKETS, LINK_MTU);
        let mut links = [link_a, link_b].into_iter();
        let mut gateways = Vec::new();
        for (at, config) in both(trial.rule, trial.window, trial.platform).into_iter().enumerate() {
            let mut engines = assemble::engines(&config, costs)?.pop().unwrap_or_default();
            if let Some(wanted) = trial.fail.filter(|_| at == 0) {
                make_fail(&mut engines, wanted)
                    .map_err(|known| DemoError::NoSuchEngine { wanted: wanted.to_owned(), known })?;
            }
            let (pipeline, _) =
                assemble::pipeline(&config, 0, engines, costs, Clock::start(), &Starts::Unlimited)?;
            let way =
                |at: usize| Way { traffic: Arc::clone(&traffic[at]), delivery: Arc::clone(&deliveries[at]) };
            let arrivals = match trial.load {
                Load::Saturating => None,
                Load::Offered(both_ways) => Some(TrialArrivals::new(both_ways / 2.0, at as u64)),
            };
            let inside = TrafficPort::new("inside", LINK_MTU, way(at), way(1 - at)).with_arrivals(arrivals);
            let outside = links.next().expect("a link has two ends");
            let inside: Vec<Box<dyn Port>> = vec![Box::new(inside)];
            gateways.push(Worker::new(pipeline, inside, vec![Box::new(outside)]));
        }
        let gateways = gateways.try_into().unwrap_or_else(|_| unreachable!("two sites make two gateways"));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let sleeps = trial.load == Load::Saturating || cores == 1;
        Ok(Self { gateways, deliveries, events: Vec::new(), quarantined: Vec::new(), sleeps })
    }

    fn round(&mut self) -> Result<bool, DemoError> {
        let mut moved = false;
        for (gateway, site) in self.gateways.iter_mut().zip(1..) {
            moved |= gateway.round(true)?;
            for event in gateway.take_events() {
                let WorkerEvent::Engine(event) = event else { continue };
                self.events.push(format!("site {site}: {event}"));
                if let EngineEvent::Quarantined { engine, .. } = event
                    && site == 1
                {
                    self.quarantined.push(engine);
                }
            }
        }
        if !moved && self.sleeps {
            self.gateways[0].idle();
        }
        Ok(moved)
    }

    /// Waits for the last packets, and for what comes beyond them; returns the time at which
    /// anything moved last.
    fn drain(&mut self, began: Instant) -> Result<Duration, DemoError> {
        let stopped = Instant::now();
        let (mut last, mut moved) = (began.elapsed(), true);
        while (moved || self.arrived() < self.sent()) && stopped.elapsed() < DRAIN {
            moved = self.round()?;
            if moved {
                last = began.elapsed();
            }
        }
        Ok(last)
    }

    fn sum(&self, count: impl Fn(&Delivery) -> u64) -> u64 {
        self.deliveries.iter().map(|delivery| count(delivery)).sum()
    }

    fn sent(&self) -> u64 {
        self.sum(|delivery| delivery.sent.load(Ordering::Relaxed))
    }

    fn arrived(&self) -> u64 {
        self.sum(Delivery::arrived)
    }

    /// What the ports of one side of both gateways have sent.
    fn sent_by(&self, side: Side, count: impl Fn(PortCounters) -> u64) -> u64 {
        let ports = self.gateways.iter().flat_map(|gateway| gateway.ports(side));
        ports.map(|port| count(port.counters())).sum()
    }

    fn mbps(&self, elapsed: Duration) -> f64 {
        self.sent_by(Side::Inside, |inside| inside.sent_bytes) as f64 * 8e-6 / elapsed.as_secs_f64()
    }

    fn view(&mut self, trial: &Trial<'_>, elapsed: Duration) -> LiveView {
        LiveView {
            rule: trial.rule,
            window: trial.window,
            elapsed_s: elapsed.as_secs_f64(),
            length_s: trial.length.as_secs_f64(),
            delivered: self.arrived(),
            mbps: self.mbps(elapsed),
            engines: self.engines(),
            events: std::mem::take(&mut self.events),
        }
    }

    /// Engines of the first gateway, which is under test.
    fn engines(&self) -> Vec<DemoEngineReport> {
        let stage = self.gateways[0].pipeline().stage();
        let engines = stage.engines();
        let all: u64 = (0..engines.len()).map(|at| engines.counters(at).packets).sum();
        let engine = |(at, measured): (usize, EngineSnapshot)| {
            let SlotCounters { packets, service_ns, .. } = engines.counters(at);
            DemoEngineReport {
                name: measured.name,
                is_model: engines.description(at).is_model,
                is_up: *engines.health(at) == Health::Up,
                share: packets as f64 / all.max(1) as f64,
                packets,
                packets_per_multi_packet: measured.packets as f64 / measured.multi_packets.max(1) as f64,
                service_ns: service_ns as f64 / packets.max(1) as f64,
                queued: measured.queued,
                predicted_ns: measured.predicted_ticks,
                prediction_error_ns: measured.error_ticks,
            }
        };
        stage.snapshot().engines.into_iter().enumerate().map(engine).collect()
    }

    fn report(&self, view: LiveView, time: TrialTime, events: Vec<String>) -> TrialReport {
        let TrialTime { elapsed, cpu, core_use } = time;
        let esp_packets = self.sent_by(Side::Outside, |outside| outside.sent_packets);
        let esp_bytes = self.sent_by(Side::Outside, |outside| outside.sent_bytes);
        let (sent, arrived) = (self.sent(), self.arrived());
        let good = self.sum(|delivery| delivery.good.load(Ordering::Relaxed));
        let measured = self.gateways[0].pipeline().stage().snapshot().engines;
        let multi_packets: u64 = measured.iter().map(|engine| engine.multi_packets).sum();
        let packets: u64 = measured.iter().map(|engine| engine.packets).sum();
        TrialReport {
            rule: view.rule,
            window: view.window,
            sent,
            refused: self.sum(|delivery| delivery.refused.load(Ordering::Relaxed)),
            good,
            out_of_order: self.sum(|delivery| delivery.out_of_order.load(Ordering::Relaxed)),
            wrong: self.sum(|delivery| delivery.wrong.load(Ordering::Relaxed)),
            lost: sent.saturating_sub(arrived),
            packets_per_second: good as f64 / elapsed.as_secs_f64(),
            mbps: self.mbps(elapsed),
            latency: DeliveryLatency::of(&self.deliveries),
            elapsed_s: elapsed.as_secs_f64(),
            packets_per_multi_packet: packets as f64 / multi_packets.max(1) as f64,
            engines: view.engines,
            events,
            quarantined: self.quarantined.clone(),
            is_perfect: self.deliveries.iter().all(|delivery| delivery.is_perfect()),
            esp_packets,
            ethernet_bytes: esp_bytes + esp_packets * ETHERNET_BYTES,
            cpu_ns_per_packet: cpu.as_nanos() as f64 / good.max(1) as f64,
            core_use,
        }
    }
}
