use super::*;
use crate::ip::fragment::split;
use convoy_packet::IpHeader;
use convoy_packet::protocol::ESP;
use proptest::prelude::*;
use std::net::IpAddr;

const FRAMES: [usize; 3] = [400, 80, 48];

struct ReassemblyBench {
    pool: FramePool,
    reassembly: Reassembly,
    drops: DropCounters,
}

impl ReassemblyBench {
    fn new(config: ReassemblyConfig) -> Self {
        Self {
            pool: FramePool::new(FRAMES[0], FRAMES[1]).with_huge(FRAMES[2]),
            reassembly: Reassembly::new(config),
            drops: DropCounters::default(),
        }
    }

    fn cut(&mut self, packet: &[u8], mtu: usize, id: u32) -> Vec<Frame> {
        let frame = self.pool.take_filled(packet, 0).expect("fits a frame");
        let mut out = Vec::new();
        split(frame, mtu, Some(id), &mut self.pool, &mut out).expect("may be cut");
        out
    }

    fn take(&mut self, now_ns: u64, frame: Frame) -> Option<Vec<u8>> {
        let layout = Layout::parse(&frame).expect("well-formed");
        let whole = self.reassembly.take_in(now_ns, frame, &layout, &mut self.pool, &mut self.drops)?;
        let bytes = whole.to_vec();
        self.pool.give_back(whole);
        Some(bytes)
    }

    /// The frames that are neither in the pool nor in reassembly.
    fn missing(&self) -> usize {
        let held = self.reassembly.datagrams.iter().filter(|datagram| datagram.frame_size().is_some());
        let out = FrameSize::ALL.map(|size| self.pool.total(size) - self.pool.available(size));
        out.iter().sum::<usize>() - held.count()
    }
}

fn packet(is_v6: bool, source: u8, traffic_class: u8, body: usize) -> Vec<u8> {
    let ends: [IpAddr; 2] = if is_v6 {
        [source, 2].map(|host| IpAddr::V6(u128::from(host).into()))
    } else {
        [source, 200].map(|host| [192, 0, 2, host].into())
    };
    let header = IpHeader { traffic_class, identification: 1, ..IpHeader::new(ESP, ends[0], ends[1]) };
    let at = header.header_len();
    let mut packet: Vec<u8> = (0..at + body).map(|n| (n.saturating_sub(at) * 7 / 3) as u8).collect();
    header.write(&mut packet);
    packet
}

#[test]
fn an_overlap_condemns_the_datagram_and_what_follows() {
    for is_v6 in [false, true] {
        let mut bench = ReassemblyBench::new(ReassemblyConfig::default());
        let mut first = bench.cut(&packet(is_v6, 1, 0, 3_000), 1_280, 1);
        let mut other = bench.cut(&packet(is_v6, 1, 0, 3_000), 800, 1);
        assert_eq!(bench.take(0, first.remove(0)), None);
        assert_eq!(bench.take(0, other.remove(1)), None);
        assert_eq!(bench.drops.get(DropReason::FragmentOverlap), 2);
        for late in first.into_iter().chain(other) {
            assert_eq!(bench.take(1, late), None);
        }
        assert_eq!(bench.missing(), 0);
        bench.reassembly.expire(u64::MAX, &mut bench.pool, &mut bench.drops);
        assert_eq!(bench.reassembly.len(), 0);
        assert_eq!(bench.drops.total(), bench.drops.get(DropReason::FragmentOverlap));
    }
}

#[test]
fn the_same_fragment_with_other_bytes_is_an_overlap_and_with_the_same_a_duplicate() {
    let mut bench = ReassemblyBench::new(ReassemblyConfig::default());
    let whole = packet(false, 1, 0, 3_000);
    let mut pieces = bench.cut(&whole, 1_500, 1);
    let again = bench.pool.take_filled(&pieces[1], 0).expect("a frame");
    let mut forged = bench.pool.take_filled(&pieces[1], 0).expect("a frame");
    forged[100] ^= 1;
    let mut take = |frame| bench.take(0, frame);
    assert_eq!(take(pieces.remove(1)), None);
    assert_eq!(take(again), None);
    assert_eq!(take(forged), None);
    assert_eq!(take(pieces.remove(0)), None);
    assert_eq!(bench.drops.get(DropReason::FragmentDuplicate), 1);
    assert_eq!(bench.drops.get(DropReason::FragmentOverlap), 3);
}

