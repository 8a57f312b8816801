//! One run of the two gateways with one policy and one window.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use convoy_engine::EngineKind;
use convoy_port::{Port, memory};
use convoy_scheduler::Policy;
use serde::Serialize;

use super::DemoError;
use super::port::{Delivery, TrafficPort};
use super::sites::{Engines, both};
use super::traffic::Traffic;
use crate::assemble;
use crate::costs::Costs;
use crate::pipeline::{Clock, Health, StationCounters};
use crate::state::Beginnings;
use crate::worker::{Side, Worker, WorkerEvent};

/// Packets that the link between the gateways holds, each way.
const LINK_PACKETS: usize = 1024;
/// The link's MTU, in bytes.
const LINK_MTU: usize = 1500;
/// How often what is going on is shown.
const SHOW_EVERY: Duration = Duration::from_millis(250);
/// How long the last packets may take to come out.
const DRAIN: Duration = Duration::from_secs(10);

/// What is run.
pub(super) struct Trial<'a> {
    pub(super) engines: &'a Engines,
    pub(super) policy: Policy,
    pub(super) window: usize,
    pub(super) length: Duration,
    pub(super) fail: Option<&'a str>,
}

/// One engine of both gateways together.
#[derive(Clone, Debug, Serialize)]
pub struct EngineReport {
    /// Its name.
    pub name: String,
    /// Whether its timing is a model's.
    pub is_model: bool,
    /// Whether it is in use.
    pub is_up: bool,
    /// Part of all packets, 0 to 1.
    pub share: f64,
    /// Packets whose result was used.
    pub packets: u64,
    /// Packets per multi-packet.
    pub packets_per_multi_packet: f64,
    /// Mean time per packet in which it worked, in ns of its own time; 0 if it does not tell.
    pub service_ns: f64,
    /// Multi-packets that it has now.
    pub queued: usize,
    /// Mean time from dispatch to completion, in ns, as predicted.
    pub predicted_ns: f64,
    /// Mean absolute error of that prediction, in ns.
    pub prediction_error_ns: f64,
}

