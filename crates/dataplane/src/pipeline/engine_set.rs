//! The engines of one worker, and what happens when one of them fails.
//!
//! An engine that returns an error, exceeds its deadline or disappears is quarantined. Its packets
//! are processed again by another engine from copies of their input, its late results are
//! discarded, and it is probed until it comes back with all its keys. No packet is lost or sent
//! twice.

use std::task::Waker;

use convoy_engine::{
    Binding, EXAM_SA, Engine, EngineDescription, EngineError, InPlace, Placement, Submission, Takes,
    ask_known, far_below, wipe_stack,
};
use convoy_ipsec::{CryptoPacket, CryptoStatus, KeyMaterial, SaIndex};
use convoy_packet::FramePool;

use super::engine_slot::{EngineSlot, Health, SlotCounters};
use super::in_flight::{Deadlines, SubmitContext, TrainRecords, Trains};
use super::train::OrderPosition;

/// An event for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    /// An engine was quarantined.
    Quarantined {
        /// The engine's name.
        engine: String,
        /// Why it was quarantined.
        reason: String,
    },
    /// An engine came back.
    CameBack {
        /// The engine's name.
        engine: String,
    },
}

impl std::fmt::Display for EngineEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Quarantined { engine, reason } => write!(f, "engine {engine} was quarantined: {reason}"),
            Self::CameBack { engine } => write!(f, "engine {engine} is available again"),
        }
    }
}

/// The engines of one worker.
pub struct EngineSet {
    slots: Vec<EngineSlot>,
    /// All keys by SA, so that an engine that comes back gets them again. Wiped when dropped.
    keys: Vec<Option<KeyMaterial>>,
    events: Vec<EngineEvent>,
}

impl EngineSet {
    /// A set of `engines`, in the order of the configuration.
    pub fn new(engines: Vec<Box<dyn Engine>>) -> Self {
        Self {
            slots: engines.into_iter().enumerate().map(|(at, engine)| EngineSlot::new(at, engine)).collect(),
            keys: Vec::new(),
            events: Vec::new(),
        }
    }

    /// The number of engines.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no engines.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// An engine's description.
    pub fn description(&self, engine: usize) -> &EngineDescription {
        self.slots[engine].description()
    }

    /// Whether an engine is in use.
    pub fn health(&self, engine: usize) -> &Health {
        &self.slots[engine].health
    }

    /// An engine's counters.
    pub fn counters(&self, engine: usize) -> SlotCounters {
        self.slots[engine].counters
    }

    /// The keys of an SA.
    pub fn keys(&self, sa: SaIndex) -> Option<&KeyMaterial> {
        self.keys.get(sa.0 as usize)?.as_ref()
    }

    /// Makes all engines wake their worker on completion, where they can. Afterwards it is known
    /// which ones cannot.
    pub fn wake_by(&mut self, waker: &Waker) {
        for slot in &mut self.slots {
            slot.wakes = slot.engine.wake_by(waker);
        }
    }

    /// Whether every engine with work in flight wakes the worker on completion, and no engine waits
    /// for a probe.
    pub(super) fn wakes(&self, trains: &Trains) -> bool {
        self.slots.iter().all(|slot| slot.is_up() && (slot.wakes || slot.is_quiet(trains)))
    }

    /// Whether an engine has completions to collect now.
    pub fn has_completions(&self) -> bool {
        self.slots.iter().any(|slot| slot.engine.has_completions())
    }

    /// The next time at which an engine turns late or fails unless it completes what it has, in ns.
    pub(super) fn next_deadline_ns(&self, trains: &Trains) -> Option<u64> {
        self.slots.iter().filter_map(|slot| slot.next_deadline_ns(trains)).min()
    }

    /// Trains in flight at all engines together.
    pub(super) fn in_flight(&self, trains: &Trains) -> usize {
        (0..self.slots.len()).map(|engine| trains.records(engine).count()).sum()
    }

