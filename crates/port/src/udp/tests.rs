//! UDP ports over the loopback interface; receiving ICMP needs root. `tests/all/udp.rs` tests
//! segmentation over a link.

use std::net::{Ipv4Addr, Ipv6Addr};

use convoy_kernel::testing::own_loopback;
use convoy_packet::{FrameSize, Layout};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};

use super::header::{Arrival, Wrapper, head};
use super::*;

fn config(addresses: &[&str], offloads: bool) -> UdpConfig {
    let addresses: Vec<IpAddr> =
        addresses.iter().map(|address| address.parse().expect("an address")).collect();
    UdpConfig {
        name: "outside".into(),
        reports: addresses.clone(),
        addresses,
        ports: vec![0],
        mtu: 9000,
        own_ports: None,
        queues: 1,
        offloads,
        mark: None,
    }
}

fn bind(addresses: &[&str], offloads: bool) -> UdpQueue {
    UdpQueue::bind(&config(addresses, offloads)).expect("loopback is there").remove(0)
}

fn local(port: &UdpQueue) -> SocketAddr {
    port.local_addresses().next().expect("an endpoint")
}

fn packet(
    pool: &mut FramePool,
    from: SocketAddr,
    to: SocketAddr,
    payload: &[u8],
    traffic_class: u8,
) -> Frame {
    let mut frame = pool.take_filled(payload, 0).expect("a frame");
    let arrival = Arrival { from, to, traffic_class, hops: 64 };
    Wrapper::of(&arrival).expect("one family").wrap(&mut frame).expect("short");
    frame
}

/// Waits until one of the port's descriptors is readable.
fn wait(port: &UdpQueue) {
    let all = port.readable_fds().expect("something to wait for");
    let mut all: Vec<PollFd<'_>> = all.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    assert_eq!(poll(&mut all, PollTimeout::from(5_000_u16)), Ok(1));
}

fn receive(port: &mut UdpQueue, pool: &mut FramePool, count: usize) -> Vec<Vec<u8>> {
    let mut received = Vec::new();
    for _ in 0..1000 {
        let mut burst = Vec::new();
        port.receive(pool, 64, &mut burst).expect("loopback");
        received.extend(burst.iter().map(|frame| frame.to_vec()));
        pool.give_back_burst(&mut burst);
        if received.len() >= count {
            break;
        }
    }
    received
}

