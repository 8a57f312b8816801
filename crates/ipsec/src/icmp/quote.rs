//! The packet quoted by an ICMP error: it decides whether errors inside tunnels are admitted, and
//! by which SA they go (RFC 4301 section 6.2).

use convoy_packet::icmp::{v4, v6};
use convoy_packet::protocol::{ICMP, ICMP_V6};
use convoy_packet::{Icmp, Layout};

use crate::ip::flow::FlowKey;

/// What an ICMP error says about the packet that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quote {
    /// The flow of the quoted packet as sent; `None` if its IP headers are incomplete.
    flow: Option<FlowKey>,
    /// Whether the error may go where answers to the quoted packet go.
    may_follow: bool,
}

impl Quote {
    /// Parses the quote of `packet` with `layout`; `None` if it is no ICMP error, or a later
    /// fragment of one.
    pub(crate) fn of(packet: &[u8], layout: &Layout) -> Option<Self> {
        let is_later = layout.fragment.is_some_and(|fields| fields.offset != 0);
        if is_later || !is_icmp(layout) {
            return None;
        }
        let message = Icmp::parse(layout.body(packet)).ok()?;
        let kind = message.message_type();
        // ICMPv6's other errors have no known format, and its redirects quote by an option.
        let is_error = if layout.is_v6 { is_followed(kind, true) } else { v4::is_error(kind) };
        if !is_error {
            return None;
        }
        let flow = FlowKey::of_quoted(message.body()).filter(|flow| flow.is_v6() == layout.is_v6);
        let (_, receiver) = layout.address_numbers(packet);
        let is_whole = layout.fragment.is_none_or(|fields| !fields.is_piece());
        let is_to_sender = flow.is_some_and(|flow| flow.source == receiver);
        Some(Self { flow, may_follow: is_whole && is_to_sender && is_followed(kind, layout.is_v6) })
    }

    /// The flow of the quoted packet as sent, if its IP headers are complete.
    pub(crate) const fn flow(&self) -> Option<&FlowKey> {
        self.flow.as_ref()
    }

    /// The flow of the quoted packet, if the error may follow its answers although its own header
    /// does not lead there: it is whole, of a type that senders need, and addressed to the quoted
    /// packet's sender.
    pub(crate) fn followed(&self) -> Option<&FlowKey> {
        self.flow().filter(|_| self.may_follow)
    }
}

/// Whether the packet is ICMP over IPv4 or ICMPv6 over IPv6.
pub(crate) const fn is_icmp(layout: &Layout) -> bool {
    layout.protocol == if layout.is_v6 { ICMP_V6 } else { ICMP }
}

