//! The `tun` port on real interfaces, with a TCP connection between two kernels. Needs root;
//! without it the tests fail with a message.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use convoy_packet::protocol::UDP;
use convoy_packet::{Frame, FramePool, IpHeader, udp};
use convoy_port::{Port, Tun, TunConfig};
use nix::sys::socket::{setsockopt, sockopt};

use convoy_kernel::testing::{Namespace, received_buffers, wait_until_delivered};

const DEVICE: &str = "tun0";
const KERNEL_QUEUE_PACKETS: u32 = 2_000;
const BYTES: usize = 20_000_000;
/// Much longer than the transfer takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

fn open(namespace: &Namespace, address: &str) -> Tun {
    open_queues(namespace, address, 1).remove(0)
}

fn open_queues(namespace: &Namespace, address: &str, queues: usize) -> Vec<Tun> {
    namespace.inside(|| {
        // Without duplicate address detection, IPv6 addresses are usable at once.
        std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0").expect("root may set it");
        let config = TunConfig {
            name: "inside".into(),
            device: DEVICE.into(),
            addresses: vec![(
                address.parse().expect("an address"),
                if address.contains(':') { 64 } else { 24 },
            )],
            mtu: 1_400,
            kernel_queue_packets: Some(KERNEL_QUEUE_PACKETS),
            queues,
            joins_packets: true,
            has_link: true,
            reader: None,
        };
        let queues = Tun::open(&config).expect("a tun needs root and /dev/net/tun");
        wait_until_delivered(address);
        queues
    })
}

#[test]
fn the_kernel_sends_no_redirects_by_the_interface() {
    let namespace = Namespace::create();
    let settings = |name: &str| format!("/proc/sys/net/ipv4/conf/{name}/send_redirects");
    namespace.inside(|| std::fs::write(settings("default"), "1").expect("root may set it"));
    let _port = open(&namespace, "10.7.0.1");
    let found =
        namespace.inside(|| std::fs::read_to_string(settings(DEVICE)).expect("the interface is there"));
    assert_eq!(found.trim(), "0");
}

/// Forwards packets from one port to the other, in bursts as a worker does.
fn forward(from: &mut Tun, to: &mut Tun, pool: &mut FramePool) -> bool {
    let mut burst: Vec<Frame> = Vec::new();
    from.receive(pool, 64, &mut burst).expect("the interface is up");
    let moved = !burst.is_empty();
    while !burst.is_empty() {
        to.send(pool, &mut burst).expect("the interface is up");
    }
    moved
}

fn content() -> Vec<u8> {
    (0..BYTES).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// Transfers [`BYTES`] over TCP. Returns the number of packets that went to the receiver's
/// interface, and the number of writes.
fn transfer(addresses: [&str; 2]) -> (u64, u64) {
    let (left, right) = (Namespace::create(), Namespace::create());
    let [mut a, mut b] = [open(&left, addresses[0]), open(&right, addresses[1])];
    let at = SocketAddr::new(addresses[1].parse().expect("an address"), 7_000);
    let listener = right.inside(|| TcpListener::bind(at).expect("the address is there"));
    let received = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("it ends well");
        received
    });
    let sent = thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut stream =
                left.inside(|| TcpStream::connect_timeout(&at, TIMEOUT).expect("it is answered"));
            stream.write_all(&content()).expect("it is taken");
        });
        let mut pool = FramePool::new(512, 8);
        let end = Instant::now() + TIMEOUT;
        while !(client.is_finished() && received.is_finished()) {
            assert!(
                Instant::now() < end,
                "the transfer takes too long: {:?}, {:?}",
                a.counters(),
                b.counters()
            );
            let moved = [forward(&mut a, &mut b, &mut pool), forward(&mut b, &mut a, &mut pool)];
            if moved == [false; 2] {
                thread::sleep(Duration::from_micros(50));
            }
        }
        client.join()
    });
    sent.expect("the client is content");
    assert!(received.join().expect("the server is content") == content(), "what arrives is what was sent");
    assert_eq!(b.counters().send_dropped, 0);
    (b.counters().sent_packets, right.inside(|| received_buffers(DEVICE)))
}

#[test]
fn tcp_is_coalesced_on_its_way_to_the_interface() {
    for addresses in [["10.7.0.1", "10.7.0.2"], ["fd07::1", "fd07::2"]] {
        let (packets, writes) = transfer(addresses);
        println!("{addresses:?}: {packets} packets in {writes} writes");
        assert!(packets > BYTES as u64 / 1_400, "every segment is a packet");
        assert!(writes * 8 < packets, "{packets} packets took {writes} writes");
    }
}

#[test]
fn udp_is_cut_and_joined_on_its_way_between_interfaces() {
    const DATAGRAMS: usize = 50;
    for addresses in [["10.7.0.1", "10.7.0.2"], ["fd07::1", "fd07::2"]] {
        let (left, right) = (Namespace::create(), Namespace::create());
        let [mut a, mut b] = [open(&left, addresses[0]), open(&right, addresses[1])];
        let bind = |namespace: &Namespace, address: &str| {
            namespace.inside(|| UdpSocket::bind((address, 7_000)).expect("the address is there"))
        };
        let [client, server] = [bind(&left, addresses[0]), bind(&right, addresses[1])];
        setsockopt(&client, sockopt::UdpGsoSegment, &1_000).expect("Linux 4.18 and later have it");
        let content: Vec<u8> = (0..DATAGRAMS * 1_000 - 1).map(|at| (at * 7 + at / 251) as u8).collect();
        client.send_to(&content, (addresses[1], 7_000)).expect("there is a route");
        let mut pool = FramePool::new(128, 0);
        while a.counters().received_packets < DATAGRAMS as u64 {
            forward(&mut a, &mut b, &mut pool);
        }
        server.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let (mut received, mut buffer) = (Vec::new(), [0; 2_000]);
        for at in 0..DATAGRAMS {
            let (len, _) = server.recv_from(&mut buffer).expect("the kernel cuts it again");
            assert_eq!(len, if at + 1 < DATAGRAMS { 1_000 } else { 999 });
            received.extend_from_slice(&buffer[..len]);
        }
        assert!(received == content, "what arrives is what was sent, in its order");
        let (reads, writes) = (a.counters().system_calls, b.counters().system_calls);
        assert!(reads < 10 && writes < 10, "{DATAGRAMS} datagrams took {reads} reads and {writes} writes");
    }
}

