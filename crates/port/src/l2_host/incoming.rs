//! The kind of a frame from the line. Pure.

use std::net::IpAddr;

use convoy_packet::arp::Arp;
use convoy_packet::ipv4::{self, Ipv4Header};
use convoy_packet::ipv6::{self, Ipv6Header};
use convoy_packet::{
    Ethernet, Icmp, Ipv4, Ipv6, MacAddress, Ndp, checksum, ethernet, icmp, ip, ndp, protocol,
};

use super::discovery::{Discovery, OwnFrame};
use super::identity::{HostIdentity, PortTakes, is_link_local};

/// Routers that an answer may pass.
const TIME_TO_LIVE: u8 = 64;

/// What to do with a frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// ARP or neighbour discovery: an answer or a request.
    Discovery(Discovery),
    /// An echo request, and its sender.
    Echo(MacAddress, &'a [u8]),
    /// A packet for the gateway, and the number of bytes missing at its end: an ICV's, if a device
    /// has removed it.
    Packet(&'a [u8], usize),
    /// Not for this port.
    Dropped(Dropped),
}

/// Why a frame is not for a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It is for another host on the link, or for a group.
    OtherHost,
    /// Neither ARP nor IP of a family of which the port has an address, or discovery of routers.
    OtherProtocol,
    /// A packet to an address that is not the port's.
    OtherAddress,
    /// Truncated, with a wrong checksum, or invalid ARP or neighbour discovery.
    Malformed,
}

impl<'a> Incoming<'a> {
    /// Parses a frame, from whose packet a device may have removed up to `most_missing` bytes at
    /// the end.
    pub fn read(frame: &'a [u8], most_missing: usize, identity: &HostIdentity) -> Self {
        let Ok(frame) = Ethernet::parse(frame) else { return Self::Dropped(Dropped::Malformed) };
        let is_ours = frame.destination() == identity.mac;
        if frame.source().is_multicast() {
            return Self::Dropped(Dropped::Malformed);
        }
        let is_to_group = identity.is_in_group(frame.destination());
        if !is_ours && !is_to_group && frame.destination() != MacAddress::BROADCAST {
            return Self::Dropped(Dropped::OtherHost);
        }
        match frame.ethertype() {
            ethernet::ARP => match Arp::parse(frame.payload()) {
                Ok(Some(message)) if message.sender_mac == frame.source() => {
                    Self::Discovery(Discovery::Arp(message))
                }
                _ => Self::Dropped(Dropped::Malformed),
            },
            ethernet::IPV4 if is_ours => Self::packet_v4(&frame, most_missing, identity),
            ethernet::IPV4 => Self::Dropped(Dropped::OtherHost),
            ethernet::IPV6 if identity.has_v6() => Self::packet_v6(&frame, is_ours, most_missing, identity),
            _ => Self::Dropped(Dropped::OtherProtocol),
        }
    }

    fn packet_v4(frame: &Ethernet<'a>, most_missing: usize, identity: &HostIdentity) -> Self {
        let Ok(packet) = Ipv4::parse_quoted(frame.payload()) else {
            return Self::Dropped(Dropped::Malformed);
        };
        let total = usize::from(packet.total_length());
        let there = packet.as_bytes().get(..total).unwrap_or(packet.as_bytes());
        let missing = total - there.len();
        let is_whole = total >= packet.header_len() && missing <= most_missing;
        if !is_whole || !packet.is_checksum_valid() {
            return Self::Dropped(Dropped::Malformed);
        }
        let addressed = AddressedFrame {
            from: frame.source(),
            packet: there,
            missing,
            source: packet.source().into(),
            destination: packet.destination().into(),
            is_echo_request: most_missing == 0 && is_echo_v4(there),
        };
        addressed.sorted(identity)
    }

    /// A packet to a group can only be discovery.
    fn packet_v6(frame: &Ethernet<'a>, is_ours: bool, most_missing: usize, identity: &HostIdentity) -> Self {
        let Ok(quoted) = Ipv6::parse_quoted(frame.payload()) else {
            return Self::Dropped(Dropped::Malformed);
        };
        let total = ipv6::HEADER_BYTES + usize::from(quoted.payload_length());
        let missing = total.saturating_sub(frame.payload().len());
        if missing > 0 && missing <= most_missing {
            let there = frame.payload();
            return if is_ours {
                let addressed = AddressedFrame {
                    from: frame.source(),
                    packet: there,
                    missing,
                    source: quoted.source().into(),
                    destination: quoted.destination().into(),
                    is_echo_request: false,
                };
                addressed.sorted(identity)
            } else {
                Self::Dropped(Dropped::OtherHost)
            };
        }
        let Ok(packet) = Ipv6::parse(frame.payload()) else {
            return Self::Dropped(Dropped::Malformed);
        };
        if ndp::is_ndp(&packet) && packet.hop_limit() == u8::MAX {
            return match (Ndp::parse(&packet), ndp::is_of_routers(&packet)) {
                (Some(message), _) => Self::Discovery(Discovery::Ndp(message, frame.source())),
                (None, true) => Self::Dropped(Dropped::OtherProtocol),
                (None, false) => Self::Dropped(Dropped::Malformed),
            };
        }
        if !is_ours {
            return Self::Dropped(Dropped::OtherHost);
        }
        let addressed = AddressedFrame {
            from: frame.source(),
            packet: packet.as_bytes(),
            missing: 0,
            source: packet.source().into(),
            destination: packet.destination().into(),
            is_echo_request: is_echo_v6(&packet),
        };
        addressed.sorted(identity)
    }
}

