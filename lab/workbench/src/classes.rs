//! Traffic classes in one gateway, measured where its packets leave: how long urgent packets take,
//! how many are lost, and what that costs the others.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use convoy_assembly::assemble;
use convoy_dataplane::costs::Costs;
use convoy_dataplane::pipeline::Clock;
use convoy_dataplane::worker::Worker;
use convoy_packet::{Frame, FramePool};
use convoy_port::{Port, PortCounters, PortDescription, PortError};
use convoy_state::Starts;
use hdrhistogram::Histogram;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::DemoError;
use super::arrivals::RING_PACKETS;
use super::cores::GatewayCore;
use super::platform::Platform;
use super::rule::Rule;
use super::sites::both;
use super::traffic::{Traffic, URGENT_TUNNEL, tunnel_of_packet};

/// Fraction of a run without recording.
const WARM_UP: f64 = 0.2;
/// Upper end of the histogram, in ns.
const LONGEST_NS: u64 = 60_000_000_000;
/// Where the SPI and the sequence number are in an outer packet: behind IPv4 and UDP headers.
const ESP_AT: usize = 28;
const MTU: usize = 1500;

/// Settings of a run with one gateway.
#[derive(Clone, Copy, Debug)]
pub struct ClassTrial<'a> {
    /// The platform, with its engines.
    pub platform: &'a Platform,
    /// The rule.
    pub rule: Rule,
    /// The window, in packets.
    pub window: usize,
    /// Packets that arrive in a second, as a Poisson process; `None` if there are always more.
    pub packets_per_second: Option<f64>,
    /// How long.
    pub length: Duration,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassFigures {
    /// Packets that left in a second.
    pub packets_per_second: f64,
    /// Median time of an urgent packet from its arrival at the gateway's port to its departure, in
    /// us.
    pub urgent_p50_us: f64,
    /// 99th percentile of that, in us.
    pub urgent_p99_us: f64,
    /// The part of the urgent packets that were lost, 0 to 1.
    pub urgent_lost: f64,
    /// The part of the other packets that were lost, 0 to 1.
    pub others_lost: f64,
}

impl ClassTrial<'_> {
    /// Sends packets of `traffic` through a gateway.
    ///
    /// # Errors
    /// [`DemoError`] if something cannot be set up.
    pub fn run(&self, traffic: &Arc<Traffic>, costs: &mut Costs) -> Result<ClassFigures, DemoError> {
        let flow = Arc::new(Mutex::new(TrialFlow::new(Arc::clone(traffic), self.packets_per_second)));
        let (_core, worker) = GatewayCore::with(|| self.worker(&flow, costs));
        let mut worker = worker?;
        let began = Instant::now();
        let mut warm = None;
        while began.elapsed() < self.length {
            worker.round(true)?;
            if warm.is_none() && began.elapsed() >= self.length.mul_f64(WARM_UP) {
                warm = Some(Instant::now());
                lock(&flow).start_recording();
            }
        }
        let recorded = warm.map_or(self.length, |since| since.elapsed());
        let report = lock(&flow).report(recorded);
        Ok(report)
    }

    fn worker(&self, flow: &Arc<Mutex<TrialFlow>>, costs: &mut Costs) -> Result<Worker, DemoError> {
        let [config, _] = both(self.rule, self.window, self.platform);
        let engines = assemble::engines(&config, costs)?.pop().unwrap_or_default();
        let (pipeline, _) =
            assemble::pipeline(&config, 0, engines, costs, Clock::start(), &Starts::Unlimited)?;
        let port = |name: &str| -> Box<dyn Port> {
            let description =
                PortDescription { name: name.to_owned(), kind: convoy_port::memory::KIND, mtu: MTU };
            Box::new(FlowPort { description, counters: PortCounters::default(), flow: Arc::clone(flow) })
        };
        Ok(Worker::new(pipeline, vec![port("inside")], vec![port("outside")]))
    }
}

/// The packets of a run, on both sides of the gateway.
struct TrialFlow {
    traffic: Arc<Traffic>,
    ns_per_packet: Option<f64>,
    random: StdRng,
    epoch: Instant,
    next_ns: f64,
    /// The number of the next packet to arrive.
    next: usize,
    /// Packets that wait at the port, in the order of their arrival: when, and which.
    ring: VecDeque<(u64, usize)>,
    /// When the packets of the urgent tunnel came, from sequence number `first` on.
    stamps: VecDeque<u64>,
    first: u64,
    is_recording: bool,
    latency: Histogram<u64>,
    /// Packets that arrived and that left, urgent ones and others, while recording.
    arrived: [u64; 2],
    left: [u64; 2],
}

