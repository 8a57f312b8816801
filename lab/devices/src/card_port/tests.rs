//! Ports on a line in memory.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use convoy_card::line::{Line, MemoryLine, memory};
use convoy_card::{Algorithm, Checks, Cipher, Hash, Sa};
use convoy_packet::arp::{Arp, Operation};
use convoy_packet::ipv4::{self, Ipv4Header};
use convoy_packet::{Ethernet, Frame, FramePool, MacAddress, Offload, ethernet, icmp, protocol};

use super::port::{CardConfig, CardPort, made_from};
use convoy_port::Port;

const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x99]);
const TIMEOUT: Duration = Duration::from_secs(60);

fn config(address: Ipv4Addr) -> CardConfig {
    let addresses = vec![(address.into(), 24)];
    let (name, interface) = ("outside".to_owned(), "eth1".to_owned());
    let mac = Some(MacAddress([2, 0, 0, 0, 0, address.octets()[3]]));
    let checks = Checks::default();
    CardConfig {
        name,
        interface,
        mac,
        addresses,
        gateways: Vec::new(),
        mtu: 1_500,
        checks,
        function: None,
        interrupts: None,
    }
}

fn packet(protocol: u8, source: Ipv4Addr, destination: Ipv4Addr, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_BYTES];
    Ipv4Header {
        traffic_class: 0,
        total_length: (ipv4::HEADER_BYTES + body.len()) as u16,
        identification: 7,
        dont_fragment: false,
        time_to_live: 64,
        protocol,
        source,
        destination,
    }
    .write(&mut packet);
    packet.extend_from_slice(body);
    packet
}

/// A port; the test has the other end of its line.
struct CardPortBench {
    port: CardPort,
    line: MemoryLine,
    pool: FramePool,
}

impl CardPortBench {
    fn new() -> Self {
        let (line, peer) = memory(64).expect("descriptors");
        let port = CardPort::on(Box::new(line), 1, &config(A)).expect("a card");
        Self { port, line: peer, pool: FramePool::new(128, 0) }
    }

    fn say(&mut self, to: MacAddress, ethertype: u16, bytes: &[u8]) {
        let frame = [&ethernet::header(to, PEER, ethertype)[..], bytes].concat();
        assert!(self.line.send(&frame).expect("a card"));
    }

    /// The next frame that the port sends, after giving it time to work.
    fn hear(&mut self) -> Vec<u8> {
        let (start, mut buffer) = (Instant::now(), vec![0; 2_000]);
        let mut burst = Vec::new();
        while start.elapsed() < TIMEOUT {
            self.port.receive(&mut self.pool, 8, &mut burst).expect("a card");
            if let Some(len) = self.line.receive(&mut buffer).expect("a card") {
                buffer.truncate(len);
                return buffer;
            }
            std::thread::yield_now();
        }
        panic!("nothing came");
    }

    /// The next packet that the port receives.
    fn take(&mut self) -> Frame {
        taken(&mut self.port, &mut self.pool)
    }

    fn send(&mut self, bytes: &[u8]) {
        let mut burst = vec![self.pool.take_filled(bytes, 0).expect("a frame")];
        assert_eq!(self.port.send(&mut self.pool, &mut burst).expect("a card"), 1);
    }
}

fn taken(port: &mut CardPort, pool: &mut FramePool) -> Frame {
    let (start, mut burst) = (Instant::now(), Vec::new());
    while start.elapsed() < TIMEOUT {
        port.receive(pool, 1, &mut burst).expect("a card");
        if let Some(frame) = burst.pop() {
            return frame;
        }
        std::thread::yield_now();
    }
    panic!("nothing came: {:?}", port.counters());
}

fn arp_of(frame: &[u8]) -> (MacAddress, Arp) {
    let frame = Ethernet::parse(frame).expect("whole");
    assert_eq!(frame.ethertype(), ethernet::ARP);
    (frame.destination(), Arp::parse(frame.payload()).expect("whole").expect("of IPv4"))
}

#[test]
fn packets_that_are_longer_than_the_card_s_frames_are_refused_at_the_start() {
    let with = |mtu| {
        let (line, _peer) = memory(1).expect("descriptors");
        CardPort::on(Box::new(line), 1, &CardConfig { mtu, ..config(A) })
    };
    assert!(with(9_004).is_ok());
    assert!(with(9_005).is_err_and(|error| error.to_string().contains("9004")));
}

#[test]
fn a_packet_waits_until_its_next_hop_has_answered() {
    let mut bench = CardPortBench::new();
    let first = packet(protocol::ESP, A, B, &[1; 60]);
    bench.send(&first);
    let (to, request) = arp_of(&bench.hear());
    assert_eq!((to, request.operation, request.target), (MacAddress::BROADCAST, Operation::Request, B));
    let mac = bench.port.mac();
    let reply = Arp { operation: Operation::Reply, sender_mac: PEER, sender: B, target_mac: mac, target: A };
    bench.say(mac, ethernet::ARP, &reply.to_bytes());
    let sent = bench.hear();
    let sent = Ethernet::parse(&sent).expect("whole");
    assert_eq!((sent.destination(), sent.source(), sent.payload()), (PEER, mac, &first[..]));
    assert_eq!(bench.port.counters().sent_packets, 1);
}

