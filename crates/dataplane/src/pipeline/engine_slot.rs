//! One engine with its health and the copies of inputs that it might lose.

mod lateness;

use std::collections::{BTreeSet, VecDeque};

use convoy_engine::{
    Completion, Engine, EngineDescription, Exam, Outcome, Refused, RunTemplate, Submission, keep_input,
};
use convoy_ipsec::{CryptoPacket, CryptoStatus, KeyMaterial, Transform};
use convoy_packet::{FramePool, FrameSize, Offload};

use super::in_flight::{Deadlines, InFlight, SubmitContext, TrainRecords, Trains};
use super::train::{OrderPosition, Train};
use lateness::Lateness;
pub use lateness::Timeouts;

/// First interval between a failure and a probe, in ns; it doubles with each failed probe.
const FIRST_PROBE_NS: u64 = 100_000_000;
/// Longest interval between probes, in ns.
const LONGEST_PROBE_NS: u64 = 10_000_000_000;

/// How long an engine that is to come back may take for all known answers, in ns.
const EXAM_NS: u64 = 1_000_000_000;

/// Whether an engine is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It accepts work.
    Up,
    /// It was quarantined.
    Down {
        /// Why it was quarantined.
        reason: String,
        /// Time of the next probe, in ns.
        next_probe_ns: u64,
    },
}

/// Counters of one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounters {
    /// Packets whose result was used.
    pub packets: u64,
    /// Trains whose result was used.
    pub trains: u64,
    /// Time that the engine spent on these, in ns; trains whose time is unknown are left out.
    pub service_ns: u64,
    /// How often it was quarantined.
    pub failures: u64,
    /// Packets that were processed again by another engine.
    pub retried_packets: u64,
    /// Packets of it that another engine has computed again.
    pub verified: u64,
    /// How often it came back.
    pub recoveries: u64,
    /// Trains that completed after another engine had processed them or they had been given up;
    /// their results were discarded.
    pub late: u64,
}

/// One engine of a set.
pub(super) struct EngineSlot {
    /// Its index in the set.
    at: usize,
    pub(super) engine: Box<dyn Engine>,
    pub(super) health: Health,
    pub(super) counters: SlotCounters,
    /// Trains that the engine refused for lack of room although the scheduler counted some; offered
    /// again, in order.
    backlog: VecDeque<Submission>,
    completions: Vec<Completion>,
    spare: Vec<Vec<CryptoPacket>>,
    spare_templates: Vec<Vec<RunTemplate>>,
    probe_pause_ns: u64,
    /// The known answers that it is asked for before it comes back, and until when, in ns.
    exam: Option<(Exam, u64)>,
    lateness: Lateness,
    /// Whether the engine wakes the worker on completion.
    pub(super) wakes: bool,
}

impl EngineSlot {
    pub(super) fn new(at: usize, engine: Box<dyn Engine>) -> Self {
        Self {
            at,
            engine,
            health: Health::Up,
            counters: SlotCounters::default(),
            backlog: VecDeque::new(),
            completions: Vec::new(),
            spare: Vec::new(),
            spare_templates: Vec::new(),
            probe_pause_ns: FIRST_PROBE_NS,
            exam: None,
            lateness: Lateness::default(),
            wakes: false,
        }
    }

    pub(super) fn description(&self) -> &EngineDescription {
        self.engine.description()
    }

    pub(super) fn is_up(&self) -> bool {
        self.health == Health::Up
    }

    /// Whether it accepts work.
    pub(super) fn takes_work(&self) -> bool {
        self.is_up() && !self.lateness.rests
    }

    /// Whether it is up with nothing to collect.
    pub(super) fn is_quiet(&self, trains: &Trains) -> bool {
        self.takes_work() && trains.records(self.at).next().is_none() && self.engine.in_flight() == 0
    }

    /// The ticket of the oldest train that the engine has gathered, if any.
    pub(super) fn oldest_gathered(&self, trains: &Trains) -> Option<u64> {
        if self.engine.gathered() > 0 {
            trains.records(self.at).next().map(|(ticket, _)| ticket)
        } else {
            None
        }
    }

