use std::net::SocketAddr;

use convoy_kernel::testing::own_loopback;
use convoy_packet::icmp::{v4, v6};
use convoy_packet::protocol::{ICMP, ICMP_V6};
use convoy_packet::{IpHeader, icmp};
use socket2::{Domain, Protocol, Socket, Type};

use super::*;

/// An ESP packet with `len` bytes of payload over the loopback interface, with ECN in its traffic
/// class.
fn packet(address: &str, len: usize) -> Vec<u8> {
    let address = address.parse().expect("an address");
    let header = IpHeader { traffic_class: 2, identification: 7, ..IpHeader::new(ESP, address, address) };
    let at = header.header_len();
    let mut packet: Vec<u8> = (0..at + len).map(|n| n as u8).collect();
    header.write(&mut packet);
    packet
}

fn exchange(address: &str) {
    let local = [address.parse().expect("an address")];
    let queues = Raw::bind("outside", &local, &local, 1500, 2, None);
    let [mut port, mut second] = <[Raw; 2]>::try_from(queues.expect("raw sockets need root"))
        .unwrap_or_else(|_| panic!("two queues were asked for"));
    let mut pool = FramePool::new(64, 8);
    let packets: Vec<Vec<u8>> = [40, 64, 1400, 8].map(|len| packet(address, len)).into();
    let mut burst: Vec<Frame> =
        packets.iter().map(|packet| pool.take_filled(packet, 0).expect("a frame")).collect();
    assert_eq!(second.send(&mut pool, &mut burst).expect("loopback"), 4);
    assert_eq!(second.counters().sent_packets, 4);
    let mut received = Vec::new();
    for _ in 0..1000 {
        port.receive(&mut pool, 64, &mut received).expect("loopback");
        if received.len() >= 4 {
            break;
        }
    }
    let received: Vec<Vec<u8>> = received.iter().map(|frame| frame.to_vec()).collect();
    assert_eq!(received, packets);
    assert_eq!(second.receive(&mut pool, 64, &mut Vec::new()).expect("loopback"), 0, "nothing comes twice");
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn of_icmp_only_what_tells_of_a_path_is_handed_up() {
    own_loopback();
    let of_v4 = [(8, 0), (v4::UNREACHABLE, 3), (v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED)];
    let of_v6 = [(128, 0), (1, 4), (v6::PACKET_TOO_BIG, 0)];
    for (address, protocol, kinds) in [("127.0.0.78", ICMP, of_v4), ("::1", ICMP_V6, of_v6)] {
        let here: IpAddr = address.parse().expect("an address");
        let mut port =
            Raw::bind("outside", &[here], &[here], 1500, 1, None).expect("raw sockets need root").remove(0);
        let router = Socket::new(
            Domain::for_address(SocketAddr::new(here, 0)),
            Type::RAW,
            Some(Protocol::from(i32::from(protocol))),
        )
        .expect("raw sockets need root");
        for (kind, code) in kinds {
            let mut message = [0x5a; 64];
            // The kernel computes ICMPv6 checksums itself.
            icmp::write(&mut message, kind, code, 0, 0);
            router.send_to(&message, &SocketAddr::new(here, 0).into()).expect("loopback");
        }
        let mut pool = FramePool::new(8, 0);
        let mut received = Vec::new();
        for _ in 0..1000 {
            port.receive(&mut pool, 64, &mut received).expect("loopback");
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        let received: Vec<(u8, u8)> = received
            .iter()
            .map(|frame| &frame[frame.len() - 64..])
            .map(|message| (message[0], message[1]))
            .collect();
        assert_eq!(received, kinds[2..], "{address}");
    }
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn esp_crosses_the_loopback_whole_over_ipv4() {
    own_loopback();
    exchange("127.0.0.77");
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn esp_crosses_the_loopback_with_its_header_made_again_over_ipv6() {
    own_loopback();
    exchange("::1");
}
