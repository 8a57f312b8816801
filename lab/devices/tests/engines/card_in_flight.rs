//! A card that works inline behind a port: the engine only tags packets, and the port's line shows
//! the result.

use std::time::{Duration, Instant};

use convoy_card::line::{Line, MemoryLine, memory};
use convoy_card::nic::{NicPort, NicSettings, OWN_PLACES, Seal, pair};
use convoy_devices::card_engine::CardInFlight;
use convoy_engine::{Binding, EngineControl, EngineError, EngineQueue, Software, Submission};
use convoy_ipsec::{Aead, Cipher, CryptoStatus, Direction, Integrity, KeyBits, SaIndex, Transform};
use convoy_packet::{FramePool, Offload};

use crate::agreement::packet;
use crate::case::{Case, SA};
use crate::lab::complete;

const GCM: Transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B256, icv: 16 });
const CTR_SHA1: Transform =
    Transform::Chained { cipher: Cipher::AesCtr(KeyBits::B128), integrity: Some(Integrity::HmacSha1_96) };
const CBC_SHA1: Transform =
    Transform::Chained { cipher: Cipher::AesCbc(KeyBits::B256), integrity: Some(Integrity::HmacSha1_96) };
const TRIPLE_DES_SHA1: Transform =
    Transform::Chained { cipher: Cipher::TripleDesCbc, integrity: Some(Integrity::HmacSha1_96) };
const CTR_SHA512: Transform =
    Transform::Chained { cipher: Cipher::AesCtr(KeyBits::B128), integrity: Some(Integrity::HmacSha512_256) };
const SEAL: Binding = Binding { direction: Direction::Seal, spi: 0x1001, is_tunnel: true };
/// Two MAC addresses, and an EtherType for local experiments.
const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];

fn port() -> (CardInFlight, NicPort, MemoryLine) {
    port_with(None)
}

fn port_with(function: Option<u8>) -> (CardInFlight, NicPort, MemoryLine) {
    let (line, peer) = memory(16).expect("descriptors");
    let settings = NicSettings { function, ..NicSettings::default() };
    let (control, port) = pair(Box::new(line), &settings).expect("a model of the card can be made");
    (CardInFlight::new("outside", control), port, peer)
}

fn case(transform: Transform, is_esn: bool) -> Case {
    packet(transform, &vec![7; transform.key_material_len()], (60, 5, is_esn))
}

fn submission(case: &Case, pool: &mut FramePool) -> Submission {
    Submission::new(1, SA, Direction::Seal, vec![case.to_seal(pool)])
}

fn arrival(line: &mut MemoryLine) -> Vec<u8> {
    let mut buffer = [0; 2048];
    let began = Instant::now();
    loop {
        if let Some(len) = line.receive(&mut buffer).expect("a line") {
            return buffer[..len].to_vec();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nothing came");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_tagged_crosses_the_line_as_any_engine_would_have_sealed_it() {
    let of_sas = [(GCM, false), (GCM, true), (CTR_SHA1, false), (CTR_SHA1, true)];
    let of_sas = of_sas.map(|(transform, is_esn)| (None, transform, is_esn));
    let named = [(Some(3), CBC_SHA1), (Some(4), TRIPLE_DES_SHA1), (Some(5), CTR_SHA512), (Some(6), GCM)];
    let named = named.map(|(function, transform)| (function, transform, false));
    for (function, transform, is_esn) in of_sas.into_iter().chain(named) {
        let (mut engine, mut port, mut peer) = port_with(function);
        let mut pool = FramePool::new(4, 0);
        let case = case(transform, is_esn);
        assert!(engine.bind(SA, SEAL, &case.keys()), "{transform:?}");
        let mut software = Software::new("reference");
        software.install_key(SA, &case.keys()).expect("it does all");
        let sealed = complete(&mut software, Direction::Seal, vec![case.to_seal(&mut pool)]).remove(0);
        let plain = case.to_seal(&mut pool).frame.to_vec();
        let done = complete(&mut engine, Direction::Seal, vec![case.to_seal(&mut pool)]).remove(0);
        assert_eq!((done.status, done.frame.to_vec()), (CryptoStatus::Done, plain));
        let Offload::Seal { sa, esp_start, seq_high } = done.frame.offload() else { panic!("not tagged") };
        let seal = Seal { sa, esp_at: ETHERNET.len() as u16 + esp_start, seq_high };
        let mut frame = done.frame;
        frame.prepend(ETHERNET.len()).expect("headroom").copy_from_slice(&ETHERNET);
        port.transmit(frame, Some(seal)).expect("room");
        assert_eq!(arrival(&mut peer)[ETHERNET.len()..], sealed.frame[..], "{transform:?}, ESN {is_esn}");
    }
}

#[test]
fn only_what_is_bound_is_taken_and_no_number_comes_twice() {
    let (mut engine, _port, _peer) = port();
    let mut pool = FramePool::new(4, 0);
    let case = case(GCM, false);
    let refused = engine.submit(submission(&case, &mut pool)).expect_err("nothing is bound");
    assert!(matches!(refused.reason, EngineError::NoKey { .. }), "{:?}", refused.reason);
    let open = Binding { direction: Direction::Open, ..SEAL };
    let mut numbers = Vec::new();
    for _ in 0..2 {
        assert!(engine.bind(SA, open, &case.keys()), "its SPI's place is free");
        numbers.extend((0..9).find(|number| engine.bound(*number) == Some(SA)));
        assert!(engine.submit(submission(&case, &mut pool)).is_err(), "it was bound to open");
        engine.remove_key(SA);
    }
    assert_eq!((numbers, engine.bound(0)), (vec![0, 1], None));
    let (mut of_3des, _port, _peer) = port_with(Some(4));
    assert!(!of_3des.bind(SA, SEAL, &case.keys()), "its only function is another");
    let chacha = packet(Transform::Aead(Aead::ChaCha20Poly1305), &[7; 36], (60, 5, false));
    assert!(!engine.bind(SaIndex(9), SEAL, &chacha.keys()), "the card has no such function");
}

#[test]
fn what_the_port_would_not_give_the_card_stays_in_the_window() {
    let (mut engine, mut port, mut peer) = port();
    let mut pool = FramePool::new(1_024, 0);
    let case = case(GCM, false);
    assert!(engine.bind(SA, SEAL, &case.keys()));
    // Nobody reads the line, so after a while the card accepts nothing more.
    let began = Instant::now();
    let refused = loop {
        assert!(began.elapsed() < Duration::from_secs(60), "it takes all");
        if port.room() > OWN_PLACES {
            let frame = pool.take_filled(&[&ETHERNET[..], &[0; 46]].concat(), 0).expect("enough frames");
            port.transmit(frame, None).expect("room");
        } else if let Err(refused) = engine.submit(submission(&case, &mut pool)) {
            break refused;
        }
        engine.poll(&mut Vec::new());
    };
    assert!(matches!(refused.reason, EngineError::NoRoom(_)), "{:?}", refused.reason);
    assert_eq!(refused.submission.packets[0].frame.offload(), Offload::None);
    let mut buffer = [0; 2048];
    let began = Instant::now();
    while engine.submit(submission(&case, &mut pool)).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "it takes nothing any more");
        peer.receive(&mut buffer).expect("a line");
    }
}