    /// How many of `packets`, from the first, can be copied with the frames in `pool`; all of them
    /// if the engine needs no copies.
    pub(super) fn can_keep(&self, pool: &FramePool, packets: &[CryptoPacket]) -> usize {
        if !self.description().needs_input_kept {
            return packets.len();
        }
        let mut free = [None; FrameSize::ALL.len()];
        let is_without = |packet: &CryptoPacket| {
            let size = packet.frame.size();
            let of_size = free[size as usize].get_or_insert_with(|| pool.available(size));
            let is_without = *of_size == 0;
            *of_size = of_size.saturating_sub(1);
            is_without
        };
        packets.iter().position(is_without).unwrap_or(packets.len())
    }

    /// Submits a train to the engine with its deadlines. On `Err` the engine has failed, and its
    /// trains must be processed again.
    pub(super) fn submit(
        &mut self,
        submission: Submission,
        place: OrderPosition,
        deadlines: Deadlines,
        context: &mut SubmitContext<'_>,
    ) -> Result<(), String> {
        let mut kept = self.spare.pop().unwrap_or_default();
        if self.description().needs_input_kept {
            for packet in &submission.packets {
                let Some(copy) = keep_input(packet, context.pool) else {
                    release(context.pool, kept);
                    let Submission { ticket, packets, templates, .. } = submission;
                    context.records.trains.forget(context.records.now_ns, self.at, ticket);
                    context.records.again.push_back(Train { place, packets, templates });
                    return Err("no packet buffer was free for a copy of its input".to_owned());
                };
                kept.push(copy);
            }
        }
        let ticket = submission.ticket;
        let mut templates = self.spare_templates.pop().unwrap_or_default();
        templates.clone_from(&submission.templates);
        context.records.trains.note(self.at, ticket, InFlight { deadlines, place, kept, templates });
        self.offer(submission, context)
    }

    fn offer(&mut self, submission: Submission, context: &mut SubmitContext<'_>) -> Result<(), String> {
        if !self.backlog.is_empty() {
            self.backlog.push_back(submission);
            return Ok(());
        }
        let Err(refused) = self.engine.submit(submission) else { return Ok(()) };
        let Refused { submission, reason } = *refused;
        if matches!(reason, convoy_engine::EngineError::NoRoom(_)) {
            self.backlog.push_front(submission);
            return Ok(());
        }
        // A refused train is unchanged, so the packets themselves are processed again and their
        // copies released.
        let entry = context.records.trains.forget(context.records.now_ns, self.at, submission.ticket);
        if let Some(mut entry) = entry {
            release(context.pool, std::mem::take(&mut entry.kept));
            context.records.again.push_back(entry.again(submission.packets));
        }
        Err(reason.to_string())
    }

    /// Collects completions. `Err` says how the engine has failed.
    pub(super) fn poll(&mut self, context: &mut SubmitContext<'_>) -> Result<(), String> {
        let mut result = Ok(());
        self.engine.poll(&mut self.completions);
        let mut completions = std::mem::take(&mut self.completions);
        for completion in completions.drain(..) {
            let completion = match &mut self.exam {
                Some((exam, _)) => exam.take(completion),
                None => Some(completion),
            };
            if let Some(completion) = completion {
                result = result.and(self.complete(completion, context));
            }
        }
        self.completions = completions;
        while self.takes_work() {
            let Some(submission) = self.backlog.pop_front() else { break };
            let waiting = self.backlog.len();
            result = result.and(self.offer(submission, context));
            if self.backlog.len() > waiting {
                break;
            }
        }
        if self.has_failed(context.records.now_ns, context.records.trains) {
            result = result.and(Err("it did not answer before its deadline".to_owned()));
        }
        result
    }