/// A packet that came to this host's MAC address, without its `missing` bytes.
struct AddressedFrame<'a> {
    from: MacAddress,
    packet: &'a [u8],
    missing: usize,
    source: IpAddr,
    destination: IpAddr,
    is_echo_request: bool,
}

impl<'a> AddressedFrame<'a> {
    /// What becomes of it, by its addresses.
    fn sorted(self, identity: &HostIdentity) -> Incoming<'a> {
        let Self { source, destination, .. } = self;
        let is_own = identity.has(destination);
        // What is of one link does not go on to another (RFC 4291 section 2.5.6).
        let goes_on = identity.takes == PortTakes::All
            && identity.may_answer(destination)
            && !is_link_local(destination)
            && !is_link_local(source);
        if !is_own && !goes_on {
            return Incoming::Dropped(Dropped::OtherAddress);
        }
        if is_own && self.is_echo_request && identity.may_answer(source) {
            return Incoming::Echo(self.from, self.packet);
        }
        Incoming::Packet(self.packet, self.missing)
    }
}

fn is_echo_v6(packet: &Ipv6<'_>) -> bool {
    let message = packet.payload();
    packet.next_header() == protocol::ICMP_V6
        && Icmp::parse(message).is_ok_and(|icmp| {
            let pseudo = checksum::pseudo_header(packet.as_bytes(), protocol::ICMP_V6, message.len());
            icmp.message_type() == icmp::v6::ECHO && icmp.code() == 0 && icmp.is_checksum_valid(pseudo)
        })
}

fn is_echo_v4(packet: &[u8]) -> bool {
    let Ok(packet) = Ipv4::parse(packet) else { return false };
    packet.protocol() == protocol::ICMP
        && packet.fragment().is_none()
        && Icmp::parse(packet.payload()).is_ok_and(|message| {
            message.message_type() == icmp::v4::ECHO && message.code() == 0 && message.is_checksum_valid(0)
        })
}

/// The answer to an echo request (RFC 1122 section 3.2.2.6, RFC 4443 section 4.2) from this
/// neighbour.
pub fn echo_reply(to: MacAddress, request: &[u8]) -> Option<OwnFrame> {
    let (ethertype, bytes) = if ip::is_v6(request) {
        (ethernet::IPV6, echo_reply_v6(request)?)
    } else {
        (ethernet::IPV4, echo_reply_v4(request)?)
    };
    Some(OwnFrame { to, ethertype, bytes })
}

fn echo_reply_v6(request: &[u8]) -> Option<Vec<u8>> {
    let request = Ipv6::parse(request).ok()?;
    let message = Icmp::parse(request.payload()).ok()?;
    let mut reply = vec![0; ipv6::HEADER_BYTES];
    reply.extend_from_slice(request.payload());
    Ipv6Header {
        traffic_class: request.traffic_class(),
        flow_label: 0,
        payload_length: request.payload_length(),
        next_header: protocol::ICMP_V6,
        hop_limit: TIME_TO_LIVE,
        source: request.destination(),
        destination: request.source(),
    }
    .write(&mut reply);
    let pseudo = checksum::pseudo_header(&reply, protocol::ICMP_V6, request.payload().len());
    let body = &mut reply[ipv6::HEADER_BYTES..];
    icmp::write(body, icmp::v6::ECHO_REPLY, 0, message.rest_of_header(), pseudo);
    Some(reply)
}

fn echo_reply_v4(request: &[u8]) -> Option<Vec<u8>> {
    let request = Ipv4::parse(request).ok()?;
    let message = Icmp::parse(request.payload()).ok()?;
    let mut reply = vec![0; ipv4::HEADER_BYTES];
    reply.extend_from_slice(request.payload());
    let (header, body) = reply.split_at_mut(ipv4::HEADER_BYTES);
    icmp::write(body, icmp::v4::ECHO_REPLY, 0, message.rest_of_header(), 0);
    Ipv4Header {
        traffic_class: request.traffic_class(),
        total_length: u16::try_from(ipv4::HEADER_BYTES + body.len()).ok()?,
        identification: request.identification(),
        dont_fragment: request.dont_fragment(),
        time_to_live: TIME_TO_LIVE,
        protocol: protocol::ICMP,
        source: request.destination(),
        destination: request.source(),
    }
    .write(header);
    Some(reply)
}

#[cfg(test)]
mod tests;
