//! A user of a store that starts again and again: it is killed, stopped, or finds that the store
//! went back. The store is slow, and refuses writes or loses its answers. Whatever happens, no
//! number is sent or accepted twice and no IV is used twice; a fault put in on purpose, one for
//! each rule, is found.

mod exhaustive;

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{
    IvClock, Limits, Reservation, ReserveRules, ReserveSize, Resume, SaLedger, SaStart, Used, Write,
};

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    None,
    /// Rule 1: numbers are used before the store has answered.
    UsesUnwritten,
    /// Rule 2: a start goes on behind what was reported.
    StartsAtReported,
    /// Rule 2: a start accepts above what is known to have been received.
    AcceptsAtReceived,
    /// Rule 3: a start goes on with the IVs of the one before.
    KeepsIvs,
}

const STEPS: usize = 400;
const SEEDS: u64 = if cfg!(miri) { 2 } else { 300 };
const SMALL: ReserveSize = ReserveSize { first: 20, least: 10, most: 80, time_ns: 1_000 };
const SAS: u8 = 3;

/// An SA as its user has it.
#[derive(Clone, Debug)]
struct User {
    start: SaStart,
    limits: Limits,
    sent: u64,
    /// The numbers accepted since the start, and the highest number that came.
    accepted: BTreeSet<u64>,
    seen: u64,
}

impl User {
    fn new(start: SaStart) -> Self {
        let SaStart { used, limits, .. } = start;
        Self { start, limits, sent: used.sent, accepted: BTreeSet::new(), seen: used.received }
    }

    fn used(&self) -> Used {
        Used { sent: self.sent, received: self.seen }
    }
}

#[derive(Clone, Debug)]
struct World {
    dice: Xoshiro256PlusPlus,
    sabotage: Sabotage,
    rules: ReserveRules,
    sas: u8,
    now_ns: u64,
    store: BTreeMap<u8, Reservation>,
    earlier: Vec<BTreeMap<u8, Reservation>>,
    in_flight: Vec<Write<u8>>,
    ledger: SaLedger<u8>,
    users: BTreeMap<u8, User>,
    reported: BTreeMap<u8, Used>,
    /// Whether the store has gone back: numbers come twice then, and nonces must not.
    went_back: bool,
    sent: BTreeSet<(u8, u64)>,
    ivs: BTreeSet<(u8, u64)>,
    accepted: BTreeSet<(u8, u64)>,
    /// The peer's last number.
    peer: u64,
}

impl World {
    fn new(seed: u64, size: ReserveSize, sas: u8, sabotage: Sabotage) -> Self {
        let dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let rules = ReserveRules { outbound: size, inbound: Some(size) };
        let mut world = Self {
            dice,
            sabotage,
            rules,
            sas,
            now_ns: 1_000_000,
            store: BTreeMap::new(),
            earlier: Vec::new(),
            in_flight: Vec::new(),
            ledger: SaLedger::new(rules),
            users: BTreeMap::new(),
            reported: BTreeMap::new(),
            went_back: false,
            sent: BTreeSet::new(),
            ivs: BTreeSet::new(),
            accepted: BTreeSet::new(),
            peer: 0,
        };
        world.start();
        world
    }

    fn start(&mut self) {
        self.ledger = SaLedger::new(self.rules);
        self.users.clear();
        for sa in 0..self.sas {
            let start = match self.store.get(&sa).copied() {
                Some(stored) => self.resume(sa, stored),
                None => {
                    let first = self.rules.first(u64::MAX, self.now_ns);
                    self.ledger.add(sa, first, self.now_ns);
                    // It is in the store before the next start can look for it.
                    self.store.insert(sa, first);
                    SaStart { limits: first.limits(), ..SaStart::unlimited(first.iv_start) }
                }
            };
            self.users.insert(sa, User::new(start));
        }
    }

    fn resume(&mut self, sa: u8, stored: Reservation) -> SaStart {
        let iv_start = match self.sabotage {
            Sabotage::KeepsIvs => stored.iv_start,
            _ => IvClock::default().begin(self.now_ns, &stored),
        };
        let start = self.ledger.resume(sa, &Resume { stored, iv_start, last: u64::MAX }, self.now_ns);
        let Used { sent, received } = match self.sabotage {
            Sabotage::StartsAtReported => self.reported.get(&sa).copied().unwrap_or_default(),
            _ => start.used,
        };
        let received = if self.sabotage == Sabotage::AcceptsAtReceived { stored.received } else { received };
        SaStart { used: Used { sent, received }, ..start }
    }

    fn step(&mut self) -> Result<(), String> {
        let ns = self.dice.random_range(0..200);
        self.now_ns += ns;
        let sa = self.dice.random_range(0..self.sas);
        match self.dice.random_range(0..100) {
            0..30 => {
                let count = self.dice.random_range(0..6);
                return self.send(sa, count);
            }
            30..60 => {
                self.peer += self.dice.random_range(0..3);
                let number = self.peer - self.dice.random_range(0..40).min(self.peer);
                return self.receive(sa, number);
            }
            60..75 => self.report(sa),
            75..85 => self.write(),
            85..96 => self.answer_by_chance(),
            96 => self.stop(),
            97 => {
                let executed = self.in_flight.iter().map(|_| self.dice.random_bool(0.5)).collect::<Vec<_>>();
                self.kill(&executed);
            }
            98 => self.earlier.push(self.store.clone()),
            _ => self.go_back(),
        }
        Ok(())
    }

