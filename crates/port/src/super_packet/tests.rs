//! Joining and splitting without a device; `tests/all/tun.rs` uses real interfaces.

use convoy_packet::{Frame, FramePool, IpHeader, checksum, ip, ipv4, protocol, tcp, udp};
use proptest::prelude::*;

use super::{Coalescer, Cut, Joins, NextSegment, OffloadHeader};

/// Description of a packet.
#[derive(Clone, Debug)]
struct Sketch {
    flow: u8,
    is_tcp: bool,
    is_v6: bool,
    payload: usize,
    flags: u8,
    class: u8,
    dont_fragment: bool,
    options: bool,
    has_gap: bool,
    is_corrupt: bool,
}

/// A segment in the middle of a bulk transfer.
const PLAIN: Sketch = Sketch {
    flow: 0,
    is_tcp: true,
    is_v6: false,
    payload: 100,
    flags: tcp::ACK,
    class: 0,
    dont_fragment: true,
    options: false,
    has_gap: false,
    is_corrupt: false,
};

/// Makes packets from sketches; each continues the previous one of its flow.
#[derive(Default)]
struct Maker {
    sequence: [u32; 32],
    identification: [u16; 32],
}

impl Maker {
    fn packet(&mut self, sketch: &Sketch) -> Vec<u8> {
        let at = usize::from(sketch.flow) * 4 + usize::from(sketch.is_tcp) * 2 + usize::from(sketch.is_v6);
        let address = |last: u8| -> std::net::IpAddr {
            if sketch.is_v6 {
                [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last].into()
            } else {
                [10, 0, 0, last].into()
            }
        };
        let protocol = if sketch.is_tcp { protocol::TCP } else { protocol::UDP };
        self.identification[at] = self.identification[at].wrapping_add(1);
        let header = IpHeader {
            traffic_class: sketch.class,
            dont_fragment: sketch.dont_fragment,
            identification: self.identification[at].wrapping_add(0xfff0),
            ..IpHeader::new(protocol, address(1), address(2))
        };
        let transport_len = if !sketch.is_tcp {
            8
        } else if sketch.options {
            32
        } else {
            20
        };
        let mut packet = vec![0; header.header_len() + transport_len + sketch.payload];
        header.write(&mut packet);
        let pseudo = checksum::pseudo_header(&packet, protocol, transport_len + sketch.payload);
        let body = &mut packet[header.header_len()..];
        for (place, byte) in body[transport_len..].iter_mut().zip(self.sequence[at]..) {
            *place = byte as u8;
        }
        if sketch.is_tcp {
            self.sequence[at] = self.sequence[at].wrapping_add(u32::from(sketch.has_gap));
            body[..4].copy_from_slice(&[1, sketch.flow, 2, 2]);
            body[4..8].copy_from_slice(&self.sequence[at].wrapping_sub(300).to_be_bytes());
            body[8..12].copy_from_slice(&[9; 4]);
            body[12..16].copy_from_slice(&[(transport_len as u8 / 4) << 4, sketch.flags, 1, 2]);
            self.sequence[at] = self.sequence[at].wrapping_add(sketch.payload as u32);
            tcp::fill_checksum(body, pseudo);
        } else {
            udp::write(body, 0x0100 | u16::from(sketch.flow), 514);
            udp::fill_checksum(body, pseudo);
        }
        if sketch.is_corrupt {
            *packet.last_mut().expect("headers at least") ^= 1;
        }
        packet
    }
}

fn packets(sketches: &[Sketch]) -> Vec<Vec<u8>> {
    let mut maker = Maker::default();
    sketches.iter().map(|sketch| maker.packet(sketch)).collect()
}

