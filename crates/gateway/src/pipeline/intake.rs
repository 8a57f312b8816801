//! How packets that were classified get to the engines: as a train, by the window, or behind those that wait for room.

use convoy_engine::{RunTemplate, lay_out};
use convoy_ipsec::{CryptoStatus, Direction, DropReason, Ipsec, Prepared};
use convoy_scheduler::Input;

use super::{MOST_WAITING, Pipeline};

/// A burst that is so long shows that more is at hand.
const FULL_BURST: usize = 32;
/// Packets that waited go as trains that are so long at most.
const LONGEST_TRAIN: usize = 64;

/// Gives raw packets their numbers, in the order in which they came, and notes what lays them out.
fn begin(ipsec: &mut Ipsec, now_ns: u64, packets: &mut [Prepared], templates: &mut Vec<RunTemplate>) {
    templates.clear();
    for run in packets.chunk_by_mut(|one, other| one.sa == other.sa) {
        let template = ipsec.begin_batch(now_ns, run[0].sa, run);
        templates.push(RunTemplate { template, packets: run.len() as u32 });
    }
}

impl Pipeline {
    /// Settles whether the next burst is left raw. To lay it out later takes the core longer, and is for nothing where it does the burst itself, so it is
    /// done only while bursts of this direction are given to an engine elsewhere.
    pub(super) fn begin_burst(&mut self, direction: Direction) {
        // What may be dropped for want of room is to spend no sequence number.
        let may_shed = self.sheds && !self.waiting.is_empty();
        self.is_raw = may_shed || self.takes_raw && self.stage.trains.go_elsewhere(direction);
        self.ipsec.set_raw(self.is_raw);
        self.templates.clear();
    }

    /// Has prepared packets done as a train where engines take trains, puts the others into the window, and those for which it has no
    /// room behind those that wait.
    pub(super) fn take_in(&mut self, now_ns: u64, direction: Direction) {
        let prepared = match direction {
            Direction::Seal => &mut self.outbound.protect,
            Direction::Open => &mut self.inbound.open,
        };
        if self.sheds && !self.waiting.is_empty() {
            let room = MOST_WAITING.saturating_sub(self.waiting.len()).min(prepared.len());
            let excess = prepared.drain(room..).map(|packet| {
                let status = CryptoStatus::Refused(DropReason::Overloaded);
                Prepared { status, ..packet }
            });
            self.released.of(direction).extend(excess);
        }
        if self.is_raw {
            begin(&mut self.ipsec, now_ns, prepared, &mut self.templates);
            let is_refused = |packet: &Prepared| matches!(packet.status, CryptoStatus::Refused(_));
            if prepared.iter().any(is_refused) {
                lay_out(&self.templates, prepared, &mut |iv| self.ivs.fill(iv));
                self.templates.clear();
                self.released.of(direction).extend(prepared.extract_if(.., |packet| is_refused(packet)));
            }
        }
        if self.waiting.is_empty() {
            let input = if prepared.len() >= FULL_BURST { Input::More } else { self.rounds.input() };
            let (pool, released) = (&mut self.pool, &mut self.released);
            if self.stage.take_train(now_ns, prepared, &mut self.templates, input, pool, released) {
                return;
            }
        }
        lay_out(&self.templates, prepared, &mut |iv| self.ivs.fill(iv));
        for packet in prepared.drain(..) {
            if !self.waiting.is_empty() {
                self.waiting.push_back(packet);
            } else if let Err(packet) = self.stage.push(now_ns, packet) {
                self.waiting.push_back(packet);
            }
        }
    }

    pub(super) fn admit(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let now_ns = self.now_ns();
        // Else the window has them: to try in vain would move all that wait for each packet that it takes.
        if self.stage.trains.packets > 0 {
            self.admit_train(now_ns);
        }
        while self.stage.room() > 0 {
            let Some(packet) = self.waiting.pop_front() else { break };
            if let Err(packet) = self.stage.push(now_ns, packet) {
                self.waiting.push_front(packet);
                break;
            }
        }
    }

    /// Makes trains of those that wait, as far as there is room for them.
    fn admit_train(&mut self, now_ns: u64) {
        let mut train = Vec::new();
        while let Some(direction) = self.waiting.front().map(|packet| packet.direction) {
            while train.len() < LONGEST_TRAIN
                && self.waiting.front().is_some_and(|packet| packet.direction == direction)
            {
                train.extend(self.waiting.pop_front());
            }
            // What waits is laid out.
            let (none, input) = (&mut Vec::new(), Input::More);
            let (pool, released) = (&mut self.pool, &mut self.released);
            let is_taken = self.stage.take_train(now_ns, &mut train, none, input, pool, released);
            if !is_taken {
                train.drain(..).rev().for_each(|packet| self.waiting.push_front(packet));
                break;
            }
        }
    }
}
