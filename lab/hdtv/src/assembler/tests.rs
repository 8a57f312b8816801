use proptest::prelude::*;

use super::*;
use crate::layout::{Layout, PAYLOAD_TYPE};

const MS: u64 = 1_000_000;
/// Address of the sender.
const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 5004);

/// The packets of some frames, each with its frame's timestamp.
fn packets(
    format: &Format,
    frames: usize,
    packet_bytes: usize,
    first: (u32, u32),
) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut layout = Layout::new(format, packet_bytes, 77).expect("fits");
    let count = layout.packets().len();
    let (mut pictures, mut packets) = (Vec::new(), Vec::new());
    for frame in 0..frames {
        let picture: Vec<u8> = (0..format.frame_bytes()).map(|at| (at * 31 + frame * 7) as u8).collect();
        let timestamp = |field| first.1.wrapping_add(format.ticks(frame as u64, field) as u32);
        layout.number(0..count, first.0.wrapping_add((frame * count) as u32), [timestamp(0), timestamp(1)]);
        for plan in layout.packets() {
            let mut bytes = Vec::new();
            layout.write(plan, &picture, &mut bytes);
            pad(&mut bytes);
            packets.push(bytes);
        }
        pictures.push(picture);
    }
    (pictures, packets)
}

/// Pads a packet to a multiple of four bytes (RFC 3550 section 5.1), as other senders may.
fn pad(packet: &mut Vec<u8>) {
    let padding = packet.len().next_multiple_of(4) - packet.len();
    if padding > 0 {
        packet[0] |= 0x20;
        packet.resize(packet.len() + padding - 1, 0);
        packet.push(padding as u8);
    }
}

fn format(is_interlaced: bool) -> Format {
    if is_interlaced { "64x8i50" } else { "64x8p25" }.parse().expect("a name")
}

/// Imitates the kernel: writes packets to their planned places, and the rest of a longer packet
/// after them.
fn arrive(assembler: &mut Assembler, burst: &[&[u8]], now_ns: u64) {
    let count = assembler.plan(burst.len());
    let mut misses: Vec<&[u8]> = Vec::new();
    for (slot, packet) in burst.iter().enumerate() {
        let Some((frame, shapes)) = assembler.slots().filter(|_| slot < count) else {
            misses.push(packet);
            continue;
        };
        let shape = shapes[slot].clone();
        let pixels = packet.get(shape.header_bytes..).unwrap_or_default();
        let room = &mut frame[shape.data.clone()];
        let fits = pixels.len().min(room.len());
        room[..fits].copy_from_slice(&pixels[..fits]);
        let is_long = packet.len() == shape.packet_bytes();
        let end = (shape.padding > 0).then(|| packet[packet.len() - 1]);
        if !is_long || !assembler.accept(slot, &packet[..shape.header_bytes], end, now_ns) {
            misses.push(packet);
        }
    }
    assembler.settle();
    misses.iter().for_each(|packet| assembler.take(packet, FROM, now_ns));
}

#[test]
fn a_stream_in_order_is_copied_only_until_its_first_frame_is_known() {
    for is_interlaced in [false, true] {
        let format = format(is_interlaced);
        let (pictures, packets) = packets(&format, 10, 220, (0xffff_fff0, 5));
        let mut assembler = Assembler::new(format, PAYLOAD_TYPE, 4, 40 * MS);
        let mut now = 0;
        let mut shown = Vec::new();
        for burst in packets.chunks(3) {
            now += 40 * MS * 3 * pictures.len() as u64 / packets.len() as u64;
            arrive(&mut assembler, &burst.iter().map(Vec::as_slice).collect::<Vec<_>>(), now);
            while let Some(frame) = assembler.poll(now) {
                assert!(frame.holes.is_empty() && frame.missing_before == 0);
                shown.push(frame.bytes.clone());
                assembler.give_back(frame.bytes);
            }
        }
        while let Some(frame) = assembler.flush() {
            shown.push(frame.bytes);
        }
        assert_eq!(shown, pictures);
        let counts = assembler.counts();
        let frame = format.frame_bytes() as u64;
        // The burst that crosses into the second frame is still copied.
        assert!(
            counts.copied_bytes <= 2 * frame && counts.copied_bytes + counts.in_place_bytes == 10 * frame,
            "{counts:?}"
        );
        assert_eq!((counts.lost, counts.reordered, counts.frames, counts.whole_frames), (0, 0, 10, 10));
    }
}

