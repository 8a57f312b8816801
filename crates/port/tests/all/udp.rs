//! `udp` ports in two namespaces, with a veth pair between them. Needs root.

use std::net::IpAddr;

use convoy_packet::protocol::{FRAGMENT, UDP};
use convoy_packet::{Fragment, Frame, FramePool, Icmp, IpHeader, Layout, checksum, ipv4, ipv6, udp};
use convoy_port::{Port, UdpConfig, UdpQueue};

use convoy_kernel::testing::{Namespace, ip, run, sent_buffers};

const PORT: u16 = 4500;

fn bind(namespace: &Namespace, address: &str, offloads: bool) -> UdpQueue {
    bind_queues(namespace, address, offloads, 1).remove(0)
}

fn bind_queues(namespace: &Namespace, address: &str, offloads: bool, queues: usize) -> Vec<UdpQueue> {
    let addresses: Vec<IpAddr> = vec![address.parse().expect("an address")];
    let config = UdpConfig {
        name: "outside".into(),
        reports: addresses.clone(),
        addresses,
        ports: vec![PORT],
        mtu: 9200,
        own_ports: (queues > 1).then_some(PORT + 1),
        queues,
        offloads,
        mark: None,
    };
    namespace.inside(|| UdpQueue::bind(&config)).expect("the address is ours")
}

/// An outer IP and UDP header, as the far port will write them.
fn packet(from: &str, to: &str, traffic_class: u8, dont_fragment: bool, payload: &[u8]) -> Vec<u8> {
    packet_between(from, to, (PORT, PORT), traffic_class, dont_fragment, payload)
}

fn packet_between(
    from: &str,
    to: &str,
    (from_port, to_port): (u16, u16),
    traffic_class: u8,
    dont_fragment: bool,
    payload: &[u8],
) -> Vec<u8> {
    let [from, to]: [IpAddr; 2] = [from, to].map(|address| address.parse().expect("an address"));
    let header = IpHeader { traffic_class, dont_fragment, ..IpHeader::new(UDP, from, to) };
    let at = header.header_len();
    let mut packet = [&vec![0; at + udp::HEADER_BYTES], payload].concat();
    header.write(&mut packet);
    udp::write(&mut packet[at..], from_port, to_port);
    if from.is_ipv6() {
        let pseudo = checksum::pseudo_header(&packet, UDP, packet.len() - at);
        udp::fill_checksum(&mut packet[at..], pseudo);
    }
    packet
}

fn send(port: &mut UdpQueue, pool: &mut FramePool, packets: &[Vec<u8>]) {
    for packets in packets.chunks(64) {
        let mut burst: Vec<Frame> =
            packets.iter().map(|packet| pool.take_filled(packet, 0).expect("a frame")).collect();
        while !burst.is_empty() {
            port.send(pool, &mut burst).expect("the link is up");
        }
    }
}

/// Receives until `count` packets have come, or none comes for a second.
fn receive(port: &mut UdpQueue, pool: &mut FramePool, count: usize) -> Vec<Vec<u8>> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut received = Vec::new();
    while received.len() < count {
        let mut burst = Vec::new();
        port.receive(pool, 64, &mut burst).expect("the link is up");
        received.extend(burst.iter().map(|frame| frame.to_vec()));
        if burst.is_empty() {
            let all = port.readable_fds().expect("something to wait for");
            let mut all: Vec<_> = all.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            if poll(&mut all, PollTimeout::from(1_000_u16)) == Ok(0) {
                break;
            }
        }
        pool.give_back_burst(&mut burst);
    }
    received
}

fn without_df(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 {
        packet[6] &= !0x40;
        ipv4::fill_checksum(&mut packet);
    }
    packet
}

/// The cost of one side of an exchange.
#[derive(Debug)]
struct Cost {
    system_calls: u64,
    /// Buffers that were sent over the link, including a few of the kernel's own.
    buffers: u64,
}

/// Sends in both directions at the same time, and expects all packets in order and unchanged,
/// except for DF, which a socket does not report.
fn exchange(addresses: [&str; 2], offloads: bool, packets: impl Fn(&str, &str) -> Vec<Vec<u8>>) -> [Cost; 2] {
    exchange_over(|_, _| {}, addresses, offloads, packets)
}

