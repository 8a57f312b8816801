//! Ports over `net_ring`, which receives from a ring what was sent to it. The test puts frames into
//! a port's ring, and takes out what the port has sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use convoy_dpdk::{Eal, EthernetConfig, default_arguments};
use convoy_packet::arp::{Arp, Operation};
use convoy_packet::{
    Ethernet, FrameSize, IpHeader, Ipv4, Ipv6, Layout, MacAddress, Ndp, NdpKind, Udp, checksum, icmp, ndp,
    protocol, udp,
};

use super::*;
use crate::PortKind;
use crate::l2_host::{HostIdentity, PortTakes};

const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x99]);
/// Capacity of a ring of `net_ring`, in frames.
const RING: usize = 1023;

/// A port with this many queues.
fn ports(device: &str, queues: usize) -> Vec<DpdkPort> {
    let eal = Eal::start(&default_arguments([])).expect("DPDK starts");
    let config = EthernetConfig { queues, descriptors: 1024, mtu: 1500, mac: Some(OWN), all_groups: true };
    let device = eal.ethernet(device, &config).expect("net_ring is linked");
    let addresses = [(A.into(), 24), (A6.into(), 64)];
    let identity = HostIdentity::new(OWN, &addresses, &[], PortTakes::Own).expect("a good configuration");
    let heard = Arc::new(Heard::new(queues));
    let description = PortDescription {
        name: "outside".to_owned(),
        kind: PortKind::of::<crate::DpdkSettings>(),
        mtu: config.mtu,
    };
    let queues_each = device.queues.into_iter().enumerate();
    queues_each
        .map(|(number, queue)| {
            let host = L2Host::new(identity.clone(), queues);
            DpdkPort::new(description.clone(), host, queue, number, Arc::clone(&heard))
        })
        .collect()
}

fn port(device: &str) -> DpdkPort {
    ports(device, 1).pop().expect("one was asked for")
}

impl DpdkPort {
    /// Puts a frame into the ring for the port to receive.
    fn put(&mut self, to: MacAddress, ethertype: u16, bytes: &[u8]) {
        assert_eq!(self.queue.send([(ethernet::header(to, PEER, ethertype), bytes)]), 1);
    }

    /// The frames that the port has sent.
    fn sent(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while self.queue.receive(ETHERNET_BURST, |frame| frames.push(frame.to_vec())) > 0 {}
        frames
    }

    fn take(&mut self, pool: &mut FramePool) -> Vec<Frame> {
        let mut burst = Vec::new();
        self.receive(pool, 256, &mut burst).expect("a device");
        burst
    }
}

fn packet(protocol: u8, source: impl Into<IpAddr>, destination: impl Into<IpAddr>, body: &[u8]) -> Vec<u8> {
    let header = IpHeader::new(protocol, source.into(), destination.into());
    let mut packet = [&vec![0; header.header_len()][..], body].concat();
    header.write(&mut packet);
    packet
}

fn arp(frame: &[u8]) -> (MacAddress, Arp) {
    let frame = Ethernet::parse(frame).expect("whole");
    assert_eq!(frame.ethertype(), ethernet::ARP);
    (frame.destination(), Arp::parse(frame.payload()).expect("whole").expect("of IPv4"))
}

fn answer_of_b() -> Arp {
    Arp { operation: Operation::Reply, sender_mac: PEER, sender: B, target_mac: OWN, target: A }
}

#[test]
fn a_packet_waits_until_its_next_hop_has_answered() {
    let (mut port, mut pool) = (port("net_ring_waits"), FramePool::new(8, 0));
    let esp = packet(protocol::ESP, A, B, &[1; 60]);
    let mut burst = vec![pool.take_filled(&esp, 0).expect("a frame")];
    assert_eq!(port.send(&mut pool, &mut burst).expect("a device"), 1);
    let asked = port.sent();
    assert_eq!(asked.len(), 1);
    let (to, request) = arp(&asked[0]);
    assert_eq!((to, request.operation, request.target), (MacAddress::BROADCAST, Operation::Request, B));
    port.put(OWN, ethernet::ARP, &answer_of_b().to_bytes());
    assert!(port.take(&mut pool).is_empty());
    let sent = port.sent();
    let frame = Ethernet::parse(&sent[0]).expect("whole");
    assert_eq!((frame.destination(), frame.source(), frame.payload()), (PEER, OWN, &esp[..]));
    assert_eq!((port.counters().sent_packets, pool.available(FrameSize::Small)), (1, 8));
}

