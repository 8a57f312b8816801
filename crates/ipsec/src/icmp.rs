//! ICMP and ICMPv6 errors: those that the gateway sends inside (RFC 792, 1191, 1812, 4443), and "too big"
//! from outside about its own packets (RFC 4301 section 8.2.1).

use std::net::IpAddr;

use convoy_packet::{Frame, FramePool, FrameSize};

use crate::flow::{ICMP, ICMP_V6, address_number};
use crate::fragment::write_ipv4_checksum;
use crate::layout::{AH, ESP, IPV6_HEADER, Layout, UDP, be16, be32, ones_complement};

/// The longest ICMPv4 error, in bytes, IP header included (RFC 1812 section 4.3.2.3).
const V4_ERROR_BYTES: usize = 576;
/// The longest ICMPv6 error (RFC 4443 section 2.4): IPv6's least MTU.
const V6_ERROR_BYTES: usize = 1280;
const ICMP_HEADER: usize = 8;
/// MTUs that a path without a number in its ICMP is taken to have (RFC 1191 section 7).
const PLATEAUS: [u16; 7] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006];

/// What an error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IcmpError {
    /// The packet exceeds this MTU, in bytes, and may not be fragmented.
    TooBig(u16),
    /// Its TTL or hop limit ran out.
    TimeExceeded,
}

/// An error about `packet`, from `source` to the packet's sender; `None` if none may be sent about it, or
/// no frame is free.
pub(crate) fn build(
    error: IcmpError,
    packet: &[u8],
    layout: &Layout,
    source: IpAddr,
    pool: &mut FramePool,
) -> Option<Frame> {
    if source.is_ipv6() != layout.is_v6 || !may_answer(packet, layout) {
        return None;
    }
    let (header, limit) = if layout.is_v6 { (IPV6_HEADER, V6_ERROR_BYTES) } else { (20, V4_ERROR_BYTES) };
    let quoted = layout.total_len.min(limit - header - ICMP_HEADER);
    let mut frame = pool.take(FrameSize::Small)?;
    if frame.append(header + ICMP_HEADER + quoted).is_err() {
        pool.give_back(frame);
        return None;
    }
    frame.set_received_ns(0);
    frame[header + ICMP_HEADER..].copy_from_slice(&packet[..quoted]);
    write_icmp_header(&mut frame[header..], error, layout.is_v6);
    let (destination, _) = layout.addresses(packet);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let checksum = ones_complement(&frame[header..], 0);
            frame[header + 2..header + 4].copy_from_slice(&checksum.to_be_bytes());
            write_ipv4_header(&mut frame, source.octets(), destination.octets());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            write_ipv6_header(&mut frame, source.octets(), destination.octets());
            let initial = pseudo_header_sum(&frame);
            let checksum = ones_complement(&frame[header..], initial);
            frame[header + 2..header + 4].copy_from_slice(&checksum.to_be_bytes());
        }
        _ => {
            pool.give_back(frame);
            return None;
        }
    }
    Some(frame)
}

/// No errors about errors, later fragments, or from and to what is no single host (RFC 1122 section
/// 3.2.2, RFC 4443 section 2.4).
fn may_answer(packet: &[u8], layout: &Layout) -> bool {
    let (source, destination) = layout.addresses(packet);
    let kind = packet[layout.payload..layout.total_len].first().copied();
    let is_error = match layout.protocol {
        ICMP => kind.is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12)),
        ICMP_V6 => kind.is_none_or(|kind| kind < 128),
        _ => false,
    };
    let is_host = |address: IpAddr| {
        let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
        !(address.is_multicast() || address.is_unspecified() || broadcast)
    };
    let is_later = layout.fragment.is_some_and(|fields| fields.offset != 0);
    !is_error && !is_later && is_host(source) && is_host(destination) && !source.is_loopback()
}

fn write_icmp_header(icmp: &mut [u8], error: IcmpError, is_v6: bool) {
    let (kind, code) = match (error, is_v6) {
        (IcmpError::TooBig(_), false) => (3, 4),
        (IcmpError::TooBig(_), true) => (2, 0),
        (IcmpError::TimeExceeded, false) => (11, 0),
        (IcmpError::TimeExceeded, true) => (3, 0),
    };
    let mtu = match error {
        IcmpError::TooBig(mtu) => mtu,
        IcmpError::TimeExceeded => 0,
    };
    icmp[..4].copy_from_slice(&[kind, code, 0, 0]);
    icmp[4..8].copy_from_slice(&u32::from(mtu).to_be_bytes());
}

fn write_ipv4_header(packet: &mut [u8], source: [u8; 4], destination: [u8; 4]) {
    let len = packet.len() as u16;
    packet[..20].fill(0);
    // Internetwork control, as RFC 1812 section 4.3.2.5 asks.
    packet[..2].copy_from_slice(&[0x45, 0xc0]);
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet[8..10].copy_from_slice(&[64, ICMP]);
    packet[12..16].copy_from_slice(&source);
    packet[16..20].copy_from_slice(&destination);
    write_ipv4_checksum(&mut packet[..20]);
}

