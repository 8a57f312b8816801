//! One worker's pipeline between two links, driven burst by burst on one thread, with time stamps
//! between its blocks.

use std::time::Instant;

use convoy_assembly::assemble;
use convoy_dataplane::clock::Clock;
use convoy_dataplane::costs::Costs;
use convoy_dataplane::pipeline::Pipeline;
use convoy_engine::Engine;
use convoy_packet::{Frame, FramePool};
use convoy_port::{Port, PortError};
use convoy_scheduler::Input;
use convoy_state::Starts;

use super::median;
use super::timed_engine::{EngineTime, TimedEngine};
use crate::device::MeasureError;
use crate::family::{Families, Family};
use crate::flow::Packets;
use crate::gateways::{Service, flow, site};
use crate::lengths::Lengths;
use crate::sockets::UdpEnd;

/// Stamps per run that measures their own cost, and number of runs.
const STAMPS: usize = 100;
const RUNS: usize = 101;
/// Limit on calls while waiting for a link to deliver what was sent.
const MOST_CALLS: usize = 1_000_000;

/// One worker's pipeline between two links, driven by hand.
pub(super) struct Rig {
    pub(super) pipeline: Pipeline,
    near: UdpEnd,
    pub(super) inside: UdpEnd,
    pub(super) outside: UdpEnd,
    far: UdpEnd,
    pool: FramePool,
    packets: Packets,
    sent: u64,
    frames: Vec<Frame>,
    pub(super) costs: Costs,
    engine_time: EngineTime,
    pub(super) stamp_ns: f64,
}

/// Times of one burst by block, in ns.
#[derive(Clone, Copy)]
pub(super) struct Lap {
    pub(super) receive: f64,
    pub(super) classify: f64,
    pub(super) prepare: f64,
    pub(super) crypto: f64,
    pub(super) pump: f64,
    pub(super) transmit: f64,
}

fn ns(from: Instant, to: Instant) -> f64 {
    (to - from).as_nanos() as f64
}

impl Rig {
    pub(super) fn new(service: &Service, lengths: Lengths) -> Result<Self, MeasureError> {
        let config = site(service, 1, Families::default(), "", 1)?;
        let failed = |error: assemble::AssembleError| MeasureError::Gateway(error.to_string());
        let mut costs = assemble::costs();
        let engines = assemble::engines(&config, &mut costs).map_err(failed)?.pop().unwrap_or_default();
        let engine_time = EngineTime::default();
        let timed = |engine| Box::new(TimedEngine::new(engine, &engine_time)) as Box<dyn Engine>;
        let engines = engines.into_iter().map(timed).collect();
        let (pipeline, _) =
            assemble::pipeline(&config, 0, engines, &costs, Clock::start(), &Starts::Unlimited)
                .map_err(failed)?;
        // Otherwise each of many rigs would calibrate the engines again.
        costs.save();
        let [near, inside] = UdpEnd::wire()?;
        let [far, outside] = UdpEnd::wire()?;
        Ok(Self {
            pipeline,
            near,
            inside,
            outside,
            far,
            pool: FramePool::new(1024, 256),
            packets: Packets::new(flow(Family::V4, 1), lengths),
            sent: 0,
            frames: Vec::new(),
            costs,
            engine_time,
            stamp_ns: stamp_ns(),
        })
    }

    /// Time spent in engines so far, less the cost of their stamps, in ns.
    fn crypto_ns(&self) -> f64 {
        let (ns, calls) = self.engine_time.read();
        ns as f64 - calls as f64 * self.stamp_ns
    }

    fn fill(&mut self, burst: usize) -> Result<(), PortError> {
        for _ in 0..burst {
            self.frames.extend(self.pool.take_filled(self.packets.of(self.sent), 0));
            self.sent += 1;
        }
        while !self.frames.is_empty() {
            self.near.send(&mut self.pool, &mut self.frames)?;
        }
        Ok(())
    }

    /// Runs one burst; `None` if the link did not deliver all of it in one call.
    pub(super) fn lap(&mut self, burst: usize) -> Result<Option<Lap>, MeasureError> {
        self.fill(burst)?;
        let crypto_before = self.crypto_ns();
        let began = Instant::now();
        let received = self.inside.receive(self.pipeline.pool_mut(), burst, &mut self.frames)?;
        let received_at = Instant::now();
        self.pipeline.begin_round();
        let packets = self.pipeline.classify_outbound(&mut self.frames);
        let classified = Instant::now();
        self.pipeline.take_in(packets);
        // If the engine worked in place, the next block started when the engine ended.
        let prepared = self.engine_time.last_end().filter(|end| *end > classified);
        let prepared = prepared.unwrap_or_else(Instant::now);
        let prepared_crypto = self.crypto_ns();
        let mut left = Vec::new();
        for _ in 0..MOST_CALLS {
            self.pipeline.pump(Input::Paused);
            let (_, departures) = self.pipeline.pool_and_departures();
            left.append(&mut departures.to_outside);
            left.append(&mut departures.bypass_out);
            if self.pipeline.is_empty() {
                break;
            }
        }
        let pumped = Instant::now();
        self.pipeline.end_round(true);
        let crypto_after = self.crypto_ns();
        let sending = Instant::now();
        let wanted = left.len();
        while !left.is_empty() {
            self.outside.send(self.pipeline.pool_mut(), &mut left)?;
        }
        let sent = Instant::now();
        let mut arrived = 0;
        for _ in 0..MOST_CALLS {
            arrived += self.far.receive(&mut self.pool, burst, &mut self.frames)?;
            self.pool.give_back_burst(&mut self.frames);
            if arrived >= wanted {
                break;
            }
        }
        if wanted != burst || received != burst {
            return Ok(None);
        }
        let in_place = prepared_crypto - crypto_before;
        let in_pump = crypto_after - prepared_crypto;
        Ok(Some(Lap {
            receive: ns(began, received_at),
            classify: ns(received_at, classified),
            prepare: ns(classified, prepared) - in_place,
            crypto: in_place + in_pump,
            pump: ns(prepared, pumped) - in_pump,
            transmit: ns(sending, sent),
        }))
    }
}

/// Cost of a stamp in ns: the median over runs that are short enough to be rarely interrupted.
fn stamp_ns() -> f64 {
    let run = |_| {
        let began = Instant::now();
        let mut last = began;
        for _ in 0..STAMPS {
            last = std::hint::black_box(Instant::now());
        }
        ns(began, last) / STAMPS as f64
    };
    median((0..RUNS).map(run).collect())
}