/// The same over a link that `prepare` has modified.
fn exchange_over(
    prepare: impl Fn(&Namespace, &Namespace),
    addresses: [&str; 2],
    offloads: bool,
    packets: impl Fn(&str, &str) -> Vec<Vec<u8>>,
) -> [Cost; 2] {
    let (left, right) = (Namespace::create(), Namespace::create());
    left.link(&right, 9200, [("va", &["10.9.0.1/24", "fd09::1/64"]), ("vb", &["10.9.0.2/24", "fd09::2/64"])]);
    prepare(&left, &right);
    let [mut a, mut b] = [bind(&left, addresses[0], offloads), bind(&right, addresses[1], offloads)];
    let mut pool = FramePool::new(512, 512);
    let there = packets(addresses[0], addresses[1]);
    let back = packets(addresses[1], addresses[0]);
    for (there, back) in there.chunks(64).zip(back.chunks(64)) {
        send(&mut a, &mut pool, there);
        send(&mut b, &mut pool, back);
        for (port, sent) in [(&mut b, there), (&mut a, back)] {
            let received = receive(port, &mut pool, sent.len());
            assert_eq!(received.len(), sent.len());
            for (received, sent) in received.iter().zip(sent) {
                assert_eq!(*received, without_df(sent));
            }
        }
    }
    for port in [&a, &b] {
        let counters = port.counters();
        assert_eq!(
            (counters.sent_packets, counters.received_packets),
            (there.len() as u64, back.len() as u64)
        );
        assert_eq!((counters.send_dropped, counters.receive_dropped), (0, 0));
    }
    let cost = |port: &UdpQueue, namespace: &Namespace, device: &str| Cost {
        system_calls: port.counters().system_calls,
        buffers: namespace.inside(|| sent_buffers(device)),
    };
    [cost(&a, &left, "va"), cost(&b, &right, "vb")]
}

/// Sizes from 1 to 9,000 in steps that produce all remainders, and each DSCP and ECN.
fn all_sizes(from: &str, to: &str) -> Vec<Vec<u8>> {
    let sizes = (1..=9_000_usize).step_by(23).chain([1, 2, 1_372, 1_400, 1_472, 1_500, 8_972, 9_000]);
    let one = |(k, size): (usize, usize)| packet(from, to, k as u8, k % 8 < 4, &vec![(k * 7) as u8; size]);
    sizes.enumerate().map(one).collect()
}

/// Runs as a gateway sends them: full packets, and a shorter one at the end of each run; all with
/// ECT(0).
fn runs(from: &str, to: &str) -> Vec<Vec<u8>> {
    let size = |k: usize| if k % 40 == 39 { 300 } else { 1_440 };
    (0..1_280).map(|k| packet(from, to, 2, true, &vec![k as u8; size(k)])).collect()
}

#[test]
fn every_size_and_class_crosses_a_link_over_ipv4() {
    exchange(["10.9.0.1", "10.9.0.2"], true, all_sizes);
}

#[test]
fn every_size_and_class_crosses_a_link_over_ipv6() {
    exchange(["fd09::1", "fd09::2"], true, all_sizes);
}

#[test]
fn every_size_and_class_crosses_a_link_without_offloads() {
    exchange(["10.9.0.1", "10.9.0.2"], false, all_sizes);
    exchange(["fd09::1", "fd09::2"], false, all_sizes);
}

#[test]
fn runs_of_one_size_are_segmented_and_coalesced_by_the_kernel() {
    for addresses in [["10.9.0.1", "10.9.0.2"], ["fd09::1", "fd09::2"]] {
        let with = exchange(addresses, true, runs);
        let without = exchange(addresses, false, runs);
        println!("1,280 packets each way {addresses:?}: {with:?}; without offloads {without:?}");
        for (with, without) in with.iter().zip(&without) {
            // 20 bursts in each direction: one call to send, and one or two to receive what was
            // coalesced.
            assert!(with.system_calls <= 1 + 20 * 3 && with.system_calls < without.system_calls);
            assert!(with.buffers < 1_280 / 10 && without.buffers >= 1_280);
        }
    }
}