fn lock(flow: &Mutex<TrialFlow>) -> MutexGuard<'_, TrialFlow> {
    flow.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TrialFlow {
    fn new(traffic: Arc<Traffic>, packets_per_second: Option<f64>) -> Self {
        Self {
            traffic,
            ns_per_packet: packets_per_second.map(|rate| 1e9 / rate),
            random: StdRng::seed_from_u64(1),
            epoch: Instant::now(),
            next_ns: 0.0,
            next: 0,
            ring: VecDeque::with_capacity(RING_PACKETS),
            stamps: VecDeque::new(),
            first: 1,
            is_recording: false,
            latency: Histogram::new_with_max(LONGEST_NS, 3).expect("3 digits of a minute are possible"),
            arrived: [0; 2],
            left: [0; 2],
        }
    }

    fn start_recording(&mut self) {
        self.is_recording = true;
    }

    fn is_urgent(&self, at: usize) -> bool {
        tunnel_of_packet(self.traffic.packet(at)) == Some(URGENT_TUNNEL)
    }

    /// Lets the packets arrive that are due; what finds the ring full is lost.
    fn arrive(&mut self, now_ns: u64, limit: usize) {
        let come = |flow: &mut Self, came_ns: u64| {
            let at = flow.next % flow.traffic.len();
            flow.next += 1;
            if flow.is_recording {
                flow.arrived[usize::from(!flow.is_urgent(at))] += 1;
            }
            if flow.ring.len() < RING_PACKETS {
                flow.ring.push_back((came_ns, at));
            }
        };
        let Some(mean_ns) = self.ns_per_packet else {
            return (self.ring.len()..limit).for_each(|_| come(self, now_ns));
        };
        while self.next_ns <= now_ns as f64 {
            come(self, self.next_ns as u64);
            // Inverse of the exponential distribution function; 1 - u is never 0.
            let u: f64 = self.random.random();
            self.next_ns -= mean_ns * (1.0 - u).ln();
        }
    }

    /// Notes an ESP packet that has left. The gateway drops no urgent packet once it has read it,
    /// so that the numbers of their SA count those that were read.
    fn left(&mut self, now_ns: u64, outer: &[u8]) {
        let word = |at: usize| Some(u32::from_be_bytes(outer.get(at..at + 4)?.try_into().ok()?));
        let Some((spi, number)) = word(ESP_AT).zip(word(ESP_AT + 4)) else { return };
        let is_urgent = spi as usize & 0xfff == URGENT_TUNNEL;
        if self.is_recording {
            self.left[usize::from(!is_urgent)] += 1;
        }
        if is_urgent {
            let at = u64::from(number).saturating_sub(self.first);
            let came_ns = self.stamps.drain(..=at as usize).next_back();
            self.first = u64::from(number) + 1;
            if let Some(came_ns) = came_ns.filter(|_| self.is_recording) {
                self.latency.saturating_record(now_ns.saturating_sub(came_ns));
            }
        }
    }

    fn report(&self, recorded: Duration) -> ClassFigures {
        let us = |quantile| self.latency.value_at_quantile(quantile) as f64 / 1000.0;
        let lost =
            |class: usize| (1.0 - self.left[class] as f64 / self.arrived[class].max(1) as f64).max(0.0);
        ClassFigures {
            packets_per_second: self.left.iter().sum::<u64>() as f64 / recorded.as_secs_f64(),
            urgent_p50_us: us(0.5),
            urgent_p99_us: us(0.99),
            urgent_lost: lost(0),
            others_lost: lost(1),
        }
    }
}

/// The plaintext port, which sends, or the port to the peer, which receives.
struct FlowPort {
    description: PortDescription,
    counters: PortCounters,
    flow: Arc<Mutex<TrialFlow>>,
}

impl Port for FlowPort {
    fn description(&self) -> &PortDescription {
        &self.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        if self.description.name != "inside" {
            return Ok(0);
        }
        let flow = &mut *lock(&self.flow);
        flow.arrive(flow.epoch.elapsed().as_nanos() as u64, limit);
        let mut count = 0;
        while count < limit
            && let Some((came_ns, at)) = flow.ring.front().copied()
            && let Some(frame) = pool.take_filled(flow.traffic.packet(at), 256)
        {
            flow.ring.pop_front();
            if flow.is_urgent(at) {
                flow.stamps.push_back(came_ns);
            }
            self.counters.received_packets += 1;
            self.counters.received_bytes += frame.len() as u64;
            burst.push(frame);
            count += 1;
        }
        Ok(count)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let flow = &mut *lock(&self.flow);
        let now_ns = flow.epoch.elapsed().as_nanos() as u64;
        let count = burst.len();
        for frame in burst.drain(..) {
            flow.left(now_ns, &frame);
            self.counters.sent_packets += 1;
            self.counters.sent_bytes += frame.len() as u64;
            pool.give_back(frame);
        }
        Ok(count)
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}
