//! Neighbour discovery (RFC 4861) on Ethernet: solicitations and advertisements, as whole IPv6
//! packets.

use std::net::Ipv6Addr;

use crate::ethernet::MacAddress;
use crate::field::{put_u16, u128_at};
use crate::ipv6::{HEADER_BYTES, Ipv6Header};
use crate::protocol::ICMP_V6;
use crate::{Icmp, Ipv6, checksum};

/// The hop limit of a message that no router has passed on (section 7.1).
const ON_LINK: u8 = 255;
/// Types of messages; those of routers and redirects are between them.
const ROUTER_SOLICITATION: u8 = 133;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;
/// Types of options: the hardware address of the sender, or of the target.
const SOURCE_ADDRESS: u8 = 1;
const TARGET_ADDRESS: u8 = 2;
/// Length of a message without options, in bytes, and of an option with a hardware address.
const FIXED_BYTES: usize = 24;
const OPTION_BYTES: usize = 8;
/// Flags of an advertisement.
const IS_ROUTER: u8 = 0x80;
const IS_SOLICITED: u8 = 0x40;
const OVERRIDES: u8 = 0x20;
/// Length of a packet as written, in bytes.
pub const NDP_BYTES: usize = HEADER_BYTES + FIXED_BYTES + OPTION_BYTES;
/// All nodes on the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// What a message asks or says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpKind {
    /// Who has the target address?
    Solicitation,
    /// The sender has it.
    Advertisement {
        /// Whether the sender is a router.
        is_router: bool,
        /// Whether it answers a solicitation.
        is_solicited: bool,
        /// Whether it replaces another hardware address that is known.
        overrides: bool,
    },
}

/// A message, read or to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ndp {
    /// What it is.
    pub kind: NdpKind,
    /// The source of the packet; unspecified while the sender asks whether its own address is
    /// taken.
    pub source: Ipv6Addr,
    /// The destination of the packet.
    pub destination: Ipv6Addr,
    /// The address that is asked for, or reported.
    pub target: Ipv6Addr,
    /// The hardware address in its option: the sender's, or the target's.
    pub mac: Option<MacAddress>,
}

/// Whether a packet is a message of neighbour discovery, valid or not, or of router discovery.
pub fn is_ndp(packet: &Ipv6<'_>) -> bool {
    let kind = packet.payload().first();
    packet.next_header() == ICMP_V6
        && kind.is_some_and(|kind| (ROUTER_SOLICITATION..=REDIRECT).contains(kind))
}

/// Whether such a packet is of router discovery, or a redirect.
pub fn is_of_routers(packet: &Ipv6<'_>) -> bool {
    is_ndp(packet) && !matches!(packet.payload().first(), Some(&(SOLICITATION | ADVERTISEMENT)))
}

/// The group of those who may have an address (RFC 4291 section 2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | high & 0xff, low)
}

/// The Ethernet address of a group (RFC 2464 section 7).
pub fn group_mac(group: Ipv6Addr) -> MacAddress {
    let [.., a, b, c, d] = group.octets();
    MacAddress([0x33, 0x33, a, b, c, d])
}

impl Ndp {
    /// Reads a solicitation or an advertisement. `None` of anything else, and of those that a host
    /// must ignore (sections 7.1.1 and 7.1.2): from beyond the link, with a wrong checksum, or that
    /// contradict themselves.
    pub fn parse(packet: &Ipv6<'_>) -> Option<Self> {
        let message = packet.payload();
        let icmp = Icmp::parse(message).ok()?;
        let pseudo = checksum::pseudo_header(packet.as_bytes(), ICMP_V6, message.len());
        let is_valid = packet.next_header() == ICMP_V6
            && packet.hop_limit() == ON_LINK
            && icmp.code() == 0
            && message.len() >= FIXED_BYTES
            && icmp.is_checksum_valid(pseudo);
        if !is_valid {
            return None;
        }
        let (source, destination) = (packet.source(), packet.destination());
        let target = Ipv6Addr::from(u128_at(message, 8));
        let flags = message[4];
        let (kind, wanted) = match icmp.message_type() {
            SOLICITATION => (NdpKind::Solicitation, SOURCE_ADDRESS),
            ADVERTISEMENT => {
                let (is_router, overrides) = (flags & IS_ROUTER != 0, flags & OVERRIDES != 0);
                let is_solicited = flags & IS_SOLICITED != 0;
                (NdpKind::Advertisement { is_router, is_solicited, overrides }, TARGET_ADDRESS)
            }
            _ => return None,
        };
        let mac = hardware_address(&message[FIXED_BYTES..], wanted)?;
        let contradicts = match kind {
            NdpKind::Solicitation => {
                source.is_unspecified() && (mac.is_some() || destination != solicited_node(target))
            }
            NdpKind::Advertisement { is_solicited, .. } => {
                source.is_unspecified() || is_solicited && destination.is_multicast()
            }
        };
        let is_usable = !target.is_multicast() && !source.is_multicast() && !contradicts;
        is_usable.then_some(Self { kind, source, destination, target, mac })
    }

