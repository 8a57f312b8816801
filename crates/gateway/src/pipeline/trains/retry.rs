//! What failed engines left, and who does it again.

use std::collections::VecDeque;

use convoy_engine::{RunTemplate, lay_out};
use convoy_ipsec::{CryptoStatus, Prepared};
use convoy_packet::FramePool;
use convoy_scheduler::Input;

use super::Place;
use super::chosen::Chosen;
use crate::pipeline::iv_source::IvSource;
use crate::pipeline::stage::{CryptoStage, Released};

/// A train whose engine has failed.
pub(super) struct Failed {
    pub(super) place: u64,
    pub(super) packets: Vec<Prepared>,
    pub(super) templates: Vec<RunTemplate>,
}

impl Failed {
    fn lay_out(&mut self, ivs: &mut IvSource) {
        lay_out(&self.templates, &mut self.packets, &mut |iv| ivs.fill(iv));
        self.templates.clear();
    }

    /// Whether nothing of it is done: an engine elsewhere would do that again.
    fn is_whole(&self) -> bool {
        let is_done = |status| matches!(status, CryptoStatus::Done | CryptoStatus::IcvMismatch);
        !self.packets.iter().any(|packet| is_done(packet.status))
    }
}

/// What failed engines left.
#[derive(Default)]
pub(in crate::pipeline) struct Retry {
    /// To be scheduled again, before new input.
    pub(in crate::pipeline) packets: VecDeque<Prepared>,
    pub(super) trains: VecDeque<Failed>,
}

impl Retry {
    /// Takes what is to be done again.
    pub(in crate::pipeline) fn put(
        &mut self,
        place: Place,
        packets: Vec<Prepared>,
        templates: Vec<RunTemplate>,
    ) {
        match place {
            Place::OfEach => self.packets.extend(packets),
            Place::Train(place) => self.trains.push_back(Failed { place, packets, templates }),
        }
    }

    /// Takes all that another has, behind what is here.
    pub(in crate::pipeline) fn append(&mut self, mut other: Self) {
        self.packets.append(&mut other.packets);
        self.trains.append(&mut other.trains);
    }
}

impl CryptoStage {
    /// Does again what failed engines left of trains; whether anything moved.
    pub(in crate::pipeline) fn retry_trains(
        &mut self,
        pool: &mut FramePool,
        released: &mut Released,
    ) -> bool {
        let mut moved = false;
        while let Some(mut failed) = self.retry.trains.pop_front() {
            failed.lay_out(&mut self.ivs);
            let now_ns = self.clock.now_ns();
            match self.choose(now_ns, &failed.packets, Input::Paused, pool) {
                Chosen::Engine(given) if given.is_here || failed.is_whole() => {
                    self.carry_out(now_ns, &given, failed, pool, released);
                }
                Chosen::Engine(_) | Chosen::Window if self.engines.in_flight() == 0 => {
                    self.retry.trains.push_front(failed);
                    self.leave_trains_to_window(now_ns, released);
                }
                _ => {
                    self.retry.trains.push_front(failed);
                    break;
                }
            }
            moved = true;
        }
        moved
    }

    /// Has the window take all that engines left of trains, where no engine that takes trains is left or there are too few frames for copies of a whole
    /// train. With what is done behind them, so that nothing overtakes.
    fn leave_trains_to_window(&mut self, now_ns: u64, released: &mut Released) {
        let mut in_order = std::mem::take(&mut self.trains.leaving);
        while let Some(mut failed) = self.retry.trains.pop_front() {
            failed.lay_out(&mut self.ivs);
            let Some(first) = failed.packets.first() else { continue };
            let (stream, place) = (first.direction as u32, failed.place);
            if self.config.ordered {
                self.trains.order.complete(stream, place, Some(failed.packets), &mut in_order);
            } else {
                self.trains.order.complete(stream, place, None, &mut in_order);
                in_order.push(failed.packets);
            }
        }
        for mut packets in in_order.drain(..) {
            self.inside -= packets.len() as u64;
            self.trains.packets -= packets.len() as u64;
            for packet in packets.drain(..) {
                // An SA is let go when its trains have left, which none has here.
                let _ = self.enter(now_ns, packet);
            }
            self.trains.keep_buffer(packets);
        }
        self.trains.leaving = in_order;
        for sa in self.trains.take_retired() {
            // One that has packets in the window's order now is forgotten when the last has left.
            if self.sas[sa.0 as usize].as_ref().is_some_and(|entry| entry.outstanding == 0) {
                self.forget(sa);
            }
        }
        self.release_done(released);
    }
}
