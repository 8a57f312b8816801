//! Engines that process a whole slice of packets in place: all transforms, keys and directions
//! mixed.

use convoy_engine::{Engine, EngineControl, Placement, Software, Takes};
use convoy_ipsec::{CryptoPacket, CryptoStatus, Direction, SaIndex, Transform};
use convoy_packet::FramePool;

use crate::agreement::packet;
use crate::case::Case;
use crate::roster::every_engine;

/// Two cases of each transform, with different keys and lengths.
fn cases(transforms: &[Transform]) -> Vec<Case> {
    let two = |(at, transform): (usize, &Transform)| {
        let (at, transform) = (at as u8, *transform);
        [0, 1].map(|which| {
            let key: Vec<u8> =
                (0..transform.key_material_len() as u8).map(|byte| byte ^ at ^ which << 7).collect();
            packet(transform, &key, (usize::from(at) * 29 % 700, at ^ 0x5a, which == 1))
        })
    };
    transforms.iter().enumerate().flat_map(two).collect()
}

fn process(engine: &mut dyn Engine, packets: &mut [CryptoPacket]) {
    engine.in_place().expect("it works in place").process(packets);
}

#[test]
fn an_engine_works_in_place_if_it_is_on_the_callers_core_and_takes_trains() {
    for mut engine in every_engine() {
        let description = engine.description();
        let says_so = description.placement == Placement::Inline && description.takes == Takes::Trains;
        assert_eq!(engine.in_place().is_some(), says_so, "{}", engine.description().name);
    }
}

#[test]
fn packets_of_many_sas_and_both_directions_in_one_slice_come_out_as_each_does_alone() {
    let mut pool = FramePool::new(1024, 0);
    let mut tried = 0;
    for mut engine in every_engine() {
        if engine.in_place().is_none() {
            continue;
        }
        tried += 1;
        let name = engine.description().name.clone();
        let cases = cases(&engine.description().transforms);
        let sa = |at: usize| SaIndex(at as u32 * 3);
        let mut reference = Software::new("reference");
        for (at, case) in cases.iter().enumerate() {
            engine.install_key(sa(at), &case.keys()).expect("claimed");
            reference.install_key(sa(at), &case.keys()).expect("software does all");
        }
        let fresh = |pool: &mut FramePool| -> Vec<CryptoPacket> {
            let all = cases.iter().enumerate();
            all.map(|(at, case)| CryptoPacket { sa: sa(at), ..case.to_seal(pool) }).collect()
        };
        let mut alone = fresh(&mut pool);
        alone.iter_mut().for_each(|packet| process(&mut reference, std::slice::from_mut(packet)));
        let mut together = fresh(&mut pool);
        process(engine.as_mut(), &mut together);
        for ((one, other), case) in alone.iter().zip(&together).zip(&cases) {
            assert_eq!(other.status, CryptoStatus::Done, "{name}: {}", case.name);
            assert!(one.frame[..] == other.frame[..], "{name}: {}", case.name);
        }
        // Every second packet is opened, one of them with a wrong byte, between packets that are
        // sealed.
        let mut mixed = fresh(&mut pool);
        for (at, packet) in mixed.iter_mut().enumerate().filter(|(at, _)| at % 2 == 1) {
            packet.direction = Direction::Open;
            packet.frame.fill(&alone[at].frame).expect("it fits");
            if at % 10 == 5 && cases[at].transform.icv_len() > 0 {
                let last = packet.frame.len() - 1;
                packet.frame[last] ^= 0x10;
            }
        }
        process(engine.as_mut(), &mut mixed);
        for (at, (packet, case)) in mixed.iter().zip(&cases).enumerate() {
            let is_bad = at % 10 == 5 && case.transform.icv_len() > 0;
            let expected = if is_bad { CryptoStatus::IcvMismatch } else { CryptoStatus::Done };
            assert_eq!(packet.status, expected, "{name}: {}", case.name);
            let (bytes, is_opened) = (case.open_bytes(), at % 2 == 1);
            if is_opened && !is_bad {
                assert!(packet.frame[..bytes.len()] == bytes[..], "{name}: {}", case.name);
            } else if !is_opened {
                assert!(packet.frame[..] == alone[at].frame[..], "{name}: {}", case.name);
            }
        }
        for packet in alone.into_iter().chain(together).chain(mixed) {
            pool.give_back(packet.frame);
        }
    }
    assert!(tried > 0);
}

#[test]
fn a_packet_whose_sa_has_no_keys_stays_as_it_was_and_hinders_none_beside_it() {
    let mut pool = FramePool::new(8, 0);
    for mut engine in every_engine() {
        if engine.in_place().is_none() {
            continue;
        }
        let case = cases(&engine.description().transforms[..1]).remove(0);
        engine.install_key(SaIndex(1), &case.keys()).expect("claimed");
        let mut packets: Vec<CryptoPacket> =
            [1, 7, 1].map(|sa| CryptoPacket { sa: SaIndex(sa), ..case.to_seal(&mut pool) }).into();
        let before = packets[1].frame.to_vec();
        process(engine.as_mut(), &mut packets);
        let statuses: Vec<_> = packets.iter().map(|packet| packet.status).collect();
        assert_eq!(statuses, [CryptoStatus::Done, CryptoStatus::Pending, CryptoStatus::Done]);
        assert_eq!(packets[1].frame[..], before[..]);
        packets.into_iter().for_each(|packet| pool.give_back(packet.frame));
    }
}
