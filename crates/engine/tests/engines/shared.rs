//! One thread for several workers, each with its own SAs.

use std::time::{Duration, Instant};

use convoy_engine::{
    Completion, CryptoThread, EngineControl, EngineError, EngineQueue, Multibuffer, Outcome, Software,
    Submission,
};
use convoy_ipsec::{Aead, CryptoStatus, Direction, KeyBits, SaIndex, Transform};
use convoy_packet::FramePool;

use crate::case::{Case, SA};
use crate::lab::complete;
use crate::roster::has_multibuffer;

const SUBMISSIONS: u64 = 2_000;
const PACKETS: usize = 4;

/// Engines for this many workers, for each kind that can be shared.
fn shared(workers: usize) -> Vec<Vec<CryptoThread>> {
    let mut all = vec![Software::shared("software", Some(0), workers).expect("a thread can be had")];
    if has_multibuffer() {
        all.push(
            Multibuffer::shared("multibuffer", Some(0), workers).expect("make test installs libipsec-mb-dev"),
        );
    }
    all
}

fn gcm(key: u8) -> Case {
    let transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B128, icv: 16 });
    Case {
        key: vec![key; transform.key_material_len()],
        nonce: vec![7; 12],
        aad: vec![1; 8],
        plain: vec![2; 640],
        ..Case::new("GCM", transform)
    }
}

fn seal(engine: &mut CryptoThread, pool: &mut FramePool, case: &Case) -> Vec<u8> {
    let packet = case.to_seal(pool);
    complete(engine, Direction::Seal, vec![packet])[0].frame.to_vec()
}

/// Has a worker's engine seal many packets, as many at a time as it accepts, and returns how many
/// are correct.
fn work(engine: &mut CryptoThread, key: u8) -> u64 {
    let mut pool = FramePool::new(1_024, 0);
    let case = gcm(key);
    let mut reference = Software::new("reference");
    reference.install_key(SA, &case.keys()).expect("software does all");
    let packet = case.to_seal(&mut pool);
    let expected = complete(&mut reference, Direction::Seal, vec![packet])[0].frame.to_vec();
    engine.install_key(SA, &case.keys()).expect("AES-GCM");
    let (mut next, mut good) = (0, 0);
    let mut done: Vec<Completion> = Vec::new();
    while next < SUBMISSIONS || engine.in_flight() > 0 {
        while next < SUBMISSIONS && engine.in_flight() < 16 {
            let packets = (0..PACKETS).map(|_| case.to_seal(&mut pool)).collect();
            engine.submit(Submission::new(next, SA, Direction::Seal, packets)).expect("room");
            next += 1;
        }
        engine.poll(&mut done);
        for completion in done.drain(..) {
            let packets = completion.submission.packets;
            good += packets.iter().filter(|packet| packet.frame[..] == expected[..]).count() as u64;
            packets.into_iter().for_each(|packet| pool.give_back(packet.frame));
        }
    }
    good
}

#[test]
fn workers_have_keys_of_their_own_under_the_same_index() {
    let mut pool = FramePool::new(64, 0);
    for mut engines in shared(2) {
        let sealed: Vec<Vec<u8>> = engines
            .iter_mut()
            .zip([1, 2])
            .map(|(engine, key)| {
                engine.install_key(SA, &gcm(key).keys()).expect("AES-GCM");
                seal(engine, &mut pool, &gcm(key))
            })
            .collect();
        assert_ne!(sealed[0], sealed[1]);
        engines[0].remove_key(SA);
        let packets = vec![gcm(1).to_seal(&mut pool)];
        let refused = engines[0].submit(Submission::new(1, SA, Direction::Seal, packets));
        assert!(
            matches!(refused, Err(refused) if matches!(refused.reason, EngineError::NoKey { sa: SA, .. }))
        );
        assert_eq!(seal(&mut engines[1], &mut pool, &gcm(2)), sealed[1]);
    }
}

#[test]
fn three_workers_at_once_each_get_their_own_packets_back() {
    for engines in shared(3) {
        let workers = engines
            .into_iter()
            .zip(1..)
            .map(|(mut engine, key)| std::thread::spawn(move || work(&mut engine, key)));
        // All threads are started before the first one is joined.
        let workers: Vec<_> = workers.collect();
        for worker in workers {
            assert_eq!(worker.join().expect("no panic"), SUBMISSIONS * PACKETS as u64);
        }
    }
}

#[test]
fn the_thread_lives_as_long_as_one_of_its_workers() {
    for mut engines in shared(2) {
        let mut last = engines.pop().expect("two");
        drop(engines);
        assert_eq!(last.probe(), Ok(()));
        assert_eq!(work(&mut last, 5), SUBMISSIONS * PACKETS as u64);
    }
}

/// From these times a worker's scheduler learns how long its packets take while others use the
/// thread as well.
#[test]
fn the_time_of_a_multi_packet_holds_that_of_other_workers_before_it() {
    let mut pool = FramePool::new(1_024, 0);
    let case = gcm(1);
    let mut engines = Software::shared("software", Some(0), 2).expect("a thread can be had");
    engines.iter_mut().for_each(|engine| engine.install_key(SA, &case.keys()).expect("AES-GCM"));
    let mut give = |engine: &mut CryptoThread, ticket, packets: usize| {
        let packets = (0..packets).map(|_| case.to_seal(&mut pool)).collect();
        engine.submit(Submission::new(ticket, SA, Direction::Seal, packets)).expect("room");
    };
    let mut longest_ns = 0;
    // The thread may have finished the first multi-packet before the second one is submitted.
    for ticket in 0..20 {
        let [first, second] = &mut engines[..] else { panic!("two") };
        give(first, ticket, 25);
        give(second, ticket, 1);
        let mut done = Vec::new();
        let began = Instant::now();
        while first.in_flight() + second.in_flight() > 0 {
            assert!(began.elapsed() < Duration::from_secs(10), "the thread has stopped");
            first.poll(&mut Vec::new());
            second.poll(&mut done);
        }
        let completion: Completion = done.pop().expect("one");
        assert_eq!(completion.outcome, Outcome::Done);
        assert!(completion.submission.packets.iter().all(|packet| packet.status == CryptoStatus::Done));
        longest_ns = longest_ns.max(completion.service_ns.expect("it can tell"));
    }
    let alone_ns = {
        let mut engine = Software::on_core("alone", 0).expect("a thread can be had");
        engine.install_key(SaIndex(3), &case.keys()).expect("AES-GCM");
        let times = (0..20).map(|ticket| {
            give(&mut engine, ticket, 1);
            let mut done: Vec<Completion> = Vec::new();
            while engine.in_flight() > 0 {
                engine.poll(&mut done);
            }
            done[0].service_ns.expect("it can tell")
        });
        times.min().expect("twenty")
    };
    assert!(longest_ns > 5 * alone_ns, "{longest_ns} ns behind 25 packets, {alone_ns} ns alone");
}
