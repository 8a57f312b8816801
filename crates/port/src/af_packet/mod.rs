//! The `af_packet` port: an Ethernet interface of the kernel's through packet sockets, for
//! interfaces that `af_xdp` does not suit.
//!
//! A packet socket receives copies of frames, which the kernel's network stack gets all the same.
//! So one program runs twice to decide which frames are the gateway's ([`link`](crate::link)): at
//! the sockets, which receive only these, and at the interface's ingress behind the sockets, where
//! it drops them before the kernel forwards or answers them. Frames for which the sockets have no
//! room are lost, not forwarded.
//!
//! The kernel's own offloads apply: a super-packet that it has merged is cut here, checksums that
//! it left out are computed, and departing packets are merged (`super_packet/`).

mod open;
mod receive;
mod send;
mod settings;

use std::borrow::Cow;
use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use convoy_packet::{Frame, FramePool};
use socket2::Socket;

use crate::link::{Link, Networks};
use crate::super_packet::Joins;
use crate::sys::{OFFLOAD_HEADER_BYTES, take_lost};
use crate::{Port, PortCounters, PortDescription, PortError, Prefix, Unsent};
use receive::Receiver;
use send::Sending;
pub use settings::AfPacketSettings;

/// Bytes before each packet at a socket: the offload header and the Ethernet header.
const BEFORE_PACKET: usize = OFFLOAD_HEADER_BYTES + convoy_packet::ethernet::HEADER_BYTES;

/// What must live as long as a queue of the port.
struct Attachment {
    /// Keeps the program at the interface's ingress.
    _ingress: OwnedFd,
    networks: Networks,
}

/// One queue of an `af_packet` port.
pub(crate) struct AfPacket {
    link: Link,
    socket: Socket,
    receiver: Receiver,
    sending: Sending,
    /// Frames lost for lack of room at the socket, which reports each once.
    lost: Cell<u64>,
    attachment: Arc<Attachment>,
}

impl AfPacket {
    fn new(link: Link, socket: Socket, joins: Joins, attachment: Arc<Attachment>) -> Self {
        let sending = Sending::new(joins);
        Self { link, socket, receiver: Receiver::new(), sending, lost: Cell::new(0), attachment }
    }

    fn lost(&self) -> u64 {
        self.lost.set(self.lost.get() + take_lost(self.socket.as_fd()));
        self.lost.get()
    }
}

impl Port for AfPacket {
    fn description(&self) -> &PortDescription {
        &self.link.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let before = burst.len();
        let limit = before + limit;
        while self.receiver.hand_out(&mut self.link, pool, limit, burst) && burst.len() < limit {
            self.link.counters.system_calls += 1;
            let filled = self.receiver.fill(self.socket.as_fd());
            if !filled.map_err(|source| self.link.description.failed("receive", source))? {
                self.receiver.hand_out(&mut self.link, pool, limit, burst);
                break;
            }
        }
        let was_idle = burst.len() == before;
        self.link.look(was_idle, pool, limit, burst)?;
        Ok(burst.len() - before)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let before = burst.len();
        let Self { link, socket, sending, .. } = self;
        let sent = sending.send(link, socket.as_fd(), pool, burst);
        sent.map_err(|source| self.link.description.failed("send", source))?;
        Ok(before - burst.len())
    }

    fn take_path_mtu(&mut self) -> Option<(IpAddr, u16)> {
        self.link.path_mtus.take()
    }

    fn take_unsent(&mut self, unsent: &mut Vec<Unsent>) {
        self.link.unsent.take(unsent);
    }

    fn readable_fds(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(std::iter::once(self.socket.as_fd()).chain(self.link.readable_fds()).collect())
    }

    fn set_networks(&mut self, networks: &[Prefix]) -> io::Result<()> {
        self.attachment.networks.set(networks)
    }

    fn has_waiting(&self) -> bool {
        self.receiver.has_waiting() || self.link.has_waiting()
    }

    fn counters(&self) -> PortCounters {
        let counters = self.link.counters();
        PortCounters { receive_dropped: counters.receive_dropped + self.lost(), ..counters }
    }

    fn device_counters(&self) -> Vec<(Cow<'static, str>, u64)> {
        vec![("sent_by_kernel".into(), self.link.sent_by_kernel()), ("socket_full".into(), self.lost())]
    }
}
