//! The `software` engine in virtual time: it takes as long as its model says, and at times much
//! longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use convoy_dataplane::clock::VirtualTime;
use convoy_engine::{
    Completion, EngineControl, EngineDescription, EngineError, EngineQueue, InPlace, Outcome, Placement,
    Refused, Software, Submission, Takes, lay_out, open_up,
};
use convoy_ipsec::{Direction, KeyMaterial, SaIndex};
use convoy_scheduler::CostModel;
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How late an answer may be that is late, in ns: beyond the deadline, at times.
const LATE_NS: std::ops::Range<u64> = 1_000_000..1_500_000_000;

/// The behaviour of an engine.
#[derive(Clone, Debug)]
pub(super) struct Character {
    pub(super) name: String,
    pub(super) is_lookaside: bool,
    /// Whether it takes packets of several SAs together.
    pub(super) takes_trains: bool,
    pub(super) cost: CostModel,
    pub(super) depth: usize,
    /// The fractions of its completions that are late, and that arrive twice.
    pub(super) late: f64,
    pub(super) twice: f64,
}

pub(super) struct VirtualEngine {
    engine: Software,
    description: EngineDescription,
    character: Character,
    time: VirtualTime,
    dice: Xoshiro256PlusPlus,
    is_calm: Arc<AtomicBool>,
    busy_until_ns: u64,
    /// When each is done.
    pending: Vec<(u64, Completion)>,
}

impl VirtualEngine {
    /// An engine that behaves perfectly once `is_calm`.
    pub(super) fn new(
        character: &Character,
        time: &VirtualTime,
        seed: u64,
        is_calm: &Arc<AtomicBool>,
    ) -> Self {
        let engine = Software::new(&character.name);
        let mut description = engine.description().clone();
        if character.is_lookaside {
            description.placement = Placement::Lookaside;
            description.needs_input_kept = true;
            description.depth = character.depth;
        }
        description.takes = if character.takes_trains { Takes::Trains } else { Takes::MultiPackets };
        Self {
            engine,
            description,
            character: character.clone(),
            time: time.clone(),
            dice: Xoshiro256PlusPlus::seed_from_u64(seed),
            is_calm: Arc::clone(is_calm),
            busy_until_ns: 0,
            pending: Vec::new(),
        }
    }

    /// Does a train of any SAs.
    fn process(&mut self, mut submission: Submission) -> Completion {
        let Submission { packets, templates, .. } = &mut submission;
        lay_out(templates, packets, &mut |iv| self.dice.fill_bytes(iv));
        self.engine.in_place().expect("software works in place").process(packets);
        open_up(templates, packets);
        Completion { submission, outcome: Outcome::Done, service_ns: None }
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && !self.is_calm.load(Ordering::Relaxed) && self.dice.random_bool(share)
    }

    /// When the work of `service_ns` that comes now is done.
    fn done_at(&mut self, service_ns: u64) -> u64 {
        let now_ns = self.time.now_ns();
        if !self.character.is_lookaside {
            return now_ns;
        }
        self.busy_until_ns = self.busy_until_ns.max(now_ns) + service_ns;
        let late_ns = if self.happens(self.character.late) { self.dice.random_range(LATE_NS) } else { 0 };
        self.busy_until_ns + late_ns
    }
}

impl EngineControl for VirtualEngine {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.engine.install_key(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.engine.remove_key(sa);
    }
}

impl EngineQueue for VirtualEngine {
    fn submit(&mut self, submission: Submission) -> Result<(), Box<Refused>> {
        if self.character.is_lookaside && self.pending.len() > self.description.depth {
            let reason = EngineError::NoRoom(self.description.name.clone());
            return Err(Box::new(Refused { submission, reason }));
        }
        let blocks = submission.packets.iter().map(|packet| u64::from(packet.blocks())).sum();
        let service_ns = self.character.cost.cost(blocks);
        let mut done = Vec::new();
        if self.character.is_lookaside && self.character.takes_trains {
            done.push(self.process(submission));
        } else {
            self.engine.submit(submission)?;
            self.engine.poll(&mut done);
        }
        for mut completion in done {
            completion.service_ns = Some(service_ns);
            let at_ns = self.done_at(service_ns);
            self.pending.push((at_ns, completion));
        }
        Ok(())
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        let is_here = self.character.takes_trains && !self.character.is_lookaside;
        if is_here { self.engine.in_place() } else { None }
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        let now_ns = self.time.now_ns();
        let mut due: Vec<(u64, Completion)> =
            self.pending.extract_if(.., |(at_ns, _)| *at_ns <= now_ns).collect();
        due.sort_by_key(|(at_ns, _)| *at_ns);
        for (_, completion) in due {
            let ticket = completion.submission.ticket;
            completions.push(completion);
            if self.happens(self.character.twice) {
                let again = Submission::new(ticket, SaIndex(0), Direction::Seal, Vec::new());
                completions.push(Completion { submission: again, outcome: Outcome::Done, service_ns: None });
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.pending.len()
    }

    fn wake_by(&mut self, _: &Waker) -> bool {
        !self.character.is_lookaside
    }
}