    /// Time that engines on the worker's core have taken so far, in ns.
    pub(super) fn inline_ns(&self) -> u64 {
        let inline = self.slots.iter().filter(|slot| slot.description().placement == Placement::Inline);
        inline.map(|slot| slot.counters.service_ns).sum()
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<EngineEvent> {
        std::mem::take(&mut self.events)
    }

    /// Installs an SA's keys in every engine that supports its transform. An engine that fails at
    /// this is quarantined.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] if no engine supports the transform.
    pub(super) fn install_key(
        &mut self,
        sa: SaIndex,
        keys: &KeyMaterial,
        records: &mut TrainRecords<'_>,
    ) -> Result<(), EngineError> {
        let transform = keys.transform();
        let mut capable = false;
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            if !slot.description().transforms.contains(&transform) {
                continue;
            }
            capable = true;
            if !slot.is_up() {
                continue; // it gets all keys when it comes back
            }
            if let Err(error) = far_below(|| slot.engine.install_key(sa, keys)) {
                self.quarantine(at, error.to_string(), records);
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

    /// Binds an SA to the device of a port; returns the engine that represents the device, if one
    /// accepts the SA.
    pub fn bind(&mut self, sa: SaIndex, binding: Binding, keys: &KeyMaterial) -> Option<usize> {
        self.slots.iter_mut().position(|slot| far_below(|| slot.engine.bind(sa, binding, keys)))
    }

    /// The SA for which a port's device has opened a packet, by the device's number for it.
    pub fn bound(&self, number: u32) -> Option<SaIndex> {
        self.slots.iter().find_map(|slot| slot.engine.bound(number))
    }

    /// The in-place interface of an engine, if it is up and has one.
    pub(super) fn in_place(&mut self, engine: usize) -> Option<&mut dyn InPlace> {
        let slot = &mut self.slots[engine];
        if slot.is_up() { slot.engine.in_place() } else { None }
    }

    /// Whether an engine takes raw packets and lays them out on its own core.
    pub(super) fn lays_out(&self, engine: usize) -> bool {
        let EngineDescription { takes, placement, .. } = *self.description(engine);
        takes == Takes::Trains && placement == Placement::Lookaside
    }

    /// Whether longer bursts cost less per packet: an engine on this core gathers packets, and none
    /// elsewhere would start later because of it.
    pub(super) fn gains_by_long_bursts(&self) -> bool {
        let descriptions = || self.slots.iter().map(EngineSlot::description);
        let are_here = descriptions().all(|engine| engine.placement == Placement::Inline);
        are_here && descriptions().any(|engine| engine.gathers > 1 && engine.takes == Takes::Trains)
    }

    /// Counts a burst that an engine processed in place, with its measured or predicted time.
    pub(super) fn note_in_place(&mut self, engine: usize, packets: u64, service_ns: u64) {
        let counters = &mut self.slots[engine].counters;
        counters.packets += packets;
        counters.trains += 1;
        counters.service_ns += service_ns;
    }

    /// Quarantines an engine that left some of these packets unprocessed.
    pub(super) fn fail_in_place(
        &mut self,
        engine: usize,
        packets: &[CryptoPacket],
        records: &mut TrainRecords<'_>,
    ) {
        let undone = packets.iter().filter(|packet| packet.status == CryptoStatus::Pending).count();
        self.slots[engine].counters.retried_packets += undone as u64;
        self.quarantine(engine, "it left packets undone".to_owned(), records);
    }

    /// Another engine on this core that can process all of these packets now.
    pub(super) fn verifier(&mut self, engine: usize, packets: &[CryptoPacket]) -> Option<usize> {
        (0..self.slots.len())
            .filter(|other| *other != engine)
            .find(|other| self.can_process(*other, packets) && self.in_place(*other).is_some())
    }

    /// Counts packets of an engine that another one has computed again.
    pub(super) fn note_verified(&mut self, engine: usize, packets: u64) {
        self.slots[engine].counters.verified += packets;
    }

    /// Whether an engine on this core, which has just given a wrong or a right result for an SA,
    /// gives the known answers of its transform.
    pub(super) fn knows_answers(&mut self, engine: usize, sa: SaIndex) -> bool {
        let Some(transform) = self.keys(sa).map(KeyMaterial::transform) else { return true };
        let slot = &mut self.slots[engine];
        if slot.engine.in_flight() > 0 {
            return true;
        }
        let is_right = ask_known(slot.engine.as_mut(), vec![transform]).is_ok();
        // They were asked under the number of an SA that may have keys.
        let before = self.keys.get(EXAM_SA.0 as usize).and_then(Option::as_ref);
        let before = before.filter(|keys| slot.description().transforms.contains(&keys.transform()));
        let is_restored =
            before.is_none_or(|keys| far_below(|| slot.engine.install_key(EXAM_SA, keys)).is_ok());
        wipe_stack();
        is_right && is_restored
    }

    /// Quarantines an engine that has computed packets otherwise than another one; `why` says what
    /// the known answers have shown.
    pub(super) fn distrust(
        &mut self,
        engine: usize,
        other: usize,
        why: &str,
        records: &mut TrainRecords<'_>,
    ) {
        let name = &self.slots[other].description().name;
        let reason = format!("it computed packets otherwise than engine {name}, {why} the known answers");
        self.quarantine(engine, reason, records);
    }

    /// Whether all engines are up and none has anything to collect.
    pub(super) fn is_quiet(&self, trains: &Trains) -> bool {
        self.slots.iter().all(|slot| slot.is_quiet(trains))
    }

    /// Removes an SA's keys from all engines; none of its packets is in flight.
    pub fn remove_key(&mut self, sa: SaIndex) {
        if let Some(slot) = self.keys.get_mut(sa.0 as usize) {
            *slot = None;
        }
        for slot in &mut self.slots {
            slot.engine.remove_key(sa);
        }
    }

    /// How many of `packets`, from the first, can go to `engine` now, given the frames available
    /// for the copies it requires.
    pub(super) fn can_submit(&self, engine: usize, pool: &FramePool, packets: &[CryptoPacket]) -> usize {
        self.slots[engine].can_keep(pool, packets)
    }

    /// Submits a train to an engine with its deadlines. If the engine fails it is quarantined, and
    /// all its trains are queued to be processed again.
    pub(super) fn submit(
        &mut self,
        engine: usize,
        submission: Submission,
        place: OrderPosition,
        deadlines: Deadlines,
        context: &mut SubmitContext<'_>,
    ) {
        let result = self.slots[engine].submit(submission, place, deadlines, context);
        self.quarantine_on_error(engine, result, context);
    }

    /// Quarantines an engine whose operation returned an error.
    fn quarantine_on_error(
        &mut self,
        engine: usize,
        result: Result<(), String>,
        context: &mut SubmitContext<'_>,
    ) {
        if let Err(reason) = result {
            self.quarantine(engine, reason, &mut context.records);
        }
    }

    /// Polls every engine that is not gathering: completions, failures, deadlines, recoveries.
    pub(super) fn poll(&mut self, context: &mut SubmitContext<'_>) {
        for engine in 0..self.slots.len() {
            self.poll_one(engine, context);
        }
    }

    /// Whether an engine holds trains that it has not started.
    pub fn has_gathered(&self, engine: usize) -> bool {
        self.slots[engine].engine.gathered() > 0
    }

    /// The ticket of the oldest train that an engine has gathered.
    pub(super) fn oldest_gathered(&self, trains: &Trains) -> Option<u64> {
        self.slots.iter().filter_map(|slot| slot.oldest_gathered(trains)).min()
    }

    /// Makes engines start what they have gathered, and polls them; returns whether there was any.
    pub(super) fn begin(&mut self, context: &mut SubmitContext<'_>) -> bool {
        let mut any = false;
        for engine in 0..self.slots.len() {
            if self.has_gathered(engine) {
                any = true;
                self.poll_now(engine, context);
            }
        }
        any
    }

    /// Polls one engine unless it is gathering, since a poll would make it start.
    pub(super) fn poll_one(&mut self, engine: usize, context: &mut SubmitContext<'_>) {
        if !self.has_gathered(engine) {
            self.poll_now(engine, context);
        }
    }

    fn poll_now(&mut self, engine: usize, context: &mut SubmitContext<'_>) {
        let result = self.slots[engine].poll(context);
        self.quarantine_on_error(engine, result, context);
        self.have_late_done(engine, context);
        if self.slots[engine].ends_rest(context.records.trains) {
            context.records.trains.set_available(engine, true);
        }
        if self.slots[engine].probe(context.records.now_ns, &self.keys) && self.reinstall(engine) {
            self.slots[engine].bring_back();
            let name = self.slots[engine].description().name.clone();
            self.events.push(EngineEvent::CameBack { engine: name });
            context.records.trains.set_available(engine, true);
        }
    }

    /// Moves what an engine is late with to other engines, if any of them can do it.
    fn have_late_done(&mut self, engine: usize, context: &mut SubmitContext<'_>) {
        let mut result = Ok(());
        while let Some(late) = self.slots[engine].late(context.records.now_ns, context.records.trains) {
            if self.can_others(engine, late) {
                result = result.and(self.slots[engine].give_to_others(&mut context.records));
            } else {
                self.slots[engine].wait_for_oldest(context.records.trains);
            }
        }
        self.quarantine_on_error(engine, result, context);
    }

    /// Whether one of the other engines supports all of these packets and accepts work.
    fn can_others(&self, engine: usize, packets: &[CryptoPacket]) -> bool {
        (0..self.slots.len()).any(|other| other != engine && self.can_process(other, packets))
    }

    /// Whether an engine supports all of these packets and accepts work.
    fn can_process(&self, engine: usize, packets: &[CryptoPacket]) -> bool {
        let slot = &self.slots[engine];
        let has_key = |packet: &CryptoPacket| {
            self.keys(packet.sa).is_some_and(|keys| slot.description().transforms.contains(&keys.transform()))
        };
        slot.takes_work() && packets.iter().all(has_key)
    }

    /// Installs all keys in an engine again; returns whether it accepted them.
    fn reinstall(&mut self, engine: usize) -> bool {
        let is_done = self.install_all(engine);
        wipe_stack();
        is_done
    }

    /// Never inlined, so that [`wipe_stack`] covers its frame.
    #[inline(never)]
    fn install_all(&mut self, engine: usize) -> bool {
        let slot = &mut self.slots[engine];
        for (at, keys) in self.keys.iter().enumerate() {
            let Some(keys) = keys else { continue };
            if slot.description().transforms.contains(&keys.transform())
                && far_below(|| slot.engine.install_key(SaIndex(at as u32), keys)).is_err()
            {
                return false;
            }
        }
        true
    }

    fn quarantine(&mut self, engine: usize, reason: String, records: &mut TrainRecords<'_>) {
        let slot = &mut self.slots[engine];
        if !slot.is_up() {
            return;
        }
        let name = slot.description().name.clone();
        slot.quarantine(reason.clone(), records);
        self.events.push(EngineEvent::Quarantined { engine: name, reason });
    }
}