/// Sends 106 packets of two kinds from one loopback address to another, and returns the number of
/// system calls for sending.
fn exchange(address: &str, offloads: bool) -> u64 {
    let (mut a, mut b) = (bind(&[address], offloads), bind(&[address], offloads));
    let mut pool = FramePool::new(256, 64);
    let payloads = (0..100_u8).map(|k| vec![k; 700]);
    let payloads = payloads.chain([1, 40, 1400, 8000, 0, 9].map(|len| vec![7; len]));
    let mut burst: Vec<Frame> =
        payloads.map(|payload| packet(&mut pool, local(&a), local(&b), &payload, 2)).collect();
    let expected: Vec<Vec<u8>> = burst.iter().map(|frame| frame.to_vec()).collect();
    assert_eq!(a.send(&mut pool, &mut burst).expect("loopback"), 106);
    let received = receive(&mut b, &mut pool, expected.len());
    assert!(received == expected, "headers, ECN and payload come through in order");
    assert_eq!(b.counters().received_packets, 106);
    a.counters().system_calls
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn packets_leave_by_the_socket_of_their_source_port() {
    own_loopback();
    let two = UdpConfig { ports: vec![0, 0], ..config(&["127.0.0.79"], true) };
    let mut port = UdpQueue::bind(&two).expect("loopback is there").remove(0);
    let mut peer = bind(&["127.0.0.79"], true);
    let mut pool = FramePool::new(16, 0);
    let locals: Vec<SocketAddr> = port.local_addresses().collect();
    let order = [0, 1, 1, 0];
    let mut burst: Vec<Frame> =
        order.iter().map(|at| packet(&mut pool, locals[*at], local(&peer), b"IKE", 0)).collect();
    assert_eq!(port.send(&mut pool, &mut burst).expect("loopback"), 4);
    let received = receive(&mut peer, &mut pool, 4);
    let from: Vec<u16> = received.iter().map(|packet| u16::from_be_bytes([packet[20], packet[21]])).collect();
    assert_eq!(from, order.map(|at| locals[at].port()));
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn a_burst_leaves_in_two_system_calls_over_ipv4() {
    own_loopback();
    assert_eq!(exchange("127.0.0.1", true), 2, "one to clear DF, one to send");
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn a_burst_leaves_in_two_system_calls_over_ipv6() {
    own_loopback();
    assert_eq!(exchange("::1", true), 2);
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn without_offloads_a_call_carries_64_packets() {
    own_loopback();
    assert_eq!(exchange("127.0.0.1", false), 3);
    assert_eq!(exchange("::1", false), 3);
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn what_is_not_udp_or_not_from_here_is_counted_and_the_rest_leaves() {
    own_loopback();
    let (mut a, mut b) = (bind(&["127.0.0.1"], true), bind(&["127.0.0.1"], true));
    let mut pool = FramePool::new(8, 0);
    let stranger = SocketAddr::from(([127, 9, 9, 9], 4500));
    let mut burst = vec![
        packet(&mut pool, local(&a), local(&b), b"first", 0),
        pool.take_filled(&[0x45; 30], 0).expect("a frame"),
        packet(&mut pool, stranger, local(&b), b"abc", 0),
        packet(&mut pool, local(&a), local(&b), b"last", 0),
    ];
    a.send(&mut pool, &mut burst).expect("not the port's fault");
    assert_eq!((a.counters().send_dropped, a.counters().sent_packets, burst.len()), (2, 2, 0));
    assert_eq!(pool.available(FrameSize::Small), 8);
    assert_eq!(receive(&mut b, &mut pool, 2).len(), 2);
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn a_socket_of_all_addresses_says_which_one_was_meant_and_answers_from_it() {
    own_loopback();
    for (any, here) in [("0.0.0.0", IpAddr::from([127, 0, 7, 1])), ("::", Ipv6Addr::LOCALHOST.into())] {
        let (mut server, mut client) = (bind(&[any], true), bind(&[&here.to_string()], true));
        let server_at = SocketAddr::new(here, local(&server).port());
        let mut pool = FramePool::new(8, 0);
        let mut burst = vec![packet(&mut pool, local(&client), server_at, b"ask", 0)];
        client.send(&mut pool, &mut burst).expect("loopback");
        let asked = receive(&mut server, &mut pool, 1);
        assert_eq!(head(&asked[0]).expect("a datagram").peer, server_at);
        let mut burst = vec![packet(&mut pool, server_at, local(&client), b"answer", 0)];
        server.send(&mut pool, &mut burst).expect("loopback");
        let answer = receive(&mut client, &mut pool, 1);
        assert_eq!(head(&answer[0]).expect("a datagram").source, here);
    }
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn icmp_about_a_path_wakes_the_port_and_says_which_address_it_came_to() {
    own_loopback();
    for (any, here) in [("0.0.0.0", IpAddr::from([127, 0, 7, 2])), ("::", Ipv6Addr::LOCALHOST.into())] {
        let (protocol, kind, code) = if here.is_ipv4() { (1, 3, 4) } else { (58, 2, 0) };
        let mut port = bind(&[any], true);
        let at = SocketAddr::new(here, 0);
        let router = Socket::new(Domain::for_address(at), Type::RAW, Some(Protocol::from(protocol)));
        let mut message = [7; 64];
        // The kernel computes ICMPv6 checksums itself.
        convoy_packet::icmp::write(&mut message, kind, code, 1_300, 0);
        router.expect("root may").send_to(&message, &at.into()).expect("loopback");
        wait(&port);
        let mut pool = FramePool::new(8, 0);
        let received = receive(&mut port, &mut pool, 1);
        let layout = Layout::parse(&received[0]).expect("a whole packet");
        assert_eq!((layout.addresses(&received[0]).1, layout.body(&received[0])[0]), (here, kind));
        assert_eq!(receive(&mut port, &mut pool, 1).len(), 0);
    }
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn any_of_several_addresses_wakes_the_port() {
    own_loopback();
    let mut server = bind(&["127.0.0.1", "127.0.0.2", "::1"], true);
    let mut pool = FramePool::new(8, 0);
    let all: Vec<SocketAddr> = server.local_addresses().collect();
    for to in all {
        let any =
            if to.is_ipv4() { Ipv4Addr::LOCALHOST.to_string() } else { Ipv6Addr::LOCALHOST.to_string() };
        let mut client = bind(&[&any], true);
        let mut burst = vec![packet(&mut pool, local(&client), to, b"wake", 0)];
        client.send(&mut pool, &mut burst).expect("loopback");
        wait(&server);
        assert_eq!(receive(&mut server, &mut pool, 1).len(), 1);
    }
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn packets_wait_while_there_is_no_frame_or_no_room_in_the_burst() {
    own_loopback();
    let (mut a, mut b) = (bind(&["127.0.0.1"], true), bind(&["127.0.0.1"], true));
    let mut pool = FramePool::new(32, 0);
    let mut burst: Vec<Frame> =
        (0..20_u8).map(|k| packet(&mut pool, local(&a), local(&b), &[k; 100], 0)).collect();
    a.send(&mut pool, &mut burst).expect("loopback");
    let mut few = FramePool::new(3, 0);
    let mut received = Vec::new();
    while received.len() < 20 {
        let mut burst = Vec::new();
        let count = b.receive(&mut few, 2, &mut burst).expect("loopback");
        assert!(count <= 2);
        received.extend(burst.iter().map(|frame| frame[28]));
        few.give_back_burst(&mut burst);
    }
    assert_eq!(received, (0..20).collect::<Vec<u8>>());
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn what_the_pool_has_no_frame_for_is_counted_and_holds_up_nothing() {
    own_loopback();
    let (sender, mut b) =
        (std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback"), bind(&["127.0.0.1"], true));
    sender.send_to(&[1; 20_000], local(&b)).expect("loopback");
    sender.send_to(&[2; 20], local(&b)).expect("loopback");
    let mut pool = FramePool::new(8, 8);
    assert_eq!(receive(&mut b, &mut pool, 1).len(), 1);
    assert_eq!(b.counters().receive_dropped, 1);
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn several_queues_share_an_address_and_nothing_is_lost() {
    own_loopback();
    let mut a = bind(&["127.0.0.1"], true);
    let mut wanted = config(&["127.0.0.1"], true);
    (wanted.queues, wanted.ports) = (3, vec![4500]);
    let mut queues = UdpQueue::bind(&wanted).expect("loopback");
    let mut pool = FramePool::new(64, 0);
    let mut burst: Vec<Frame> =
        (0..40_u8).map(|k| packet(&mut pool, local(&a), local(&queues[0]), &[k; 90], 0)).collect();
    a.send(&mut pool, &mut burst).expect("loopback");
    let counts: Vec<usize> = queues.iter_mut().map(|queue| receive(queue, &mut pool, 40).len()).collect();
    assert_eq!((counts.iter().sum::<usize>(), counts.iter().max()), (40, Some(&40)), "one peer, one queue");
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn errors_say_what_to_do() {
    own_loopback();
    let taken = bind(&["127.0.0.1"], true);
    let message = |change: &dyn Fn(&mut UdpConfig)| {
        let mut wanted = config(&["127.0.0.1"], true);
        change(&mut wanted);
        UdpQueue::bind(&wanted).err().expect("refused").to_string()
    };
    let busy = message(&|wanted| wanted.ports = vec![local(&taken).port()]);
    assert!(busy.contains("another program") && busy.contains("port outside"), "{busy}");
    assert!(message(&|wanted| wanted.addresses.clear()).contains("needs an address"));
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn a_port_is_bound_to_an_address_before_an_interface_has_it() {
    own_loopback();
    let run = |words: &str| {
        let mut words = words.split(' ');
        let status = std::process::Command::new(words.next().expect("a program")).args(words).status();
        assert!(status.expect("iproute2 is installed").success());
    };
    let mut early = bind(&["192.0.2.99"], true);
    run("ip addr add 192.0.2.99/32 dev lo");
    let (mut pool, mut peer) = (FramePool::new(16, 0), bind(&["192.0.2.99"], true));
    let mut burst = vec![packet(&mut pool, local(&peer), local(&early), b"hello", 0)];
    peer.send(&mut pool, &mut burst).expect("loopback");
    assert_eq!(receive(&mut early, &mut pool, 1).len(), 1);
}
