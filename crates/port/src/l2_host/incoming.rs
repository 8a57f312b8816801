//! The kind of a frame from the line. Pure.

use std::net::Ipv4Addr;

use convoy_packet::arp::{self, Arp};
use convoy_packet::ipv4::{self, Ipv4Header};
use convoy_packet::{Ethernet, Icmp, Ipv4, MacAddress, ethernet, icmp, protocol};

use super::identity::{Identity, Takes};

/// Routers that an answer may pass.
const TIME_TO_LIVE: u8 = 64;

/// What to do with a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming<'a> {
    /// ARP: an answer or a request.
    Arp(Arp),
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
pub(crate) enum Dropped {
    /// It is for another host on the link, or for a group.
    OtherHost,
    /// Neither IPv4 nor ARP.
    OtherProtocol,
    /// A packet to an address that is not the port's.
    OtherAddress,
    /// Truncated, with a wrong checksum, or invalid ARP.
    Malformed,
}

impl<'a> Incoming<'a> {
    /// Parses a frame, from whose packet a device may have removed up to `most_missing` bytes at
    /// the end.
    pub(crate) fn read(frame: &'a [u8], most_missing: usize, identity: &Identity) -> Self {
        let Ok(frame) = Ethernet::parse(frame) else { return Self::Dropped(Dropped::Malformed) };
        let is_ours = frame.destination() == identity.mac;
        if frame.source().is_multicast() {
            return Self::Dropped(Dropped::Malformed);
        }
        if !is_ours && frame.destination() != MacAddress::BROADCAST {
            return Self::Dropped(Dropped::OtherHost);
        }
        match frame.ethertype() {
            ethernet::ARP => match Arp::parse(frame.payload()) {
                Ok(Some(message)) if message.sender_mac == frame.source() => Self::Arp(message),
                _ => Self::Dropped(Dropped::Malformed),
            },
            ethernet::IPV4 if is_ours => Self::packet(&frame, most_missing, identity),
            ethernet::IPV4 => Self::Dropped(Dropped::OtherHost),
            _ => Self::Dropped(Dropped::OtherProtocol),
        }
    }

    fn packet(frame: &Ethernet<'a>, most_missing: usize, identity: &Identity) -> Self {
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
        let is_own = identity.has(packet.destination());
        if !is_own && (identity.takes == Takes::Own || !identity.may_answer(packet.destination())) {
            return Self::Dropped(Dropped::OtherAddress);
        }
        if is_own && is_echo(there) && most_missing == 0 && identity.may_answer(packet.source()) {
            return Self::Echo(frame.source(), there);
        }
        Self::Packet(there, missing)
    }
}

fn is_echo(packet: &[u8]) -> bool {
    let Ok(packet) = Ipv4::parse(packet) else { return false };
    packet.protocol() == protocol::ICMP
        && packet.fragment().is_none()
        && Icmp::parse(packet.payload()).is_ok_and(|message| {
            message.message_type() == icmp::v4::ECHO && message.code() == 0 && message.is_checksum_valid(0)
        })
}

/// The answer to an echo request (RFC 1122 section 3.2.2.6).
pub(crate) fn echo_reply(request: &[u8]) -> Option<Vec<u8>> {
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

/// The answer to an ARP request for an address of this port, and its receiver.
pub(super) fn arp_reply(request: &Arp, identity: &Identity) -> Option<(MacAddress, Arp)> {
    let is_asked = request.operation == arp::Operation::Request && identity.has(request.target);
    is_asked.then(|| {
        let reply = Arp {
            operation: arp::Operation::Reply,
            sender_mac: identity.mac,
            sender: request.target,
            target_mac: request.sender_mac,
            target: request.sender,
        };
        (request.sender_mac, reply)
    })
}

/// A request for an address, from one that is on the same link.
pub(super) fn arp_request(address: Ipv4Addr, source: Ipv4Addr, identity: &Identity) -> Arp {
    Arp {
        operation: arp::Operation::Request,
        sender_mac: identity.mac,
        sender: source,
        target_mac: MacAddress([0; 6]),
        target: address,
    }
}

#[cfg(test)]
mod tests;