#[test]
fn losses_are_reported_and_late_packets_change_nothing() {
    let format = format(false);
    let (pictures, packets) = packets(&format, 4, 200, (1, 90));
    let each = packets.len() / 4;
    let mut assembler = Assembler::new(format, PAYLOAD_TYPE, 4, 0);
    let lost = 1;
    for (at, packet) in packets.iter().enumerate().filter(|(at, _)| *at != lost && at / each != 2) {
        arrive(&mut assembler, &[packet], at as u64 / each as u64 * 40 * MS);
    }
    let first = assembler.flush().expect("a frame");
    assert_eq!((first.timestamp, first.holes.len()), (90, 1));
    let hole = first.holes[0].clone();
    assert!(
        first.bytes[..hole.start] == pictures[0][..hole.start]
            && first.bytes[hole.end..] == pictures[0][hole.end..]
    );
    arrive(&mut assembler, &[&packets[lost]], 50 * MS);
    assert_eq!(assembler.counts().late, 1);
    assert_eq!(assembler.flush().expect("a frame").missing_before, 0);
    let last = assembler.flush().expect("a frame");
    assert_eq!((last.missing_before, last.bytes), (1, pictures[3].clone()));
    assert_eq!(assembler.counts().lost as usize, each);
}

#[test]
fn another_source_is_heard_only_after_silence() {
    let format = format(false);
    let (_, mut packets) = packets(&format, 1, 200, (1, 90));
    let mut assembler = Assembler::new(format, PAYLOAD_TYPE, 4, 0);
    packets[..2].iter().for_each(|packet| assembler.take(packet, FROM, 0));
    packets[2..].iter_mut().for_each(|packet| packet[11] = 78);
    assembler.take(&packets[2], FROM, MS);
    assert_eq!((assembler.source(), assembler.counts().foreign), (Some(77), 1));
    packets[2..4].iter().for_each(|packet| assembler.take(packet, FROM, 2_000 * MS));
    assert_eq!((assembler.source(), assembler.counts().foreign), (Some(78), 1));
    packets[4][1] = 97;
    assembler.take(&packets[4], FROM, 2_000 * MS);
    assembler.take(&packets[4][..11], FROM, 2_000 * MS);
    assert_eq!((assembler.counts().foreign, assembler.counts().malformed), (2, 1));
}

#[test]
fn single_packets_of_anyone_begin_no_stream_and_are_counted() {
    let format = format(false);
    let (_, packets) = packets(&format, 10, 200, (1, 90));
    let each = packets.len() / 10;
    let mut assembler = Assembler::new(format, PAYLOAD_TYPE, 12, 0);
    // One packet of each frame, so no two are consecutive.
    packets.iter().step_by(each).for_each(|packet| assembler.take(packet, FROM, 0));
    // Two consecutive packets, but from two addresses.
    let other = SocketAddr::from(([198, 51, 100, 9], 5004));
    assembler.take(&packets[0], FROM, 0);
    assembler.take(&packets[1], other, 0);
    assert!(assembler.flush().is_none() && assembler.source().is_none());
    assert_eq!((assembler.counts().packets, assembler.counts().foreign), (0, 12));
    // The next consecutive packet also delivers the earlier packets of its source.
    assembler.take(&packets[2], other, 0);
    assert_eq!((assembler.counts().packets, assembler.counts().foreign), (2, 11));
    // From then on, packets from another address are refused.
    assembler.take(&packets[3], FROM, 0);
    assert_eq!((assembler.counts().packets, assembler.counts().foreign), (2, 12));
}

#[test]
fn a_timestamp_that_jumps_further_than_time_has_passed_misses_no_more_frames_than_that() {
    let format = format(false);
    let (_, packets) = packets(&format, 1, 200, (1, 90));
    let mut assembler = Assembler::new(format, PAYLOAD_TYPE, 12, 0);
    let packet = |number: u16, timestamp: u32| {
        let mut packet = packets[0].clone();
        packet[2..4].copy_from_slice(&number.to_be_bytes());
        packet[4..8].copy_from_slice(&timestamp.to_be_bytes());
        packet
    };
    let mut missing = 0;
    for frame in 0..10_u16 {
        assembler.take(&packet(frame + 1, u32::from(frame) * 100_000_000), FROM, 0);
        assembler.take(&packet(frame + 1, u32::from(frame) * 100_000_000), FROM, 0);
        while let Some(frame) = assembler.flush() {
            missing += u64::from(frame.missing_before);
            assembler.give_back(frame.bytes);
        }
    }
    assert!((1..=EARLY_FRAMES).contains(&missing), "{missing}");
    // After a second without packets, that many frames may be missing.
    let mut assembler = Assembler::new(format, PAYLOAD_TYPE, 12, 0);
    [1, 2].iter().for_each(|number| assembler.take(&packet(*number, 0), FROM, 0));
    assembler.flush().expect("the first frame");
    assembler.take(&packet(3, format.ticks(26, 0) as u32), FROM, 1_000 * MS);
    assert_eq!(assembler.flush().expect("a frame").missing_before, 25);
}

