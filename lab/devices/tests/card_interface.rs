//! A card port on one end of a veth pair and the kernel on the other, in a separate network
//! namespace. Needs root, `ip` and `ping`.
//!
//! This test has no harness, because the namespace has to be created before any thread.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use convoy_card::line::Line;
use convoy_devices::card_port::{CardConfig, CardPort, InterfaceLine};
use convoy_packet::ipv4::{self, Ipv4Header};
use convoy_packet::{Frame, FramePool, Ipv4, MacAddress, Udp, checksum, ethernet, protocol};
use convoy_port::Port;
use nix::sched::{CloneFlags, unshare};

const CARD: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const KERNEL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const TIMEOUT: Duration = Duration::from_secs(60);

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip (Debian: iproute2)");
    assert!(status.success(), "ip {arguments}");
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn main() {
    unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace: run as root");
    ip("link add line0 type veth peer name kernel0");
    ip("addr add 192.0.2.2/24 dev kernel0");
    ip("link set line0 up");
    ip("link set kernel0 up");
    let config = CardConfig {
        name: "outside".to_owned(),
        interface: "line0".to_owned(),
        mac: None,
        addresses: vec![(CARD.into(), 24)],
        gateways: Vec::new(),
        mtu: 1_500,
        checks: Default::default(),
        function: None,
        interrupts: None,
    };
    let refused = CardPort::open(&CardConfig { mtu: 9_000, ..config.clone() }).err();
    assert!(refused.is_some_and(|error| error.to_string().contains("1500")));
    let absent = CardPort::open(&CardConfig { interface: "nowhere0".to_owned(), ..config.clone() }).err();
    assert!(absent.is_some_and(|error| error.to_string().contains("nowhere0")));
    let mut port = CardPort::open(&config).expect("a port");
    let mut pool = FramePool::new(64, 0);
    the_kernel_pings_the_card(&mut port, &mut pool);
    datagrams_cross_both_ways_with_whole_checksums(&mut port, &mut pool);
    what_a_vlan_carries_does_not_come(&mut port, &mut pool);
    println!("test a_card_port_on_a_veth_speaks_with_the_kernel ... ok");
}

fn the_kernel_pings_the_card(port: &mut CardPort, pool: &mut FramePool) {
    let mut ping = Command::new("ping")
        .args(["-q", "-c", "3", "-i", "0.2", "-s", "1472", "-W", "20", &CARD.to_string()])
        .spawn()
        .expect("ping (Debian: iputils-ping)");
    let status = until("ping does not end", || {
        port.receive(pool, 8, &mut Vec::new()).expect("a card");
        ping.try_wait().expect("a child")
    });
    assert!(status.success(), "{:?}", port.control().counters());
}

fn datagrams_cross_both_ways_with_whole_checksums(port: &mut CardPort, pool: &mut FramePool) {
    let kernel = UdpSocket::bind("192.0.2.2:0").expect("a socket");
    kernel.set_nonblocking(true).expect("a socket");
    kernel.send_to(b"to the card", (CARD, 4500)).expect("a way");
    let mut burst: Vec<Frame> = Vec::new();
    until("no datagram came", || {
        port.receive(pool, 8, &mut burst).expect("a card");
        burst.retain(|frame| Ipv4::parse(frame).is_ok_and(|packet| packet.protocol() == protocol::UDP));
        (!burst.is_empty()).then_some(())
    });
    let frame = burst.pop().expect("just received");
    let packet = Ipv4::parse(&frame).expect("a packet");
    let datagram = Udp::parse(packet.payload()).expect("a datagram");
    assert_eq!((datagram.destination_port(), datagram.payload()), (4500, &b"to the card"[..]));
    let pseudo = checksum::pseudo_header(&frame, protocol::UDP, packet.payload().len());
    assert_eq!(checksum::of(packet.payload(), pseudo), 0, "the kernel leaves it to the line");

    // The answer swaps addresses and ports, which leaves the checksums unchanged.
    let mut answer = frame.to_vec();
    let (own, peer) = (answer[16..20].to_vec(), answer[12..16].to_vec());
    answer[12..16].copy_from_slice(&own);
    answer[16..20].copy_from_slice(&peer);
    answer[20..24].rotate_left(2);
    let mut burst = vec![pool.take_filled(&answer, 0).expect("a frame")];
    assert_eq!(port.send(pool, &mut burst).expect("a card"), 1);
    let mut buffer = [0; 100];
    let len = until("no answer came", || {
        port.receive(pool, 8, &mut Vec::new()).expect("a card");
        kernel.recv(&mut buffer).ok()
    });
    assert_eq!(buffer[..len], *b"to the card");
}

fn what_a_vlan_carries_does_not_come(port: &mut CardPort, pool: &mut FramePool) {
    let mut packet = vec![0; ipv4::HEADER_BYTES + 26];
    Ipv4Header {
        traffic_class: 0,
        total_length: packet.len() as u16,
        identification: 0,
        dont_fragment: false,
        time_to_live: 64,
        protocol: protocol::ESP,
        source: KERNEL,
        destination: CARD,
    }
    .write(&mut packet);
    let mut kernel = InterfaceLine::open("kernel0").expect("a packet socket");
    let mut say = |tag: &[u8], last: u8| {
        let head = ethernet::header(port.mac(), MacAddress([2, 0, 0, 0, 0, 9]), ethernet::IPV4);
        *packet.last_mut().expect("a body") = last;
        let frame = [&head[..12], tag, &head[12..], &packet].concat();
        assert!(kernel.send(&frame).expect("an interface"));
    };
    say(&[0x81, 0, 0, 5], 1);
    say(&[], 2);
    let mut burst: Vec<Frame> = Vec::new();
    until("nothing came", || {
        port.receive(pool, 8, &mut burst).expect("a card");
        burst.retain(|frame| Ipv4::parse(frame).is_ok_and(|packet| packet.protocol() == protocol::ESP));
        (!burst.is_empty()).then_some(())
    });
    assert_eq!(burst[0].last(), Some(&2), "a tagged frame came as if it had no tag");
}