#[test]
fn packets_to_several_peers_in_turns_leave_as_one_message_for_each() {
    const PACKETS: usize = 60;
    const PEERS: [&str; 3] = ["10.9.0.2", "10.9.0.3", "10.9.0.4"];
    let (left, right) = (Namespace::create(), Namespace::create());
    left.link(
        &right,
        9200,
        [("va", &["10.9.0.1/24"]), ("vb", &["10.9.0.2/24", "10.9.0.3/24", "10.9.0.4/24"])],
    );
    let (mut a, mut peers) = (bind(&left, "10.9.0.1", true), PEERS.map(|peer| bind(&right, peer, true)));
    let mut pool = FramePool::new(512, 512);
    let before = left.inside(|| sent_buffers("va"));
    let packets: Vec<Vec<u8>> =
        (0..PACKETS).map(|at| packet("10.9.0.1", PEERS[at % 3], 2, true, &vec![at as u8; 1_200])).collect();
    send(&mut a, &mut pool, &packets);
    let buffers = left.inside(|| sent_buffers("va")) - before;
    for (turn, peer) in peers.iter_mut().enumerate() {
        let received = receive(peer, &mut pool, PACKETS / 3);
        let sent = packets.iter().skip(turn).step_by(3).map(|packet| without_df(packet));
        assert!(received.into_iter().eq(sent), "each peer gets its own in their order");
    }
    assert!(buffers <= 6, "{PACKETS} packets to three peers left as {buffers} messages");
    assert!(a.counters().system_calls <= 3, "{:?}", a.counters());
}

#[test]
fn over_a_device_that_cannot_segment_packets_leave_one_by_one() {
    let prepare = |left: &Namespace, _: &Namespace| {
        left.inside(|| run("ethtool -K va tx-checksum-ip-generic off"));
    };
    let [without, with] = exchange_over(prepare, ["10.9.0.1", "10.9.0.2"], true, runs);
    assert!(without.buffers >= 1_280 && with.buffers < 1_280 / 10, "{without:?} {with:?}");
}

/// A router between two hosts whose second link has an MTU of only 1,300 bytes. Three times sends
/// five packets across, four of which are longer. Returns the sending port, what it received, and
/// what the other host received.
fn narrow_path(addresses: [&str; 2], dont_fragment: bool) -> (UdpQueue, Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (left, router, right) = (Namespace::create(), Namespace::create(), Namespace::create());
    left.link(
        &router,
        1500,
        [("va", &["10.8.0.1/24", "fd08::1/64"]), ("ra", &["10.8.0.9/24", "fd08::9/64"])],
    );
    router.link(
        &right,
        1300,
        [("rb", &["10.9.0.9/24", "fd09::9/64"]), ("vb", &["10.9.0.1/24", "fd09::1/64"])],
    );
    router.inside(|| {
        run("sysctl -qw net.ipv4.ip_forward=1");
        run("sysctl -qw net.ipv6.conf.all.forwarding=1");
    });
    let default = |gateway: [&str; 2]| gateway.map(|gateway| ip(&format!("route add default via {gateway}")));
    left.inside(|| default(["10.8.0.9", "fd08::9"]));
    right.inside(|| default(["10.9.0.9", "fd09::9"]));
    let (mut a, mut b) = (bind(&left, addresses[0], true), bind(&right, addresses[1], true));
    let mut pool = FramePool::new(64, 64);
    let small = packet(addresses[0], addresses[1], 0, dont_fragment, &[1; 64]);
    let large: Vec<Vec<u8>> =
        (2..6).map(|k| packet(addresses[0], addresses[1], 0, dont_fragment, &[k; 1_400])).collect();
    let (mut reported, mut received) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        left.inside(|| {
            send(&mut a, &mut pool, &large);
            send(&mut a, &mut pool, std::slice::from_ref(&small));
        });
        received.extend(receive(&mut b, &mut pool, if dont_fragment { 1 } else { 5 }));
        if dont_fragment {
            reported.extend(receive(&mut a, &mut pool, 1));
        }
    }
    (a, reported, received)
}

