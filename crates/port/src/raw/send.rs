//! From frames to messages: each packet is one, and those of one socket leave in one system call.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use convoy_packet::protocol::FRAGMENT;
use convoy_packet::{Frame, Ipv4, Ipv6, ipv6};

use super::socket::RawSocket;
use crate::fragments::FragmentEnds;
use crate::sys::{Control, Name, OutgoingMessage, Sender};

/// Messages in one system call.
const MESSAGES: usize = 64;

/// How the first frames of a burst leave.
pub(super) enum SendPath {
    /// The planned messages leave by the socket at this index.
    Socket(usize),
    /// The first is an IPv6 fragment, which leaves with its header.
    Fragment(FragmentEnds),
    /// The first cannot leave by this port at all.
    None,
}

/// Messages that one socket can send in one call.
pub(super) struct RawSends {
    messages: Vec<OutgoingMessage>,
    sender: Sender,
}

impl RawSends {
    pub(super) fn new() -> Self {
        Self { messages: Vec::with_capacity(MESSAGES), sender: Sender::default() }
    }

    /// Plans which of the frames from `at` on leave in one call.
    pub(super) fn lay_out(&mut self, endpoints: &[RawSocket], burst: &[Frame], at: usize) -> SendPath {
        self.messages.clear();
        let mut way = SendPath::None;
        for (index, frame) in burst.iter().enumerate().skip(at).take(MESSAGES) {
            let Some(head) = RawHead::of(frame) else { break };
            let is_first = self.messages.is_empty();
            let own = |endpoint: &RawSocket| endpoint.local == head.ends.source;
            if head.protocol == FRAGMENT {
                if is_first && endpoints.iter().any(own) {
                    way = SendPath::Fragment(head.ends);
                }
                break;
            }
            let sends = |endpoint: &RawSocket| own(endpoint) && endpoint.protocol == head.protocol;
            match way {
                SendPath::Socket(socket) if sends(&endpoints[socket]) => {}
                SendPath::None if is_first => match endpoints.iter().position(sends) {
                    Some(socket) => way = SendPath::Socket(socket),
                    None => break,
                },
                _ => break,
            }
            self.messages.push(head.message(index));
        }
        way
    }

    /// Sends the planned messages; returns how many left. An error concerns the first.
    pub(super) fn send(&mut self, socket: &RawSocket, burst: &[Frame]) -> io::Result<usize> {
        self.sender.send(socket.as_fd(), burst, &self.messages)
    }

    /// Plans the first packet alone.
    pub(super) fn keep_first(&mut self) {
        self.messages.truncate(1);
    }
}

/// The fields of a packet's header that are passed on.
#[derive(Clone, Copy)]
pub(super) struct RawHead {
    pub(super) ends: FragmentEnds,
    protocol: u8,
    /// The start of the part that is sent, and the traffic class that goes beside.
    start: usize,
    class: Option<u8>,
}

impl RawHead {
    /// That of an IP packet.
    pub(super) fn of(packet: &[u8]) -> Option<Self> {
        if let Ok(ip) = Ipv6::parse(packet) {
            let ends = FragmentEnds { source: ip.source().into(), destination: ip.destination().into() };
            let (protocol, class) = (ip.next_header(), Some(ip.traffic_class()));
            return Some(Self { ends, protocol, start: ipv6::HEADER_BYTES, class });
        }
        let ip = Ipv4::parse(packet).ok()?;
        let ends = FragmentEnds { source: ip.source().into(), destination: ip.destination().into() };
        Some(Self { ends, protocol: ip.protocol(), start: 0, class: None })
    }

    fn message(self, frame: usize) -> OutgoingMessage {
        let mut control = Control::EMPTY;
        if let (IpAddr::V6(_), Some(class)) = (self.ends.source, self.class) {
            control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &i32::from(class).to_ne_bytes());
        }
        let to = Name::from(SocketAddr::new(self.ends.destination, 0));
        OutgoingMessage { frames: frame..frame + 1, skip: self.start, to, control }
    }
}
