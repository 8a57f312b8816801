//! An engine that fails on purpose, by a plan and a seed: for tests, and for `convoy-lab demo
//! --fail`.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::task::Waker;

use convoy_ipsec::{CryptoStatus, KeyMaterial, SaIndex};

use crate::{
    Completion, Engine, EngineControl, EngineDescription, EngineError, EngineQueue, Outcome, Placement,
    Refused, Submission, Takes,
};

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InjectedFault {
    /// Trains come back as [`Outcome::Failed`], their frames and statuses garbled.
    Error,
    /// Trains are accepted and never complete.
    Hang,
    /// Trains come back as done, with one bit of the first packet flipped.
    Wrong,
    /// Every call returns an error; keys and work in flight are lost.
    Vanish,
    /// Completions are held back for this many calls of `poll`; afterwards the engine is healthy
    /// again.
    Slow {
        /// Calls of `poll` that return nothing.
        polls: u32,
    },
}

/// When an engine fails, how, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// The same seed and the same calls give the same faults.
    pub seed: u64,
    /// Each fault is drawn from these; none if empty.
    pub faults: Vec<InjectedFault>,
    /// Trains accepted in good health before the next fault; drawn from this range.
    pub after: RangeInclusive<u32>,
    /// The total number of faults.
    pub times: u32,
    /// Failed probes before it works again; `None` is never. `Slow` needs no probe.
    pub probes: Option<u32>,
}

impl FaultPlan {
    /// Never fails.
    pub fn none() -> Self {
        Self { seed: 0, faults: Vec::new(), after: 0..=0, times: 0, probes: Some(0) }
    }

    /// Fails once, with the train that comes after `after` good ones, and recovers at the
    /// first probe.
    pub fn once(fault: InjectedFault, after: u32) -> Self {
        Self { seed: 0, faults: vec![fault], after: after..=after, times: 1, probes: Some(0) }
    }

    /// Fails repeatedly in all ways, at intervals up to 50 trains, and recovers at the third
    /// probe.
    pub fn random(seed: u64) -> Self {
        let faults = vec![
            InjectedFault::Error,
            InjectedFault::Hang,
            InjectedFault::Vanish,
            InjectedFault::Slow { polls: 20 },
        ];
        Self { seed, faults, after: 0..=50, times: u32::MAX, probes: Some(2) }
    }
}

enum FaultState {
    /// Healthy for this many more trains; `None` is forever.
    Healthy(Option<u32>),
    /// Returns nothing for this many more polls.
    Slow(u32),
    Failing {
        fault: InjectedFault,
        probes_left: Option<u32>,
    },
}

/// Another engine, with faults.
pub struct Faulty {
    engine: Box<dyn Engine>,
    description: EngineDescription,
    plan: FaultPlan,
    dice: Dice,
    state: FaultState,
    keys: HashSet<SaIndex>,
    /// Tickets that the engine behind this one has.
    inside: Vec<u64>,
    /// Those of them that were lost: dropped on completion.
    lost: HashSet<u64>,
    /// Accepted while hanging; never processed.
    swallowed: Vec<Submission>,
    /// Completed, and held back.
    held: Vec<Completion>,
    /// Completed, and ready to be polled.
    ready: Vec<Completion>,
    from_engine: Vec<Completion>,
}

impl Faulty {
    /// `engine`, failing as `plan` says. Its input must be kept, whatever its own description says.
    pub fn new(engine: Box<dyn Engine>, plan: FaultPlan) -> Self {
        let mut description = engine.description().clone();
        description.needs_input_kept = true;
        if description.placement == Placement::Inline {
            // Its faults are in its queue, so nothing may bypass that.
            description.takes = Takes::MultiPackets;
        }
        let mut faulty = Self {
            engine,
            description,
            dice: Dice(plan.seed),
            plan,
            state: FaultState::Healthy(None),
            keys: HashSet::new(),
            inside: Vec::new(),
            lost: HashSet::new(),
            swallowed: Vec::new(),
            held: Vec::new(),
            ready: Vec::new(),
            from_engine: Vec::new(),
        };
        faulty.become_healthy();
        faulty
    }

    fn become_healthy(&mut self) {
        let has_more = self.plan.times > 0 && !self.plan.faults.is_empty();
        self.state = FaultState::Healthy(has_more.then(|| self.dice.within(&self.plan.after)));
    }

    fn fail(&mut self) {
        self.plan.times -= 1;
        let fault = self.plan.faults[self.dice.below(self.plan.faults.len() as u64) as usize];
        self.state = match fault {
            InjectedFault::Slow { polls } => FaultState::Slow(polls),
            fault => FaultState::Failing { fault, probes_left: self.plan.probes },
        };
        if fault == InjectedFault::Vanish {
            self.lost.extend(self.inside.drain(..));
            self.ready.clear();
            self.held.clear();
            self.keys.clear();
        }
    }

    fn error(&self, reason: &str) -> EngineError {
        EngineError::Device { engine: self.description.name.clone(), reason: reason.to_owned() }
    }

    fn pass_on(&mut self, submission: Submission) -> Result<(), Box<Refused>> {
        let ticket = submission.ticket;
        self.engine.submit(submission)?;
        self.inside.push(ticket);
        Ok(())
    }