/// What B says of its own address, because it was asked.
fn advertisement_of_b() -> Ndp {
    let kind = NdpKind::Advertisement { is_router: false, is_solicited: true, overrides: true };
    Ndp { kind, source: B6, destination: A6, target: B6, mac: Some(PEER) }
}

#[test]
fn a_packet_of_ipv6_waits_for_neighbour_discovery_and_leaves_with_a_checksum() {
    let (mut port, mut pool) = (port("net_ring_waits6"), FramePool::new(8, 0));
    let mut datagram = packet(protocol::UDP, A6, B6, &[7; 60]);
    udp::write(&mut datagram[40..], 4500, 4500);
    let mut burst = vec![pool.take_filled(&datagram, 0).expect("a frame")];
    assert_eq!(port.send(&mut pool, &mut burst).expect("a device"), 1);
    let asked = port.sent();
    let request = Ethernet::parse(&asked[0]).expect("whole");
    let message = Ndp::parse(&Ipv6::parse(request.payload()).expect("whole")).expect("a solicitation");
    assert_eq!(request.destination(), ndp::group_mac(ndp::solicited_node(B6)));
    assert_eq!((message.kind, message.target, message.mac), (NdpKind::Solicitation, B6, Some(OWN)));
    port.put(OWN, ethernet::IPV6, &advertisement_of_b().to_packet());
    assert!(port.take(&mut pool).is_empty());
    let sent = port.sent();
    let frame = Ethernet::parse(&sent[0]).expect("whole");
    assert_eq!((frame.destination(), frame.ethertype()), (PEER, ethernet::IPV6));
    let layout = Layout::parse(frame.payload()).expect("whole");
    let body = layout.body(frame.payload());
    let pseudo = checksum::pseudo_header(frame.payload(), protocol::UDP, body.len());
    assert!(Udp::parse(body).expect("whole").is_checksum_valid(pseudo));
    assert_eq!((&body[8..], pool.available(FrameSize::Small)), (&[7; 52][..], 8));
}

#[test]
fn another_hardware_address_is_believed_only_from_who_may_override_the_known_one() {
    const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x77]);
    let (mut port, mut pool) = (port("net_ring_other6"), FramePool::new(8, 0));
    let esp = packet(protocol::ESP, A6, B6, &[1; 60]);
    let says = |mac, overrides| {
        let kind = NdpKind::Advertisement { is_router: false, is_solicited: false, overrides };
        Ndp { kind, destination: ndp::ALL_NODES, mac: Some(mac), ..advertisement_of_b() }.to_packet()
    };
    port.put(OWN, ethernet::IPV6, &advertisement_of_b().to_packet());
    port.take(&mut pool);
    let all_nodes = ndp::group_mac(ndp::ALL_NODES);
    for (mac, overrides, expected) in [(OTHER, false, PEER), (OTHER, true, OTHER), (PEER, false, OTHER)] {
        port.put(all_nodes, ethernet::IPV6, &says(mac, overrides));
        port.take(&mut pool);
        let mut burst = vec![pool.take_filled(&esp, 0).expect("a frame")];
        port.send(&mut pool, &mut burst).expect("a device");
        let sent = port.sent();
        assert_eq!(Ethernet::parse(&sent[0]).expect("whole").destination(), expected);
    }
}