    /// The whole packet, with the option if there is a hardware address.
    pub fn to_packet(&self) -> Vec<u8> {
        let option_bytes = if self.mac.is_some() { OPTION_BYTES } else { 0 };
        let mut packet = vec![0; HEADER_BYTES + FIXED_BYTES + option_bytes];
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: 0,
            payload_length: (FIXED_BYTES + option_bytes) as u16,
            next_header: ICMP_V6,
            hop_limit: ON_LINK,
            source: self.source,
            destination: self.destination,
        };
        header.write(&mut packet);
        let (kind, flags, option) = match self.kind {
            NdpKind::Solicitation => (SOLICITATION, 0, SOURCE_ADDRESS),
            NdpKind::Advertisement { is_router, is_solicited, overrides } => {
                let flag = |is_set, flag| if is_set { flag } else { 0 };
                let flags = flag(is_router, IS_ROUTER)
                    | flag(is_solicited, IS_SOLICITED)
                    | flag(overrides, OVERRIDES);
                (ADVERTISEMENT, flags, TARGET_ADDRESS)
            }
        };
        let message = &mut packet[HEADER_BYTES..];
        (message[0], message[4]) = (kind, flags);
        message[8..FIXED_BYTES].copy_from_slice(&self.target.octets());
        if let Some(MacAddress(mac)) = self.mac {
            message[FIXED_BYTES..FIXED_BYTES + 2].copy_from_slice(&[option, 1]);
            message[FIXED_BYTES + 2..].copy_from_slice(&mac);
        }
        let pseudo = checksum::pseudo_header(&packet, ICMP_V6, FIXED_BYTES + option_bytes);
        let sum = checksum::of(&packet[HEADER_BYTES..], pseudo);
        put_u16(&mut packet[HEADER_BYTES..], 2, sum);
        packet
    }
}

