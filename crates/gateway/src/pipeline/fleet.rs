//! The engines of one worker, and what happens when one of them fails.
//!
//! An engine that errs, hangs past its deadline or vanishes is taken out. Its packets are done again
//! elsewhere from copies of their input, its results are no longer believed, and it is probed until it
//! comes back with all its keys. Nothing is lost, nothing is sent twice.

use std::collections::VecDeque;

use convoy_engine::{Binding, Engine, EngineDescription, EngineError, MultiPacket};
use convoy_ipsec::{KeyMaterial, Prepared, SaIndex};
use convoy_packet::FramePool;

use super::station::{Health, Settled, Station, StationCounters};

/// What the operator is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetEvent {
    /// An engine was taken out.
    TakenOut {
        /// Its name.
        engine: String,
        /// What it did.
        reason: String,
    },
    /// An engine came back.
    CameBack {
        /// Its name.
        engine: String,
    },
}

impl std::fmt::Display for FleetEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TakenOut { engine, reason } => write!(f, "engine {engine} was taken out: {reason}"),
            Self::CameBack { engine } => write!(f, "engine {engine} came back"),
        }
    }
}

/// What the scheduler must hear.
#[derive(Debug)]
pub enum FleetReport {
    /// A multi-packet is done.
    Done {
        /// The engine's place in the fleet.
        engine: usize,
        /// The multi-packet's ticket.
        ticket: u64,
        /// How long the engine worked on it, in ns, if it can tell.
        service_ns: Option<u64>,
        /// The packets with their results.
        packets: Vec<Prepared>,
    },
    /// An engine is out; what it had stands in the redo queue.
    Out {
        /// The engine's place in the fleet.
        engine: usize,
    },
    /// An engine is in use again.
    Back {
        /// The engine's place in the fleet.
        engine: usize,
    },
}

/// The engines of one worker.
pub struct Fleet {
    stations: Vec<Station>,
    /// All keys, by SA, so that an engine which comes back gets them again. Wiped when dropped.
    keys: Vec<Option<KeyMaterial>>,
    settled: Vec<Settled>,
    events: Vec<FleetEvent>,
}

impl Fleet {
    /// A fleet of these engines, in the order of the configuration.
    pub fn new(engines: Vec<Box<dyn Engine>>) -> Self {
        Self {
            stations: engines.into_iter().map(Station::new).collect(),
            keys: Vec::new(),
            settled: Vec::new(),
            events: Vec::new(),
        }
    }

    /// How many engines there are.
    pub fn len(&self) -> usize {
        self.stations.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.stations.is_empty()
    }

    /// What an engine says of itself.
    pub fn description(&self, engine: usize) -> &EngineDescription {
        self.stations[engine].description()
    }

    /// An engine itself, for calibration before it takes work.
    pub fn engine_mut(&mut self, engine: usize) -> &mut dyn Engine {
        self.stations[engine].engine.as_mut()
    }

    /// Whether an engine is in use.
    pub fn health(&self, engine: usize) -> &Health {
        &self.stations[engine].health
    }

    /// What an engine has done.
    pub fn counters(&self, engine: usize) -> StationCounters {
        self.stations[engine].counters
    }