#[test]
fn it_answers_neighbour_discovery_and_echo_for_its_ipv6_address() {
    let (mut port, mut pool) = (port("net_ring_answer6"), FramePool::new(8, 0));
    let destination = ndp::solicited_node(A6);
    let request = Ndp { kind: NdpKind::Solicitation, source: B6, destination, target: A6, mac: Some(PEER) };
    port.put(ndp::group_mac(destination), ethernet::IPV6, &request.to_packet());
    let mut echo = packet(protocol::ICMP_V6, B6, A6, &[0x5a; 40]);
    let pseudo = checksum::pseudo_header(&echo, protocol::ICMP_V6, 40);
    icmp::write(&mut echo[40..], icmp::v6::ECHO, 0, 7, pseudo);
    port.put(OWN, ethernet::IPV6, &echo);
    assert!(port.take(&mut pool).is_empty());
    let sent = port.sent();
    let frames: Vec<_> = sent.iter().map(|frame| Ethernet::parse(frame).expect("whole")).collect();
    assert!(frames.iter().all(|frame| (frame.destination(), frame.source()) == (PEER, OWN)));
    let answer = Ndp::parse(&Ipv6::parse(frames[0].payload()).expect("whole")).expect("an answer");
    assert_eq!((answer.target, answer.mac), (A6, Some(OWN)));
    let reply = Ipv6::parse(frames[1].payload()).expect("whole");
    assert_eq!((reply.source(), reply.destination(), reply.payload()[0]), (A6, B6, 129));
}

#[test]
fn it_answers_arp_and_echo_for_its_address() {
    let (mut port, mut pool) = (port("net_ring_answers"), FramePool::new(8, 0));
    let request = Arp { operation: Operation::Request, target_mac: MacAddress([0; 6]), ..answer_of_b() };
    port.put(MacAddress::BROADCAST, ethernet::ARP, &request.to_bytes());
    let mut message = vec![0x5a; 40];
    icmp::write(&mut message, icmp::v4::ECHO, 0, 7, 0);
    port.put(OWN, ethernet::IPV4, &packet(protocol::ICMP, B, A, &message));
    assert!(port.take(&mut pool).is_empty());
    let sent = port.sent();
    let (to, reply) = arp(&sent[0]);
    assert_eq!((to, reply.sender_mac, reply.sender), (PEER, OWN, A));
    let reply = Ipv4::parse(&sent[1][ethernet::HEADER_BYTES..]).expect("a packet");
    assert_eq!((reply.source(), reply.destination()), (A, B));
}

#[test]
fn what_it_hands_up_is_whole_and_what_it_drops_is_counted_by_reason() {
    let (mut port, mut pool) = (port("net_ring_drops"), FramePool::new(2, 0));
    let esp = packet(protocol::ESP, B, A, &[1; 20]);
    port.put(OWN, ethernet::IPV4, &[&esp[..], &[0; 6]].concat());
    port.put(PEER, ethernet::IPV4, &esp);
    port.put(OWN, 0x88cc, &esp);
    port.put(OWN, ethernet::IPV4, &packet(protocol::ESP, B, Ipv4Addr::new(192, 0, 2, 77), &[1; 20]));
    port.put(OWN, ethernet::IPV4, &esp[..39]);
    port.put(OWN, ethernet::IPV4, &esp);
    port.put(OWN, ethernet::IPV4, &esp);
    let burst = port.take(&mut pool);
    assert!(burst.iter().all(|frame| frame[..] == esp[..]));
    assert_eq!(burst.len(), 2);
    let drops: Vec<_> = port.device_counters().into_iter().filter(|(_, count)| *count > 0).collect();
    let one = ["other_host", "other_protocol", "other_address", "malformed", "no_frame"];
    assert_eq!(drops, one.map(|reason| (reason.into(), 1)));
    let counters = port.counters();
    assert_eq!((counters.received_packets, counters.received_bytes, counters.receive_dropped), (2, 80, 2));
}

