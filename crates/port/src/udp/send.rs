//! From frames to messages: a run of datagrams of one size to one peer is one message, many
//! messages are one system call.

use std::net::IpAddr;
use std::os::fd::AsFd;

use convoy_packet::Frame;

use super::endpoint::Endpoint;
use super::header::{UdpHead, head};
use crate::sys::{Control, Name, OutgoingMessage, Sender};

/// Segments that every kernel takes in one message.
const SEGMENTS: usize = 64;
/// Bytes of a message, below the largest IP packet with its headers.
const MESSAGE_BYTES: usize = 65_000;
/// Messages in one system call.
const MESSAGES: usize = 64;

/// Messages that one socket can send in one call.
pub(super) struct UdpSends {
    messages: Vec<OutgoingMessage>,
    sender: Sender,
    /// Index of the endpoint.
    pub(super) endpoint: usize,
    /// The headers of the first message.
    pub(super) first: Option<UdpHead>,
}

/// The limits of a message.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// The port's MTU in bytes. The kernel refuses to segment into packets longer than that.
    pub(super) mtu: usize,
    /// Up to this frame, each is a message of its own.
    pub(super) single_until: usize,
}

impl UdpSends {
    pub(super) fn new() -> Self {
        let messages = Vec::with_capacity(MESSAGES);
        Self { messages, sender: Sender::default(), endpoint: 0, first: None }
    }

    /// Plans which of the frames from `at` on leave in one call; `false` if the first of them
    /// cannot leave by this port at all.
    pub(super) fn lay_out(
        &mut self,
        endpoints: &[Endpoint],
        burst: &[Frame],
        at: usize,
        bounds: Bounds,
    ) -> bool {
        self.messages.clear();
        self.first = None;
        let mut next = at;
        while next < burst.len() && self.messages.len() < MESSAGES {
            let Some(head) = head(&burst[next]) else { break };
            let Some(index) = endpoint_for(endpoints, &head) else { break };
            match self.first {
                None => (self.first, self.endpoint) = (Some(head), index),
                // DF is the socket's, not the message's.
                Some(first) if index != self.endpoint || head.dont_fragment != first.dont_fragment => break,
                Some(_) => {}
            }
            let endpoint = &endpoints[index];
            let may_join = endpoint.can_segment && next >= bounds.single_until;
            let count = if may_join { run_len(&burst[next..], head, bounds.mtu) } else { 1 };
            let segment = (count > 1).then(|| burst[next].len() - head.len);
            self.messages.push(OutgoingMessage {
                frames: next..next + count,
                skip: head.len,
                to: Name::from(head.peer),
                control: control(&head, endpoint.is_any(), segment),
            });
            next += count;
        }
        !self.messages.is_empty()
    }

    /// Sends the planned messages and returns the index of the first frame that did not leave. An
    /// error concerns the first message.
    pub(super) fn send(&mut self, endpoint: &Endpoint, burst: &[Frame]) -> std::io::Result<usize> {
        let sent = self.sender.send(endpoint.socket.as_fd(), burst, &self.messages)?;
        Ok(sent.checked_sub(1).map_or(self.first_frames().start, |last| self.messages[last].frames.end))
    }

    /// Plans the first message alone.
    pub(super) fn keep_first(&mut self) {
        self.messages.truncate(1);
    }

    /// The frames of the first message.
    pub(super) fn first_frames(&self) -> std::ops::Range<usize> {
        self.messages.first().map_or(0..0, |message| message.frames.clone())
    }
}

/// The socket of the packet's own source; if none has its port, any of its address.
fn endpoint_for(endpoints: &[Endpoint], head: &UdpHead) -> Option<usize> {
    let of_address = |endpoint: &Endpoint| endpoint.sends_from(head.source);
    let of_port = |endpoint: &Endpoint| endpoint.local.port() == head.source_port;
    let own = endpoints.iter().position(|endpoint| of_address(endpoint) && of_port(endpoint));
    own.or_else(|| endpoints.iter().position(of_address))
}

/// The number of frames, from the front, that form one run: equal headers and length, only the last
/// may be shorter.
fn run_len(burst: &[Frame], first: UdpHead, mtu: usize) -> usize {
    let len = burst[0].len();
    // An empty datagram is no segment: it would vanish in a run.
    if len > mtu || len == first.len {
        return 1;
    }
    let most = SEGMENTS.min(MESSAGE_BYTES / len).max(1);
    let mut count = 1;
    for frame in burst.iter().take(most).skip(1) {
        let fits = (first.len + 1..=len).contains(&frame.len()) && head(frame) == Some(first);
        if !fits {
            break;
        }
        count += 1;
        if frame.len() < len {
            break;
        }
    }
    count
}

fn control(head: &UdpHead, names_source: bool, segment: Option<usize>) -> Control {
    let mut control = Control::EMPTY;
    let class = i32::from(head.traffic_class).to_ne_bytes();
    match head.source {
        IpAddr::V4(source) => {
            control.push(libc::IPPROTO_IP, libc::IP_TOS, &class);
            if names_source {
                // The interface's index (any), the source, and a field that is for receiving.
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&source.octets());
                control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
        }
        IpAddr::V6(source) => {
            control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class);
            if names_source {
                // The source and the interface's index (any).
                let mut info = [0; 20];
                info[..16].copy_from_slice(&source.octets());
                control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
    }
    if let Some(segment) = segment {
        control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &(segment as u16).to_ne_bytes());
    }
    control
}
