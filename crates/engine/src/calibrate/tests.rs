//! Calibration against an engine whose times are made up.

use std::sync::{Arc, Mutex};

use convoy_ipsec::{Aead, KeyBits};

use super::*;
use crate::{
    Completion, EngineControl, EngineDescription, EngineQueue, InPlace, MultiPacket, Outcome, Refused,
    Software,
};

const GCM: Transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B128, icv: 16 });

/// Says that it took `ns_per_block`; before each of its answers comes one to a question of long ago.
struct Scripted {
    engine: Software,
    ns_per_block: u64,
    stale_ticket: u64,
    taken: Arc<Mutex<Taken>>,
}

/// What it was given.
#[derive(Default)]
struct Taken {
    tickets: Vec<u64>,
    largest_blocks: u64,
}

impl Scripted {
    fn idle(ns_per_block: u64) -> (IdleEngine, Arc<Mutex<Taken>>) {
        let (engine, taken) = (Software::new("scripted"), Arc::default());
        (IdleEngine::new(Self { engine, ns_per_block, stale_ticket: 0, taken: Arc::clone(&taken) }), taken)
    }
}

fn blocks(multi_packet: &MultiPacket) -> u64 {
    multi_packet.packets.iter().map(|packet| u64::from(packet.job.blocks())).sum()
}

impl EngineControl for Scripted {
    fn description(&self) -> &EngineDescription {
        self.engine.description()
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.engine.install_key(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.engine.remove_key(sa);
    }
}

impl EngineQueue for Scripted {
    fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        let mut taken = self.taken.lock().expect("no panic");
        self.stale_ticket = taken.tickets.last().copied().unwrap_or(0);
        taken.tickets.push(multi_packet.ticket);
        taken.largest_blocks = taken.largest_blocks.max(blocks(&multi_packet));
        self.engine.submit(multi_packet)
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        let mut done = Vec::new();
        self.engine.poll(&mut done);
        for mut completion in done {
            completion.service_ns = Some(self.ns_per_block * blocks(&completion.multi_packet));
            completions.push(completion);
            let (ticket, sa, direction) = (self.stale_ticket, CALIBRATION_SA, Direction::Seal);
            let stale = MultiPacket::new(ticket, sa, direction, Vec::new());
            completions.push(Completion { multi_packet: stale, outcome: Outcome::Failed, service_ns: None });
        }
    }

    fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }
}

#[test]
fn an_answer_that_comes_late_is_taken_for_no_other() {
    let (mut engine, taken) = Scripted::idle(100);
    for _ in 0..2 {
        let AlgorithmCost { model, .. } = engine.calibrate(GCM).expect("the late answers are not its own");
        assert!((model.t_block - 100.0).abs() < 1e-6 && model.t_init < 1e-3, "{model:?}");
    }
    let taken = taken.lock().expect("no panic");
    // Gateways count theirs from 0 and do not come so far.
    assert!(taken.tickets.iter().all(|ticket| *ticket >= 1 << 63));
    let mut distinct = taken.tickets.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), taken.tickets.len());
}

#[test]
fn a_slow_engine_is_measured_by_small_multi_packets_alone() {
    let (mut engine, taken) = Scripted::idle(10_000);
    let AlgorithmCost { model, .. } = engine.calibrate(GCM).expect("software can do AES-GCM");
    assert!((model.t_block - 10_000.0).abs() < 1e-3, "{model:?}");
    let taken = taken.lock().expect("no panic");
    assert!(taken.largest_blocks <= 1_000, "{}", taken.largest_blocks);
    let least = LEAST_POINTS * (ROUNDS.start() + 1);
    assert!(taken.tickets.len() >= least, "{}", taken.tickets.len());
}

/// How long the caller's core takes to submit to [`Away`] and to poll it with success, each.
const HANDED_OVER: Duration = Duration::from_micros(200);
/// How long it waits in vain.
const AWAY: Duration = Duration::from_millis(20);

/// `software` as if it were elsewhere and took long: the first poll after a submission brings nothing.
struct Away {
    engine: Software,
    description: EngineDescription,
    has_been_polled: bool,
}

impl Away {
    fn idle() -> IdleEngine {
        let engine = Software::new("away");
        let description =
            EngineDescription { placement: Placement::Lookaside, ..engine.description().clone() };
        IdleEngine::new(Self { engine, description, has_been_polled: false })
    }
}

impl EngineControl for Away {
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

impl EngineQueue for Away {
    fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        std::thread::sleep(HANDED_OVER);
        self.has_been_polled = false;
        self.engine.submit(multi_packet)
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        if self.has_been_polled {
            std::thread::sleep(HANDED_OVER);
            self.engine.poll(completions);
        } else {
            std::thread::sleep(AWAY);
            self.has_been_polled = true;
        }
    }

    fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }
}

#[test]
fn the_handover_is_the_time_of_submission_and_completion_without_the_wait_between_them() {
    let handover = Away::idle().calibrate(GCM).expect("software can do AES-GCM").handover;
    let ns = Duration::from_nanos(handover.cost(1, 4));
    // The fit of times that are all about the same may be a little off any one of them.
    assert!(ns > HANDED_OVER && ns < AWAY, "{ns:?}, {handover:?}");
}

/// What each change of SA takes [`Keyed`].
const A_CHANGE: Duration = Duration::from_micros(50);

/// `software` on the caller's core, for which another SA than the last costs time.
struct Keyed {
    engine: Software,
    description: EngineDescription,
    keys: Arc<Mutex<i32>>,
}

impl InPlace for Keyed {
    fn process(&mut self, packets: &mut [Prepared]) {
        let changes = packets.windows(2).filter(|pair| pair[0].sa != pair[1].sa).count();
        std::thread::sleep(A_CHANGE * changes as u32);
        self.engine.in_place().expect("software works in place").process(packets);
        assert!(packets.iter().all(|packet| packet.status == CryptoStatus::Done), "each SA has its keys");
    }
}

impl EngineControl for Keyed {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        *self.keys.lock().expect("no panic") += 1;
        self.engine.install_key(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        *self.keys.lock().expect("no panic") -= 1;
        self.engine.remove_key(sa);
    }
}

impl EngineQueue for Keyed {
    fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        self.engine.submit(multi_packet)
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.engine.poll(completions);
    }

    fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        Some(self)
    }
}

/// What is measured of [`Keyed`] for a change of SA, in ns.
fn t_key_of(takes: Takes) -> f64 {
    let (engine, keys) = (Software::new("keyed"), Arc::default());
    let description = EngineDescription { takes, ..engine.description().clone() };
    let mut engine = IdleEngine::new(Keyed { engine, description, keys: Arc::clone(&keys) });
    let cost = engine.calibrate(GCM).expect("software can do AES-GCM");
    assert_eq!(*keys.lock().expect("no panic"), 0, "all keys are gone");
    cost.t_key
}

#[test]
fn a_change_of_sa_is_measured_of_engines_that_take_trains() {
    let t_key = t_key_of(Takes::Trains);
    // A sleep takes longer than it is asked to, and the shorter of two trains is not without noise.
    let asked = A_CHANGE.as_nanos() as f64;
    assert!((0.5 * asked..100.0 * asked).contains(&t_key), "{t_key}");
    assert_eq!(t_key_of(Takes::MultiPackets), 0.0);
}