    fn send(&mut self, sa: u8, count: u64) -> Result<(), String> {
        let user = self.users.get_mut(&sa).expect("all have started");
        let count = count.min(user.limits.send.saturating_sub(user.sent));
        for number in user.sent + 1..=user.sent + count {
            if !self.ivs.insert((sa, user.start.iv_start.wrapping_add(number))) {
                return Err(format!("an IV twice: SA {sa}, number {number}"));
            }
            if !self.sent.insert((sa, number)) && !self.went_back {
                return Err(format!("sent twice: SA {sa}, number {number}"));
            }
        }
        user.sent += count;
        Ok(())
    }

    /// A packet of the peer, or a recorded one again.
    fn receive(&mut self, sa: u8, number: u64) -> Result<(), String> {
        let user = self.users.get_mut(&sa).expect("all have started");
        user.seen = user.seen.max(number);
        let is_new = number > user.start.used.received && number <= user.limits.accept;
        if is_new && user.accepted.insert(number) && !self.accepted.insert((sa, number)) && !self.went_back {
            return Err(format!("accepted twice: SA {sa}, number {number}"));
        }
        Ok(())
    }

    fn report(&mut self, sa: u8) {
        let used = self.users[&sa].used();
        self.reported.insert(sa, used);
        self.ledger.report(sa, used, self.now_ns);
    }

    fn write(&mut self) {
        let Some(write) = self.ledger.next_write() else { return };
        if let (Sabotage::UsesUnwritten, Some(reservation)) = (self.sabotage, write.reservation) {
            self.permit(write.sa, reservation.limits());
        }
        self.in_flight.push(write);
    }

    fn permit(&mut self, sa: u8, limits: Limits) {
        self.users.get_mut(&sa).expect("all have started").limits = limits;
    }

    fn answer_by_chance(&mut self) {
        let is_executed = self.dice.random_bool(0.8);
        let is_heard = is_executed && !self.dice.random_bool(0.1);
        self.answer(is_executed, is_heard);
    }

    /// The store executes the oldest write, or not, and its answer may be lost.
    fn answer(&mut self, is_executed: bool, is_heard: bool) {
        if self.in_flight.is_empty() {
            return;
        }
        let write = self.in_flight.remove(0);
        if is_executed {
            self.execute(&write);
        }
        if !is_heard {
            self.ledger.failed(&write);
        } else if let Some(limits) = self.ledger.written(&write) {
            self.permit(write.sa, limits);
        }
    }

    fn execute(&mut self, write: &Write<u8>) {
        let reservation = write.reservation.expect("no SA is removed");
        self.store.insert(write.sa, reservation);
    }

    /// A clean end: the store has the exact numbers.
    fn stop(&mut self) {
        while !self.in_flight.is_empty() {
            self.answer_by_chance();
        }
        self.users.iter().for_each(|(sa, user)| self.ledger.close(*sa, user.used()));
        while let Some(write) = self.ledger.next_write() {
            self.execute(&write);
        }
        self.reported.clear();
        self.start();
    }

    /// What is in flight is executed or not.
    fn kill(&mut self, executed: &[bool]) {
        for (write, is_executed) in std::mem::take(&mut self.in_flight).iter().zip(executed) {
            if *is_executed {
                self.execute(write);
            }
        }
        self.start();
    }

    /// The store goes back to an earlier state while its user does not run.
    fn go_back(&mut self) {
        if let Some(earlier) = self.earlier.pop() {
            self.in_flight.clear();
            self.store = earlier;
            self.went_back = true;
            // More than all packets since then: no gateway sends one each nanosecond.
            self.now_ns += 1_000_000;
            self.start();
        }
    }
}

fn run(seed: u64, sabotage: Sabotage) -> Result<World, String> {
    let mut world = World::new(seed, SMALL, SAS, sabotage);
    for _ in 0..STEPS {
        world.step()?;
    }
    Ok(world)
}

#[test]
fn no_number_is_used_twice_whatever_happens_to_the_store_and_its_user() {
    let (mut sent, mut accepted) = (0, 0);
    for seed in 0..SEEDS {
        let world = run(seed, Sabotage::None).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        sent += world.sent.len();
        accepted += world.accepted.len();
    }
    assert!(sent > 20 * SEEDS as usize && accepted > 10 * SEEDS as usize, "{sent}, {accepted}");
}

#[test]
#[cfg_attr(miri, ignore = "it needs more seeds than Miri has time for")]
fn each_rule_that_is_broken_is_found() {
    for (sabotage, fault) in [
        (Sabotage::UsesUnwritten, "twice"),
        (Sabotage::StartsAtReported, "sent twice"),
        (Sabotage::AcceptsAtReceived, "accepted twice"),
        (Sabotage::KeepsIvs, "an IV twice"),
    ] {
        let found = (0..SEEDS).find_map(|seed| run(seed, sabotage).err());
        let found = found.unwrap_or_else(|| panic!("{sabotage:?} is not found"));
        assert!(found.contains(fault), "{sabotage:?}: {found}");
    }
}
