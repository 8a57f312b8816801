//! ICMP and ICMPv6 errors: those that the gateway sends inside (RFC 792, 1191, 1812, 4443), and
//! "too big" from outside about its own packets (RFC 4301 section 8.2.1).

pub(crate) mod quote;
pub(crate) mod rate_limit;

use std::net::IpAddr;

use convoy_packet::icmp::{self, HEADER_BYTES, v4, v6};
use convoy_packet::protocol::{AH, ESP, ICMP, ICMP_V6, UDP};
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Ah, Esp, Frame, FramePool, FrameSize, Icmp, IpHeader, Layout, checksum};

use crate::ip::flow::address_number;

/// The longest ICMPv4 error, in bytes, IP header included (RFC 1812 section 4.3.2.3).
const V4_ERROR_BYTES: usize = 576;
/// The longest ICMPv6 error (RFC 4443 section 2.4): IPv6's least MTU.
const V6_ERROR_BYTES: usize = 1280;
/// The traffic class of a gateway's own errors: internetwork control (RFC 1812 section 4.3.2.5).
const V4_TRAFFIC_CLASS: u8 = 0xc0;
/// Assumed path MTUs where ICMP gives no number (RFC 1191 section 7).
const PLATEAUS: [u16; 7] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006];

/// The kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IcmpError {
    /// The packet exceeds this MTU, in bytes, and may not be fragmented.
    TooBig(u16),
    /// Its TTL or hop limit ran out.
    TimeExceeded,
}

/// An error about `packet`, from `source` to the packet's sender; `None` if none may be sent, or no
/// frame is free.
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
    let (limit, protocol, traffic_class) =
        if layout.is_v6 { (V6_ERROR_BYTES, ICMP_V6, 0) } else { (V4_ERROR_BYTES, ICMP, V4_TRAFFIC_CLASS) };
    let (sender, _) = layout.addresses(packet);
    let header = IpHeader { traffic_class, ..IpHeader::new(protocol, source, sender) };
    let at = header.header_len();
    let quoted = layout.total_len.min(limit - at - HEADER_BYTES);
    let mut frame = pool.take(FrameSize::Small)?;
    if frame.append(at + HEADER_BYTES + quoted).is_err() {
        pool.give_back(frame);
        return None;
    }
    frame.set_received_ns(0);
    frame[at + HEADER_BYTES..].copy_from_slice(&packet[..quoted]);
    header.write(&mut frame);
    write_message(&mut frame, at, error, layout.is_v6);
    Some(frame)
}

/// No errors about errors, about later fragments, or from or to anything but a single host (RFC
/// 1122 section 3.2.2, RFC 4443 section 2.4).
fn may_answer(packet: &[u8], layout: &Layout) -> bool {
    let (source, destination) = layout.addresses(packet);
    let kind = layout.body(packet).first().copied();
    let is_error = match layout.protocol {
        ICMP => kind.is_none_or(v4::is_error),
        ICMP_V6 => kind.is_none_or(v6::is_error),
        _ => false,
    };
    let is_host = |address: IpAddr| {
        let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
        !(address.is_multicast() || address.is_unspecified() || broadcast)
    };
    let is_later = layout.fragment.is_some_and(|fields| fields.offset != 0);
    !is_error && !is_later && is_host(source) && is_host(destination) && !source.is_loopback()
}

/// Writes the ICMP header at `at`, between the IP header and the quote.
fn write_message(packet: &mut [u8], at: usize, error: IcmpError, is_v6: bool) {
    let (kind, code, mtu) = match (error, is_v6) {
        (IcmpError::TooBig(mtu), false) => (v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED, mtu),
        (IcmpError::TooBig(mtu), true) => (v6::PACKET_TOO_BIG, 0, mtu),
        (IcmpError::TimeExceeded, false) => (v4::TIME_EXCEEDED, 0, 0),
        (IcmpError::TimeExceeded, true) => (v6::TIME_EXCEEDED, 0, 0),
    };
    let len = packet.len() - at;
    let pseudo = if is_v6 { checksum::pseudo_header(packet, ICMP_V6, len) } else { 0 };
    icmp::write(&mut packet[at..], kind, code, mtu.into(), pseudo);
}

/// "Too big" from a router outside, about a packet that claims to be ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooBigReport {
    /// The MTU reported, in bytes.
    pub(crate) mtu: u16,
    /// Source of the quoted packet, as a number: our own address.
    pub(crate) source: u128,
    /// Its destination: the peer.
    pub(crate) destination: u128,
    pub(crate) is_v6: bool,
    pub(crate) is_ah: bool,
    pub(crate) is_udp: bool,
    pub(crate) spi: u32,
    /// The lower half of its sequence number, if quoted.
    pub(crate) sequence: Option<u32>,
}

/// Parses `packet` as "too big" about ESP, ESP in UDP or AH; `None` if it is anything else, cut
/// short, or its checksum is wrong.
pub(crate) fn parse_too_big(packet: &[u8], layout: &Layout) -> Option<TooBigReport> {
    let body = layout.body(packet);
    let message = Icmp::parse(body).ok()?;
    let (said, pseudo) = match layout.protocol {
        ICMP if !layout.is_v6 => (message.fragmentation_needed_mtu()?.into(), 0),
        ICMP_V6 if layout.is_v6 => {
            (message.packet_too_big_mtu()?, checksum::pseudo_header(packet, ICMP_V6, body.len()))
        }
        _ => return None,
    };
    if layout.fragment.is_some() || !message.is_checksum_valid(pseudo) {
        return None;
    }
    parse_quoted(said, message.body())
}

/// Parses the packet that a router quotes and reports as longer than `said` bytes.
fn parse_quoted(said: u32, quoted: &[u8]) -> Option<TooBigReport> {
    let layout = Layout::parse_quoted(quoted).ok()?;
    let body = quoted.get(layout.payload..)?;
    let esp = |body| Esp::parse(body).ok().map(|header| (header.spi(), Some(header.sequence_number())));
    let (spi, sequence) = match layout.protocol {
        ESP => esp(body)?,
        UDP => esp(body.get(UDP_HEADER..)?)?,
        AH => Ah::quoted(body)?,
        _ => return None,
    };
    let (source, destination) = layout.address_numbers(quoted);
    let mtu = match u16::try_from(said).unwrap_or(u16::MAX) {
        0 => PLATEAUS.into_iter().find(|plateau| usize::from(*plateau) < layout.total_len).unwrap_or(576),
        mtu => mtu,
    };
    Some(TooBigReport {
        mtu,
        source,
        destination,
        is_v6: layout.is_v6,
        is_ah: layout.protocol == AH,
        is_udp: layout.protocol == UDP,
        spi,
        sequence,
    })
}

impl TooBigReport {
    /// Whether the quoted packet went from `local` to `remote`.
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
        let ends: [IpAddr; 2] = if is_v6 {
            [[1; 16].into(), [2; 16].into()]
        } else {
            [[10, 1, 0, 1].into(), [10, 2, 0, 1].into()]
        };
        let header = IpHeader::new(protocol, ends[0], ends[1]);
        let mut packet = [&vec![0; header.header_len()], body].concat();
        header.write(&mut packet);
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
        let mut unspecified = packet(true, UDP, &[0; 64]);
        unspecified[8..24].fill(0);
        assert!(!about(&unspecified));
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
            if let Some((_, quoted)) = icmp.split_at_checked(8) {
                parse_quoted(0, quoted);
            }
        }
    }
}