/// Forwards between two queues as a worker does, until `is_over`.
fn work(a: &mut Tun, b: &mut Tun, is_over: &AtomicBool) {
    let mut pool = FramePool::new(512, 8);
    while !is_over.load(Ordering::Relaxed) {
        let moved = [forward(a, b, &mut pool), forward(b, a, &mut pool)];
        if moved == [false; 2] {
            thread::sleep(Duration::from_micros(50));
        }
    }
}

#[test]
fn the_kernel_holds_as_many_packets_as_the_port_asks_for() {
    // More than Linux's default of 500.
    const BURST: usize = KERNEL_QUEUE_PACKETS as usize - 100;
    let namespace = Namespace::create();
    let mut tun = open(&namespace, "10.7.0.1");
    namespace.inside(|| {
        let socket = UdpSocket::bind("10.7.0.1:0").expect("the address is there");
        (0..BURST).for_each(|at| {
            let sent = socket.send_to(&at.to_be_bytes(), "10.7.0.9:7000");
            sent.expect("the interface is up");
        });
    });
    let (mut pool, mut burst, mut datagrams) = (FramePool::new(256, 8), Vec::new(), 0);
    while tun.receive(&mut pool, 128, &mut burst).expect("the interface is up") > 0 {
        for frame in burst.drain(..) {
            // The kernel also sends IPv6 packets of its own, so only UDP over IPv4 counts.
            datagrams += usize::from(frame[0] >> 4 == 4 && frame[9] == UDP);
            pool.give_back(frame);
        }
    }
    assert_eq!(datagrams, BURST);
}

#[test]
fn two_queues_share_the_flows_and_lose_nothing() {
    // With this many flows, the chance that all get the same queue is 1 in 2 to the power of 15.
    const FLOWS: u8 = 16;
    const BYTES_A_FLOW: usize = 500_000;
    let content =
        |flow: u8| -> Vec<u8> { (0..BYTES_A_FLOW).map(|at| (at * 7 + at / 251) as u8 ^ flow).collect() };
    let (left, right) = (Namespace::create(), Namespace::create());
    let mut a = open_queues(&left, "10.7.0.1", 2);
    let mut b = open_queues(&right, "10.7.0.2", 2);
    let at: SocketAddr = "10.7.0.2:7000".parse().expect("an address");
    let listener = right.inside(|| TcpListener::bind(at).expect("the address is there"));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (a, b) in a.iter_mut().zip(&mut b) {
            scope.spawn(|| work(a, b, &is_over));
        }
        let clients: Vec<_> = (0..FLOWS)
            .map(|flow| {
                let mut stream = left.inside(|| TcpStream::connect_timeout(&at, TIMEOUT).expect("an answer"));
                scope.spawn(move || stream.write_all(&[&[flow], &content(flow)[..]].concat()))
            })
            .collect();
        let servers: Vec<_> = (0..FLOWS)
            .map(|_| {
                let (mut stream, _) = listener.accept().expect("a connection");
                stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
                scope.spawn(move || {
                    let mut received = Vec::new();
                    stream.read_to_end(&mut received).map(|_| received)
                })
            })
            .collect();
        for client in clients {
            client.join().expect("no panic").expect("it is taken");
        }
        for server in servers {
            let received = server.join().expect("no panic").expect("it ends well");
            assert!(received[1..] == content(received[0]), "what arrives is what was sent");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    for queues in [&a, &b] {
        let counters: Vec<_> = queues.iter().map(Port::counters).collect();
        println!("{counters:?}");
        assert!(counters.iter().all(|counted| counted.received_packets > 0), "each queue has flows");
        assert!(counters.iter().all(|counted| counted.receive_dropped + counted.send_dropped == 0));
    }
}

#[test]
fn a_packet_longer_than_the_interfaces_mtu_is_delivered() {
    let namespace = Namespace::create();
    let mut tun = open(&namespace, "10.7.0.1");
    let socket = namespace.inside(|| UdpSocket::bind("10.7.0.1:7000").expect("the address is there"));
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let mut pool = FramePool::new(8, 8).with_huge(1);
    let mut received = vec![0; 65_535];
    for len in [1_000, 9_000, 20_028, 65_535] {
        let header = IpHeader::new(UDP, [10, 7, 0, 9].into(), [10, 7, 0, 1].into());
        let mut packet: Vec<u8> = (0..len).map(|at: usize| (at * 7 + at / 251) as u8).collect();
        header.write(&mut packet);
        udp::write(&mut packet[header.header_len()..], 9_000, 7_000);
        let mut burst = vec![pool.take_filled(&packet, 0).expect("a frame")];
        tun.send(&mut pool, &mut burst).expect("the interface is up");
        let count = socket.recv(&mut received).expect("the kernel takes it");
        assert!(received[..count] == packet[header.header_len() + udp::HEADER_BYTES..], "{len} bytes");
    }
    assert_eq!(tun.counters().send_dropped, 0);
}
