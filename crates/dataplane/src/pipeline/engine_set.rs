//! The engines of one worker, and what happens when one of them fails.
//!
//! An engine that errs, hangs past its deadline or vanishes is quarantined. Its packets are done
//! again elsewhere from copies of their input, its results are no longer believed, and it is probed
//! until it comes back with all its keys. Nothing is lost, nothing is sent twice.

use std::task::Waker;

use convoy_engine::{
    Binding, Engine, EngineDescription, EngineError, InPlace, MultiPacket, Placement, Takes, wipe_stack,
};
use convoy_ipsec::{CryptoPacket, CryptoStatus, KeyMaterial, SaIndex};
use convoy_packet::FramePool;

use super::engine_slot::{Deadlines, EngineSlot, Health, SlotCounters};
use super::train::{Again, OrderPosition, Train, Trains};

/// What is known of the trains that engines have.
pub(super) struct Records<'a> {
    /// The time, in ns.
    pub(super) now_ns: u64,
    /// Has the record of each.
    pub(super) trains: &'a mut Trains,
    /// Gets what is to be done again.
    pub(super) again: &'a mut Again,
}

/// What the set works with when engines are given work or polled.
pub(super) struct Context<'a> {
    pub(super) records: Records<'a>,
    /// The frames, for copies of what engines may lose.
    pub(super) pool: &'a mut FramePool,
    /// Gets what is done.
    pub(super) done: &'a mut Vec<Train>,
}

/// What the operator is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    /// An engine was quarantined.
    Quarantined {
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

impl std::fmt::Display for EngineEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Quarantined { engine, reason } => write!(f, "engine {engine} was quarantined: {reason}"),
            Self::CameBack { engine } => write!(f, "engine {engine} came back"),
        }
    }
}

/// The engines of one worker.
pub struct EngineSet {
    slots: Vec<EngineSlot>,
    /// All keys, by SA, so that an engine which comes back gets them again. Wiped when dropped.
    keys: Vec<Option<KeyMaterial>>,
    events: Vec<EngineEvent>,
}

impl EngineSet {
    /// A set of these engines, in the order of the configuration.
    pub fn new(engines: Vec<Box<dyn Engine>>) -> Self {
        Self {
            slots: engines.into_iter().enumerate().map(|(at, engine)| EngineSlot::new(at, engine)).collect(),
            keys: Vec::new(),
            events: Vec::new(),
        }
    }

    /// How many engines there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// What an engine says of itself.
    pub fn description(&self, engine: usize) -> &EngineDescription {
        self.slots[engine].description()
    }

    /// Whether an engine is in use.
    pub fn health(&self, engine: usize) -> &Health {
        &self.slots[engine].health
    }

    /// What an engine has done.
    pub fn counters(&self, engine: usize) -> SlotCounters {
        self.slots[engine].counters
    }

    /// Has all engines wake their worker when something is done. Those that cannot are known from
    /// then on.
    pub fn wake_by(&mut self, waker: &Waker) {
        for slot in &mut self.slots {
            slot.wakes = slot.engine.wake_by(waker);
        }
    }

    /// Whether every engine that has something wakes the worker when it is done, and none is to be
    /// probed.
    pub(super) fn wakes(&self, trains: &Trains) -> bool {
        self.slots.iter().all(|slot| slot.is_up() && (slot.wakes || slot.is_quiet(trains)))
    }

    /// Whether an engine has something to bring now.
    pub fn has_completions(&self) -> bool {
        self.slots.iter().any(|slot| slot.engine.has_completions())
    }

    /// When the next engine will be late or have failed unless it brings what it has, in ns.
    pub(super) fn next_deadline_ns(&self, trains: &Trains) -> Option<u64> {
        self.slots.iter().filter_map(|slot| slot.next_deadline_ns(trains)).min()
    }

    /// Multi-packets that all engines have together.
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