/// Unreachable with the path's MTU, time exceeded, parameter problem: errors about a packet's path,
/// on which its sender's transport and traceroute depend.
const fn is_followed(kind: u8, is_v6: bool) -> bool {
    if is_v6 {
        matches!(kind, v6::UNREACHABLE | v6::PACKET_TOO_BIG | v6::TIME_EXCEEDED | v6::PARAMETER_PROBLEM)
    } else {
        matches!(kind, v4::UNREACHABLE | v4::TIME_EXCEEDED | v4::PARAMETER_PROBLEM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_packet::protocol::TCP;
    use convoy_packet::{Fragment, IpHeader, checksum, icmp, ipv4};
    use proptest::prelude::*;
    use std::net::IpAddr;

    fn ends(is_v6: bool) -> [IpAddr; 2] {
        let texts = if is_v6 { ["2001:db8:1::5", "2001:db8:2::9"] } else { ["10.1.0.5", "10.2.0.9"] };
        texts.map(|text| text.parse().expect(text))
    }

    fn packet(protocol: u8, source: IpAddr, destination: IpAddr, body: &[u8]) -> Vec<u8> {
        let header = IpHeader::new(protocol, source, destination);
        let mut packet = [&vec![0; header.header_len()], body].concat();
        header.write(&mut packet);
        packet
    }

    /// An error of `kind` to `receiver` about a quoted packet.
    fn error(kind: u8, receiver: IpAddr, quoted: &[u8]) -> Vec<u8> {
        let (router, protocol): (IpAddr, u8) =
            if receiver.is_ipv6() { ([9; 16].into(), ICMP_V6) } else { ([172, 16, 0, 1].into(), ICMP) };
        let mut bytes = packet(protocol, router, receiver, &[&[0; 8], quoted].concat());
        let at = bytes.len() - quoted.len() - 8;
        let pseudo = if at == 40 { checksum::pseudo_header(&bytes, ICMP_V6, quoted.len() + 8) } else { 0 };
        icmp::write(&mut bytes[at..], kind, 0, 0, pseudo);
        bytes
    }

    fn quote(bytes: &[u8]) -> Option<Quote> {
        Quote::of(bytes, &Layout::parse(bytes).expect("well-formed"))
    }

    #[test]
    fn the_flow_of_the_packet_in_question_is_read_as_it_was_sent() {
        for (is_v6, kind) in [(false, v4::TIME_EXCEEDED), (true, v6::PACKET_TOO_BIG)] {
            let [us, them] = ends(is_v6);
            let sent = packet(TCP, us, them, &[0x9c, 0x40, 0x01, 0xbb, 0, 0, 0, 0, 1, 2, 3]);
            let flow = FlowKey::new(us, them, TCP, Some((40_000, 443)));
            let cut = &sent[..sent.len() - 3];
            for quoted in [&sent[..], cut] {
                let found = quote(&error(kind, us, quoted)).expect("an error");
                assert_eq!((found.flow(), found.followed()), (Some(&flow), Some(&flow)));
            }
            let without_ports = quote(&error(kind, us, &sent[..sent.len() - 9])).expect("an error");
            assert_eq!(
                without_ports.flow().map(|flow| (flow.destination(), flow.ports())),
                Some((them, None))
            );
        }
    }

    #[test]
    fn only_errors_quote_and_only_those_about_a_packets_way_are_followed() {
        let kinds = |is_v6: bool, test: fn(&Quote) -> bool| -> Vec<u8> {
            let [us, them] = ends(is_v6);
            let sent = packet(TCP, us, them, &[0; 8]);
            (0..=255)
                .filter(|kind| quote(&error(*kind, us, &sent)).is_some_and(|quote| test(&quote)))
                .collect()
        };
        assert_eq!(kinds(false, |_| true), [3, 4, 5, 11, 12]);
        assert_eq!(kinds(false, |quote| quote.followed().is_some()), [3, 11, 12]);
        assert_eq!(kinds(true, |quote| quote.followed().is_some()), [1, 2, 3, 4]);
        assert_eq!(kinds(true, |_| true), [1, 2, 3, 4]);
    }

    #[test]
    fn an_error_for_another_than_the_packets_sender_or_in_pieces_is_not_followed() {
        let [us, them] = ends(false);
        let sent = packet(TCP, us, them, &[0; 8]);
        let elsewhere = quote(&error(v4::UNREACHABLE, [10, 1, 0, 77].into(), &sent)).expect("an error");
        assert!(elsewhere.flow().is_some() && elsewhere.followed().is_none());
        let mut piece = error(v4::UNREACHABLE, us, &sent);
        ipv4::set_fragment(&mut piece, Fragment { identification: 1, offset: 0, more: true });
        assert!(quote(&piece).expect("its first fragment has it all").followed().is_none());
        ipv4::set_fragment(&mut piece, Fragment { identification: 1, offset: 1_480, more: false });
        assert_eq!(quote(&piece), None);
    }

    #[test]
    fn a_quote_of_less_than_the_headers_or_of_the_other_family_has_no_flow() {
        let [us, them] = ends(false);
        let sent = packet(TCP, us, them, &[0; 8]);
        for quoted in [&sent[..19], &[], &packet(TCP, ends(true)[0], ends(true)[1], &[0; 8])] {
            assert_eq!(quote(&error(v4::UNREACHABLE, us, quoted)).map(|quote| quote.flow), Some(None));
        }
    }

    proptest! {
        #[test]
        fn any_quoted_bytes_are_a_flow_or_none(
            is_v6: bool,
            mut quoted in proptest::collection::vec(any::<u8>(), 0..120),
            version in prop_oneof![Just(0x45u8), Just(0x4f), Just(0x60), any::<u8>()],
            next in prop_oneof![Just(0u8), Just(43), Just(44), Just(60), any::<u8>()],
        ) {
            if let Some(first) = quoted.first_mut() { *first = version; }
            if let Some(byte) = quoted.get_mut(6) { *byte = next; }
            let bytes = error(3, ends(is_v6)[0], &quoted);
            prop_assert!(quote(&bytes).is_some());
        }
    }
}