/// What is going on.
#[derive(Clone, Debug, Serialize)]
pub struct LiveView {
    /// The policy.
    pub policy: &'static str,
    /// The window.
    pub window: usize,
    /// Seconds since the run began.
    pub elapsed_s: f64,
    /// Seconds that it will take.
    pub length_s: f64,
    /// Packets that came out so far, both ways.
    pub delivered: u64,
    /// Throughput so far of inner packets, in Mbit/s, both ways.
    pub mbps: f64,
    /// Engines.
    pub engines: Vec<EngineReport>,
    /// What happened since the last view.
    pub events: Vec<String>,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct TrialReport {
    /// The policy.
    pub policy: &'static str,
    /// The window.
    pub window: usize,
    /// Packets sent, both ways.
    pub sent: u64,
    /// Of these, those that came out byte for byte and in order.
    pub good: u64,
    /// Of these, those that came out after a later one of their SA.
    pub out_of_order: u64,
    /// Packets that came out and were never sent.
    pub wrong: u64,
    /// Packets that did not come out.
    pub lost: u64,
    /// Inner packets a second, both ways.
    pub packets_per_second: f64,
    /// Throughput of inner packets in Mbit/s, both ways.
    pub mbps: f64,
    /// Packets per multi-packet over all engines.
    pub packets_per_multi_packet: f64,
    /// Engines.
    pub engines: Vec<EngineReport>,
    /// What happened.
    pub events: Vec<String>,
    /// Whether each packet came out once, byte for byte and in order.
    pub is_perfect: bool,
}

/// Two gateways and what they deliver to each other.
struct Pair {
    gateways: [Worker; 2],
    deliveries: [Arc<Delivery>; 2],
    events: Vec<String>,
}

pub(super) fn run_trial(
    trial: &Trial<'_>,
    traffic: &[Arc<Traffic>; 2],
    costs: &mut Costs,
    show: &mut dyn FnMut(&LiveView),
) -> Result<TrialReport, DemoError> {
    let mut pair = Pair::new(trial, traffic, costs)?;
    for delivery in &pair.deliveries {
        delivery.sending.store(true, Ordering::Relaxed);
    }
    let began = Instant::now();
    let (mut next_show, mut all_events) = (SHOW_EVERY, Vec::new());
    while began.elapsed() < trial.length {
        pair.round()?;
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
    let view = pair.view(trial, elapsed);
    all_events.extend(view.events.iter().cloned());
    show(&view);
    Ok(pair.report(view, elapsed, all_events))
}

impl Pair {
    fn new(trial: &Trial<'_>, traffic: &[Arc<Traffic>; 2], costs: &mut Costs) -> Result<Self, DemoError> {
        let deliveries = [(); 2].map(|()| Arc::new(Delivery::default()));
        let (link_a, link_b) = memory::link("outside", "outside", LINK_PACKETS, LINK_MTU);
        let mut links = [link_a, link_b].into_iter();
        let mut gateways = Vec::new();
        for (at, config) in both(trial.policy, trial.window, trial.engines).into_iter().enumerate() {
            let mut engines = assemble::engines(&config, costs)?.pop().unwrap_or_default();
            if let Some(wanted) = trial.fail.filter(|_| at == 0) {
                assemble::make_fail(&mut engines, wanted)
                    .map_err(|known| DemoError::NoSuchEngine { wanted: wanted.to_owned(), known })?;
            }
            let (pipeline, _) =
                assemble::pipeline(&config, 0, engines, costs, Clock::start(), &Beginnings::Fresh)?;
            let way = |at: usize| (Arc::clone(&traffic[at]), Arc::clone(&deliveries[at]));
            let inside = TrafficPort::new("inside", LINK_MTU, way(at), way(1 - at));
            let outside = links.next().expect("a link has two ends");
            let inside: Vec<Box<dyn Port>> = vec![Box::new(inside)];
            gateways.push(Worker::new(pipeline, inside, vec![Box::new(outside)]));
        }
        let gateways = gateways.try_into().unwrap_or_else(|_| unreachable!("two sites make two gateways"));
        Ok(Self { gateways, deliveries, events: Vec::new() })
    }

    fn round(&mut self) -> Result<bool, DemoError> {
        let mut moved = false;
        for (gateway, site) in self.gateways.iter_mut().zip(["site 1", "site 2"]) {
            moved |= gateway.round(true)?;
            for event in gateway.take_events() {
                if let WorkerEvent::Engine(event) = event {
                    self.events.push(format!("{site}: {event}"));
                }
            }
        }
        if !moved {
            self.gateways[0].idle();
        }
        Ok(moved)
    }

    /// Lets the last packets come out; returns the time until the last did.
    fn drain(&mut self, began: Instant) -> Result<Duration, DemoError> {
        let stopped = Instant::now();
        let mut last = began.elapsed();
        while self.arrived() < self.sent() && stopped.elapsed() < DRAIN {
            if self.round()? {
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

    fn delivered_bytes(&self) -> u64 {
        let ports = self.gateways.iter().flat_map(|gateway| gateway.ports(Side::Inside));
        ports.map(|port| port.counters().sent_bytes).sum()
    }

    fn view(&mut self, trial: &Trial<'_>, elapsed: Duration) -> LiveView {
        LiveView {
            policy: trial.policy.name(),
            window: trial.window,
            elapsed_s: elapsed.as_secs_f64(),
            length_s: trial.length.as_secs_f64(),
            delivered: self.arrived(),
            mbps: self.delivered_bytes() as f64 * 8e-6 / elapsed.as_secs_f64(),
            engines: self.engines(),
            events: std::mem::take(&mut self.events),
        }
    }

    fn engines(&self) -> Vec<EngineReport> {
        let [one, two] = &self.gateways;
        let count = one.pipeline().stage().fleet().len();
        let snapshots = [one, two].map(|gateway| gateway.pipeline().stage().scheduler().snapshot());
        let sum = |at: usize, of: fn(&StationCounters) -> u64| -> u64 {
            self.gateways.iter().map(|gateway| of(&gateway.pipeline().stage().fleet().counters(at))).sum()
        };
        let packets = |at: usize| sum(at, |counters| counters.packets);
        let all: u64 = (0..count).map(packets).sum();
        (0..count)
            .map(|at| {
                let fleet = one.pipeline().stage().fleet();
                let [a, b] = snapshots.each_ref().map(|snapshot| &snapshot.engines[at]);
                let multi_packets = (a.multi_packets + b.multi_packets).max(1) as f64;
                let mean = |a_value: f64, b_value: f64| {
                    (a_value * a.multi_packets as f64 + b_value * b.multi_packets as f64) / multi_packets
                };
                EngineReport {
                    name: a.name.clone(),
                    is_model: fleet.description(at).is_model,
                    is_up: *fleet.health(at) == Health::Up,
                    share: packets(at) as f64 / all.max(1) as f64,
                    packets: packets(at),
                    packets_per_multi_packet: (a.packets + b.packets) as f64 / multi_packets,
                    service_ns: sum(at, |counters| counters.service_ns) as f64 / packets(at).max(1) as f64,
                    queued: a.queued + b.queued,
                    predicted_ns: mean(a.predicted_ticks, b.predicted_ticks),
                    prediction_error_ns: mean(a.error_ticks, b.error_ticks),
                }
            })
            .collect()
    }

    fn report(&self, view: LiveView, elapsed: Duration, events: Vec<String>) -> TrialReport {
        let (sent, arrived) = (self.sent(), self.arrived());
        let good = self.sum(|delivery| delivery.good.load(Ordering::Relaxed));
        let snapshots: Vec<_> = self
            .gateways
            .iter()
            .flat_map(|gateway| gateway.pipeline().stage().scheduler().snapshot().engines)
            .collect();
        let multi_packets: u64 = snapshots.iter().map(|engine| engine.multi_packets).sum();
        let packets: u64 = snapshots.iter().map(|engine| engine.packets).sum();
        TrialReport {
            policy: view.policy,
            window: view.window,
            sent,
            good,
            out_of_order: self.sum(|delivery| delivery.out_of_order.load(Ordering::Relaxed)),
            wrong: self.sum(|delivery| delivery.wrong.load(Ordering::Relaxed)),
            lost: sent.saturating_sub(arrived),
            packets_per_second: good as f64 / elapsed.as_secs_f64(),
            mbps: self.delivered_bytes() as f64 * 8e-6 / elapsed.as_secs_f64(),
            packets_per_multi_packet: packets as f64 / multi_packets.max(1) as f64,
            engines: view.engines,
            events,
            is_perfect: self.deliveries.iter().all(|delivery| delivery.is_perfect()),
        }
    }
}

/// What this machine has for the demo.
pub(super) fn engines_at_hand() -> Engines {
    let has_multibuffer = convoy_engine::catalogue::available()
        .iter()
        .any(|finding| finding.kind == EngineKind::Multibuffer && finding.present);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // On two cores the gateways and the modelled bus have both: a third busy thread would only be in their way.
    Engines::AtHand { has_multibuffer, crypto_core: (cores > 2).then_some(cores - 1) }
}