    /// Collects the engine's completions, without what was lost.
    fn collect(&mut self) {
        self.engine.poll(&mut self.from_engine);
        let (lost, inside) = (&mut self.lost, &mut self.inside);
        self.from_engine.retain(|completion| {
            let ticket = completion.submission.ticket;
            inside.retain(|other| *other != ticket);
            !lost.remove(&ticket)
        });
    }

    fn flip(&mut self, submission: &mut Submission) {
        let Some(packet) = submission.packets.first_mut().filter(|packet| !packet.frame.is_empty()) else {
            return;
        };
        let bit = self.dice.below(8 * packet.frame.len() as u64);
        packet.frame[(bit / 8) as usize] ^= 1 << (bit % 8);
    }

    fn garble(&mut self, mut submission: Submission) -> Completion {
        for packet in &mut submission.packets {
            let len = packet.frame.len() as u64;
            for _ in 0..4.min(len) {
                packet.frame[self.dice.below(len) as usize] ^= 1 + self.dice.below(255) as u8;
            }
            packet.frame.truncate(self.dice.below(len + 1) as usize);
            packet.status = match self.dice.below(3) {
                0 => CryptoStatus::Pending,
                1 => CryptoStatus::Done,
                _ => CryptoStatus::IcvMismatch,
            };
        }
        Completion { submission, outcome: Outcome::Failed, service_ns: None }
    }
}

impl EngineControl for Faulty {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        if matches!(self.state, FaultState::Failing { fault: InjectedFault::Vanish, .. }) {
            return Err(self.error("it has disappeared"));
        }
        self.engine.install_key(sa, keys)?;
        self.keys.insert(sa);
        Ok(())
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.keys.remove(&sa);
        self.engine.remove_key(sa);
    }

    fn probe(&mut self) -> Result<(), EngineError> {
        let FaultState::Failing { probes_left, .. } = &mut self.state else { return self.engine.probe() };
        match probes_left {
            None => return Err(self.error("it fails permanently")),
            Some(0) => {}
            Some(left) => {
                *left -= 1;
                return Err(self.error("it still fails"));
            }
        }
        self.collect();
        self.held.append(&mut self.from_engine);
        if self.engine.in_flight() > 0 {
            return Err(self.error("it still holds work from before its failure"));
        }
        self.engine.probe()?;
        // As a real device may: what it had completed before it hung comes back late, the rest is
        // lost.
        self.swallowed.clear();
        self.ready.append(&mut self.held);
        self.become_healthy();
        Ok(())
    }
}

impl EngineQueue for Faulty {
    fn submit(&mut self, submission: Submission) -> Result<(), Box<Refused>> {
        if matches!(self.state, FaultState::Healthy(Some(0))) {
            self.fail();
        }
        let is_vanished = matches!(self.state, FaultState::Failing { fault: InjectedFault::Vanish, .. });
        if is_vanished {
            return Err(Box::new(Refused { submission, reason: self.error("it has disappeared") }));
        }
        if !self.keys.contains(&submission.sa) {
            return Err(self.description.refuse_unkeyed(submission));
        }
        match &mut self.state {
            FaultState::Failing { fault: InjectedFault::Error, .. } => {
                let failed = self.garble(submission);
                self.ready.push(failed);
                Ok(())
            }
            FaultState::Failing { fault: InjectedFault::Wrong, .. } => self.pass_on(submission),
            FaultState::Failing { .. } => {
                self.swallowed.push(submission);
                Ok(())
            }
            FaultState::Healthy(_) | FaultState::Slow(_) => {
                self.pass_on(submission)?;
                if let FaultState::Healthy(Some(left)) = &mut self.state {
                    *left -= 1;
                }
                Ok(())
            }
        }
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.collect();
        let from_engine = self.from_engine.drain(..);
        match &mut self.state {
            FaultState::Healthy(_) => self.ready.extend(from_engine),
            FaultState::Slow(polls) => {
                self.held.extend(from_engine);
                *polls = polls.saturating_sub(1);
                if *polls == 0 {
                    self.ready.append(&mut self.held);
                    self.become_healthy();
                }
            }
            FaultState::Failing { fault: InjectedFault::Error, .. } => {
                let failed: Vec<Submission> = from_engine.map(|completion| completion.submission).collect();
                for submission in failed {
                    let failed = self.garble(submission);
                    self.ready.push(failed);
                }
            }
            FaultState::Failing { fault: InjectedFault::Wrong, .. } => {
                let mut wrong: Vec<Completion> = from_engine.collect();
                wrong.iter_mut().for_each(|completion| self.flip(&mut completion.submission));
                self.ready.append(&mut wrong);
            }
            FaultState::Failing { .. } => self.held.extend(from_engine),
        }
        completions.append(&mut self.ready);
    }

    fn in_flight(&self) -> usize {
        self.inside.len() + self.swallowed.len() + self.held.len() + self.ready.len()
    }

    fn gathered(&self) -> usize {
        self.engine.gathered()
    }

    fn wake_by(&mut self, _: &Waker) -> bool {
        // An engine that is slow or hangs wakes no worker.
        false
    }
}

/// SplitMix64: enough for faults, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    fn within(&mut self, range: &RangeInclusive<u32>) -> u32 {
        let span = u64::from(range.end().saturating_sub(*range.start())) + 1;
        range.start().saturating_add(self.below(span) as u32)
    }
}
