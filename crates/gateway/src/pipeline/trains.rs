//! Trains of the crypto stage: bursts that an engine takes as they came, without window and bundles.
//!
//! An engine on this core does a train where it lies, at once; one elsewhere gets it by pointer. All trains of a direction leave in the order in
//! which they were begun, whatever their SAs, so that order costs two moves of a pointer a train. What is in the window
//! has an order of its own, by SA, so that packets are in the one or in the others, never in both.

mod chosen;
mod retry;

use convoy_engine::{MultiPacket, RunTemplate};
use convoy_ipsec::{CryptoStatus, Direction, Ipsec, Prepared, SaIndex};
use convoy_packet::FramePool;
use convoy_scheduler::{GivenTrain, Input, OrderedRelease};

use chosen::{Chosen, Given, SeenSas};
use retry::Failed;
pub(super) use retry::Retry;

use super::engine_set::Context;
use super::stage::{CryptoStage, Released};
use crate::append::append;

/// Trains done here between two whose time is measured: reading the clock twice costs as much as a short packet's look-ups.
const MEASURED_EVERY: u32 = 16;
/// What a packet costs on its way through the window, in ns: the largest part of what `cargo bench -p convoy-scheduler` measures with a window
/// of 32. It is what bundling by SA has to win beside `t_init`.
pub(super) const WINDOW_NS: f64 = 200.0;
/// Buffers that are kept for reuse.
const SPARE_BUFFERS: usize = 64;

/// What all SAs of a direction have in common, so that no packet need be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Algorithms {
    /// There is no SA.
    #[default]
    None,
    /// All have this one.
    One(u16),
    /// They have several, or some are done by the device of a port.
    Several,
}

impl Algorithms {
    /// With one SA more.
    pub(super) fn with(self, algorithm: u16, is_bound: bool) -> Self {
        match self {
            Self::None if !is_bound => Self::One(algorithm),
            Self::One(one) if one == algorithm && !is_bound => self,
            _ => Self::Several,
        }
    }
}

/// Where the packets of a multi-packet stand in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Each has its own, among those of its SA.
    OfEach,
    /// This one, among the trains of their direction.
    Train(u64),
}

/// The trains that were begun and have not left.
#[derive(Default)]
pub(super) struct Trains {
    /// By direction.
    order: OrderedRelease<Vec<Prepared>>,
    leaving: Vec<Vec<Prepared>>,
    spare: Vec<Vec<Prepared>>,
    spare_templates: Vec<Vec<RunTemplate>>,
    /// Packets of all of them.
    pub(super) packets: u64,
    /// How many were begun, by direction.
    begun: [u64; 2],
    /// SAs that are let go, and how many trains of each direction must have left before.
    retiring: Vec<(SaIndex, [u64; 2])>,
    /// Those of the burst that is looked at.
    seen: SeenSas,
}

impl Trains {
    fn begin(&mut self, direction: Direction) -> u64 {
        self.begun[direction as usize] += 1;
        self.order.admit(direction as u32)
    }

    fn are_out(&self, direction: Direction) -> bool {
        self.order.outstanding(direction as u32) > 0
    }

    fn buffer(&mut self) -> Vec<Prepared> {
        self.spare.pop().unwrap_or_default()
    }

    fn keep_buffer(&mut self, buffer: Vec<Prepared>) {
        if self.spare.len() < SPARE_BUFFERS && buffer.capacity() > 0 {
            self.spare.push(buffer);
        }
    }

    /// Keeps the memory of templates for the next train.
    pub(super) fn keep_templates(&mut self, mut templates: Vec<RunTemplate>) {
        if self.spare_templates.len() < SPARE_BUFFERS && templates.capacity() > 0 {
            templates.clear();
            self.spare_templates.push(templates);
        }
    }

    /// Notes an SA of which trains that are out may have packets; `false` if none are out.
    pub(super) fn retire(&mut self, sa: SaIndex) -> bool {
        let are_out = self.packets > 0;
        if are_out {
            self.retiring.push((sa, self.begun));
        }
        are_out
    }

    /// SAs whose last train has left.
    fn take_retired(&mut self) -> Vec<SaIndex> {
        if self.retiring.is_empty() {
            return Vec::new();
        }
        // All before these have left, in whatever order.
        let first_out = [0, 1].map(|way| self.begun[way] - self.order.outstanding(way as u32) as u64);
        let is_gone = |(_, begun): &mut (SaIndex, [u64; 2])| {
            begun.iter().zip(first_out).all(|(begun, first)| *begun <= first)
        };
        self.retiring.extract_if(.., is_gone).map(|(sa, _)| sa).collect()
    }
}

