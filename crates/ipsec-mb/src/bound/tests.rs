use crate::{AeadResult, Inputs, PacketSpan};

use super::*;

const NOTHING: [u8; 12] = [0; 12];

fn span(at: usize, len: usize) -> PacketSpan {
    PacketSpan { at, len }
}

fn inputs(nonce: &[u8; 16], nonce_len: u8, aad_len: u8) -> Inputs<'_> {
    Inputs { nonce, nonce_len, aad: &NOTHING, aad_len }
}

fn job(packet: &mut [u8]) -> Job<'_> {
    let len = packet.len();
    Job::new(packet, span(0, len), span(0, len), inputs(&[3; 16], 16, 0)).expect("inside")
}

fn run(manager: &mut Manager, key: &Key, packets: &mut [Vec<u8>]) -> Vec<Vec<u8>> {
    let count = packets.len();
    let mut burst = manager.burst();
    for packet in packets {
        assert!(burst.push(job(packet), key, true));
    }
    let results = burst.run();
    (0..count).map(|at| results.tag(at).expect("done").to_vec()).collect()
}

#[test]
fn the_library_knows_the_gcm_specifications_second_case() {
    let mut manager = Manager::new().expect("the library is installed");
    let key = manager.key(LibraryCipher::Gcm, Hash::None, 16, &[0; 16], &[]).expect("a good length");
    let mut packet = [0; 32];
    fn gcm(packet: &mut [u8]) -> Job<'_> {
        Job::new(packet, span(0, 16), span(0, 0), inputs(&[0; 16], 12, 0)).expect("inside").with_tag_at(16)
    }
    let mut work = |packet: &mut [u8], seal| {
        let mut burst = manager.burst();
        let ended = burst.aead(gcm(packet), &key, seal).expect("the tag has a place");
        assert!(burst.run().tag(0).is_none());
        ended
    };
    assert_eq!(work(&mut packet, true), AeadResult::Done);
    assert_eq!(
        (&packet[..4], &packet[16..20]),
        (&[0x03, 0x88, 0xda, 0xce][..], &[0xab, 0x6e, 0x47, 0xd4][..])
    );
    let mut changed = packet;
    changed[31] ^= 1;
    assert_eq!(work(&mut changed, false), AeadResult::Mismatch);
    assert_eq!(work(&mut packet, false), AeadResult::Done);
    assert_eq!(packet[..16], [0; 16]);
}

#[test]
fn what_is_read_of_a_key_for_every_packet_ends_with_its_last_part() {
    let mut manager = Manager::new().expect("the library is installed");
    let mut end = |cipher, hash, len| {
        let auth: &[u8] = if hash == Hash::None { &[] } else { &[7; 20] };
        manager
            .key(cipher, hash, if auth.is_empty() { 16 } else { 12 }, &vec![9; len], auth)
            .map(|key| key.end)
            .expect("good lengths")
    };
    // Round keys of 240 bytes, then 8 to 48 powers of the hash key, each of 16 bytes.
    for cipher in [LibraryCipher::Gcm, LibraryCipher::Gmac] {
        assert!((240 + 8 * 16..=240 + 48 * 16).contains(&end(cipher, Hash::None, 16)), "{cipher:?}");
    }
    assert_eq!(end(LibraryCipher::ChaCha20Poly1305, Hash::None, 32), 1_040);
    // Inner and outer state of the hash, then the round keys for encryption and for decryption.
    assert_eq!(end(LibraryCipher::Cbc, Hash::Sha1, 32), 2 * 64 + 2 * 240);
    assert_eq!(end(LibraryCipher::Null, Hash::Sha1, 0), 64 + 20);
}

/// Short and long bursts use different code if the processor has SHA instructions.
#[test]
fn a_burst_gives_what_single_jobs_give() {
    let mut manager = Manager::new().expect("the library is installed");
    for (hash, tag_len) in [(Hash::Sha1, 12), (Hash::Sha256, 16), (Hash::Sha512, 32), (Hash::None, 0)] {
        let key = manager.key(LibraryCipher::Cbc, hash, tag_len, &[9; 16], &[7; 20]).expect("good lengths");
        for count in [1, 4, 5, 7, 8, 9, 10, 40] {
            let fresh = || (0..count).map(|at| vec![at as u8; 16 * (at * 7 % 50)]).collect::<Vec<_>>();
            let (mut alone, mut together) = (fresh(), fresh());
            // The library refuses a hash over 0 bytes.
            (alone[0], together[0]) = (vec![1; 16], vec![1; 16]);
            let tags: Vec<_> = alone
                .iter_mut()
                .flat_map(|packet| run(&mut manager, &key, std::slice::from_mut(packet)))
                .collect();
            assert_eq!(run(&mut manager, &key, &mut together), tags, "{hash:?} {count}");
            assert!(alone == together, "{hash:?} {count}");
        }
    }
}

