//! What an attacker outside, or a malicious peer, may send: each is counted under the name that the
//! operator reads, and nothing else happens.

use super::*;
use convoy_packet::protocol::FRAGMENT;

/// The names and numbers that `convoy show` prints.
fn printed(gateway: &Gateway) -> Vec<(String, u64)> {
    gateway.ipsec.counters().drops.met().map(|(reason, count)| (reason.to_string(), count)).collect()
}

fn named(drops: &[(&str, u64)]) -> Vec<(String, u64)> {
    drops.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// A gateway that knows of nothing but its one tunnel, and an ESP packet to it.
fn target(link: &Link) -> (Gateway, Vec<u8>) {
    let [mut a, b] = link.pair();
    let outer = a.send(&[link.packet(false, 100)]).remove(0);
    (b, outer)
}

/// The packet with its last `count` bytes gone and its length made to fit.
fn shortened(packet: &[u8], count: usize) -> Vec<u8> {
    let mut short = packet[..packet.len() - count].to_vec();
    ip::set_length(&mut short);
    short
}

#[test]
fn a_truncated_packet_is_malformed_or_else_not_authentic() {
    let link = Link::default();
    let (mut b, outer) = target(&link);
    let esp = outer.len() - 20;
    b.receive(&[outer[..outer.len() - 1].to_vec()]); // less than its header says
    b.receive(&[shortened(&outer, esp - 7)]); // no whole ESP header
    b.receive(&[shortened(&outer, esp - 8 - 8 - 16 - 1)]); // no whole trailer
    b.receive(&[shortened(&outer, 1)]); // no whole block
    assert_eq!(printed(&b), named(&[("malformed_outer", 4)]));
    b.receive(&[shortened(&outer, 4)]);
    assert_eq!(printed(&b), named(&[("malformed_outer", 4), ("integrity_failed", 1)]));
    assert_eq!(b.receive(&[outer]).len(), 1);
    b.assert_no_leak();
}

#[test]
fn a_wrong_icv_a_replay_and_a_wrong_spi_are_distinguished() {
    let link = Link { esn: true, ..Link::default() };
    let (mut b, outer) = target(&link);
    for (at, mask) in [(outer.len() - 1, 1), (outer.len() - 20, 1), (27, 2), (30, 1)] {
        let mut forged = outer.clone();
        forged[at] ^= mask; // ICV, payload, sequence number, IV
        assert!(b.receive(&[forged]).is_empty());
    }
    assert_eq!(printed(&b), named(&[("integrity_failed", 4)]));
    assert_eq!(b.receive(std::slice::from_ref(&outer)).len(), 1, "a forged number moves no window");
    let mut other_spi = outer.clone();
    other_spi[21] ^= 0x10;
    assert!(b.receive(&[other_spi, outer]).is_empty());
    let expected = [("unknown_spi", 1), ("replayed", 1), ("integrity_failed", 4)];
    assert_eq!(printed(&b), named(&expected));
    b.assert_no_leak();
}

#[test]
fn numbers_go_on_across_two_to_the_32_and_old_ones_stay_replays() {
    let link = Link { esn: true, ..Link::default() };
    let [mut a, mut b] = link.pair();
    a.ipsec.tables.set_sequence(OUT_ID, 0xffff_fffc);
    let mut outer = a.send(&vec![link.packet(false, 100); 8]);
    assert_eq!(outer[3][24..28], [0; 4], "the lower half begins again");
    // The last before the wrap comes after the first behind it; both are on their way at once.
    outer.swap(2, 3);
    assert_eq!(b.receive(&outer[..1]).len() + b.receive(&outer[1..]).len(), 8);
    assert_eq!(b.view(IN).sequence, 0x1_0000_0004);
    assert!(b.receive(&outer).is_empty());
    assert_eq!(printed(&b), named(&[("replayed", 8)]));
    b.assert_no_leak();
}

/// A fragment of an IPv4 packet from `source`, at `offset` in units of eight bytes.
fn fragment(link: &Link, source: [u8; 4], id: u16, offset: u16, len: usize) -> Vec<u8> {
    let IpAddr::V4(to) = link.ends()[1] else { unreachable!("an IPv4 link") };
    let mut packet = udp([source.into(), to.into()], 20 + len);
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[6..8].copy_from_slice(&(0x2000 | offset).to_be_bytes());
    packet[9] = 50;
    ipv4::fill_checksum(&mut packet);
    packet
}

#[test]
fn a_flood_of_overlapping_fragments_leaves_room_for_the_peers_own() {
    let link = Link { mtu: 9_000, ..Link::default() };
    let [mut a, mut b] = link.pair();
    let packet = link.packet(false, 3_000);
    let outer = a.send(std::slice::from_ref(&packet));
    let mut genuine = a.cut(&outer, 1_500);
    assert_eq!(genuine.len(), 3);
    let jumbo = b.pool.available(FrameSize::Jumbo);
    // Under the peer's own address, so that its share of the memory is what is fought for.
    for id in 0..500 {
        let flood = [0, 4].map(|offset| fragment(&link, [192, 0, 2, 1], 1_000 + id, offset, 64));
        assert!(b.receive(&flood).is_empty());
    }
    assert_eq!(printed(&b), named(&[("fragment_overlap", 1_000)]));
    assert_eq!(b.pool.available(FrameSize::Jumbo), jumbo, "what is condemned holds no frame");
    genuine.reverse();
    assert_eq!(b.receive(&genuine), [packet]);
    b.assert_no_leak();
}

#[test]
fn a_flood_of_first_fragments_takes_a_bounded_number_of_frames() {
    let link = Link::default();
    let (mut b, _) = target(&link);
    let jumbo = b.pool.available(FrameSize::Jumbo);
    for source in 0..40 {
        for id in 0..20 {
            b.receive(&[fragment(&link, [203, 0, 113, source], id, 0, 64)]);
        }
    }
    let limits = ReassemblyConfig::default();
    assert_eq!(b.ipsec.counters().in_reassembly, limits.datagrams);
    assert_eq!(b.pool.available(FrameSize::Jumbo), jumbo - limits.datagrams);
    assert_eq!(printed(&b), named(&[("reassembly_limit", 800 - limits.datagrams as u64)]));
    b.now_ns += limits.timeout_ns;
    b.receive(&[]);
    let late = ("reassembly_timeout", limits.datagrams as u64);
    assert_eq!(printed(&b), named(&[late, ("reassembly_limit", 800 - limits.datagrams as u64)]));
    b.assert_no_leak();
}

#[test]
fn tiny_and_endless_fragments_are_refused() {
    let link = Link::default();
    let (mut b, _) = target(&link);
    b.receive(&[
        fragment(&link, [192, 0, 2, 1], 1, 0, 8),
        fragment(&link, [192, 0, 2, 1], 2, 0, 40),
        fragment(&link, [192, 0, 2, 1], 3, 0, 61),
        fragment(&link, [192, 0, 2, 1], 4, 0x1fff, 64),
    ]);
    assert_eq!(printed(&b), named(&[("fragment_malformed", 2), ("fragment_tiny", 2)]));
    b.assert_no_leak();
}

/// An IPv6 packet with `count` extension headers put before what it carries.
fn nested(packet: &[u8], kind: u8, count: usize) -> Vec<u8> {
    let mut packet = packet.to_vec();
    for _ in 0..count {
        let next = std::mem::replace(&mut packet[6], kind);
        packet.splice(40..40, [next, 0, 0, 0, 0, 0, 0, 0]);
    }
    ip::set_length(&mut packet);
    packet
}

#[test]
fn extension_headers_are_walked_so_far_and_no_further() {
    let link = Link { outer_v6: true, ..Link::default() };
    let [mut a, mut b] = link.pair();
    let outer = a.send(&[link.packet(true, 100)]).remove(0);
    b.receive(&[nested(&outer, 60, 9), nested(&outer, 43, 100), nested(&outer, FRAGMENT, 2)]);
    assert_eq!(printed(&b), named(&[("malformed_outer", 3)]));
    // Its own outer header is not what ESP protects: eight headers are odd and no fault.
    assert_eq!(b.receive(&[nested(&outer, 60, 8)]).len(), 1);
    assert!(a.send(&[nested(&link.packet(true, 100), 60, 9)]).is_empty());
    assert_eq!(printed(&a), named(&[("malformed_inner", 1)]));
    b.assert_no_leak();
}

/// The results of an authentic peer's packet of 100 bytes when it seals other bytes in its place.
fn sealed_with(change: impl Fn(&mut [u8])) -> Vec<(String, u64)> {
    let link = Link { transform: NULL_SHA1, ..Link::default() };
    let [mut a, mut b] = link.pair();
    let mut prepared = a.prepare(&[link.packet(false, 100)]);
    change(&mut prepared[0].frame);
    let outer = a.seal(prepared);
    assert!(b.receive(&outer).is_empty());
    b.assert_no_leak();
    printed(&b)
}

#[test]
fn what_an_authentic_peer_may_not_send_is_named() {
    const INNER: usize = 20 + 8;
    // Padding 1, 2, its length and the next header, before 12 bytes of ICV.
    let trailer = |packet: &[u8]| packet.len() - 12;
    let one = |name| named(&[(name, 1)]);
    assert_eq!(sealed_with(|packet| packet[trailer(packet) - 2] = 255), one("bad_padding"));
    assert_eq!(sealed_with(|packet| packet[trailer(packet) - 3] = 9), one("bad_padding"));
    assert_eq!(sealed_with(|packet| packet[trailer(packet) - 1] = 6), one("bad_next_header"));
    assert_eq!(sealed_with(|packet| packet[trailer(packet) - 1] = 41), one("malformed_decrypted"));
    assert_eq!(sealed_with(|packet| packet[trailer(packet) - 1] = 59), one("dummy"));
    assert_eq!(sealed_with(|packet| packet[INNER] = 0x44), one("malformed_decrypted"));
    assert_eq!(sealed_with(|packet| packet[INNER + 3] = 200), one("malformed_decrypted"));
    assert_eq!(sealed_with(|packet| packet[INNER + 13] = 3), one("policy_mismatch"));
    assert_eq!(sealed_with(|packet| packet[INNER + 17] = 3), one("policy_mismatch"));
}