fn write_ipv6_header(packet: &mut [u8], source: [u8; 16], destination: [u8; 16]) {
    let len = (packet.len() - IPV6_HEADER) as u16;
    packet[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    packet[4..6].copy_from_slice(&len.to_be_bytes());
    packet[6..8].copy_from_slice(&[ICMP_V6, 64]);
    packet[8..24].copy_from_slice(&source);
    packet[24..40].copy_from_slice(&destination);
}

/// The pseudo-header's share of an ICMPv6 checksum.
fn pseudo_header_sum(packet: &[u8]) -> u32 {
    let words = packet[8..40].chunks_exact(2).map(|word| u32::from(be16(word, 0)));
    words.sum::<u32>() + (packet.len() - IPV6_HEADER) as u32 + u32::from(ICMP_V6)
}

/// "Too big" from a router outside, about a packet that claims to be ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooBigReport {
    /// What the router can pass, in bytes.
    pub(crate) mtu: u16,
    /// Source of the packet in question, as a number: our own address.
    pub(crate) source: u128,
    /// Its destination: the peer.
    pub(crate) destination: u128,
    pub(crate) is_v6: bool,
    pub(crate) is_ah: bool,
    pub(crate) is_udp: bool,
    pub(crate) spi: u32,
    /// The lower half of its sequence number, where the router quoted as much.
    pub(crate) sequence: Option<u32>,
}

/// Reads `packet` as "too big" about ESP, ESP in UDP or AH; `None` if it is anything else, cut short, or
/// its checksum is wrong.
pub(crate) fn parse_too_big(packet: &[u8], layout: &Layout) -> Option<TooBigReport> {
    let icmp = &packet[layout.payload..layout.total_len];
    let (head, quoted) = icmp.split_at_checked(ICMP_HEADER)?;
    let is_too_big = match (layout.protocol, head[0], head[1]) {
        (ICMP, 3, 4) => !layout.is_v6,
        (ICMP_V6, 2, _) => layout.is_v6,
        _ => false,
    };
    if !is_too_big || layout.fragment.is_some() {
        return None;
    }
    let (_, to) = layout.address_numbers(packet);
    let (from, _) = layout.address_numbers(packet);
    let initial = if layout.is_v6 {
        folded_address(from) + folded_address(to) + icmp.len() as u32 + u32::from(ICMP_V6)
    } else {
        0
    };
    if ones_complement(icmp, initial) != 0 {
        return None;
    }
    parse_quoted(head, quoted)
}

fn folded_address(number: u128) -> u32 {
    (0..8).map(|word| (number >> (16 * word)) as u32 & 0xffff).sum()
}

fn parse_quoted(head: &[u8], quoted: &[u8]) -> Option<TooBigReport> {
    let (layout, original_len) = quoted_layout(quoted)?;
    let body = quoted.get(layout.payload..)?;
    let (spi_at, is_ah, is_udp) = match layout.protocol {
        ESP => (0, false, false),
        AH => (4, true, false),
        UDP => (8, false, true),
        _ => return None,
    };
    let word = |at: usize| body.get(at..at + 4).map(|bytes| be32(bytes, 0));
    let (source, destination) = layout.address_numbers(quoted);
    let said = be32(head, 4);
    let mtu = match u16::try_from(said).unwrap_or(u16::MAX) {
        0 => PLATEAUS.into_iter().find(|plateau| usize::from(*plateau) < original_len).unwrap_or(576),
        mtu => mtu,
    };
    Some(TooBigReport {
        mtu,
        source,
        destination,
        is_v6: layout.is_v6,
        is_ah,
        is_udp,
        spi: word(spi_at)?,
        sequence: word(spi_at + 4),
    })
}

