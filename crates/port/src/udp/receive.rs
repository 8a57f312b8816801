//! From messages of the kernel to frames: one message is one datagram, or several of one size that
//! arrived together.

use std::net::{IpAddr, SocketAddr};

use convoy_packet::{Frame, FramePool};

use super::endpoint::Endpoint;
use super::header::{Arrival, Wrapper};
use crate::PortCounters;
use crate::sys::{Control, MessageRoom, ReceivedMessage, number};

/// Messages received at once.
const MESSAGES: usize = 32;
/// Room for the largest datagram, or for what the kernel coalesces into one.
const MESSAGE_BYTES: usize = 65_535;
/// The initial hop limit if the kernel does not report it.
const USUAL_HOPS: u8 = 64;

/// Received and not handed out yet.
pub(super) struct UdpReceiver {
    incoming: MessageRoom,
    /// The destination of what the socket receives.
    local: SocketAddr,
    /// Messages from `next` to `count` wait; of the first of them, bytes from `at` on.
    next: usize,
    count: usize,
    at: usize,
    /// The headers of the last message: most come from one peer.
    wrapper: Option<Wrapper>,
}

impl UdpReceiver {
    pub(super) fn new() -> Self {
        let local = SocketAddr::from(([0, 0, 0, 0], 0));
        Self {
            incoming: MessageRoom::new(MESSAGES, MESSAGE_BYTES),
            local,
            next: 0,
            count: 0,
            at: 0,
            wrapper: None,
        }
    }

    /// Receives from a socket once all was handed out. Returns whether the socket may have more.
    pub(super) fn fill(&mut self, endpoint: &Endpoint) -> std::io::Result<bool> {
        debug_assert!(self.next >= self.count, "what waits is not written over");
        (self.next, self.count, self.at) = (0, 0, 0);
        self.local = endpoint.arrives_at;
        self.count = self.incoming.receive(std::os::fd::AsFd::as_fd(&endpoint.socket))?;
        Ok(self.count == MESSAGES)
    }

    /// Whether received packets wait to be handed out.
    pub(super) fn has_waiting(&self) -> bool {
        self.next < self.count
    }

    /// Hands out received packets, up to `limit` frames in `burst`; `false` if frames or room ran
    /// out first.
    pub(super) fn hand_out(
        &mut self,
        counters: &mut PortCounters,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> bool {
        while self.next < self.count {
            let Some(message) = self.incoming.message(self.next) else { break };
            let described = describe(&message, self.local).and_then(|(arrival, segment)| {
                let last = self.wrapper.filter(|wrapper| wrapper.is_of(&arrival));
                Some((last.or_else(|| Wrapper::of(&arrival))?, segment))
            });
            let Some((wrapper, segment)) = described else {
                counters.receive_dropped += 1;
                self.next += 1;
                continue;
            };
            self.wrapper = Some(wrapper);
            loop {
                if burst.len() >= limit {
                    return false;
                }
                let end = (self.at + segment).min(message.bytes.len());
                let payload = &message.bytes[self.at..end];
                match pool.size_for(payload.len(), 0) {
                    None => counters.receive_dropped += 1,
                    Some(size) => {
                        let Some(frame) = pool.take(size) else { return false };
                        push(frame, payload, &wrapper, counters, pool, burst);
                    }
                }
                self.at = end;
                if end == message.bytes.len() {
                    break;
                }
            }
            self.at = 0;
            self.next += 1;
        }
        true
    }
}

fn push(
    mut frame: Frame,
    payload: &[u8],
    wrapper: &Wrapper,
    counters: &mut PortCounters,
    pool: &mut FramePool,
    burst: &mut Vec<Frame>,
) {
    if frame.fill(payload).is_ok() && wrapper.wrap(&mut frame).is_some() {
        counters.count_received(frame.len());
        burst.push(frame);
    } else {
        counters.receive_dropped += 1;
        pool.give_back(frame);
    }
}

/// Source and destination of a message, and the length of each datagram in it but the last, in
/// bytes. `None` if unknown or truncated.
fn describe(message: &ReceivedMessage<'_>, local: SocketAddr) -> Option<(Arrival, usize)> {
    if message.is_cut {
        return None;
    }
    let mut arrival = Arrival { from: message.from?, to: local, traffic_class: 0, hops: USUAL_HOPS };
    let segment = read_control(message.control, &mut arrival).filter(|segment| *segment > 0);
    Some((arrival, segment.unwrap_or(message.bytes.len().max(1))))
}

/// Reads what the kernel says beside a message; returns the segment size if it coalesced.
fn read_control(control: &Control, arrival: &mut Arrival) -> Option<usize> {
    let mut segment = None;
    for (level, kind, value) in control.values() {
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                arrival.traffic_class = number(value)? as u8;
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                arrival.hops = number(value)? as u8;
            }
            // The interface's index, the local address, and the destination in the header.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                arrival.to.set_ip(IpAddr::from(*value.get(8..)?.first_chunk::<4>()?));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                arrival.to.set_ip(IpAddr::from(*value.first_chunk::<16>()?));
            }
            (libc::SOL_UDP, libc::UDP_GRO) => segment = usize::try_from(number(value)?).ok(),
            _ => {}
        }
    }
    segment
}
