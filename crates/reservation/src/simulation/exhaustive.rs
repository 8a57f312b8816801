//! Every sequence of steps of a small world: one SA, whose reservations have one or two numbers.
//! Worlds that differ in nothing are continued once.

use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher};

use super::*;

const TINY: ReserveSize = ReserveSize { first: 2, least: 1, most: 2, time_ns: 1_000 };
/// Steps of each sequence.
const DEPTH: usize = 8;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Two packets each way, and all earlier packets of the peer again.
    Use,
    Report,
    /// The next write is given to the store, which executes it at once.
    Written,
    /// The next write is given to the store.
    Write,
    Executed,
    /// The answer is lost.
    Unheard,
    Refused,
    Stop,
    KilledBeforeWrites,
    KilledAfterWrites,
    /// The store may go back to its present state.
    Save,
    GoBack,
}

const STEPS: [Step; 12] = [
    Step::Use,
    Step::Report,
    Step::Written,
    Step::Write,
    Step::Executed,
    Step::Unheard,
    Step::Refused,
    Step::Stop,
    Step::KilledBeforeWrites,
    Step::KilledAfterWrites,
    Step::Save,
    Step::GoBack,
];

impl World {
    fn take_step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Use => {
                self.peer += 2;
                self.send(0, 2)?;
                return (1..=self.peer).try_for_each(|number| self.receive(0, number));
            }
            Step::Report => self.report(0),
            Step::Written if self.in_flight.is_empty() => {
                self.write();
                self.answer(true, true);
            }
            Step::Written => {}
            Step::Write => self.write(),
            Step::Executed => self.answer(true, true),
            Step::Unheard => self.answer(true, false),
            Step::Refused => self.answer(false, false),
            Step::Stop if self.in_flight.is_empty() => self.restart_by(Self::stop),
            Step::Stop => {}
            Step::KilledBeforeWrites => self.restart_by(|world| world.kill(&[])),
            Step::KilledAfterWrites => {
                self.restart_by(|world| world.kill(&vec![true; world.in_flight.len()]))
            }
            Step::Save if self.earlier.is_empty() => self.earlier.push(self.store.clone()),
            Step::Save => {}
            Step::GoBack => self.go_back(),
        }
        Ok(())
    }

    /// A start takes longer than to send what was reserved, at a packet each nanosecond.
    fn restart_by(&mut self, end: impl FnOnce(&mut Self)) {
        self.now_ns += 1_000;
        end(self);
    }

    fn digest(&self) -> u64 {
        let mut digest = Digest::default();
        write!(digest, "{self:?}").expect("a digest takes everything");
        digest.0.finish()
    }
}

/// The digest of what is written to it.
#[derive(Default)]
struct Digest(DefaultHasher);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// How many different worlds there are, or the first sequence of steps that breaks a rule.
fn explore(sabotage: Sabotage) -> Result<usize, String> {
    let mut seen = HashSet::new();
    let mut worlds = vec![(World::new(0, TINY, 1, sabotage), Vec::new())];
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for (world, steps) in &worlds {
            for step in STEPS {
                let mut world: World = world.clone();
                let steps: Vec<Step> = steps.iter().copied().chain([step]).collect();
                world.take_step(step).map_err(|fault| format!("{fault} after {steps:?}"))?;
                if seen.insert(world.digest()) {
                    next.push((world, steps));
                }
            }
        }
        worlds = next;
    }
    Ok(seen.len())
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no time for so many worlds")]
fn no_sequence_of_steps_uses_a_number_twice() {
    let worlds = explore(Sabotage::None).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(worlds > 50, "{worlds}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no time for so many worlds")]
fn each_rule_that_is_broken_is_found_by_the_first_sequence_that_breaks_it() {
    for (sabotage, fault) in [
        (Sabotage::UsesUnwritten, "twice"),
        (Sabotage::StartsAtReported, "sent twice"),
        (Sabotage::AcceptsAtReceived, "accepted twice"),
        (Sabotage::KeepsIvs, "an IV twice"),
    ] {
        let found = explore(sabotage).expect_err("a broken rule is found");
        assert!(found.contains(fault), "{sabotage:?}: {found}");
    }
}