/// A burst mixes packets of many SAs, each with its own key and direction.
#[test]
fn a_burst_of_many_keys_gives_what_each_key_gives_alone() {
    let mut manager = Manager::new().expect("the library is installed");
    let ciphers = [
        (LibraryCipher::Cbc, Hash::Sha1, 12),
        (LibraryCipher::Gcm, Hash::None, 16),
        (LibraryCipher::Ctr, Hash::Sha256, 16),
    ];
    let mut key = |at: usize| {
        let (cipher, hash, tag_len) = ciphers[at % 3];
        let auth = if hash == Hash::None { vec![] } else { vec![at as u8 + 1; 20] };
        manager.key(cipher, hash, tag_len, &[at as u8; 16], &auth).expect("good lengths")
    };
    let keys: Vec<Key> = (0..40).map(&mut key).collect();
    let nonce_len = |at: usize| if at % 3 == 1 { 12 } else { 16 };
    let fresh = || (0..40).map(|at| vec![at as u8; 16 + 16 * (at * 7 % 50)]).collect::<Vec<_>>();
    let (mut alone, mut together) = (fresh(), fresh());
    let mut work = |packets: &mut [Vec<u8>], first: usize| -> Vec<Vec<u8>> {
        let mut given = 0;
        let mut burst = manager.burst();
        for (at, packet) in (first..).zip(packets) {
            let len = packet.len();
            let body = if at % 3 == 1 { len - 16 } else { len };
            let job = Job::new(packet, span(0, body), span(0, body), inputs(&[3; 16], nonce_len(at), 0))
                .expect("inside");
            let seal = at % 2 == 0;
            if at % 3 == 1 {
                assert!(burst.aead(job.with_tag_at(body), &keys[at], seal).is_some());
            } else {
                assert!(burst.push(job, &keys[at], seal));
                given += 1;
            }
        }
        let results = burst.run();
        (0..given).map(|at| results.tag(at).expect("done").to_vec()).collect()
    };
    let tags: Vec<_> = (0..40).flat_map(|at| work(&mut alone[at..=at], at)).collect();
    assert_eq!(work(&mut together, 0), tags);
    assert!(alone == together);
}

#[test]
fn a_job_that_the_library_refuses_has_no_tag_and_does_not_hinder_those_beside_it() {
    let mut manager = Manager::new().expect("the library is installed");
    let key = manager.key(LibraryCipher::Cbc, Hash::Sha1, 12, &[9; 16], &[7; 20]).expect("good lengths");
    let mut packets = [vec![1; 32], vec![2; 17], vec![3; 32]];
    let mut burst = manager.burst();
    for packet in &mut packets {
        assert!(burst.push(job(packet), &key, true));
    }
    let results = burst.run();
    assert_eq!([0, 1, 2].map(|at| results.tag(at).is_some()), [true, false, true]);
    assert_eq!(packets[1], [2; 17]);
}

#[test]
fn a_tag_is_written_to_its_place_in_the_packet_and_one_without_room_there_is_refused() {
    let mut manager = Manager::new().expect("the library is installed");
    let key = manager.key(LibraryCipher::Cbc, Hash::Sha1, 12, &[9; 16], &[7; 20]).expect("good lengths");
    let (mut with_place, mut without) = (vec![0x5c; 64 + 13], vec![0x5c; 64]);
    let mut short = with_place.clone();
    fn body(packet: &mut [u8]) -> Job<'_> {
        Job::new(packet, span(0, 64), span(0, 64), inputs(&[3; 16], 16, 0)).expect("inside")
    }
    let mut burst = manager.burst();
    assert!(!burst.push(body(&mut short).with_tag_at(66), &key, true), "one byte is missing");
    assert!(burst.push(body(&mut with_place).with_tag_at(64), &key, true));
    assert!(burst.push(body(&mut without), &key, true));
    let results = burst.run();
    assert!(results.is_done(0) && results.is_done(1) && !results.is_done(2));
    let tag = results.tag(1).expect("it has no place").to_vec();
    assert_eq!(with_place[..64], without);
    assert_eq!(with_place[64..], [&tag[..], &[0x5c]].concat());
}