impl CryptoStage {
    /// Takes a burst of one direction as a train at `now_ns`, if its engines take trains and
    /// nothing that it could overtake is in the window; else `packets` are left to
    /// [`push`](Self::push). Those that are raw are laid out by `ipsec` if they are done here.
    /// `input` says whether more is at hand.
    pub fn take_train(
        &mut self,
        now_ns: u64,
        packets: &mut Vec<Prepared>,
        ipsec: &mut Ipsec,
        input: Input,
        pool: &mut FramePool,
        released: &mut Released,
    ) -> bool {
        if packets.is_empty() || self.inside > self.trains.packets {
            return false;
        }
        let Chosen::Engine(given) = self.choose(now_ns, packets, input, pool) else { return false };
        let direction = packets[0].direction;
        let mut templates = Vec::new();
        if given.is_here {
            ipsec.lay_out(now_ns, packets, &mut |iv| self.ivs.fill(iv));
        } else {
            templates = self.trains.spare_templates.pop().unwrap_or_default();
            ipsec.begin(now_ns, packets, &mut templates);
            let is_refused = |packet: &Prepared| matches!(packet.status, CryptoStatus::Refused(_));
            if packets.iter().any(is_refused) {
                // No engine elsewhere is to see them, and the templates are for the places that
                // packets had.
                ipsec.lay_out(now_ns, packets, &mut |iv| self.ivs.fill(iv));
                templates.clear();
                released.of(direction).extend(packets.extract_if(.., |packet| is_refused(packet)));
                if packets.is_empty() {
                    return true;
                }
            }
        }
        if given.is_here
            && !self.trains.are_out(direction)
            && self.process_here(now_ns, &given.train, packets)
        {
            append(packets, released.of(direction));
            return true;
        }
        let buffer = self.trains.buffer();
        let packets = std::mem::replace(packets, buffer);
        self.inside += packets.len() as u64;
        self.trains.packets += packets.len() as u64;
        let place = self.trains.begin(direction);
        self.carry_out(now_ns, &given, Failed { place, packets, templates }, pool, released);
        true
    }

    /// Has a train done that has its place in the order.
    fn carry_out(
        &mut self,
        now_ns: u64,
        given: &Given,
        mut train: Failed,
        pool: &mut FramePool,
        released: &mut Released,
    ) {
        if !given.is_here {
            return self.send_train(now_ns, given, train, pool);
        }
        if self.process_here(now_ns, &given.train, &mut train.packets) {
            self.release_train(train.place, train.packets, released);
        } else {
            self.retry.trains.push_front(train);
        }
    }

    /// Has an engine on this core do those packets of a train that are not done; whether all are done then. One that leaves some undone
    /// has failed.
    fn process_here(&mut self, now_ns: u64, train: &GivenTrain, packets: &mut [Prepared]) -> bool {
        let is_measured = self.unmeasured == 0;
        let began_ns = if is_measured { self.clock.now_ns() } else { 0 };
        let is_pending = |packet: &Prepared| packet.status == CryptoStatus::Pending;
        let Some(in_place) = self.engines.in_place(train.engine) else {
            return !packets.iter().any(is_pending);
        };
        let pending = packets.iter().filter(|packet| is_pending(packet)).count();
        if pending == packets.len() {
            in_place.process(packets);
        } else {
            let runs = packets.chunk_by_mut(|one, other| is_pending(one) == is_pending(other));
            runs.filter(|run| is_pending(&run[0])).for_each(|run| in_place.process(run));
        }
        let measured = is_measured.then(|| self.clock.now_ns() - began_ns);
        if packets.iter().any(is_pending) {
            self.engines.fail_in_place(now_ns, train.engine, packets, &mut self.retry, &mut self.reports);
            // Nothing may be given to it before the reports are read.
            self.scheduler.set_available(train.engine, false);
            return false;
        }
        self.unmeasured = if is_measured { MEASURED_EVERY - 1 } else { self.unmeasured - 1 };
        self.scheduler.note_done_here(train, measured);
        let service_ns = measured.unwrap_or(train.predicted);
        self.inline_ns += service_ns;
        self.engines.note_in_place(train.engine, pending as u64, service_ns);
        true
    }

    fn send_train(&mut self, now_ns: u64, given: &Given, train: Failed, pool: &mut FramePool) {
        let Failed { place, packets, templates } = train;
        let Some(first) = packets.first() else { return };
        let ticket = self.scheduler.give_train(now_ns, &given.train, given.wait);
        let (sa, direction) = (first.sa, first.direction);
        let multi_packet = MultiPacket { ticket, sa, direction, packets, templates };
        let engine = given.train.engine;
        let deadlines = self.deadlines(now_ns, engine, given.wait + given.train.predicted);
        let retry = &mut self.retry;
        let context = &mut Context { now_ns, pool, retry, reports: &mut self.reports };
        self.engines.submit(engine, multi_packet, Place::Train(place), deadlines, context);
    }

    /// Lets a train that is done leave when those before it have left.
    pub(super) fn release_train(&mut self, place: u64, packets: Vec<Prepared>, released: &mut Released) {
        let Some(direction) = packets.first().map(|packet| packet.direction) else { return };
        let mut leaving = std::mem::take(&mut self.trains.leaving);
        if self.config.ordered {
            self.trains.order.complete(direction as u32, place, Some(packets), &mut leaving);
        } else {
            self.trains.order.complete(direction as u32, place, None, &mut leaving);
            leaving.push(packets);
        }
        for mut packets in leaving.drain(..) {
            self.inside -= packets.len() as u64;
            self.trains.packets -= packets.len() as u64;
            append(&mut packets, released.of(direction));
            self.trains.keep_buffer(packets);
        }
        self.trains.leaving = leaving;
        for sa in self.trains.take_retired() {
            self.forget(sa);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sas_have_one_algorithm_until_another_comes_or_a_port_does_one() {
        let one = Algorithms::None.with(3, false).with(3, false);
        assert_eq!(one, Algorithms::One(3));
        assert_eq!(one.with(4, false), Algorithms::Several);
        assert_eq!(one.with(3, true), Algorithms::Several);
        assert_eq!(Algorithms::None.with(3, true), Algorithms::Several);
        assert_eq!(one.with(4, false).with(3, false), Algorithms::Several);
    }
}
