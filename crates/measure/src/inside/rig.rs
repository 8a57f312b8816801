//! One worker's pipeline between two wires, driven burst by burst on one thread with stamps of the
//! clock between its blocks.

use std::time::Instant;

use convoy_dataplane::clock::Clock;
use convoy_dataplane::costs::Costs;
use convoy_dataplane::pipeline::Pipeline;
use convoy_engine::Engine;
use convoy_gateway::assemble;
use convoy_gateway::state::Beginnings;
use convoy_packet::{Frame, FramePool};
use convoy_port::{Port, PortError};
use convoy_scheduler::Input;

use super::median;
use super::stamped::{Stamped, Taken};
use crate::device::MeasureError;
use crate::family::{Families, Family};
use crate::flow::Packets;
use crate::gateways::{Service, flow, site};
use crate::lengths::Lengths;
use crate::sockets::UdpEnd;

/// Stamps of a run by which their own cost is measured, and runs.
const STAMPS: usize = 100;
const RUNS: usize = 101;
/// How long a wire may take to deliver what was sent, in calls.
const PATIENCE: usize = 1_000_000;

/// One worker's pipeline between two wires, driven by hand.
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
    taken: Taken,
    pub(super) stamp_ns: f64,
}

/// Times at the ends of a burst's blocks, and what of them the engine had, in ns.
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
        let taken = Taken::default();
        let stamped = |engine| Box::new(Stamped::new(engine, &taken)) as Box<dyn Engine>;
        let engines = engines.into_iter().map(stamped).collect();
        let (pipeline, _) =
            assemble::pipeline(&config, 0, engines, &costs, Clock::start(), &Beginnings::Fresh)
                .map_err(failed)?;
        // Else each of many rigs would measure the engines anew.
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
            taken,
            stamp_ns: stamp_ns(),
        })
    }

    /// What the engines have taken so far without what their stamps take, in ns.
    fn crypto_ns(&self) -> f64 {
        let (ns, calls) = self.taken.read();
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

    /// One burst; nothing if the wire did not bring it whole in one call.
    pub(super) fn lap(&mut self, burst: usize) -> Result<Option<Lap>, MeasureError> {
        self.fill(burst)?;
        let crypto_before = self.crypto_ns();
        let began = Instant::now();
        let received = self.inside.receive(self.pipeline.pool_mut(), burst, &mut self.frames)?;
        let taken = Instant::now();
        self.pipeline.begin_round();
        let packets = self.pipeline.classify_outbound(&mut self.frames);
        let classified = Instant::now();
        self.pipeline.take_in(packets);
        // What was done at once went on in order from where the engine ended.
        let prepared = self.taken.last_end().filter(|end| *end > classified);
        let prepared = prepared.unwrap_or_else(Instant::now);
        let prepared_crypto = self.crypto_ns();
        let mut left = Vec::new();
        for _ in 0..PATIENCE {
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
        for _ in 0..PATIENCE {
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
            receive: ns(began, taken),
            classify: ns(taken, classified),
            prepare: ns(classified, prepared) - in_place,
            crypto: in_place + in_pump,
            pump: ns(prepared, pumped) - in_pump,
            transmit: ns(sending, sent),
        }))
    }
}

/// What a stamp takes, in ns: the median over runs that are too short for a busy machine to
/// interrupt many of them.
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
