//! Packets that are longer than the line carries.

use convoy_packet::{Fragment, Ipv4};

use super::*;

/// IP and ESP of the line, in bytes.
const MTU: usize = 1_500;
const HEADER_AT: usize = 14;
const PAYLOAD_AT: usize = 34;

fn with_valid_checksum(mut frame: Vec<u8>) -> Vec<u8> {
    frame[24..26].fill(0);
    let sum =
        frame[HEADER_AT..PAYLOAD_AT].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = sum.sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame
}

/// Puts the payload of fragments together that are in order, and checks their headers.
fn reassembled(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (at, frame) in frames.iter().enumerate() {
        let packet = Ipv4::parse(&frame[HEADER_AT..]).expect("a whole packet");
        assert!(packet.is_checksum_valid() && frame.len() <= HEADER_AT + MTU);
        let Fragment { identification, offset, more } = packet.fragment().expect("a fragment");
        assert_eq!((identification, offset, more), (9, payload.len(), at + 1 < frames.len()));
        // What follows is the padding of a short frame.
        payload.extend_from_slice(&packet.as_bytes()[PAYLOAD_AT - HEADER_AT..]);
    }
    payload
}

#[test]
fn a_long_packet_is_sealed_whole_and_leaves_in_fragments_between_others() {
    let (line, mut peer) = memory(64).expect("descriptors");
    let settings = NicSettings { line_mtu: Some(MTU as u16), ..NicSettings::default() };
    let mut nic = Nic::with(Box::new(line), &settings).expect("a card");
    nic.install(1, sa(GCM, 1), None).expect("fits");
    let lengths = [100, 8_900, 1_448, 1_449, 4_000, 64];
    let cases: Vec<Case> = (0..).zip(lengths).map(|(n, len)| case(shape(GCM), 1, n, len)).collect();
    for case in &cases {
        assert!(nic.transmit_copy(&with_valid_checksum(case.plain.clone()), Some(case.seal)));
    }
    run_until_idle(&mut nic);
    let mut frames = drained(&mut peer);
    assert_eq!(nic.counters().sent, frames.len() as u64);
    for case in &cases {
        let payload = &case.sealed[PAYLOAD_AT..];
        let count = payload.len().div_ceil(1_480);
        let own: Vec<Vec<u8>> = frames.drain(..count).collect();
        if count == 1 {
            assert_eq!(own, [with_valid_checksum(case.sealed.clone())]);
        } else {
            assert!(reassembled(&own) == payload, "{} bytes", payload.len());
        }
    }
    assert!(frames.is_empty());
    assert_eq!((nic.counters().fragmented, nic.counters().sealed), (3, 6));
}

#[test]
fn a_packet_that_may_not_be_cut_leaves_as_it_is() {
    let (line, mut peer) = memory(8).expect("descriptors");
    let settings = NicSettings { line_mtu: Some(MTU as u16), ..NicSettings::default() };
    let mut nic = Nic::with(Box::new(line), &settings).expect("a card");
    let mut whole = case(shape(GCM), 1, 1, 3_000).plain;
    whole[20] = 0x40;
    assert!(nic.transmit_copy(&whole, None));
    run_until_idle(&mut nic);
    assert_eq!(drained(&mut peer), [whole]);
    assert_eq!(nic.counters().fragmented, 0);
}