    /// Installs an SA's keys in every engine that can use them. An engine that fails at it is
    /// quarantined.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] if no engine at all can do the transform.
    pub(super) fn install_key(
        &mut self,
        sa: SaIndex,
        keys: &KeyMaterial,
        records: &mut Records<'_>,
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
            if let Err(error) = slot.engine.install_key(sa, keys) {
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

    /// Has the device of a port take an SA; the engine that stands for it, if there is one that
    /// can.
    pub fn bind(&mut self, sa: SaIndex, binding: Binding, keys: &KeyMaterial) -> Option<usize> {
        self.slots.iter_mut().position(|slot| slot.engine.bind(sa, binding, keys))
    }

    /// The SA that a port's device has opened a packet for, by the device's number.
    pub fn bound(&self, number: u32) -> Option<SaIndex> {
        self.slots.iter().find_map(|slot| slot.engine.bound(number))
    }

    /// An engine without its queue, if it is in use and works in place.
    pub(super) fn in_place(&mut self, engine: usize) -> Option<&mut dyn InPlace> {
        let slot = &mut self.slots[engine];
        if slot.is_up() { slot.engine.in_place() } else { None }
    }

    /// Whether an engine takes raw packets and lays them out on its own core.
    pub(super) fn lays_out(&self, engine: usize) -> bool {
        let EngineDescription { takes, placement, .. } = *self.description(engine);
        takes == Takes::Trains && placement == Placement::Lookaside
    }

    /// Whether longer bursts are done at less cost: on this core by an engine that gathers packets,
    /// and by none elsewhere, which would begin later.
    pub(super) fn gains_by_long_bursts(&self) -> bool {
        let descriptions = || self.slots.iter().map(EngineSlot::description);
        let are_here = descriptions().all(|engine| engine.placement == Placement::Inline);
        are_here && descriptions().any(|engine| engine.gathers > 1 && engine.takes == Takes::Trains)
    }

    /// Counts a burst that an engine did in place, and how long that took, measured or predicted.
    pub(super) fn note_in_place(&mut self, engine: usize, packets: u64, service_ns: u64) {
        let counters = &mut self.slots[engine].counters;
        counters.packets += packets;
        counters.multi_packets += 1;
        counters.service_ns += service_ns;
    }

    /// Quarantines an engine that left some of these packets undone.
    pub(super) fn fail_in_place(
        &mut self,
        engine: usize,
        packets: &[CryptoPacket],
        records: &mut Records<'_>,
    ) {
        let undone = packets.iter().filter(|packet| packet.status == CryptoStatus::Pending).count();
        self.slots[engine].counters.retried_packets += undone as u64;
        self.quarantine(engine, "it left packets undone".to_owned(), records);
    }

    /// Whether all engines are in use and none has anything to bring.
    pub(super) fn is_quiet(&self, trains: &Trains) -> bool {
        self.slots.iter().all(|slot| slot.is_quiet(trains))
    }

    /// Removes an SA's keys everywhere; none of its packets is in flight.
    pub fn remove_key(&mut self, sa: SaIndex) {
        if let Some(slot) = self.keys.get_mut(sa.0 as usize) {
            *slot = None;
        }
        for slot in &mut self.slots {
            slot.engine.remove_key(sa);
        }
    }

    /// How many of `packets`, from the first, can go to `engine` now: those for which there are
    /// frames to keep the copies that it needs.
    pub(super) fn can_submit(&self, engine: usize, pool: &FramePool, packets: &[CryptoPacket]) -> usize {
        self.slots[engine].can_keep(pool, packets)
    }

    /// Hands a multi-packet to an engine, to be done by its deadlines. If the engine fails, it is
    /// quarantined and all that it had is to be done again.
    pub(super) fn submit(
        &mut self,
        engine: usize,
        multi_packet: MultiPacket,
        place: OrderPosition,
        deadlines: Deadlines,
        context: &mut Context<'_>,
    ) {
        let result = self.slots[engine].submit(multi_packet, place, deadlines, context);
        self.quarantine_on_error(engine, result, context);
    }

    /// Quarantines an engine that has failed.
    fn quarantine_on_error(&mut self, engine: usize, result: Result<(), String>, context: &mut Context<'_>) {
        if let Err(reason) = result {
            self.quarantine(engine, reason, &mut context.records);
        }
    }

    /// Polls every engine that has not gathered anything: completions, failures, deadlines,
    /// recoveries.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        for engine in 0..self.slots.len() {
            self.poll_one(engine, context);
        }
    }

