//! Properties of the card that other engines do not share.

use convoy_devices::card_engine::LookasideCard;
use convoy_engine::{Completion, EngineControl, EngineQueue, Outcome, Submission};
use convoy_ipsec::{Aead, Cipher, CryptoPacket, CryptoStatus, Direction, Integrity, KeyBits, Transform};
use convoy_packet::FramePool;

use crate::agreement::packet;
use crate::case::{Case, SA, filled, prepared};
use crate::lab::complete;

/// More SAs than the card's cache holds.
const SAS: u32 = 300;

fn card() -> LookasideCard {
    LookasideCard::new("card").expect("a model of the card can be made")
}

fn case_of(transform: Transform, is_esn: bool) -> Case {
    packet(transform, &vec![7; transform.key_material_len()], (60, 5, is_esn))
}

#[test]
fn every_esp_packet_of_a_claimed_transform_is_done_on_the_card() {
    let mut card = card();
    let mut pool = FramePool::new(64, 0);
    for transform in card.description().transforms.clone() {
        for is_esn in [false, true] {
            let case = case_of(transform, is_esn);
            card.install_key(SA, &case.keys()).expect("claimed");
            let packets = (0..3).map(|_| case.to_seal(&mut pool)).collect();
            let sealed = complete(&mut card, Direction::Seal, packets);
            let opened = complete(&mut card, Direction::Open, sealed);
            assert!(opened.iter().all(|packet| packet.status == CryptoStatus::Done), "{transform:?}");
            assert_eq!(card.left_to_software(), 0, "{transform:?}, ESN {is_esn}");
        }
    }
}

#[test]
fn a_card_with_a_named_function_claims_what_that_does_and_nothing_else() {
    let key = KeyBits::B128;
    let sha1 = Some(Integrity::HmacSha1_96);
    let gcm = Transform::Aead(Aead::AesGcm { key, icv: 16 });
    let of = |cipher, integrity| Transform::Chained { cipher, integrity };
    let each = [
        gcm,
        of(Cipher::AesCtr(key), sha1),
        of(Cipher::AesCbc(key), sha1),
        of(Cipher::TripleDesCbc, sha1),
        of(Cipher::AesCtr(key), Some(Integrity::HmacSha512_256)),
        gcm,
    ];
    for (own, function) in each.iter().zip(1..) {
        let mut card =
            LookasideCard::with_function("card", Some(function)).expect("a model of the card has it");
        for transform in each {
            let case = case_of(transform, false);
            let is_taken = card.install_key(SA, &case.keys()).is_ok();
            assert_eq!(is_taken, transform == *own, "function {function}: {transform:?}");
        }
    }
    assert!(LookasideCard::with_function("card", Some(7)).is_err(), "there is no such function");
}

/// RFC 4302: AH's ICV lies within the authenticated bytes, which the card's format cannot express.
#[test]
fn an_ah_packet_is_left_to_software_and_counted() {
    let mut card = card();
    let mut pool = FramePool::new(8, 0);
    let transform =
        Transform::Chained { cipher: convoy_ipsec::Cipher::Null, integrity: Some(Integrity::HmacSha1_96) };
    let case = case_of(transform, false);
    card.install_key(SA, &case.keys()).expect("claimed");
    let mut job = case.job();
    job.icv_start = 24;
    let packet = prepared(Direction::Seal, job, filled(&mut pool, &case.open_bytes()));
    let sealed = complete(&mut card, Direction::Seal, vec![packet]);
    assert_eq!((sealed[0].status, card.left_to_software()), (CryptoStatus::Done, 1));
}

#[test]
fn a_packet_longer_than_the_cards_frames_is_left_to_software_and_counted() {
    let mut card = card();
    let mut pool = FramePool::new(1, 1).with_huge(2);
    let transform = card.description().transforms[0];
    let key = vec![5; transform.key_material_len()];
    for (len, left) in [(9_000, 0), (20_000, 1), (65_408, 2)] {
        let case = packet(transform, &key, (len, 9, false));
        card.install_key(SA, &case.keys()).expect("claimed");
        let sealed = complete(&mut card, Direction::Seal, vec![case.to_seal(&mut pool)]);
        assert_eq!((sealed[0].status, card.left_to_software()), (CryptoStatus::Done, left), "{len} bytes");
        sealed.into_iter().for_each(|packet| pool.give_back(packet.frame));
    }
}

#[test]
fn more_sas_than_the_cache_holds_take_turns_in_it() {
    let mut card = card();
    let mut pool = FramePool::new(8, 0);
    let transform = card.description().transforms[0];
    for round in 0..2 {
        for number in 0..SAS {
            let case = packet(transform, &vec![number as u8; transform.key_material_len()], (40, 9, false));
            let sa = convoy_ipsec::SaIndex(number);
            if round == 0 {
                card.install_key(sa, &case.keys()).expect("claimed");
            }
            let sealed = one_of(&mut card, sa, Direction::Seal, case.to_seal(&mut pool));
            let opened = one_of(&mut card, sa, Direction::Open, sealed);
            assert_eq!(opened.status, CryptoStatus::Done, "SA {number}, round {round}");
        }
    }
    assert_eq!(card.left_to_software(), 0);
}

fn one_of(
    card: &mut LookasideCard,
    sa: convoy_ipsec::SaIndex,
    direction: Direction,
    packet: CryptoPacket,
) -> CryptoPacket {
    card.submit(Submission::new(1, sa, direction, vec![packet])).expect("there is room");
    let mut completions: Vec<Completion> = Vec::new();
    while completions.is_empty() {
        card.poll(&mut completions);
        std::thread::yield_now();
    }
    let mut done = completions.remove(0);
    assert_eq!(done.outcome, Outcome::Done);
    assert!(done.service_ns.is_some_and(|ns| ns > 0));
    done.submission.packets.remove(0)
}