    fn complete(&mut self, completion: Completion, context: &mut SubmitContext<'_>) -> Result<(), String> {
        let Completion { submission, outcome, service_ns } = completion;
        let ticket = submission.ticket;
        let Some(entry) = context.records.trains.take_record(self.at, ticket) else {
            // Processed elsewhere already: using this result would send its packets twice.
            self.counters.late += 1;
            self.lateness.brought(ticket);
            release(context.pool, submission.packets);
            return Ok(());
        };
        let pending = submission.packets.iter().any(|packet| packet.status == CryptoStatus::Pending);
        if outcome == Outcome::Done && !pending {
            self.counters.packets += submission.packets.len() as u64;
            self.counters.trains += 1;
            self.counters.service_ns += service_ns.unwrap_or_default();
            let kept = release(context.pool, entry.kept);
            self.spare.push(kept);
            self.spare_templates.push(entry.templates);
            context.records.trains.complete(context.records.now_ns, self.at, ticket, service_ns);
            let Submission { packets, templates, .. } = submission;
            context.done.push(Train { place: entry.place, packets, templates });
            return Ok(());
        }
        context.records.trains.forget(context.records.now_ns, self.at, ticket);
        self.counters.retried_packets += submission.packets.len() as u64;
        let mut packets = submission.packets;
        if self.description().needs_input_kept {
            release(context.pool, packets);
            context.records.again.push_back(entry.again_from_copies());
        } else {
            for packet in &mut packets {
                packet.status = CryptoStatus::Pending;
                packet.frame.set_offload(Offload::None);
            }
            context.records.again.push_back(entry.again(packets));
        }
        Err("it reported a failed train".to_owned())
    }

    /// Queues what never reached the engine to be processed again. The packets are intact; the
    /// copies are returned to their pool on drop.
    fn withdraw_backlog(&mut self, records: &mut TrainRecords<'_>) {
        for submission in self.backlog.drain(..) {
            let entry = records.trains.forget(records.now_ns, self.at, submission.ticket);
            let Some(entry) = entry else { continue };
            self.counters.retried_packets += submission.packets.len() as u64;
            records.again.push_back(entry.again(submission.packets));
        }
    }

    /// Takes the engine out of use: all its trains are processed again elsewhere.
    pub(super) fn quarantine(&mut self, reason: String, records: &mut TrainRecords<'_>) {
        if !self.is_up() {
            return;
        }
        self.counters.failures += 1;
        self.lateness.clear();
        self.withdraw_backlog(records);
        for entry in records.trains.take_out(self.at) {
            self.counters.retried_packets += entry.kept.len() as u64;
            records.again.push_back(entry.again_from_copies());
        }
        self.probe_pause_ns = FIRST_PROBE_NS;
        self.health = Health::Down { reason, next_probe_ns: records.now_ns + FIRST_PROBE_NS };
    }

    /// Probes an engine that is down if its time has come; `true` once it has responded, and has
    /// given the known answers of the transforms that these keys are for.
    pub(super) fn probe(&mut self, now_ns: u64, keys: &[Option<KeyMaterial>]) -> bool {
        let Health::Down { reason, next_probe_ns } = &mut self.health else { return false };
        if now_ns < *next_probe_ns {
            return false;
        }
        let engine = self.engine.as_mut();
        let exam = match self.exam.take() {
            Some(exam) => Ok(exam),
            None => engine.probe().map(|()| {
                let transforms = in_use(keys, &engine.description().transforms);
                (Exam::new(transforms), now_ns + EXAM_NS)
            }),
        };
        let examined = exam.and_then(|(mut exam, until_ns)| {
            if exam.ask(engine)? {
                return Ok(true);
            }
            if now_ns >= until_ns {
                return Err(exam.end(engine));
            }
            self.exam = Some((exam, until_ns));
            Ok(false)
        });
        match examined {
            Ok(has_passed) => has_passed,
            Err(error) => {
                self.probe_pause_ns = (self.probe_pause_ns * 2).min(LONGEST_PROBE_NS);
                *next_probe_ns = now_ns + self.probe_pause_ns;
                *reason = error.to_string();
                false
            }
        }
    }

    /// Puts a probed engine back into use.
    pub(super) fn bring_back(&mut self) {
        self.health = Health::Up;
        self.counters.recoveries += 1;
    }
}

/// Returns the frames to the pool, and the emptied vector to the caller.
fn release(pool: &mut FramePool, mut packets: Vec<CryptoPacket>) -> Vec<CryptoPacket> {
    for packet in packets.drain(..) {
        pool.give_back(packet.frame);
    }
    packets
}

/// The transforms of these keys, among those supported, without repetitions.
fn in_use(keys: &[Option<KeyMaterial>], supported: &[Transform]) -> Vec<Transform> {
    let used: BTreeSet<Transform> = keys.iter().flatten().map(KeyMaterial::transform).collect();
    used.into_iter().filter(|transform| supported.contains(transform)).collect()
}