#[test]
fn a_datagram_that_is_late_is_dropped_fragment_by_fragment() {
    let mut bench = ReassemblyBench::new(ReassemblyConfig { timeout_ns: 100, ..Default::default() });
    let mut pieces = bench.cut(&packet(false, 1, 0, 4_000), 1_500, 1);
    let last = pieces.pop().expect("three");
    for piece in pieces {
        assert_eq!(bench.take(50, piece), None);
    }
    bench.reassembly.expire(149, &mut bench.pool, &mut bench.drops);
    assert_eq!(bench.drops.total(), 0);
    bench.reassembly.expire(150, &mut bench.pool, &mut bench.drops);
    assert_eq!(bench.drops.get(DropReason::ReassemblyTimeout), 2);
    bench.pool.give_back(last);
    assert_eq!(bench.missing(), 0);
}

#[test]
fn one_source_cannot_take_all_the_memory_and_many_sources_evict_the_oldest() {
    let mut bench =
        ReassemblyBench::new(ReassemblyConfig { datagrams: 4, per_source: 2, ..ReassemblyConfig::default() });
    for (now_ns, (source, id)) in [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (4, 1)].into_iter().enumerate() {
        let mut pieces = bench.cut(&packet(false, source, 0, 2_000), 1_500, id);
        assert_eq!(bench.take(now_ns as u64, pieces.remove(0)), None);
        bench.pool.give_back_burst(&mut pieces);
    }
    assert_eq!(bench.drops.get(DropReason::ReassemblyLimit), 2, "the first of one source, and the oldest");
    assert_eq!(bench.reassembly.len(), 4);
    assert_eq!(bench.missing(), 0);
}

#[test]
fn a_flood_in_the_peers_name_does_not_shut_the_peer_out() {
    let mut bench = ReassemblyBench::new(ReassemblyConfig::default());
    let expected = packet(false, 1, 0, 2_000);
    for id in 0..100 {
        let mut pieces = bench.cut(&packet(false, 1, 0, 2_000), 1_500, 1_000 + id);
        assert_eq!(bench.take(id.into(), pieces.remove(0)), None);
        bench.pool.give_back_burst(&mut pieces);
    }
    assert_eq!(bench.reassembly.len(), ReassemblyConfig::default().per_source);
    let pieces = bench.cut(&expected, 1_500, 1);
    let whole = pieces.into_iter().find_map(|piece| bench.take(101, piece));
    assert_eq!(whole, Some(expected));
    assert_eq!(bench.drops.get(DropReason::ReassemblyLimit), 85);
}

#[test]
fn where_reassembly_is_off_every_fragment_is_counted() {
    for config in [(0, 16), (16, 0)] {
        let (datagrams, per_source) = config;
        let mut bench =
            ReassemblyBench::new(ReassemblyConfig { datagrams, per_source, ..Default::default() });
        for piece in bench.cut(&packet(false, 1, 0, 2_000), 1_500, 1) {
            assert_eq!(bench.take(0, piece), None);
        }
        assert_eq!(bench.drops.get(DropReason::ReassemblyLimit), 2);
    }
}

#[test]
fn without_a_frame_a_fragment_is_dropped() {
    let mut bench =
        ReassemblyBench::new(ReassemblyConfig { datagrams: 100, per_source: 100, ..Default::default() });
    for id in 0..81 {
        let mut pieces = bench.cut(&packet(false, 1, 0, 1_600), 1_500, id);
        bench.pool.give_back(pieces.remove(1));
        assert_eq!(bench.take(0, pieces.remove(0)), None);
    }
    assert_eq!(bench.drops.get(DropReason::NoFrame), 1);
}

#[test]
fn tiny_uneven_empty_and_endless_fragments_are_refused() {
    let mut bench = ReassemblyBench::new(ReassemblyConfig::default());
    for (body, flags, reason) in [
        (40, 0x2000u16, DropReason::FragmentTiny),
        (57, 0x2000, DropReason::FragmentMalformed),
        (0, 0x0001, DropReason::FragmentMalformed),
        (100, 0x1fff, DropReason::FragmentMalformed),
    ] {
        let mut bytes = packet(false, 1, 0, body);
        bytes[6..8].copy_from_slice(&flags.to_be_bytes());
        let frame = bench.pool.take_filled(&bytes, 0).expect("a frame");
        let before = bench.drops.get(reason);
        assert_eq!(bench.take(0, frame), None);
        assert_eq!(bench.drops.get(reason), before + 1, "{reason}");
    }
    assert_eq!((bench.reassembly.len(), bench.missing()), (0, 0));
}