/// The hardware address in the first option of this type, if there is one. The outer `None` is of
/// malformed options: one without length, or cut short.
fn hardware_address(mut options: &[u8], wanted: u8) -> Option<Option<MacAddress>> {
    let mut found = None;
    while let [kind, eighths, ..] = *options {
        let len = usize::from(eighths) * 8;
        if len == 0 || len > options.len() {
            return None;
        }
        if kind == wanted && len == OPTION_BYTES && found.is_none() {
            found = Some(MacAddress::at(options, 2));
        }
        options = &options[len..];
    }
    options.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x12, 0x3456);
    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

    fn solicitation() -> Ndp {
        Ndp {
            kind: NdpKind::Solicitation,
            source: A,
            destination: solicited_node(B),
            target: B,
            mac: Some(MAC),
        }
    }

    fn advertisement() -> Ndp {
        let kind = NdpKind::Advertisement { is_router: true, is_solicited: true, overrides: false };
        Ndp { kind, source: B, destination: A, target: B, mac: Some(MAC) }
    }

    fn parse(packet: &[u8]) -> Option<Ndp> {
        Ndp::parse(&Ipv6::parse(packet).expect("whole"))
    }

    /// Changes a message's bytes, and its checksum with them.
    fn changed(message: &Ndp, change: impl FnOnce(&mut Vec<u8>)) -> Option<Ndp> {
        let mut packet = message.to_packet();
        change(&mut packet);
        let len = packet.len() - HEADER_BYTES;
        put_u16(&mut packet, 4, len as u16);
        put_u16(&mut packet, HEADER_BYTES + 2, 0);
        let pseudo = checksum::pseudo_header(&packet, ICMP_V6, len);
        let sum = checksum::of(&packet[HEADER_BYTES..], pseudo);
        put_u16(&mut packet, HEADER_BYTES + 2, sum);
        parse(&packet)
    }

    #[test]
    fn a_solicitation_is_written_as_rfc_4861_has_it() {
        let packet = solicitation().to_packet();
        assert_eq!(packet.len(), NDP_BYTES);
        assert_eq!((packet[6], packet[7]), (58, 255));
        assert_eq!(solicited_node(B).to_string(), "ff02::1:ff12:3456");
        assert_eq!(group_mac(solicited_node(B)).to_string(), "33:33:ff:12:34:56");
        assert_eq!(packet[40..42], [135, 0]);
        assert_eq!(packet[48..64], B.octets());
        assert_eq!(packet[64..], [1, 1, 2, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let probe = Ndp { source: Ipv6Addr::UNSPECIFIED, mac: None, ..solicitation() };
        let unasked = Ndp {
            kind: NdpKind::Advertisement { is_router: false, is_solicited: false, overrides: true },
            destination: ALL_NODES,
            ..advertisement()
        };
        for message in [solicitation(), advertisement(), probe, unasked] {
            assert_eq!(parse(&message.to_packet()), Some(message));
            assert!(is_ndp(&Ipv6::parse(&message.to_packet()).expect("whole")));
        }
    }

    #[test]
    fn what_a_router_has_passed_on_or_the_line_has_damaged_is_ignored() {
        for message in [solicitation(), advertisement()] {
            let mut packet = message.to_packet();
            packet[7] = 254;
            assert_eq!(parse(&packet), None, "the checksum does not cover the hop limit");
            for at in 40..packet.len() {
                let mut packet = message.to_packet();
                packet[at] ^= 4;
                assert_eq!(parse(&packet), None, "byte {at}");
            }
            assert_eq!(changed(&message, |packet| packet[41] = 1), None, "a code");
            assert_eq!(changed(&message, |packet| packet[40] = 134), None, "of routers");
            assert_eq!(changed(&message, |packet| packet.truncate(63)), None, "no whole target");
            assert_eq!(changed(&message, |packet| packet[65] = 0), None, "an option without length");
            assert_eq!(changed(&message, |packet| packet[65] = 2), None, "an option cut short");
            assert_eq!(changed(&message, |packet| packet.push(0)), None, "an option cut short");
            assert_eq!(changed(&message, |packet| packet[48] = 0xff), None, "a group as target");
        }
    }

    #[test]
    fn messages_that_contradict_themselves_are_ignored() {
        let probe = Ndp { source: Ipv6Addr::UNSPECIFIED, mac: None, ..solicitation() };
        for message in [
            Ndp { mac: Some(MAC), ..probe },
            Ndp { destination: ALL_NODES, ..probe },
            Ndp { destination: ALL_NODES, ..advertisement() },
            Ndp { source: Ipv6Addr::UNSPECIFIED, ..advertisement() },
            Ndp { source: ALL_NODES, ..solicitation() },
        ] {
            assert_eq!(parse(&message.to_packet()), None, "{message:?}");
        }
    }

    #[test]
    fn other_options_are_skipped() {
        let nonce = [14, 1, 1, 2, 3, 4, 5, 6];
        let behind = changed(&solicitation(), |packet| packet.extend(nonce));
        let before = changed(&solicitation(), |packet| drop(packet.splice(64..64, nonce)));
        assert_eq!((behind, before), (Some(solicitation()), Some(solicitation())));
        let of_other = changed(&solicitation(), |packet| packet[64] = 2);
        assert_eq!(of_other, Some(Ndp { mac: None, ..solicitation() }));
    }

    proptest! {
        #[test]
        fn any_bytes_give_what_is_written_back_or_nothing(
            bytes in proptest::collection::vec(any::<u8>(), 0..60), is_solicitation: bool,
        ) {
            let message = if is_solicitation { solicitation() } else { advertisement() };
            let read = changed(&message, |packet| {
                let keeps = packet.len().min(44 + bytes.len() % 24);
                packet.truncate(keeps);
                packet.extend(&bytes);
            });
            if let Some(read) = read {
                prop_assert_eq!(parse(&read.to_packet()), Some(read));
            }
        }
    }
}