#[test]
fn what_a_router_says_is_handed_up_and_what_the_kernel_believes_of_it_changes_nothing() {
    for addresses in [["10.8.0.1", "10.9.0.1"], ["fd08::1", "fd09::1"]] {
        let (mut port, reported, received) = narrow_path(addresses, true);
        assert!(!reported.is_empty(), "a router tells of the first packet at least");
        for report in &reported {
            let layout = Layout::parse(report).expect("a whole packet");
            let message = Icmp::parse(layout.body(report)).expect("ICMP");
            let mtu = message
                .fragmentation_needed_mtu()
                .map(u32::from)
                .filter(|_| !layout.is_v6)
                .or(message.packet_too_big_mtu().filter(|_| layout.is_v6));
            assert_eq!(mtu, Some(1_300));
            let quoted = Layout::parse_quoted(message.body()).expect("headers are quoted");
            let ends = addresses.map(|address| address.parse().expect("an address"));
            assert_eq!(quoted.addresses(message.body()), (ends[0], ends[1]));
        }
        // Anybody can forge such a report, so the port continues to send.
        assert_eq!((port.counters().sent_packets, port.counters().send_dropped), (15, 0));
        assert_eq!((port.path_mtu(ends_peer(addresses)), port.take_path_mtu()), (None, None));
        assert!(received.iter().all(|packet| packet.len() < 200) && received.len() == 3);
    }
}

fn ends_peer(addresses: [&str; 2]) -> IpAddr {
    addresses[1].parse().expect("an address")
}

#[test]
fn without_df_a_router_fragments_and_everything_arrives() {
    let (port, _, received) = narrow_path(["10.8.0.1", "10.9.0.1"], false);
    assert_eq!((port.counters().send_dropped, received.len()), (0, 15));
}

#[test]
fn the_mtu_of_an_interface_is_learned_from_a_packet_that_was_too_long_for_it() {
    for addresses in [["10.9.0.1", "10.9.0.2"], ["fd09::1", "fd09::2"]] {
        let (left, right) = (Namespace::create(), Namespace::create());
        left.link(
            &right,
            1_400,
            [("va", &["10.9.0.1/24", "fd09::1/64"]), ("vb", &["10.9.0.2/24", "fd09::2/64"])],
        );
        // The kernel's path MTU, wherever it comes from, can differ from the interface's MTU.
        left.inside(|| ip(&format!("route add {} dev va mtu 1290", addresses[1])));
        let (mut port, mut pool) = (bind(&left, addresses[0], true), FramePool::new(64, 64));
        let [fits, too_long] =
            [1_340, 1_390].map(|len| packet(addresses[0], addresses[1], 0, true, &vec![7; len]));
        send(&mut port, &mut pool, &[fits.clone(), too_long.clone(), too_long.clone(), fits]);
        assert_eq!(
            (port.counters().sent_packets, port.counters().send_dropped),
            (2, 2),
            "each of a run for itself"
        );
        assert_eq!(port.take_path_mtu(), Some((ends_peer(addresses), 1_400)));
        assert_eq!(port.take_path_mtu(), None, "reported once");
    }
}

/// The packet in two fragments, as a sender of sealed packets makes them for a narrow path.
fn cut(packet: &[u8]) -> [Vec<u8>; 2] {
    const AT: usize = 800;
    let layout = Layout::parse(packet).expect("a whole packet");
    let (header, body) = packet.split_at(layout.payload);
    [(0, &body[..AT], true), (AT, &body[AT..], false)].map(|(offset, body, more)| {
        let fragment = Fragment { identification: 77, offset, more };
        let mut piece = header.to_vec();
        if layout.is_v6 {
            piece[6] = FRAGMENT;
            piece.extend_from_slice(&[0; 8]);
            ipv6::write_fragment(&mut piece[40..], UDP, fragment);
        } else {
            ipv4::set_fragment(&mut piece, fragment);
        }
        piece.extend_from_slice(body);
        convoy_packet::ip::set_length(&mut piece);
        piece
    })
}