#[test]
fn frames_of_which_almost_nothing_arrived_are_counted_and_not_released() {
    let format: Format = "1280x720p60".parse().expect("a name");
    let (_, packets) = packets(&format, 2, 28, (1, 90));
    let each = packets.len() / 2;
    let mut assembler = Assembler::new(format, PAYLOAD_TYPE, 12, 0);
    // Ten packets with eight bytes of pixels each, and a quarter of a second from one to the next.
    for at in 0..10_u16 {
        let mut packet = packets[usize::from(at)].clone();
        packet[4..8].copy_from_slice(&(u32::from(at) * 22_500).to_be_bytes());
        assembler.take(&packet, FROM, u64::from(at) * 250 * MS);
    }
    assert!(assembler.poll(10_000 * MS).is_none() && assembler.flush().is_none());
    let counts = assembler.counts();
    assert_eq!((counts.packets, counts.scrap_frames), (10, 10));
    assert_eq!((counts.frames, counts.missing_frames, counts.missing_bytes), (0, 0, 0));
    // Their memory is free again, and what arrives of them later is late.
    assembler.take(&packets[0], FROM, 10_000 * MS);
    assert_eq!((assembler.counts().late, assembler.counts().no_memory), (1, 0));
    // A tenth of a frame is a picture, which takes the place of what was missing before it.
    for packet in &packets[each..each + each / 10 + 1] {
        let mut packet = packet.clone();
        packet[4..8].copy_from_slice(&(9 * 22_500_u32 + 3_000).to_be_bytes());
        assembler.take(&packet, FROM, 10_000 * MS);
    }
    assert!(assembler.flush().is_some());
}

#[test]
fn a_scrap_between_two_frames_is_missing() {
    let format = format(false);
    let (_, packets) = packets(&format, 3, 30, (1, 90));
    let each = packets.len() / 3;
    let mut assembler = Assembler::new(format, PAYLOAD_TYPE, 4, 0);
    let arrives = |at: &usize| at / each != 1 || at.is_multiple_of(each);
    (0..packets.len()).filter(arrives).for_each(|at| assembler.take(&packets[at], FROM, 0));
    assert_eq!(assembler.flush().expect("the first frame").missing_before, 0);
    assert_eq!(assembler.flush().expect("the third frame").missing_before, 1);
    let counts = assembler.counts();
    assert_eq!((counts.frames, counts.missing_frames, counts.scrap_frames), (2, 1, 1));
}

#[test]
fn without_memory_packets_are_counted() {
    let format = format(false);
    let (_, packets) = packets(&format, 4, 200, (1, 90));
    let mut assembler = Assembler::new(format, PAYLOAD_TYPE, 2, 0);
    packets.iter().for_each(|packet| assembler.take(packet, FROM, 0));
    assert_eq!(assembler.counts().no_memory as usize, packets.len() / 2);
    let frame = assembler.flush().expect("a frame");
    assembler.give_back(frame.bytes);
    assembler.take(&packets[packets.len() - 1], FROM, 0);
    assert_eq!(assembler.counts().no_memory as usize, packets.len() / 2);
}

proptest! {
    #[test]
    fn in_any_order_with_loss_and_doubles_every_byte_that_came_is_in_its_place(
        is_interlaced in any::<bool>(),
        packet_bytes in 30..300_usize,
        first in any::<(u32, u32)>(),
        fates in prop::collection::vec((0..10_u8, 0..6_usize), 20..60),
        burst in 1..7_usize,
    ) {
        let format = format(is_interlaced);
        let (pictures, packets) = packets(&format, 4, packet_bytes, first);
        // Some packets are lost, some arrive twice, and each arrives up to a few places late.
        let mut order: Vec<(usize, usize)> = Vec::new();
        for at in 0..packets.len() {
            let (fate, delay) = fates[at % fates.len()];
            let delay = if fate > 5 { delay } else { 0 };
            if fate != 0 || at == 0 {
                order.push((at + delay, at));
            }
            if fate == 1 {
                order.push((at + delay + 3, at));
            }
        }
        order.sort();
        let mut came = vec![vec![false; format.frame_bytes()]; 4];
        let plain = Layout::new(&format, packet_bytes, 77).expect("fits");
        let each = packets.len() / 4;
        let mut assembler = Assembler::new(format, PAYLOAD_TYPE, 8, 0);
        for chunk in order.chunks(burst) {
            let burst: Vec<_> = chunk.iter().map(|(_, at)| packets[*at].as_slice()).collect();
            arrive(&mut assembler, &burst, 0);
            for (_, at) in chunk {
                came[at / each][plain.packets()[at % each].data.clone()].fill(true);
            }
        }
        let mut seen = 0;
        while let Some(frame) = assembler.flush() {
            let index = (0..4).find(|index| first.1.wrapping_add(format.ticks(*index, 0) as u32) == frame.timestamp);
            let index = index.expect("a frame that was sent") as usize;
            let mut holes = vec![true; format.frame_bytes()];
            frame.holes.iter().for_each(|hole| holes[hole.clone()].fill(false));
            prop_assert_eq!(&holes, &came[index]);
            for at in (0..holes.len()).filter(|at| holes[*at]) {
                prop_assert_eq!(frame.bytes[at], pictures[index][at]);
            }
            seen += 1;
        }
        prop_assert_eq!(seen, came.iter().filter(|frame| frame.contains(&true)).count());
        let sent: std::collections::BTreeSet<_> = order.iter().map(|(_, at)| at).collect();
        prop_assert_eq!(assembler.counts().duplicates as usize, order.len() - sent.len());
    }
}
