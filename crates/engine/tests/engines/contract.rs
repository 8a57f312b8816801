//! The trait's contract, for every engine that does AES-GCM: for all but cards of other functions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Wake;
use std::time::Duration;

use convoy_engine::{EngineControl, EngineError, Placement, Software, Submission};
use convoy_ipsec::{
    Aead, Cipher, CryptoStatus, Direction, Integrity, KeyBits, KeyMaterial, SaIndex, Transform,
};

use crate::case::{Case, SA, bytes, filled, prepared};
use crate::lab::{Lab, complete};
use crate::roster::has_threads;

fn gcm() -> Case {
    let transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B128, icv: 16 });
    Case {
        key: vec![7; transform.key_material_len()],
        nonce: vec![7; 12],
        aad: vec![1; 8],
        plain: vec![2; 64],
        cipher: vec![2; 64],
        ..Case::new("GCM", transform)
    }
}

fn seal(lab: &mut Lab, engine: usize, case: &Case) -> Vec<u8> {
    let packet = case.to_seal(&mut lab.pool);
    complete(lab.engines[engine].as_mut(), Direction::Seal, vec![packet])[0].frame.to_vec()
}

#[test]
fn a_multi_packet_of_an_unknown_sa_is_refused_as_it_was() {
    let mut lab = Lab::of(gcm().transform);
    for engine in &mut lab.engines {
        let case = gcm();
        for step in ["never installed", "removed"] {
            let packets = vec![case.to_seal(&mut lab.pool)];
            let before = packets[0].frame.to_vec();
            let submission = Submission::new(9, SA, Direction::Seal, packets);
            let refused = engine.submit(submission).expect_err(step);
            assert!(
                matches!(refused.reason, EngineError::NoKey { sa: SA, .. }),
                "{step}: {}",
                refused.reason
            );
            assert_eq!(refused.submission.packets[0].frame[..], before[..]);
            assert_eq!(engine.in_flight(), 0);
            engine.install_key(SA, &case.keys()).expect("AES-GCM");
            engine.remove_key(SA);
        }
        engine.remove_key(SaIndex(1_000_000));
    }
}

#[test]
fn a_new_key_replaces_the_old_one() {
    let mut lab = Lab::of(gcm().transform);
    let (old, mut new) = (gcm(), gcm());
    new.key.fill(8);
    for engine in 0..lab.engines.len() {
        lab.engines[engine].install_key(SA, &old.keys()).expect("AES-GCM");
        let first = seal(&mut lab, engine, &old);
        lab.engines[engine].install_key(SA, &new.keys()).expect("AES-GCM");
        assert_ne!(seal(&mut lab, engine, &new), first);
        lab.engines[engine].install_key(SA, &old.keys()).expect("AES-GCM");
        assert_eq!(seal(&mut lab, engine, &old), first);
    }
}

#[test]
fn an_engine_takes_what_it_claims_and_refuses_the_rest() {
    let mut lab = Lab::of(gcm().transform);
    let rest = [
        Transform::Aead(Aead::AesGcm { key: KeyBits::B128, icv: 13 }),
        Transform::Chained { cipher: Cipher::Null, integrity: None },
    ];
    for engine in &mut lab.engines {
        let claimed = engine.description().transforms.clone();
        assert!(!claimed.is_empty());
        for transform in convoy_engine::transforms().into_iter().chain(rest) {
            let key = vec![5; transform.key_material_len()];
            let keys = KeyMaterial::new(transform, key).expect("the right length");
            let installed = engine.install_key(SA, &keys);
            if claimed.contains(&transform) {
                assert_eq!(installed, Ok(()), "{transform:?}");
            } else {
                let is_unsupported = matches!(installed, Err(EngineError::Unsupported { .. }));
                assert!(is_unsupported, "{}: {transform:?}", engine.description().name);
            }
            engine.remove_key(SA);
        }
    }
}

#[test]
fn many_multi_packets_come_back_once_each_or_are_refused_for_want_of_room() {
    let mut lab = Lab::of(gcm().transform);
    let case = gcm();
    for engine in &mut lab.engines {
        engine.install_key(SA, &case.keys()).expect("AES-GCM");
        let (mut taken, mut refused, mut done) = (Vec::new(), 0, Vec::new());
        for ticket in 0..60 {
            let packets = vec![case.to_seal(&mut lab.pool), case.to_seal(&mut lab.pool)];
            match engine.submit(Submission::new(ticket, SA, Direction::Seal, packets)) {
                Ok(()) => taken.push(ticket),
                Err(error) => {
                    assert!(matches!(error.reason, EngineError::NoRoom(_)), "{}", error.reason);
                    assert_eq!(error.submission.packets.len(), 2);
                    refused += 1;
                }
            }
            assert_eq!(engine.in_flight(), taken.len());
        }
        while engine.in_flight() > 0 {
            engine.poll(&mut done);
        }
        let mut tickets: Vec<u64> = done.iter().map(|completion| completion.submission.ticket).collect();
        tickets.sort_unstable();
        assert_eq!(tickets, taken);
        assert_eq!(taken.len() + refused, 60);
        assert!(
            done.iter()
                .flat_map(|completion| &completion.submission.packets)
                .all(|packet| { packet.status == CryptoStatus::Done && packet.frame.len() == 80 })
        );
    }
}

