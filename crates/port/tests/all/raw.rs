//! The `raw` port over a link between network namespaces. Needs root; without it the tests fail
//! with a message.

use std::net::IpAddr;

use convoy_packet::protocol::{ESP, FRAGMENT};
use convoy_packet::{Fragment, Frame, FramePool, IpHeader, ip, ipv6};
use convoy_port::{Port, Raw};

use convoy_kernel::testing::{self, Namespace};

const ENDS: [&str; 2] = ["10.9.0.1", "10.9.0.2"];
const ENDS_V6: [&str; 2] = ["fd09::1", "fd09::2"];

fn linked(mtu: u32) -> (Namespace, Namespace) {
    let (left, right) = (Namespace::create(), Namespace::create());
    left.link(&right, mtu, [("va", &["10.9.0.1/24", "fd09::1/64"]), ("vb", &["10.9.0.2/24", "fd09::2/64"])]);
    (left, right)
}

fn bind(namespace: &Namespace, address: &str) -> Raw {
    let address: IpAddr = address.parse().expect("an address");
    namespace
        .inside(|| Raw::bind("outside", &[address], &[address], 1_500, 1, None))
        .expect("root may")
        .remove(0)
}

/// An ESP packet with DF, `len` bytes long.
fn packet(ends: [&str; 2], len: usize) -> Vec<u8> {
    let [from, to]: [IpAddr; 2] = ends.map(|address| address.parse().expect("an address"));
    let header = IpHeader { dont_fragment: true, identification: 7, ..IpHeader::new(ESP, from, to) };
    let mut packet = vec![9; len];
    header.write(&mut packet);
    packet
}

fn send(port: &mut Raw, pool: &mut FramePool, packets: &[&Vec<u8>]) {
    let mut burst: Vec<Frame> =
        packets.iter().map(|packet| pool.take_filled(packet, 0).expect("a frame")).collect();
    while !burst.is_empty() {
        port.send(pool, &mut burst).expect("the link is up");
    }
}

#[test]
fn the_mtu_of_an_interface_is_learned_from_a_packet_that_was_too_long_for_it() {
    for ends in [ENDS, ENDS_V6] {
        let (left, _right) = linked(1_400);
        // The kernel's path MTU, wherever it comes from, can differ from the interface's MTU.
        left.inside(|| testing::ip(&format!("route add {} dev va mtu 1290", ends[1])));
        let (mut port, mut pool) = (bind(&left, ends[0]), FramePool::new(16, 16));
        let [fits, too_long] = [1_400, 1_401].map(|len| packet(ends, len));
        send(&mut port, &mut pool, &[&fits, &too_long, &too_long, &fits]);
        assert_eq!((port.counters().sent_packets, port.counters().send_dropped), (2, 2));
        let peer = ends[1].parse().expect("an address");
        assert_eq!((port.take_path_mtu(), port.take_path_mtu()), (Some((peer, 1_400)), None));
    }
}

#[test]
fn ipv6_fragments_leave_and_the_peers_kernel_puts_them_together() {
    let (left, right) = linked(1_500);
    let (mut a, mut b) = (bind(&left, ENDS_V6[0]), bind(&right, ENDS_V6[1]));
    let mut pool = FramePool::new(16, 16);
    let whole = packet(ENDS_V6, 1_440);
    let pieces = [(0, 40..840, true), (800, 840..1_440, false)].map(|(offset, body, more)| {
        let mut piece = [&whole[..40], &[0; 8], &whole[body]].concat();
        piece[6] = FRAGMENT;
        ipv6::write_fragment(&mut piece[40..], ESP, Fragment { identification: 77, offset, more });
        ip::set_length(&mut piece);
        piece
    });
    send(&mut a, &mut pool, &[&pieces[0], &pieces[1]]);
    assert_eq!((a.counters().sent_packets, a.counters().send_dropped), (2, 0));
    let mut received = Vec::new();
    for _ in 0..1_000 {
        b.receive(&mut pool, 64, &mut received).expect("the link is up");
        if !received.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(received.len(), 1);
    assert!(received[0][..] == whole[..], "whole, with its header made again");
}
