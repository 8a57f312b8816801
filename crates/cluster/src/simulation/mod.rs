//! Members, their gateways and the store in simulated time, under faults, from one seed: the same
//! seed gives the same run, event by event.
//!
//! Two to four members, as an agent runs them, and models of their gateways (`gateway.rs`) lead
//! groups by a model of etcd (`etcd.rs`: revisions, leases by the leading server's clock). Clocks
//! differ in rate by up to 9.4 %, and in some seeds they stand still; requests and answers are
//! slow, lost, or come long after they were given up; watches are late; connections break; the
//! store has no quorum, no room or another leader; processes and machines are paused, crash and
//! begin again with nothing; members drain and end. A peer sends to several gateways at once, and
//! an adversary sends again what it has recorded.
//!
//! The invariants of `docs/internals/cluster.md` are checked at each packet (`checks.rs`), by the
//! true time and the store's true state. When faults have ended, each group must have one leader
//! within a bounded time, whose SAs send and accept.
//!
//! A run that fails prints its seed, the last events, and the command that repeats it. `SEED` is
//! one seed to run, `SEEDS` how many, from `FIRST` on:
//!
//! ```text
//! SEEDS=10000 cargo test -p convoy-cluster simulation::seeds -- --nocapture
//! ```
//!
//! That it finds faults is a test: each sabotage (`sabotage.rs`) breaks a rule, and is found.

mod checks;
pub(crate) mod etcd;
mod gateway;
mod host;
mod journal;
mod sabotage;
mod scenario;
mod world;

use checks::Figures;
use sabotage::Sabotage;
use world::World;

/// Seeds of a test run.
const SEEDS: u64 = 300;
/// Seeds within which each sabotage must be found.
const SABOTAGE_SEEDS: u64 = 2000;

fn number(name: &str) -> Option<u64> {
    let word = std::env::var(name).ok()?;
    Some(word.parse().unwrap_or_else(|_| panic!("{name} wants a whole number, not {word:?}")))
}

/// Runs a seed; the hash of its trace.
///
/// # Errors
/// What was wrong, with the last events and how to see it again.
fn run(seed: u64, sabotage: Sabotage) -> Result<(u64, Figures), String> {
    let mut world = World::new(seed, sabotage);
    let outcome = world.run();
    outcome.map(|()| (world.journal.hash(), world.checks.figures)).map_err(|wrong| {
        format!(
            "seed {seed}: {wrong}\n{:?}\nthe last events:\n{}again: SEED={seed} cargo test -p convoy-cluster simulation::seeds",
            world.scenario,
            world.journal.last()
        )
    })
}

#[test]
fn seeds() {
    let (first, count) = match number("SEED") {
        Some(seed) => (seed, 1),
        None => (number("FIRST").unwrap_or(0), number("SEEDS").unwrap_or(SEEDS)),
    };
    let mut total = Figures::default();
    for seed in first..first + count {
        match run(seed, Sabotage::None) {
            Ok((_, figures)) => total += figures,
            Err(failure) => panic!("{failure}"),
        }
    }
    assert!(count < SEEDS || total.handovers > 0 && total.late > 0, "the seeds do little: {total:?}");
    println!("{count} seeds from {first}: {total:?}");
}

#[test]
fn each_rule_is_needed() {
    let mut missed = Vec::new();
    for sabotage in Sabotage::ALL {
        let first = sabotage.first_seed();
        let failures = (first..first + SABOTAGE_SEEDS).filter_map(|seed| run(seed, sabotage).err());
        let first_lines = failures.map(|failure| failure.lines().next().unwrap_or_default().to_owned());
        match first_lines.into_iter().find(|line| line.contains(sabotage.breaks())) {
            Some(line) => println!("{sabotage:?}: {line}"),
            None => missed.push(sabotage),
        }
    }
    assert!(missed.is_empty(), "not found within {SABOTAGE_SEEDS} seeds: {missed:?}");
}

#[test]
fn each_defence_against_a_store_that_goes_back_keeps_nonces_apart_without_the_other() {
    for sabotage in [Sabotage::TrustsAnyStore, Sabotage::KeepsIvs] {
        for seed in 0..SEEDS / 3 {
            let failure = run(seed, sabotage).err().unwrap_or_default();
            let is_excused = sabotage == Sabotage::KeepsIvs && failure.contains("a member cannot know");
            let is_of_ivs = failure.contains("invariant 6") && !is_excused;
            assert!(!is_of_ivs, "{sabotage:?}: {failure}");
        }
    }
}

#[test]
fn a_seed_gives_the_same_trace_again_and_another_seed_another() {
    let trace = |seed| run(seed, Sabotage::None).map(|(hash, _)| hash);
    for seed in 0..4 {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
    }
    assert_ne!(trace(0), trace(1));
}
