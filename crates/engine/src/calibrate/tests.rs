//! Calibration with engines of known timing.

use std::sync::{Arc, Mutex};

use convoy_ipsec::{Aead, KeyBits};

use super::trip::CoreTime;
use super::*;
use crate::testing::ScriptedEngine;
use crate::{InPlace, Submission};

const GCM: Transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B128, icv: 16 });

/// What an engine received.
#[derive(Default)]
struct Taken {
    tickets: Vec<u64>,
    largest_blocks: u64,
}

/// An engine that reports `ns_per_block`. With each completion it also returns one for an old
/// ticket.
fn scripted(ns_per_block: u64) -> (IdleEngine, Arc<Mutex<Taken>>) {
    let taken = Arc::<Mutex<Taken>>::default();
    let notes = Arc::clone(&taken);
    let engine = ScriptedEngine::new("scripted")
        .on_submit(move |submission| {
            let mut taken = notes.lock().expect("no panic");
            taken.tickets.push(submission.ticket);
            taken.largest_blocks = taken.largest_blocks.max(blocks(submission));
        })
        .takes_ns(move |submission| ns_per_block * blocks(submission))
        .repeating_itself();
    (IdleEngine::new(engine), taken)
}

fn blocks(submission: &Submission) -> u64 {
    submission.packets.iter().map(|packet| u64::from(packet.job.blocks())).sum()
}

#[test]
fn an_answer_that_comes_late_is_taken_for_no_other() {
    let (mut engine, taken) = scripted(100);
    for _ in 0..2 {
        let AlgorithmCost { model, .. } = engine.calibrate(GCM).expect("the late answers are not its own");
        assert!((model.t_block - 100.0).abs() < 1e-6 && model.t_init < 1e-3, "{model:?}");
    }
    let taken = taken.lock().expect("no panic");
    // Gateways count tickets from 0 and never reach these values.
    assert!(taken.tickets.iter().all(|ticket| *ticket >= 1 << 63));
    let mut distinct = taken.tickets.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), taken.tickets.len());
}

#[test]
fn a_slow_engine_is_measured_by_small_multi_packets_alone() {
    let (mut engine, taken) = scripted(10_000);
    let AlgorithmCost { model, .. } = engine.calibrate(GCM).expect("software can do AES-GCM");
    assert!((model.t_block - 10_000.0).abs() < 1e-3, "{model:?}");
    let taken = taken.lock().expect("no panic");
    assert!(taken.largest_blocks <= 1_000, "{}", taken.largest_blocks);
    let least = LEAST_POINTS * (ROUNDS.start() + 1);
    assert!(taken.tickets.len() >= least, "{}", taken.tickets.len());
}

/// The time on the caller's core for a submission to an engine elsewhere, and for a successful
/// poll, each.
const HANDED_OVER: Duration = Duration::from_micros(200);
/// The time for which an engine elsewhere returns nothing.
const AWAY: Duration = Duration::from_millis(20);

/// Keeps this thread busy until it has spent this time on a core.
fn spend(time: Duration) {
    let start = CoreTime::now();
    while u128::from(start.elapsed_ns()) < time.as_nanos() {}
}

/// A slow engine elsewhere: the first poll after a submission returns nothing, while the kernel
/// runs other threads on the caller's core; so it does for a while in the next one and in a
/// submission.
fn away() -> IdleEngine {
    let disturbed = || {
        std::thread::sleep(AWAY / 4);
        spend(HANDED_OVER);
    };
    let is_done = move |polls| {
        if polls == 1 {
            std::thread::sleep(AWAY);
        } else {
            disturbed();
        }
        polls > 1
    };
    let engine = ScriptedEngine::elsewhere("away", 0, is_done);
    IdleEngine::new(engine.on_submit(move |_| disturbed()))
}

#[test]
fn the_handover_is_the_time_of_submission_and_completion_without_the_wait_between_them() {
    let handover = away().calibrate(GCM).expect("software can do AES-GCM").handover;
    let ns = Duration::from_nanos(handover.cost(1, 4));
    // A linear fit of nearly equal times may deviate a little from any of them.
    assert!(ns > HANDED_OVER && ns < AWAY / 4, "{ns:?}, {handover:?}");
}

/// The time for each change of SA.
const A_CHANGE: Duration = Duration::from_micros(50);

/// The measured cost of a change of SA, in ns, on an engine of the caller's core for which such a
/// change takes time.
fn t_key_of(takes: Takes) -> f64 {
    let keys = Arc::<Mutex<i32>>::default();
    let count = Arc::clone(&keys);
    let engine = ScriptedEngine::new("keyed")
        .describe(|description| description.takes = takes)
        .on_keys(move |keys| *count.lock().expect("no panic") += if keys.is_some() { 1 } else { -1 })
        .processing(|software, packets| {
            let changes = packets.windows(2).filter(|pair| pair[0].sa != pair[1].sa).count();
            std::thread::sleep(A_CHANGE * changes as u32);
            software.process(packets);
            assert!(packets.iter().all(|packet| packet.status == CryptoStatus::Done), "each SA has its keys");
        });
    let cost = IdleEngine::new(engine).calibrate(GCM).expect("software can do AES-GCM");
    assert_eq!(*keys.lock().expect("no panic"), 0, "all keys are gone");
    cost.t_key
}

#[test]
fn a_change_of_sa_is_measured_of_engines_that_take_trains() {
    let t_key = t_key_of(Takes::Trains);
    // A sleep takes longer than requested, and the measurement of the shorter train is noisy.
    let asked = A_CHANGE.as_nanos() as f64;
    assert!((0.5 * asked..100.0 * asked).contains(&t_key), "{t_key}");
    assert_eq!(t_key_of(Takes::MultiPackets), 0.0);
}

/// Prints by how much both models miss what was measured in place: run it in an optimised build
/// with `--nocapture`.
#[test]
fn terms_for_packets_and_the_longest_miss_the_times_of_trains_by_no_more_than_a_line() {
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(crate::Software::new("software"))];
    engines.extend(
        crate::Multibuffer::inline("multibuffer").map(|engine| -> Box<dyn Engine> { Box::new(engine) }),
    );
    for mut engine in engines {
        for proposal in ["aes128gcm16", "aes128-sha1", "aes128-sha256"] {
            let transform = proposal.parse::<convoy_ipsec::Proposal>().expect("known").transform;
            let keys =
                KeyMaterial::new(transform, vec![7; transform.key_material_len()]).expect("its length");
            engine.install_key(CALIBRATION_SA, &keys).expect("the engine does it");
            let mut traveller = Traveller::new(PACKETS[PACKETS.len() - 1]);
            let [points, _] =
                measure(engine.as_mut(), transform, &mut traveller, times_in_place).expect("it works");
            let [line, all] = fit::misses(&points, fit_train(&points));
            println!("{}, {proposal}: line {line:.2}, train {all:.2}", engine.description().name);
            assert!(all <= line + 1e-9, "{line}, {all}");
        }
    }
}