/// The longest ESP datagram of a family that is 65,535 bytes long with its header.
fn longest(is_v6: bool, source: u8) -> Vec<u8> {
    packet(is_v6, source, 0, 65_535 - if is_v6 { 40 } else { 20 })
}

#[test]
fn the_longest_datagram_is_put_together_from_fragments_of_any_path() {
    for is_v6 in [false, true] {
        for mtu in [576, 1_280, 1_500, 9_000] {
            for backwards in [false, true] {
                let mut bench = ReassemblyBench::new(ReassemblyConfig::default());
                let expected = longest(is_v6, 1);
                let mut pieces = bench.cut(&expected, mtu, 1);
                if backwards {
                    pieces.reverse();
                }
                let whole: Vec<_> = pieces.into_iter().filter_map(|piece| bench.take(0, piece)).collect();
                assert!(whole == [expected], "IPv6 {is_v6}, {mtu} bytes, backwards {backwards}");
                assert_eq!((bench.drops.total(), bench.missing()), (0, 0));
            }
        }
    }
}

#[test]
fn a_datagram_longer_than_any_packet_is_refused_whole() {
    // 65,515 bytes of payload are all that IPv4 has room for behind its header; 65,528 do not end
    // past 65,535.
    let mut bench = ReassemblyBench::new(ReassemblyConfig::default());
    let mut pieces = bench.cut(&longest(false, 1), 1_500, 1);
    let last = pieces.last_mut().expect("45 pieces");
    last.append(13).expect("room").fill(0);
    ip::set_length(last);
    let count = pieces.len() as u64;
    assert!(pieces.into_iter().all(|piece| bench.take(0, piece).is_none()));
    assert_eq!((bench.drops.get(DropReason::FragmentTooMany), bench.drops.total()), (count, count));
    assert_eq!((bench.reassembly.len(), bench.missing()), (0, 0));
}

#[test]
fn huge_datagrams_are_few_in_all_and_fewer_from_one_source() {
    let config = ReassemblyConfig { huge: 3, huge_per_source: 2, ..Default::default() };
    let mut bench = ReassemblyBench::new(config);
    let begin = |bench: &mut ReassemblyBench, now_ns, source, id| {
        let mut pieces = bench.cut(&longest(false, source), 9_000, id);
        assert_eq!(bench.take(now_ns, pieces.pop().expect("the last")), None);
        bench.pool.give_back_burst(&mut pieces);
    };
    let huge = |bench: &ReassemblyBench| FRAMES[2] - bench.pool.available(FrameSize::Huge);
    for (now_ns, (source, id)) in [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (4, 1)].into_iter().enumerate() {
        begin(&mut bench, now_ns as u64, source, id);
        assert!(huge(&bench) <= config.huge);
    }
    assert_eq!((huge(&bench), bench.reassembly.len()), (3, 3));
    assert_eq!(bench.drops.get(DropReason::ReassemblyLimit), 3);
    assert_eq!(bench.missing(), 0);
    // A small one is not shut out by that, and a newcomer's huge one has its place.
    for body in [2_000, 20_000] {
        let expected = packet(false, 9, 0, body);
        let pieces = bench.cut(&expected, 1_500, 1);
        assert_eq!(pieces.into_iter().find_map(|piece| bench.take(10, piece)), Some(expected));
    }
    assert_eq!(bench.missing(), 0);
}

#[test]
fn a_datagram_for_which_there_is_no_huge_frame_is_counted_to_its_last_fragment() {
    let mut bench = ReassemblyBench::new(ReassemblyConfig::default());
    let mut pieces = bench.cut(&packet(true, 1, 0, 20_000), 1_500, 1);
    // The first piece is in the whole packet's frame, which goes back when it has come.
    pieces.reverse();
    let mut held = Vec::new();
    bench.pool.take_burst(FrameSize::Huge, FRAMES[2], &mut held);
    let count = pieces.len() as u64;
    assert!(pieces.into_iter().all(|piece| bench.take(0, piece).is_none()));
    assert_eq!((bench.drops.get(DropReason::NoFrame), bench.drops.total()), (count, count));
    bench.pool.give_back_burst(&mut held);
    assert_eq!(bench.missing(), 0);
}