#[test]
fn fragments_leave_in_their_order_and_the_peers_kernel_puts_them_together() {
    for addresses in [["10.9.0.1", "10.9.0.2"], ["fd09::1", "fd09::2"]] {
        let (left, right) = (Namespace::create(), Namespace::create());
        left.link(
            &right,
            1_500,
            [("va", &["10.9.0.1/24", "fd09::1/64"]), ("vb", &["10.9.0.2/24", "fd09::2/64"])],
        );
        let (mut a, mut b) = (bind(&left, addresses[0], true), bind(&right, addresses[1], true));
        let mut pool = FramePool::new(64, 64);
        let whole = packet(addresses[0], addresses[1], 2, false, &vec![9; 1_400]);
        let small = packet(addresses[0], addresses[1], 2, false, &[1; 10]);
        let [first, second] = cut(&whole);
        let stranger = cut(&packet(
            if whole[0] >> 4 == 4 { "10.9.0.77" } else { "fd09::77" },
            addresses[1],
            2,
            false,
            &vec![9; 1_400],
        ));
        let [theirs, _] = stranger;
        send(&mut a, &mut pool, &[small.clone(), first, second, theirs, small.clone()]);
        let received = receive(&mut b, &mut pool, 3);
        assert!(
            received == [small.clone(), whole, small],
            "{:?}",
            received.iter().map(Vec::len).collect::<Vec<_>>()
        );
        assert_eq!(
            (a.counters().sent_packets, a.counters().send_dropped),
            (4, 1),
            "none from another's address"
        );
    }
}

/// Packets of these SPIs.
fn of_spis(from: &str, to: &str, ports: (u16, u16), spis: impl IntoIterator<Item = u32>) -> Vec<Vec<u8>> {
    let payload = |spi: u32| [&spi.to_be_bytes()[..], &[7; 60]].concat();
    spis.into_iter().map(|spi| packet_between(from, to, ports, 0, false, &payload(spi))).collect()
}

#[test]
fn a_packet_comes_to_the_queue_that_has_taken_its_spi() {
    for [from, to] in [["10.9.0.1", "10.9.0.2"], ["fd09::1", "fd09::2"]] {
        let (left, right) = (Namespace::create(), Namespace::create());
        left.link(
            &right,
            1500,
            [("va", &["10.9.0.1/24", "fd09::1/64"]), ("vb", &["10.9.0.2/24", "fd09::2/64"])],
        );
        let mut sender = bind(&left, from, true);
        let mut queues = bind_queues(&right, to, true, 3);
        // Two that differ by their upper halves alone among them.
        let spis = |queue: u32| (0..40).map(move |at| (0x1000 + 3 * at + queue) | queue << 24);
        for queue in [0, 1, 2] {
            spis(queue).for_each(|spi| queues[queue as usize].take_spi(spi));
        }
        let mut pool = FramePool::new(512, 512);
        for queue in [2, 0, 1] {
            let sent = of_spis(from, to, (PORT, PORT), spis(queue));
            // One by one: what is sent together is received together.
            sent.iter().for_each(|packet| send(&mut sender, &mut pool, std::slice::from_ref(packet)));
            assert_eq!(receive(&mut queues[queue as usize], &mut pool, sent.len()), sent, "queue {queue}");
        }
        // The first of them goes to another queue.
        queues[1].take_spi(0x1000);
        let sent = of_spis(from, to, (PORT, PORT), [0x1000]);
        send(&mut sender, &mut pool, &sent);
        assert_eq!(receive(&mut queues[1], &mut pool, 1), sent);
        assert!(queues.iter().all(|queue| queue.counters().receive_dropped == 0));
    }
}

#[test]
fn each_queue_has_a_port_of_its_own_whose_packets_arrive_as_the_others() {
    let (left, right) = (Namespace::create(), Namespace::create());
    left.link(&right, 1500, [("va", &["10.9.0.1/24"]), ("vb", &["10.9.0.2/24"])]);
    let mut receiver = bind(&left, "10.9.0.1", true);
    let mut queues = bind_queues(&right, "10.9.0.2", true, 2);
    let mut pool = FramePool::new(512, 512);
    for (queue, own) in [(0, PORT + 1), (1, PORT + 2)] {
        let sent = of_spis("10.9.0.2", "10.9.0.1", (own, PORT), [0x1000]);
        send(&mut queues[queue], &mut pool, &sent);
        assert_eq!(receive(&mut receiver, &mut pool, 1), sent);
        let back = of_spis("10.9.0.1", "10.9.0.2", (PORT, own), [0x1000]);
        send(&mut receiver, &mut pool, &back);
        let arrived = of_spis("10.9.0.1", "10.9.0.2", (PORT, PORT), [0x1000]);
        assert_eq!(receive(&mut queues[queue], &mut pool, 1), arrived);
    }
}