#[test]
fn jobs_outside_their_packet_and_lengths_that_no_algorithm_has_are_refused() {
    let mut packet = [0; 16];
    assert!(Job::new(&mut packet, span(8, 9), span(0, 0), inputs(&[0; 16], 0, 0)).is_none());
    assert!(Job::new(&mut packet, span(0, 0), span(usize::MAX, 2), inputs(&[0; 16], 0, 0)).is_none());
    assert!(Job::new(&mut packet, span(0, 0), span(0, 0), inputs(&[0; 16], 17, 0)).is_none());
    assert!(Job::new(&mut packet, span(0, 0), span(0, 0), inputs(&[0; 16], 0, 13)).is_none());
    let mut manager = Manager::new().expect("the library is installed");
    let key = manager.key(LibraryCipher::Gcm, Hash::None, 16, &[0; 16], &[]).expect("good lengths");
    for tag_at in [Some(1), Some(17), Some(usize::MAX), None] {
        let job = Job::new(&mut packet, span(0, 0), span(0, 0), inputs(&[0; 16], 12, 0)).expect("inside");
        let job = match tag_at {
            Some(start) => job.with_tag_at(start),
            None => job,
        };
        assert_eq!(manager.burst().aead(job, &key, true), None, "{tag_at:?}");
    }
    let chained = manager.key(LibraryCipher::Cbc, Hash::Sha1, 12, &[9; 16], &[7; 20]).expect("good lengths");
    assert_eq!(manager.burst().aead(self::job(&mut packet).with_tag_at(0), &chained, true), None);
    assert!(!manager.burst().push(self::job(&mut packet), &key, true), "it is an AEAD's");
    let bad = [
        (LibraryCipher::Cbc, Hash::Sha1, 12, 17, 20),
        (LibraryCipher::Cbc, Hash::Sha1, 20, 16, 20),
        (LibraryCipher::Cbc, Hash::Sha1, 12, 16, 65),
        (LibraryCipher::Gcm, Hash::None, 32, 16, 0),
        (LibraryCipher::Gcm, Hash::Sha1, 12, 16, 20),
        (LibraryCipher::Null, Hash::Md5, 12, 1, 16),
    ];
    for (cipher, hash, tag_len, key_len, auth_len) in bad {
        let key = manager.key(cipher, hash, tag_len, &vec![0; key_len], &vec![0; auth_len]);
        assert!(key.is_none(), "{cipher:?} {hash:?} {tag_len} {key_len} {auth_len}");
    }
}

#[test]
fn the_floor_that_benches_measure_seals_as_a_burst_does() {
    const STRIDE: usize = 256;
    let mut manager = Manager::new().expect("the library is installed");
    for (cipher, hash, tag_len) in [
        (LibraryCipher::Gcm, Hash::None, 16),
        (LibraryCipher::Cbc, Hash::Sha1, 12),
        (LibraryCipher::Ctr, Hash::Sha1, 12),
    ] {
        let auth_len = if hash == Hash::None { 0 } else { 20 };
        let key = manager.key(cipher, hash, tag_len, &[9; 16], &vec![7; auth_len]).expect("good lengths");
        let mut memory = vec![0x5c; 3 * STRIDE];
        manager.floor(&key, &mut memory, STRIDE, 24, 64);
        let mut packet = [0x5c; 104];
        let mut burst = manager.burst();
        let aad_len = if hash == Hash::None { 8 } else { 0 };
        let nonce_len = if hash == Hash::None { 12 } else { 16 };
        let job = Job::new(&mut packet, span(24, 64), span(0, 88), inputs(&[0; 16], nonce_len, aad_len))
            .expect("inside");
        if hash == Hash::None {
            assert_eq!(burst.aead(job.with_tag_at(88), &key, true), Some(AeadResult::Done));
        } else {
            assert!(burst.push(job, &key, true));
            let tag = burst.run().tag(0).expect("done").to_vec();
            packet[88..88 + tag_len].copy_from_slice(&tag);
        }
        for sealed in memory.chunks(STRIDE) {
            assert_eq!(sealed[..88 + tag_len], packet[..88 + tag_len], "{cipher:?}");
        }
    }
}

#[test]
fn aes_gcm_opens_what_it_sealed_and_sees_a_change_of_each_byte_of_the_tag() {
    let mut manager = Manager::new().expect("the library is installed");
    for (key_len, tag_len) in [(16, 8), (16, 12), (16, 16), (24, 16), (32, 8), (32, 12), (32, 16)] {
        let key = manager
            .key(LibraryCipher::Gcm, Hash::None, tag_len, &[9; 32][..key_len], &[])
            .expect("good lengths");
        let mut packet = [0x5c; 24 + 16];
        let mut work = |packet: &mut [u8], seal| {
            let job = Job::new(packet, span(0, 24), span(0, 0), inputs(&[3; 16], 12, 8)).expect("inside");
            manager.burst().aead(job.with_tag_at(24), &key, seal)
        };
        assert_eq!(work(&mut packet, true), Some(AeadResult::Done));
        assert_eq!(packet[24 + tag_len..], [0x5c; 16][tag_len..], "{key_len} {tag_len}");
        for at in 24..24 + tag_len {
            let mut changed = packet;
            changed[at] ^= 0x80;
            assert_eq!(work(&mut changed, false), Some(AeadResult::Mismatch), "{key_len} {tag_len} {at}");
        }
        assert_eq!(work(&mut packet, false), Some(AeadResult::Done), "{key_len} {tag_len}");
        assert_eq!(packet[..24], [0x5c; 24], "{key_len} {tag_len}");
    }
}