/// Unparks the thread that made it.
struct Unpark(std::thread::Thread, AtomicU32);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.unpark();
    }
}

#[test]
fn an_engine_on_a_thread_of_its_own_wakes_who_sleeps_until_it_is_done() {
    let mut lab = Lab::of(gcm().transform);
    let case = gcm();
    let mut tried = 0;
    for engine in &mut lab.engines {
        let unpark = Arc::new(Unpark(std::thread::current(), AtomicU32::new(0)));
        let wakes = engine.wake_by(&Arc::clone(&unpark).into());
        if !wakes || engine.description().placement == Placement::Inline {
            continue;
        }
        tried += 1;
        engine.install_key(SA, &case.keys()).expect("AES-GCM");
        for ticket in 1..=20 {
            let packets = vec![case.to_seal(&mut lab.pool)];
            let submission = Submission::new(ticket, SA, Direction::Seal, packets);
            engine.submit(submission).expect("one at a time");
            let began = std::time::Instant::now();
            while !engine.has_completions() {
                std::thread::park_timeout(Duration::from_secs(10));
            }
            assert!(began.elapsed() < Duration::from_secs(10), "the wait had no end");
            let mut done = Vec::new();
            engine.poll(&mut done);
            assert_eq!((done.len(), engine.in_flight(), engine.has_completions()), (1, 0, false));
        }
        // The last wake-up may still be under way.
        assert!(unpark.1.load(Ordering::SeqCst) >= 19);
    }
    assert_eq!(tried > 0, has_threads());
}

/// RFC 4302 section 3.3.3.1.2: AH's ICV lies within the authenticated bytes, and counts as zeros
/// there.
#[test]
fn an_icv_inside_what_it_authenticates_counts_as_zeros() {
    let mut lab = Lab::of(gcm().transform);
    for integrity in [Integrity::HmacSha1_96, Integrity::HmacSha256_128, Integrity::HmacSha512_256] {
        let transform = Transform::Chained { cipher: Cipher::Null, integrity: Some(integrity) };
        let icv_len = transform.icv_len();
        let blank = [&[0x45; 32][..], &vec![0; icv_len], &[0x99; 100]].concat();
        let key = vec![3; transform.key_material_len()];
        let mut beside = Case { key, head: blank.clone(), ..Case::new("beside", transform) };
        for engine in &mut lab.engines {
            if !engine.description().transforms.contains(&transform) {
                continue;
            }
            engine.install_key(SA, &beside.keys()).expect("claimed");
            let packet = beside.to_seal(&mut lab.pool);
            let sealed = complete(engine.as_mut(), Direction::Seal, vec![packet]);
            beside.icv = sealed[0].frame[blank.len()..].to_vec();

            let mut job = beside.job();
            job.icv_start = 32;
            let inside = prepared(Direction::Seal, job, filled(&mut lab.pool, &blank));
            let sealed = complete(engine.as_mut(), Direction::Seal, vec![inside]);
            assert_eq!(sealed[0].frame[32..32 + icv_len], beside.icv[..]);
            let opened = complete(engine.as_mut(), Direction::Open, sealed);
            assert_eq!(opened[0].status, CryptoStatus::Done);
        }
    }
}

#[test]
fn software_leaves_a_job_outside_its_frame_pending() {
    let mut lab = Lab::of(gcm().transform);
    let mut engine = Software::new("software");
    for transform in convoy_engine::transforms() {
        let case = Case { key: vec![9; transform.key_material_len()], ..Case::new("outside", transform) };
        engine.install_key(SA, &case.keys()).expect("software does all");
        for direction in [Direction::Seal, Direction::Open] {
            let mut job = case.job();
            job.nonce_len = match transform {
                Transform::Aead(_) => 12,
                Transform::Chained { cipher: Cipher::AesCtr(_), .. } => 16,
                Transform::Chained { .. } => transform.iv_len() as u8,
            };
            (job.cipher_start, job.auth_start, job.icv_start) = (60_000, 60_000, 60_000);
            (job.cipher_len, job.auth_len) = (4_800, 4_800);
            let packet = prepared(Direction::Seal, job, filled(&mut lab.pool, &bytes("00112233")));
            let done = complete(&mut engine, direction, vec![packet]);
            assert_eq!(done[0].status, CryptoStatus::Pending, "{transform:?}");
            assert_eq!(done[0].frame[..], bytes("00112233"));
        }
    }
}