    /// Whether an engine has multi-packets that it will begin later.
    pub fn has_gathered(&self, engine: usize) -> bool {
        self.slots[engine].engine.gathered() > 0
    }

    /// The ticket of the oldest multi-packet that an engine has gathered.
    pub(super) fn oldest_gathered(&self, trains: &Trains) -> Option<u64> {
        self.slots.iter().filter_map(|slot| slot.oldest_gathered(trains)).min()
    }

    /// Has engines begin what they have gathered, and polls them; whether there was any.
    pub(super) fn begin(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        for engine in 0..self.slots.len() {
            if self.has_gathered(engine) {
                any = true;
                self.poll_now(engine, context);
            }
        }
        any
    }

    /// Polls one engine, unless it gathers: a poll would have it begin.
    pub(super) fn poll_one(&mut self, engine: usize, context: &mut Context<'_>) {
        if !self.has_gathered(engine) {
            self.poll_now(engine, context);
        }
    }

    fn poll_now(&mut self, engine: usize, context: &mut Context<'_>) {
        let result = self.slots[engine].poll(context);
        self.quarantine_on_error(engine, result, context);
        self.have_late_done(engine, context);
        if self.slots[engine].ends_rest(context.records.trains) {
            context.records.trains.set_available(engine, true);
        }
        if self.slots[engine].probe(context.records.now_ns) && self.reinstall(engine) {
            self.slots[engine].bring_back();
            let name = self.slots[engine].description().name.clone();
            self.events.push(EngineEvent::CameBack { engine: name });
            context.records.trains.set_available(engine, true);
        }
    }

    /// Has others do what an engine is late with, if there are any that can.
    fn have_late_done(&mut self, engine: usize, context: &mut Context<'_>) {
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

    /// Whether one of the other engines can do all of these packets, and may be given them.
    fn can_others(&self, engine: usize, packets: &[CryptoPacket]) -> bool {
        let can = |slot: &EngineSlot| {
            let has_key = |packet: &CryptoPacket| {
                let keys = self.keys.get(packet.sa.0 as usize).and_then(Option::as_ref);
                keys.is_some_and(|keys| slot.description().transforms.contains(&keys.transform()))
            };
            slot.takes_work() && packets.iter().all(has_key)
        };
        self.slots.iter().enumerate().any(|(at, slot)| at != engine && can(slot))
    }

    /// Gives an engine all keys again; whether it took them.
    fn reinstall(&mut self, engine: usize) -> bool {
        let is_done = self.install_all(engine);
        wipe_stack();
        is_done
    }

    /// Never inlined, for the sake of [`wipe_stack`].
    #[inline(never)]
    fn install_all(&mut self, engine: usize) -> bool {
        let slot = &mut self.slots[engine];
        for (at, keys) in self.keys.iter().enumerate() {
            let Some(keys) = keys else { continue };
            if slot.description().transforms.contains(&keys.transform())
                && slot.engine.install_key(SaIndex(at as u32), keys).is_err()
            {
                return false;
            }
        }
        true
    }

    fn quarantine(&mut self, engine: usize, reason: String, records: &mut Records<'_>) {
        let slot = &mut self.slots[engine];
        if !slot.is_up() {
            return;
        }
        let name = slot.description().name.clone();
        slot.quarantine(reason.clone(), records);
        self.events.push(EngineEvent::Quarantined { engine: name, reason });
    }
}