/// The layout of a quoted packet, which is cut short: its length field is made to fit a copy of its
/// headers. Also the length that it had.
fn quoted_layout(quoted: &[u8]) -> Option<(Layout, usize)> {
    const COPIED: usize = 128;
    let mut copy = [0u8; COPIED];
    let len = quoted.len().min(COPIED);
    copy[..len].copy_from_slice(&quoted[..len]);
    let original_len = match copy[0] >> 4 {
        4 => {
            let original = usize::from(be16(&copy, 2));
            copy[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            original
        }
        6 => {
            let original = usize::from(be16(&copy, 4)) + IPV6_HEADER;
            copy[4..6].copy_from_slice(&(len.checked_sub(IPV6_HEADER)? as u16).to_be_bytes());
            original
        }
        _ => return None,
    };
    Layout::parse(&copy[..len]).ok().map(|layout| (layout, original_len))
}

impl TooBigReport {
    /// Whether the packet in question went from `local` to `remote`.
    pub(crate) fn is_between(&self, local: IpAddr, remote: IpAddr) -> bool {
        remote.is_ipv6() == self.is_v6
            && local.is_ipv6() == self.is_v6
            && address_number(local) == self.source
            && address_number(remote) == self.destination
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(is_v6: bool, protocol: u8, body: &[u8]) -> Vec<u8> {
        let header = if is_v6 { 40 } else { 20 };
        let mut packet = vec![0u8; header];
        packet.extend_from_slice(body);
        if is_v6 {
            write_ipv6_header(&mut packet, [1; 16], [2; 16]);
            packet[6] = protocol;
        } else {
            write_ipv4_header(&mut packet, [10, 1, 0, 1], [10, 2, 0, 1]);
            packet[9] = protocol;
            write_ipv4_checksum(&mut packet[..20]);
        }
        packet
    }

    fn error_about(packet: &[u8], error: IcmpError) -> Option<Vec<u8>> {
        let mut pool = FramePool::new(1, 0);
        let layout = Layout::parse(packet).expect("well-formed");
        let source = if layout.is_v6 { IpAddr::from([9u8; 16]) } else { IpAddr::from([10, 1, 0, 254]) };
        let frame = build(error, packet, &layout, source, &mut pool);
        let bytes = frame.as_ref().map(|frame| frame.to_vec());
        frame.into_iter().for_each(|frame| pool.give_back(frame));
        assert_eq!(pool.available(FrameSize::Small), 1);
        bytes
    }

    #[test]
    fn a_report_about_our_esp_is_read_back_with_spi_sequence_and_mtu() {
        for is_v6 in [false, true] {
            for (protocol, prefix) in [(ESP, 0), (UDP, 8), (AH, 4)] {
                let mut body = vec![0u8; 1_400];
                body[prefix..prefix + 8].copy_from_slice(&[0, 0, 0x10, 1, 0, 0, 0, 7]);
                let original = packet(is_v6, protocol, &body);
                let error = error_about(&original, IcmpError::TooBig(1_300)).expect("may be answered");
                assert_eq!(error.len(), if is_v6 { 1_280 } else { 576 });
                let layout = Layout::parse(&error).expect("well-formed");
                let report = parse_too_big(&error, &layout).expect("a report");
                assert_eq!((report.mtu, report.spi, report.sequence), (1_300, 0x1001, Some(7)));
                assert_eq!((report.is_ah, report.is_udp), (protocol == AH, protocol == UDP));
                let (source, destination) =
                    Layout::parse(&original).expect("well-formed").addresses(&original);
                assert!(report.is_between(source, destination) && !report.is_between(destination, source));
                let mut forged = error.clone();
                *forged.last_mut().expect("not empty") ^= 1;
                assert_eq!(parse_too_big(&forged, &layout), None, "the checksum is checked");
            }
        }
    }

    #[test]
    fn a_router_that_names_no_mtu_is_taken_to_have_the_next_plateau() {
        let original = packet(false, ESP, &[0; 1_400]);
        let error = error_about(&original, IcmpError::TooBig(0)).expect("may be answered");
        let layout = Layout::parse(&error).expect("well-formed");
        assert_eq!(parse_too_big(&error, &layout).map(|report| report.mtu), Some(1_006));
    }

    #[test]
    fn no_error_answers_an_error_a_later_fragment_or_a_group() {
        let about = |bytes: &[u8]| error_about(bytes, IcmpError::TimeExceeded).is_some();
        assert!(about(&packet(false, ICMP, &[8; 8])) && about(&packet(true, ICMP_V6, &[128; 8])));
        assert!(!about(&packet(false, ICMP, &[3; 8])) && !about(&packet(true, ICMP_V6, &[1; 8])));
        assert!(!about(&packet(false, ICMP, &[])));
        let mut fragment = packet(false, UDP, &[0; 64]);
        fragment[7] = 1;
        assert!(!about(&fragment));
        let mut group = packet(false, UDP, &[0; 64]);
        group[16] = 224;
        assert!(!about(&group));
        let mut nobody = packet(true, UDP, &[0; 64]);
        nobody[8..24].fill(0);
        assert!(!about(&nobody));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_report_or_none(
            is_v6: bool,
            mut icmp in proptest::collection::vec(any::<u8>(), 0..120),
            version in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()],
        ) {
            let kind = if is_v6 { [2, 0] } else { [3, 4] };
            icmp.iter_mut().zip(kind).for_each(|(byte, kind)| *byte = kind);
            if let Some(first) = icmp.get_mut(8) { *first = version; }
            let bytes = packet(is_v6, if is_v6 { ICMP_V6 } else { ICMP }, &icmp);
            let layout = Layout::parse(&bytes).expect("well-formed");
            parse_too_big(&bytes, &layout);
            if let Some((head, quoted)) = icmp.split_at_checked(8) {
                parse_quoted(head, quoted);
            }
        }
    }
}