    /// Multi-packets that all engines have together.
    pub fn in_flight(&self) -> usize {
        self.stations.iter().map(Station::in_flight).sum()
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<FleetEvent> {
        std::mem::take(&mut self.events)
    }

    /// Installs an SA's keys in every engine that can use them. An engine that fails at it is taken out.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] if no engine at all can do the transform.
    pub fn install_key(
        &mut self,
        now_ns: u64,
        sa: SaIndex,
        keys: &KeyMaterial,
        redo: &mut VecDeque<Prepared>,
        reports: &mut Vec<FleetReport>,
    ) -> Result<(), EngineError> {
        let transform = keys.transform();
        let mut capable = false;
        for at in 0..self.stations.len() {
            let station = &mut self.stations[at];
            if !station.description().transforms.contains(&transform) {
                continue;
            }
            capable = true;
            if !station.is_up() {
                continue; // it gets all keys when it comes back
            }
            if let Err(error) = station.engine.install_key(sa, keys) {
                self.take_out(now_ns, at, error.to_string(), redo);
                reports.push(FleetReport::Out { engine: at });
            }
        }
        if !capable {
            return Err(EngineError::Unsupported { engine: "every one".to_owned(), transform });
        }
        let at = sa.0 as usize;
        if self.keys.len() <= at {
            self.keys.resize_with(at + 1, || None);
        }
        self.keys[at] = Some(keys.clone());
        Ok(())
    }

    /// Has the device of a port take an SA; the engine that stands for it, if there is one that can.
    pub fn bind(&mut self, sa: SaIndex, binding: Binding, keys: &KeyMaterial) -> Option<usize> {
        self.stations.iter_mut().position(|station| station.engine.bind(sa, binding, keys))
    }

    /// The SA that a port's device has opened a packet for, by the device's number.
    pub fn bound(&self, number: u32) -> Option<SaIndex> {
        self.stations.iter().find_map(|station| station.engine.bound(number))
    }

    /// Removes an SA's keys everywhere; none of its packets is in flight.
    pub fn remove_key(&mut self, sa: SaIndex) {
        if let Some(slot) = self.keys.get_mut(sa.0 as usize) {
            *slot = None;
        }
        for station in &mut self.stations {
            station.engine.remove_key(sa);
        }
    }

    /// Whether a multi-packet can go to `engine` now: it is in use, and there are frames for the copies
    /// that it needs kept.
    pub fn can_submit(&self, engine: usize, pool: &FramePool, packets: &[Prepared]) -> bool {
        self.stations[engine].can_keep(pool, packets)
    }

    /// Hands a multi-packet to an engine now, to be done by a deadline (both in ns). If the engine fails, it is
    /// taken out and all that it had goes to `redo`.
    pub fn submit(
        &mut self,
        (now_ns, deadline_ns): (u64, u64),
        engine: usize,
        multi_packet: MultiPacket,
        pool: &mut FramePool,
        redo: &mut VecDeque<Prepared>,
        reports: &mut Vec<FleetReport>,
    ) {
        let result = self.stations[engine].submit(pool, multi_packet, deadline_ns, redo);
        if let Err(reason) = result {
            self.take_out(now_ns, engine, reason, redo);
            reports.push(FleetReport::Out { engine });
        }
    }

    /// Polls every engine that has not gathered anything: completions, failures, deadlines, recoveries.
    pub fn poll(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        redo: &mut VecDeque<Prepared>,
        reports: &mut Vec<FleetReport>,
    ) {
        for engine in 0..self.stations.len() {
            self.poll_one(now_ns, engine, pool, redo, reports);
        }
    }

    /// Whether an engine has multi-packets that it will begin later.
    pub fn has_gathered(&self, engine: usize) -> bool {
        self.stations[engine].engine.gathered() > 0
    }

    /// The ticket of the oldest multi-packet that an engine has gathered.
    pub fn oldest_gathered(&self) -> Option<u64> {
        self.stations.iter().filter_map(Station::oldest_gathered).min()
    }

    /// Has engines begin what they have gathered, and polls them; whether there was any.
    pub fn begin(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        redo: &mut VecDeque<Prepared>,
        reports: &mut Vec<FleetReport>,
    ) -> bool {
        let mut any = false;
        for engine in 0..self.stations.len() {
            if self.has_gathered(engine) {
                any = true;
                self.poll_now(now_ns, engine, pool, redo, reports);
            }
        }
        any
    }

    /// Polls one engine, unless it gathers: a poll would have it begin.
    pub fn poll_one(
        &mut self,
        now_ns: u64,
        engine: usize,
        pool: &mut FramePool,
        redo: &mut VecDeque<Prepared>,
        reports: &mut Vec<FleetReport>,
    ) {
        if !self.has_gathered(engine) {
            self.poll_now(now_ns, engine, pool, redo, reports);
        }
    }

    fn poll_now(
        &mut self,
        now_ns: u64,
        engine: usize,
        pool: &mut FramePool,
        redo: &mut VecDeque<Prepared>,
        reports: &mut Vec<FleetReport>,
    ) {
        let mut settled = std::mem::take(&mut self.settled);
        self.stations[engine].poll(now_ns, pool, redo, &mut settled);
        for outcome in settled.drain(..) {
            match outcome {
                Settled::Done { ticket, service_ns, packets } => {
                    reports.push(FleetReport::Done { engine, ticket, service_ns, packets });
                }
                Settled::Failed { reason } => {
                    self.take_out(now_ns, engine, reason, redo);
                    reports.push(FleetReport::Out { engine });
                }
            }
        }
        self.settled = settled;
        if self.stations[engine].probe(now_ns) && self.reinstall(engine) {
            self.stations[engine].bring_back();
            let name = self.stations[engine].description().name.clone();
            self.events.push(FleetEvent::CameBack { engine: name });
            reports.push(FleetReport::Back { engine });
        }
    }

    fn reinstall(&mut self, engine: usize) -> bool {
        let station = &mut self.stations[engine];
        for (at, keys) in self.keys.iter().enumerate() {
            let Some(keys) = keys else { continue };
            if station.description().transforms.contains(&keys.transform())
                && station.engine.install_key(SaIndex(at as u32), keys).is_err()
            {
                return false;
            }
        }
        true
    }

    fn take_out(&mut self, now_ns: u64, engine: usize, reason: String, redo: &mut VecDeque<Prepared>) {
        let station = &mut self.stations[engine];
        if !station.is_up() {
            return;
        }
        let name = station.description().name.clone();
        station.take_out(now_ns, reason.clone(), redo);
        self.events.push(FleetEvent::TakenOut { engine: name, reason });
    }
}