#[test]
fn congestion_met_by_one_fragment_counts_for_the_datagram() {
    for is_v6 in [false, true] {
        for (others, expected) in [(2u8, Some(3)), (0, None)] {
            let mut bench = ReassemblyBench::new(ReassemblyConfig::default());
            let mut pieces = bench.cut(&packet(is_v6, 1, 0xb8 | others, 2_000), 1_280, 1);
            if is_v6 {
                pieces[1][1] |= 0x30;
            } else {
                pieces[1][1] |= 3;
            }
            let whole = pieces.into_iter().find_map(|piece| bench.take(0, piece));
            let traffic_class = whole.map(|bytes| Layout::parse(&bytes).expect("well-formed").traffic_class);
            assert_eq!(traffic_class, expected.map(|ecn| 0xb8 | ecn));
            assert_eq!(bench.drops.get(DropReason::EcnCongestion), if expected.is_some() { 0 } else { 2 });
            assert_eq!(bench.missing(), 0);
        }
    }
}

#[test]
fn a_whole_ipv6_packet_with_a_fragment_header_loses_the_header() {
    let mut bench = ReassemblyBench::new(ReassemblyConfig::default());
    let plain = packet(true, 1, 0, 100);
    let mut bytes = plain.clone();
    bytes.splice(40..40, [50, 0, 0, 0, 0, 0, 0, 1]);
    bytes[5] += 8;
    bytes[6] = 44;
    let frame = bench.pool.take_filled(&bytes, 0).expect("a frame");
    assert_eq!(bench.take(0, frame), Some(plain));
}

proptest! {
    #[test]
    fn pieces_in_any_order_make_up_the_packet(
        is_v6: bool,
        body in prop_oneof![1usize..9_000, 9_000usize..30_000],
        mtu in 600usize..2_000,
        order in any::<u64>(),
        interleaved: bool,
    ) {
        let mut bench = ReassemblyBench::new(ReassemblyConfig::default());
        let expected = packet(is_v6, 1, 0, body);
        let mut pieces = bench.cut(&expected, mtu, 1);
        if interleaved {
            let other = packet(is_v6, 2, 0, body);
            pieces.extend(bench.cut(&other, mtu, 1));
        }
        let mut state = order | 1;
        for n in (1..pieces.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            pieces.swap(n, (state >> 33) as usize % (n + 1));
        }
        let expect = 1 + usize::from(interleaved);
        let whole: Vec<_> = pieces.into_iter().filter_map(|piece| bench.take(0, piece)).collect();
        prop_assert_eq!(whole.len(), expect);
        prop_assert!(whole.contains(&expected));
        prop_assert_eq!((bench.drops.total(), bench.missing(), bench.reassembly.len()), (0, 0, 0));
    }

    #[test]
    fn no_frame_is_lost_whatever_comes(
        fragments in proptest::collection::vec(
            (any::<bool>(), 0u8..3, prop_oneof![0u16..40, Just(1_160), 1_170u16..1_190, Just(8_185)], any::<bool>(), 0usize..200),
            0..200,
        ),
    ) {
        let mut bench = ReassemblyBench::new(ReassemblyConfig {
            datagrams: 3, per_source: 2, huge: 2, huge_per_source: 1, timeout_ns: 50,
        });
        let total = fragments.len();
        let mut whole = 0;
        for (now_ns, (is_v6, source, offset, more, body)) in fragments.into_iter().enumerate() {
            let mut bytes = packet(is_v6, source, 0, body);
            if is_v6 {
                bytes[6] = 44;
                let flags = offset << 3 | u16::from(more);
                bytes.splice(40..40, [50, 0, (flags >> 8) as u8, flags as u8, 0, 0, 0, 1]);
                bytes[5] += 8;
            } else {
                bytes[6..8].copy_from_slice(&(offset | u16::from(more) << 13).to_be_bytes());
            }
            let frame = bench.pool.take_filled(&bytes, 0).expect("a frame");
            bench.reassembly.expire(now_ns as u64, &mut bench.pool, &mut bench.drops);
            whole += usize::from(bench.take(now_ns as u64, frame).is_some());
            prop_assert_eq!(bench.missing(), 0);
            prop_assert!(bench.reassembly.len() <= 3);
        }
        bench.reassembly.expire(u64::MAX, &mut bench.pool, &mut bench.drops);
        prop_assert!(bench.drops.total() as usize + whole <= total);
        prop_assert!(whole > 0 || bench.drops.total() as usize == total);
    }
}
