//! From the kernel's messages to frames.
//!
//! Over IPv4 the kernel hands out whole packets. Over IPv6 it withholds the header, so that is
//! rebuilt from the ancillary data.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsFd;

use convoy_packet::{Frame, FramePool, IpHeader, ipv6};

use super::socket::RawSocket;
use crate::PortCounters;
use crate::sys::{MessageRoom, ReceivedMessage, number};

/// Room for any packet, in bytes.
const PACKET_BYTES: usize = 65_535;

/// Packets received in one call and not handed out yet.
pub(crate) struct RawReceiver {
    incoming: MessageRoom,
    messages: usize,
    /// The address of the socket.
    local: IpAddr,
    protocol: u8,
    /// Messages from `next` to `count` wait.
    next: usize,
    count: usize,
}

impl RawReceiver {
    /// Room for `messages` packets a call.
    pub(crate) fn new(messages: usize) -> Self {
        let (incoming, local) = (MessageRoom::new(messages, PACKET_BYTES), Ipv6Addr::UNSPECIFIED.into());
        Self { incoming, messages, local, protocol: 0, next: 0, count: 0 }
    }

    /// Receives from a socket once all was handed out. Returns whether the socket may have more.
    ///
    /// # Errors
    /// The system's, unless it only concerns an earlier packet.
    pub(crate) fn fill(&mut self, socket: &RawSocket, counters: &mut PortCounters) -> io::Result<bool> {
        debug_assert!(self.next >= self.count, "what waits is not written over");
        (self.next, self.count) = (0, 0);
        (self.local, self.protocol) = (socket.local, socket.protocol);
        counters.system_calls += 1;
        match self.incoming.receive(socket.as_fd()) {
            Ok(count) => {
                self.count = count;
                Ok(count == self.messages)
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN) => Ok(false),
                // Interrupted, or an ICMP error about an earlier packet; nothing was lost here.
                Some(libc::EINTR | libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::EPROTO) => Ok(true),
                _ => Err(error),
            },
        }
    }

    /// Whether received packets wait to be handed out.
    pub(crate) fn has_waiting(&self) -> bool {
        self.next < self.count
    }

    /// Hands out received packets, up to `limit` frames in `burst`; `false` if frames or room ran
    /// out first.
    pub(crate) fn hand_out(
        &mut self,
        counters: &mut PortCounters,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> bool {
        while self.next < self.count {
            let Some(message) = self.incoming.message(self.next) else { break };
            if burst.len() >= limit {
                return false;
            }
            match pool.size_for(message.bytes.len(), 0) {
                None => counters.receive_dropped += 1,
                Some(size) => {
                    let Some(mut frame) = pool.take(size) else { return false };
                    if copy(&message, &mut frame, self.local, self.protocol).is_some() {
                        counters.count_received(frame.len());
                        burst.push(frame);
                    } else {
                        counters.receive_dropped += 1;
                        pool.give_back(frame);
                    }
                }
            }
            self.next += 1;
        }
        true
    }
}

/// Fills a frame with a packet of `protocol` to `local`; `None` if it is truncated, or the kernel
/// does not name its sender.
fn copy(message: &ReceivedMessage<'_>, frame: &mut Frame, local: IpAddr, protocol: u8) -> Option<()> {
    if message.is_cut {
        return None;
    }
    frame.fill(message.bytes).ok()?;
    if local.is_ipv4() {
        return Some(());
    }
    let source = message.from?.ip();
    let (mut class, mut destination) = (0, local);
    for (level, kind, value) in message.control.values() {
        match (level, kind) {
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => class = number(value)? as u8,
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                destination = IpAddr::from(*value.first_chunk::<16>()?);
            }
            _ => {}
        }
    }
    frame.prepend(ipv6::HEADER_BYTES).ok()?;
    IpHeader { traffic_class: class, ..IpHeader::new(protocol, source, destination) }.write(frame);
    Some(())
}
