//! The way of a packet through the stages before and after cryptography.

use super::stage::Server;
use super::stage::Single;
use super::{Carried, Machine, Observer};
use crate::traffic::Traffic;

impl<T: Traffic, O: Observer> Machine<'_, T, O> {
    /// Number of packets that have arrived but are not yet in the window.
    #[inline]
    pub(super) fn inside_before(&self) -> usize {
        if self.before.is_empty() {
            return 0;
        }
        let in_stage = |at: &usize| {
            let stage = &self.stages[*at];
            let own = match &stage.server {
                Server::Own(packets) => packets.iter().flatten().count(),
                Server::Cores(of) => {
                    self.cores[*of].at.iter().flatten().filter(|(stage, _)| stage == at).count()
                }
                Server::Processor(_) | Server::Bus(_) => 0,
            };
            stage.queue.len() + usize::from(stage.current.is_some()) + own
        };
        self.door.len() + self.before.iter().map(in_stage).sum::<usize>()
    }

    /// Takes in a packet that has arrived.
    #[inline(never)]
    pub(super) fn enter_platform(&mut self, single: Single) {
        match self.before.first() {
            Some(first) => self.enter_stage(*first, single),
            None => self.enter_window(single),
        }
    }

    fn enter_stage(&mut self, at: usize, single: Single) {
        if !self.stages[at].concerns(&single) {
            return self.leave_stage(at, single);
        }
        self.stages[at].queue.push_back((self.now, single));
        self.start_stage(at);
    }

    /// Starts the next packet of a stage if its server is free.
    fn start_stage(&mut self, at: usize) {
        let stage = &mut self.stages[at];
        match &mut stage.server {
            Server::Own(packets) => {
                let Some(free) = packets.iter().position(Option::is_none) else { return };
                let Some((single, ticks)) = stage.take(self.now) else { return };
                let Server::Own(packets) = &mut stage.server else { return };
                packets[free] = Some(single);
                self.events.set(stage.slot + free, self.now + ticks);
            }
            Server::Cores(of) => {
                let of = *of;
                self.start_cores(of);
            }
            Server::Processor(processor) => {
                let processor = *processor;
                self.advance(processor);
            }
            Server::Bus(bus) => {
                let bus = *bus;
                if stage.current.is_some() {
                    return;
                }
                let Some((since, single)) = stage.queue.pop_front() else { return };
                stage.current = Some(single);
                let ticks = self.buses[bus].multi_packet(single.carried.bytes.into(), 1);
                let end = self.buses[bus].request(self.now, ticks);
                stage.count(ticks, end - since);
                self.events.set(stage.slot, end);
            }
        }
    }

    /// Gives a free processor a stage's packet if that packet has waited longer than the oldest
    /// multi-packet; on a tie the packet goes first. Returns whether it did.
    #[inline(never)]
    pub(super) fn serve_stage_first(&mut self, processor: usize) -> bool {
        let Some(oldest_job) = self.processors[processor].oldest_if_free() else { return false };
        let is_here = |server: &Server| matches!(server, Server::Processor(of) if *of == processor);
        let waiting = self.stages.iter().enumerate().filter(|(_, stage)| is_here(&stage.server));
        let oldest =
            waiting.filter_map(|(at, stage)| stage.queue.front().map(|(since, _)| (*since, at))).min();
        let Some((since, at)) = oldest.filter(|(since, _)| oldest_job.is_none_or(|job| *since <= job)) else {
            return false;
        };
        debug_assert!(since <= self.now);
        self.serve_stage(at, processor);
        true
    }

    /// Gives the next packet of a stage to a free processor.
    pub(super) fn serve_stage(&mut self, at: usize, processor: usize) {
        let stage = &mut self.stages[at];
        let taken = stage.take(self.now);
        stage.current = taken.map(|(single, _)| single);
        let ticks = taken.map_or(0, |(_, ticks)| ticks);
        self.processors[processor].serve_stage(at, ticks);
        self.events.set(self.slots[processor].core, self.now + ticks);
    }

    /// Handles a stage's own server that has finished.
    #[inline(never)]
    pub(super) fn server_done(&mut self, at: usize, server: usize) {
        let Server::Own(packets) = &mut self.stages[at].server else { return };
        if let Some(single) = packets[server].take() {
            self.leave_stage(at, single);
        }
        self.start_stage(at);
    }

    /// Handles a processor that has finished a stage's packet.
    #[inline(never)]
    pub(super) fn stage_computed(&mut self, at: usize, processor: usize) {
        if let Some(single) = self.stages[at].current.take() {
            self.leave_stage(at, single);
        }
        self.advance(processor);
    }

    /// Handles the end of the transfer of a stage's packet.
    #[inline(never)]
    pub(super) fn stage_moved(&mut self, at: usize) {
        if let Some(single) = self.stages[at].current.take() {
            self.leave_stage(at, single);
        }
        self.start_stage(at);
    }

    /// Passes a packet on to the next stage on its side of the window; after the last one it goes
    /// to the queue before the window, or leaves the platform.
    pub(super) fn leave_stage(&mut self, at: usize, single: Single) {
        let next_of = |side: &[usize]| side.iter().skip_while(|of| **of != at).nth(1).copied();
        if self.before.contains(&at) {
            match next_of(&self.before) {
                Some(next) => self.enter_stage(next, single),
                None => self.door.push_back(single),
            }
        } else if let Some(next) = next_of(&self.after) {
            self.enter_stage(next, single);
        } else {
            self.leave(&[single.carried]);
        }
    }

    /// Moves packets from `door` into the window while it has room, and returns whether any were
    /// moved.
    #[inline(never)]
    pub(super) fn pass_door(&mut self) -> bool {
        let mut has_passed = false;
        while let Some(single) = self.door.front().copied()
            && self.scheduler.room_for(single.carried.class) > 0
        {
            self.door.pop_front();
            self.enter_window(single);
            has_passed = true;
        }
        has_passed
    }

    /// Passes on the packets of a completed multi-packet.
    #[inline(never)]
    pub(super) fn leave_cryptography(&mut self, sa: u32, packets: &[Carried]) {
        match self.after.first().copied() {
            Some(first) => {
                packets.iter().for_each(|carried| self.enter_stage(first, Single { sa, carried: *carried }))
            }
            None => self.leave(packets),
        }
    }

    fn leave(&mut self, packets: &[Carried]) {
        self.inside -= packets.len();
        self.measures.left(self.now, packets);
    }
}
