//! How packets that were classified get to the engines: as a train, by the window, or behind those that wait for room.

use convoy_ipsec::{CryptoStatus, Direction, DropReason, Prepared};
use convoy_scheduler::Input;

use super::{MOST_WAITING, Pipeline};

/// A burst that is so long shows that more is at hand.
const FULL_BURST: usize = 32;
/// Packets that waited go as trains that are so long at most.
const LONGEST_TRAIN: usize = 64;

impl Pipeline {
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
        if self.waiting.is_empty() {
            let input = if prepared.len() >= FULL_BURST { Input::More } else { self.rounds.input() };
            let (ipsec, pool, released) = (&mut self.ipsec, &mut self.pool, &mut self.released);
            if self.stage.take_train(now_ns, prepared, ipsec, input, pool, released) {
                return;
            }
        }
        self.ipsec.lay_out(now_ns, prepared, &mut |iv| self.ivs.fill(iv));
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
            let (ipsec, pool, released) = (&mut self.ipsec, &mut self.pool, &mut self.released);
            let is_taken = self.stage.take_train(now_ns, &mut train, ipsec, Input::More, pool, released);
            if !is_taken {
                train.drain(..).rev().for_each(|packet| self.waiting.push_front(packet));
                break;
            }
        }
    }
}