/// Groups packets, and splits what would be written for each group. Returns for each group the
/// indices of its packets and the resulting packets.
fn round_trip(packets: &[Vec<u8>]) -> Vec<(Vec<usize>, Vec<Vec<u8>>)> {
    let mut pool = FramePool::new(256, 16).with_huge(4);
    let burst: Vec<Frame> =
        packets.iter().map(|packet| pool.take_filled(packet, 0).expect("a frame")).collect();
    let mut coalescer = Coalescer::default();
    coalescer.group(&burst, Joins::TcpAndUdp);
    let mut written = Vec::new();
    for group in coalescer.groups() {
        let places: Vec<usize> = coalescer.packets(group).collect();
        let (offload, headers, len) = group.headers(&burst);
        let mut bytes = headers[..len].to_vec();
        places.iter().for_each(|at| bytes.extend_from_slice(&burst[*at][group.header_len()..]));
        assert_eq!(places.len(), group.len());
        let offload = OffloadHeader::read(&offload.write()).expect("what is written can be read");
        written.push((places, cut(&offload, &mut bytes, &mut pool).expect("what is joined can be cut")));
    }
    written
}

fn cut(offload: &OffloadHeader, bytes: &mut [u8], pool: &mut FramePool) -> Option<Vec<Vec<u8>>> {
    let mut cut = Cut::of(offload, bytes)?;
    let mut packets = Vec::new();
    while !cut.is_done() {
        match cut.next(bytes, pool) {
            NextSegment::Frame(frame) => {
                packets.push(frame.to_vec());
                pool.give_back(frame);
            }
            NextSegment::NoFrame | NextSegment::TooLong => panic!("there are frames of all sizes"),
        }
    }
    Some(packets)
}

/// Sizes of the groups that the packets form.
fn sizes(sketches: &[Sketch]) -> Vec<usize> {
    round_trip(&packets(sketches)).iter().map(|(places, _)| places.len()).collect()
}

/// The packet without fields that have no meaning: the identification of an IPv4 packet with DF.
fn meaningful(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if !ip::is_v6(&packet) && packet[6] & 0x40 != 0 {
        packet[4..6].fill(0);
        ipv4::fill_checksum(&mut packet);
    }
    packet
}

#[test]
fn a_bulk_transfer_leaves_as_one_super_packet() {
    for (is_tcp, is_v6) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut sketches = vec![Sketch { is_tcp, is_v6, payload: 1_348, ..PLAIN }; 40];
        sketches.push(Sketch { is_tcp, is_v6, payload: 7, ..PLAIN });
        assert_eq!(sizes(&sketches), [41], "TCP {is_tcp}, IPv6 {is_v6}");
    }
    assert_eq!(sizes(&vec![Sketch { payload: 1_348, ..PLAIN }; 60]), [48, 12], "64 KiB at most");
    assert_eq!(sizes(&vec![Sketch { is_tcp: false, ..PLAIN }; 70]), [64, 6], "64 packets at most");
}

#[test]
fn what_a_super_packet_cannot_say_is_not_joined() {
    let pair = |second: Sketch| sizes(&[PLAIN, second]);
    assert_eq!(pair(PLAIN), [2], "this test can fail");
    for flags in [0x01, 0x02, 0x04, 0x20, 0x80].map(|flag| flag | tcp::ACK).into_iter().chain([0, tcp::PSH]) {
        assert_eq!(pair(Sketch { flags, ..PLAIN }), [1, 1], "flags {flags:#x}");
    }
    assert_eq!(pair(Sketch { flags: tcp::ACK | tcp::ECE, ..PLAIN }), [1, 1], "ECE of one alone");
    assert_eq!(pair(Sketch { class: 3, ..PLAIN }), [1, 1], "a mark of congestion");
    assert_eq!(pair(Sketch { options: true, ..PLAIN }), [1, 1], "options");
    assert_eq!(pair(Sketch { has_gap: true, ..PLAIN }), [1, 1], "a gap");
    assert_eq!(pair(Sketch { payload: 101, ..PLAIN }), [1, 1], "a longer one");
    assert_eq!(pair(Sketch { payload: 0, ..PLAIN }), [1, 1], "an acknowledgement alone");
    assert_eq!(pair(Sketch { dont_fragment: false, ..PLAIN }), [1, 1], "DF of one alone");
    assert_eq!(pair(Sketch { is_corrupt: true, ..PLAIN }), [1, 1], "a wrong checksum");
    assert_eq!(pair(Sketch { flow: 1, ..PLAIN }), [1, 1], "another connection");
    let corrupt = Sketch { is_corrupt: true, ..PLAIN };
    assert_eq!(sizes(&[corrupt, PLAIN, PLAIN]), [1, 2], "a wrong checksum first");
    let mut bare = packets(&[Sketch { is_tcp: false, ..PLAIN }, Sketch { is_tcp: false, ..PLAIN }]);
    bare.iter_mut().for_each(|packet| packet[26..28].fill(0));
    assert_eq!(round_trip(&bare).len(), 2, "UDP without a checksum");
}