#[test]
fn what_a_full_device_has_no_room_for_leaves_later_and_in_order() {
    const PACKETS: usize = 1_300;
    let (mut port, mut pool) = (port("net_ring_full"), FramePool::new(PACKETS + 1, 0));
    port.put(OWN, ethernet::ARP, &answer_of_b().to_bytes());
    port.take(&mut pool);
    let numbered = |at: usize| packet(protocol::ESP, A, B, &(at as u32).to_be_bytes());
    let mut burst: Vec<Frame> =
        (0..PACKETS).map(|at| pool.take_filled(&numbered(at), 0).expect("a frame")).collect();
    assert_eq!(port.send(&mut pool, &mut burst).expect("a device"), PACKETS);
    assert_eq!(port.counters().sent_packets, RING as u64);
    burst.push(pool.take_filled(&numbered(PACKETS), 0).expect("a frame"));
    assert_eq!(port.send(&mut pool, &mut burst).expect("a device"), 0, "it has no room");
    assert_eq!(burst.len(), 1);
    let mut sent = port.sent();
    assert_eq!(port.send(&mut pool, &mut burst).expect("a device"), 1);
    sent.extend(port.sent());
    let sent: Vec<&[u8]> = sent.iter().map(|frame| &frame[ethernet::HEADER_BYTES..]).collect();
    assert_eq!(sent.len(), PACKETS + 1);
    assert!(sent.iter().enumerate().all(|(at, bytes)| **bytes == numbered(at)[..]));
    assert_eq!(pool.available(FrameSize::Small), PACKETS + 1, "every frame comes home");
}

#[test]
fn an_answer_that_one_queue_hears_serves_the_others() {
    let mut ports = ports("net_ring_two", 2);
    let [first, second] = &mut ports[..] else { panic!("two were asked for") };
    let mut pool = FramePool::new(8, 0);
    first.put(OWN, ethernet::ARP, &answer_of_b().to_bytes());
    first.put(OWN, ethernet::IPV6, &advertisement_of_b().to_packet());
    first.take(&mut pool);
    second.take(&mut pool);
    for esp in [packet(protocol::ESP, A, B, &[1; 60]), packet(protocol::ESP, A6, B6, &[1; 60])] {
        let mut burst = vec![pool.take_filled(&esp, 0).expect("a frame")];
        second.send(&mut pool, &mut burst).expect("a device");
        assert_eq!(second.sent()[0][ethernet::HEADER_BYTES..], esp);
    }
}

#[test]
fn a_packet_without_a_way_is_dropped_and_counted() {
    let (mut port, mut pool) = (port("net_ring_lost"), FramePool::new(8, 0));
    let far = packet(protocol::ESP, A, Ipv4Addr::new(198, 51, 100, 1), &[0; 8]);
    let far_v6 = packet(protocol::ESP, A6, Ipv6Addr::new(0x2001, 0xdb9, 0, 0, 0, 0, 0, 1), &[0; 8]);
    let too_long_v6 = packet(protocol::ESP, A6, B6, &[0; 1_461]);
    for bytes in [&far, &packet(protocol::ESP, A, B, &[0; 1_481]), &vec![0x60; 60], &far_v6, &too_long_v6] {
        let mut burst = vec![pool.take_filled(bytes, 0).expect("a frame")];
        port.send(&mut pool, &mut burst).expect("a device");
    }
    assert_eq!((port.counters().send_dropped, port.sent().len()), (5, 0));
}

#[test]
fn what_waits_for_absent_hosts_is_bounded_and_given_up_though_nothing_is_read_or_sent() {
    const FRAMES: usize = 4_096;
    let (mut port, mut pool) = (port("net_ring_absent"), FramePool::new(FRAMES, 0));
    let mut burst = Vec::new();
    for n in 0..96 * 64_usize {
        let to = Ipv4Addr::new(192, 0, 2, 100 + (n % 96) as u8);
        burst.extend(pool.take_filled(&packet(protocol::ESP, A, to, &[0; 8]), 0));
        port.send(&mut pool, &mut burst).expect("a device");
        port.sent();
    }
    assert_eq!(FRAMES - pool.available(FrameSize::Small), FRAMES / 16);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while pool.available(FrameSize::Small) < FRAMES && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(100));
        port.tick(&mut pool).expect("a device");
        port.sent();
    }
    assert_eq!(pool.available(FrameSize::Small), FRAMES, "every frame comes home");
    let count = |name| port.device_counters().iter().find(|it| it.0 == name).map(|it| it.1);
    assert_eq!(count("arp_unanswered"), Some(FRAMES as u64 / 16));
    assert_eq!(port.counters().send_dropped, 96 * 64, "each is counted once");
}
