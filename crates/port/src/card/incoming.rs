//! What a frame from the line is. Pure.

use std::net::Ipv4Addr;

use convoy_packet::arp::{self, Arp};
use convoy_packet::ipv4::{self, Ipv4Header};
use convoy_packet::{Ethernet, Icmp, Ipv4, MacAddress, ethernet, icmp, protocol};

use super::identity::Identity;

/// The longest ICV of the card's algorithms, in bytes.
const LONGEST_ICV: usize = 32;
/// Routers that an answer may pass.
const TIME_TO_LIVE: u8 = 64;

/// What is to be done with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming<'a> {
    /// Somebody tells where its address is, and may want to know ours.
    Arp(Arp),
    /// A request for an echo, and who sent it.
    Echo(MacAddress, &'a [u8]),
    /// A packet for the gateway, and how many bytes its ICV had: those of an opened packet are missing at its end.
    Packet(&'a [u8], usize),
    /// Nothing for this port.
    NotOurs,
}

impl<'a> Incoming<'a> {
    /// Reads a frame; `is_opened` if the card has taken its ICV.
    pub(super) fn read(frame: &'a [u8], is_opened: bool, identity: &Identity) -> Self {
        let Ok(frame) = Ethernet::parse(frame) else { return Self::NotOurs };
        let is_ours = frame.destination() == identity.mac;
        if frame.source().is_multicast() || !is_ours && frame.destination() != MacAddress::BROADCAST {
            return Self::NotOurs;
        }
        match frame.ethertype() {
            ethernet::ARP => match Arp::parse(frame.payload()) {
                Ok(Some(message)) if message.sender_mac == frame.source() => Self::Arp(message),
                _ => Self::NotOurs,
            },
            ethernet::IPV4 if is_ours => Self::packet(&frame, is_opened, identity),
            _ => Self::NotOurs,
        }
    }

    fn packet(frame: &Ethernet<'a>, is_opened: bool, identity: &Identity) -> Self {
        let Ok(packet) = Ipv4::parse_quoted(frame.payload()) else { return Self::NotOurs };
        let total = usize::from(packet.total_length());
        let there = packet.as_bytes().get(..total).unwrap_or(packet.as_bytes());
        let missing = total - there.len();
        let most = if is_opened { LONGEST_ICV } else { 0 };
        let is_whole = total >= packet.header_len() && missing <= most;
        if !is_whole || !packet.is_checksum_valid() || !identity.has(packet.destination()) {
            return Self::NotOurs;
        }
        if is_echo(there) && !is_opened && identity.may_answer(packet.source()) {
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

/// The answer to a request for an echo (RFC 1122 section 3.2.2.6).
pub(super) fn echo_reply(request: &[u8]) -> Option<Vec<u8>> {
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

/// The answer to an ARP request for an address of this port, and whom it is for.
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