#[test]
fn a_push_or_a_short_packet_ends_a_super_packet() {
    let push = Sketch { flags: tcp::ACK | tcp::PSH, ..PLAIN };
    assert_eq!(sizes(&[PLAIN, push, PLAIN, PLAIN]), [2, 2]);
    let short = Sketch { payload: 99, ..PLAIN };
    assert_eq!(sizes(&[PLAIN, short.clone(), short]), [2, 1]);
}

#[test]
fn an_ipv4_packet_without_df_is_joined_if_its_identification_is_the_next() {
    let free = Sketch { dont_fragment: false, ..PLAIN };
    let mut packets = packets(&[free.clone(), free.clone(), free]);
    assert_eq!(round_trip(&packets).len(), 1);
    packets[2][4..6].copy_from_slice(&[7, 7]);
    ipv4::fill_checksum(&mut packets[2][..20]);
    assert_eq!(round_trip(&packets).len(), 2);
}

#[test]
fn flows_that_take_turns_are_joined_each_for_itself() {
    let sketches: Vec<Sketch> = (0..32).map(|at| Sketch { flow: at % 8, ..PLAIN }).collect();
    assert_eq!(sizes(&sketches), [4; 8]);
}

#[test]
fn a_checksum_that_the_kernel_left_is_completed() {
    for is_tcp in [true, false] {
        let whole = packets(&[Sketch { is_tcp, ..PLAIN }]).remove(0);
        let mut left = whole.clone();
        let (at, protocol) = if is_tcp { (16, protocol::TCP) } else { (6, protocol::UDP) };
        let pseudo = !checksum::fold(checksum::pseudo_header(&whole, protocol, whole.len() - 20));
        left[20 + at..22 + at].copy_from_slice(&pseudo.to_be_bytes());
        let offload = OffloadHeader { checksum: Some((20, at as u16)), ..OffloadHeader::default() };
        let mut pool = FramePool::new(4, 4);
        assert!(cut(&offload, &mut left, &mut pool).expect("good") == [whole]);
    }
}

fn sketches() -> impl Strategy<Value = Sketch> {
    let flags = prop_oneof![8 => Just(tcp::ACK), 1 => Just(tcp::ACK | tcp::PSH), 1 => any::<u8>()];
    let payload = prop_oneof![6 => Just(300_usize), 2 => 0..400_usize, 1 => Just(1_400)];
    let rarely = || prop::bool::weighted(0.05);
    let what = (0..3_u8, any::<bool>(), any::<bool>(), payload, flags);
    let how =
        (prop_oneof![9 => Just(0_u8), 1 => 0..4_u8], prop::bool::weighted(0.9), rarely(), rarely(), rarely());
    (what, how).prop_map(
        |((flow, is_tcp, is_v6, payload, flags), (class, df, options, has_gap, is_corrupt))| Sketch {
            flow,
            is_tcp,
            is_v6,
            payload,
            flags,
            class,
            dont_fragment: df,
            options,
            has_gap,
            is_corrupt,
        },
    )
}

