//! The trains that engines have, and what is lent to engines to submit trains and to collect them.

use std::collections::VecDeque;

use convoy_engine::RunTemplate;
use convoy_ipsec::CryptoPacket;
use convoy_packet::FramePool;
use convoy_scheduler::Scheduler;

use super::train::{OrderPosition, Train};

/// When a train is late, and when its engine has failed; in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadlines {
    pub(super) late_ns: u64,
    pub(super) failed_ns: u64,
}

/// The record of a train at an engine: what is needed to process it again.
pub(super) struct InFlight {
    pub(super) deadlines: Deadlines,
    pub(super) place: OrderPosition,
    /// Copies of the input, if frames may be lost with the engine; otherwise empty.
    pub(super) kept: Vec<CryptoPacket>,
    /// How its raw packets are laid out.
    pub(super) templates: Vec<RunTemplate>,
}

impl InFlight {
    /// These packets as a train to be processed again.
    pub(super) fn again(self, packets: Vec<CryptoPacket>) -> Train {
        Train { place: self.place, packets, templates: self.templates }
    }

    /// The copies of these packets as a train to be processed again.
    pub(super) fn again_from_copies(mut self) -> Train {
        let kept = std::mem::take(&mut self.kept);
        self.again(kept)
    }
}

/// The window, and the record of each train that an engine has.
pub(super) type Trains = Scheduler<CryptoPacket, InFlight>;

/// Trains to be dispatched again, in the order in which their engines failed.
pub(super) type Again = VecDeque<Train>;

/// The records of trains in flight.
pub(super) struct TrainRecords<'a> {
    /// The time, in ns.
    pub(super) now_ns: u64,
    /// Holds the record of each train.
    pub(super) trains: &'a mut Trains,
    /// Receives trains that must be processed again.
    pub(super) again: &'a mut Again,
}

/// What is needed to submit to engines and to poll them.
pub(super) struct SubmitContext<'a> {
    pub(super) records: TrainRecords<'a>,
    /// Frames for copies of input that an engine may lose.
    pub(super) pool: &'a mut FramePool,
    /// Receives finished trains.
    pub(super) done: &'a mut Vec<Train>,
}
