//! All engines produce the same bytes for the same packets, and open what they have sealed.

use std::cell::RefCell;

use convoy_engine::transforms;
use convoy_ipsec::{Cipher, CryptoStatus, Direction, Transform};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::case::{Case, SA};
use crate::lab::{Lab, complete};
use crate::roster::ROUNDS;

/// Multi-packets for DES, for which a vector library without AVX-512 takes over 10 us per block.
const DES_ROUNDS: u32 = 2;

fn nonce(transform: Transform, salt: &[u8], fill: u8) -> Vec<u8> {
    let iv = vec![fill; transform.iv_len()];
    match transform {
        Transform::Aead(_) => [salt, &iv].concat(),
        Transform::Chained { .. } if !salt.is_empty() => [salt, &iv, &[0, 0, 0, 1]].concat(),
        Transform::Chained { .. } => iv,
    }
}

/// A packet with a body of `len` bytes, padded to the cipher's block; its contents depend on
/// `fill`.
pub(crate) fn packet(transform: Transform, key: &[u8], (len, fill, esn): (usize, u8, bool)) -> Case {
    let len = len.next_multiple_of(transform.alignment());
    let salt = &key[transform.cipher_key_len()..][..transform.salt_len()];
    let is_aead = matches!(transform, Transform::Aead(_));
    let body: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(37) ^ fill).collect();
    Case {
        key: key.to_vec(),
        nonce: nonce(transform, salt, fill),
        aad: if is_aead { vec![fill; if esn { 12 } else { 8 }] } else { Vec::new() },
        esn_high: (!is_aead && esn).then_some([0, 0, 1, fill]),
        head: vec![fill; 8 + transform.iv_len()],
        cipher: body.clone(),
        plain: body,
        ..Case::new(format!("{transform:?} {len}"), transform)
    }
}

fn agree(lab: &mut Lab, transform: Transform, cases: &[Case]) {
    let keys = cases[0].keys();
    let mut reference: Vec<Vec<u8>> = Vec::new();
    for engine in &mut lab.engines {
        if !engine.description().transforms.contains(&transform) {
            continue;
        }
        engine.install_key(SA, &keys).expect("the engine claims the transform");
        let packets = cases.iter().map(|case| case.to_seal(&mut lab.pool)).collect();
        let sealed = complete(engine.as_mut(), Direction::Seal, packets);
        assert!(sealed.iter().all(|packet| packet.status == CryptoStatus::Done));
        let bytes: Vec<Vec<u8>> = sealed.iter().map(|packet| packet.frame.to_vec()).collect();
        if reference.is_empty() {
            reference = bytes;
        } else {
            assert_eq!(reference, bytes, "{} against software: {transform:?}", engine.description().name);
        }
        for (packet, case) in complete(engine.as_mut(), Direction::Open, sealed).iter().zip(cases) {
            let open = case.open_bytes();
            assert_eq!(packet.status, CryptoStatus::Done, "{}", case.name);
            assert_eq!(&packet.frame[..open.len()], &open[..], "{}", case.name);
        }
        engine.remove_key(SA);
    }
    assert!(!reference.is_empty());
}

#[test]
fn the_same_packets_through_all_engines_give_the_same_result() {
    let lab = RefCell::new(Lab::new());
    // A body of ESP has a trailer at least. The last length is the longest that leaves room for the
    // longest outer headers, IV and ICV.
    let len = prop_oneof![27 => 1usize..=1500, 3 => Just(9000), 1 => Just(65_408)];
    for transform in transforms() {
        let key = prop::collection::vec(any::<u8>(), transform.key_material_len());
        let packets = prop::collection::vec((len.clone(), any::<u8>(), any::<bool>()), 1..40);
        let is_des =
            matches!(transform, Transform::Chained { cipher: Cipher::DesCbc | Cipher::TripleDesCbc, .. });
        let cases = if is_des { DES_ROUNDS } else { ROUNDS };
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, deterministic());
        let outcome = runner.run(&(key, packets), |(key, packets)| {
            let cases: Vec<Case> = packets.into_iter().map(|drawn| packet(transform, &key, drawn)).collect();
            agree(&mut lab.borrow_mut(), transform, &cases);
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{transform:?}: {error}"));
    }
}

fn deterministic() -> proptest::test_runner::TestRng {
    proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha)
}