#[test]
fn a_packet_without_a_way_is_dropped_and_counted() {
    let mut bench = CardPortBench::new();
    let far = Ipv4Addr::new(198, 51, 100, 1);
    for bytes in
        [packet(protocol::ESP, A, far, &[0; 8]), packet(protocol::ESP, A, B, &[0; 1_481]), vec![0x60; 60]]
    {
        bench.send(&bytes);
    }
    let mut opened = bench.pool.take_filled(&packet(protocol::ESP, A, B, &[0; 8]), 0).expect("a frame");
    opened.set_offload(Offload::Opened { sa: 1 });
    bench.port.send(&mut bench.pool, &mut vec![opened]).expect("a card");
    assert_eq!((bench.port.counters().send_dropped, bench.port.counters().sent_packets), (4, 0));
}

#[test]
fn it_answers_arp_and_echo_for_its_address_alone() {
    let mut bench = CardPortBench::new();
    let mac = bench.port.mac();
    let none = MacAddress([0; 6]);
    let ask =
        |target| Arp { operation: Operation::Request, sender_mac: PEER, sender: B, target_mac: none, target };
    bench.say(MacAddress::BROADCAST, ethernet::ARP, &ask(Ipv4Addr::new(192, 0, 2, 77)).to_bytes());
    bench.say(MacAddress::BROADCAST, ethernet::ARP, &ask(A).to_bytes());
    let (to, reply) = arp_of(&bench.hear());
    let expected =
        Arp { operation: Operation::Reply, sender_mac: mac, sender: A, target_mac: PEER, target: B };
    assert_eq!((to, reply), (PEER, expected));
    let mut message = vec![0x5a; 40];
    icmp::write(&mut message, icmp::v4::ECHO, 0, 0x0102_0304, 0);
    bench.say(mac, ethernet::IPV4, &packet(protocol::ICMP, B, A, &message));
    let answer = bench.hear();
    let answer = Ethernet::parse(&answer).expect("whole");
    icmp::write(&mut message, icmp::v4::ECHO_REPLY, 0, 0x0102_0304, 0);
    assert_eq!((answer.destination(), answer.payload()), (PEER, &packet(protocol::ICMP, A, B, &message)[..]));
}

#[test]
fn a_packet_for_its_address_is_handed_up_without_padding() {
    let mut bench = CardPortBench::new();
    let mac = bench.port.mac();
    let other = packet(protocol::UDP, B, Ipv4Addr::new(192, 0, 2, 77), &[1; 20]);
    let mut broken = packet(protocol::UDP, B, A, &[2; 20]);
    broken[10] ^= 1;
    let whole = packet(protocol::UDP, B, A, &[3; 4]);
    for bytes in [&other, &broken, &[&whole[..], &[0; 22]].concat()] {
        bench.say(mac, ethernet::IPV4, bytes);
    }
    let frame = bench.take();
    assert_eq!((&frame[..], frame.offload()), (&whole[..], Offload::None));
    assert_eq!(bench.port.counters().receive_dropped, 2);
}

#[test]
fn what_one_port_is_reported_to_seal_the_other_hands_up_opened() {
    let (line_a, line_b) = memory(64).expect("descriptors");
    let mut a = CardPort::on(Box::new(line_a), 1, &config(A)).expect("a card");
    let mut b = CardPort::on(Box::new(line_b), 1, &config(B)).expect("a card");
    let (mut pool_a, mut pool_b) = (FramePool::new(16, 0), FramePool::new(16, 0));
    let sa = || {
        let algorithm = Algorithm { cipher: Cipher::AesGcm, hash: Hash::None };
        Sa { algorithm, salt: [4; 4], key: vec![5; 16], auth_key: vec![], icv_bytes: 16 }
    };
    let inbound = convoy_card::Inbound { spi: [0, 0, 1, 1], is_tunnel: true };
    a.control().install(3, sa(), None).expect("fits");
    b.control().install(8, sa(), Some(inbound)).expect("fits");
    let esp = [&[0, 0, 1, 1, 0, 0, 0, 1][..], &[6; 8], &[7; 80], &[0; 16]].concat();
    let plain = packet(protocol::ESP, A, B, &esp);
    let mut frame = pool_a.take_filled(&plain, 0).expect("a frame");
    frame.set_offload(Offload::Seal { sa: 3, esp_start: 20, seq_high: None });
    a.send(&mut pool_a, &mut vec![frame]).expect("a card");
    let (start, mut burst) = (Instant::now(), Vec::new());
    while burst.is_empty() && start.elapsed() < TIMEOUT {
        a.receive(&mut pool_a, 8, &mut Vec::new()).expect("a card");
        b.receive(&mut pool_b, 8, &mut burst).expect("a card");
        std::thread::yield_now();
    }
    let frame = burst.pop().expect("a packet");
    assert_eq!((&frame[..], frame.offload()), (&plain[..], Offload::Opened { sa: 8 }));
    assert_eq!(a.control().counters().sealed, 1);
}

#[test]
fn the_hardware_address_is_local_and_stable() {
    let mac = |index| made_from("eth1", index);
    assert_eq!((mac(7), mac(7).0[0]), (mac(7), 2));
    assert_ne!(mac(7), mac(8));
}