#[test]
fn datagrams_without_a_checksum_are_joined_only_where_that_is_asked_for() {
    let (mut pool, mut maker) = (FramePool::new(3, 0), Maker::default());
    let burst: Vec<Frame> = (0..3)
        .map(|_| {
            let mut packet = maker.packet(&Sketch { is_tcp: false, ..PLAIN });
            packet[26..28].fill(0);
            pool.take_filled(&packet, 0).expect("a frame")
        })
        .collect();
    let mut coalescer = Coalescer::default();
    for (joins, groups) in [(Joins::Tcp, 3), (Joins::TcpAndUdp, 3), (Joins::WithoutChecksum, 1)] {
        coalescer.group(&burst, joins);
        assert_eq!(coalescer.groups().len(), groups, "{joins:?}");
    }
}

#[test]
fn packets_of_one_flow_leave_alone_where_nothing_is_to_be_joined() {
    for is_tcp in [true, false] {
        let mut pool = FramePool::new(3, 0);
        let packets = packets(&[(); 3].map(|()| Sketch { is_tcp, ..PLAIN }));
        let burst: Vec<Frame> = packets.iter().filter_map(|packet| pool.take_filled(packet, 0)).collect();
        let mut coalescer = Coalescer::default();
        for (joins, groups) in [(Joins::Nothing, 3), (Joins::TcpAndUdp, 1)] {
            coalescer.group(&burst, joins);
            assert_eq!(coalescer.groups().len(), groups, "{joins:?}");
        }
    }
}

proptest! {
    #[test]
    fn what_is_joined_comes_apart_byte_for_byte_and_a_flow_keeps_its_order(
        sketches in prop::collection::vec(sketches(), 0..128),
    ) {
        let packets = packets(&sketches);
        let groups = round_trip(&packets);
        let mut seen = Vec::new();
        let mut last_of_flow = std::collections::HashMap::new();
        for (places, came_out) in &groups {
            for (at, packet) in places.iter().zip(came_out) {
                prop_assert_eq!(meaningful(packet), meaningful(&packets[*at]));
                let sketch = &sketches[*at];
                let before = last_of_flow.insert((sketch.flow, sketch.is_tcp, sketch.is_v6), *at);
                prop_assert!(before.is_none_or(|before| before < *at), "{at} is behind {before:?}");
                seen.push(*at);
            }
            prop_assert_eq!(places.len(), came_out.len());
        }
        seen.sort_unstable();
        prop_assert!(seen.iter().copied().eq(0..packets.len()), "each packet once");
    }

    #[test]
    fn any_bytes_are_cut_without_a_panic(
        offload: [u8; 10], bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0..6_u8, version in 0..4_usize,
    ) {
        let mut offload = offload;
        offload[1] = kind;
        let mut bytes = bytes;
        if let (Some(first), Some(start)) = (bytes.first_mut(), [0x45, 0x60].get(version)) {
            *first = *start;
        }
        if let Some(header) = OffloadHeader::read(&offload) {
            let mut pool = FramePool::new(4, 4).with_huge(1);
            if let Some(packets) = cut(&header, &mut bytes, &mut pool) {
                prop_assert!(packets.iter().all(|packet| packet.len() <= bytes.len()));
            }
        }
    }

    #[test]
    fn any_bytes_are_grouped_without_a_panic_and_none_is_lost(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..120), 0..20), starts in any::<[u8; 20]>(),
    ) {
        let mut packets = packets;
        for (packet, start) in packets.iter_mut().zip(starts) {
            packet[0] = [0x45, 0x60, 0x46, start][usize::from(start) % 4];
            if packet.len() > 10 {
                (packet[9], packet[6]) = if start & 4 == 0 { (protocol::TCP, 0) } else { (0, protocol::UDP) };
                let len = packet.len() as u16;
                packet[2..4].copy_from_slice(&len.to_be_bytes());
                packet[4..6].copy_from_slice(&len.saturating_sub(40).to_be_bytes());
            }
        }
        let mut pool = FramePool::new(32, 0);
        let burst: Vec<Frame> = packets.iter().map(|packet| pool.take_filled(packet, 0).expect("a frame")).collect();
        let mut coalescer = Coalescer::default();
        coalescer.group(&burst, Joins::TcpAndUdp);
        prop_assert_eq!(coalescer.groups().iter().map(super::CoalescedGroup::len).sum::<usize>(), burst.len());
    }
}
