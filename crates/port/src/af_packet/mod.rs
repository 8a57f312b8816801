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

mod interface;
mod open;
mod receive;
mod send;
mod settings;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use convoy_kernel::Prefix;
use convoy_packet::{Frame, FramePool};
use socket2::Socket;

use crate::link::Link;
use crate::super_packet::Joins;
use crate::sys::{OFFLOAD_HEADER_BYTES, take_lost};
use crate::{Port, PortCounters, PortDescription, PortError, Unsent};
use interface::AfPacketInterface;
use receive::AfPacketReceiver;
use send::BurstSender;
pub use settings::AfPacketSettings;

/// Bytes before each packet at a socket: the offload header and the Ethernet header.
const BEFORE_PACKET: usize = OFFLOAD_HEADER_BYTES + convoy_packet::ethernet::HEADER_BYTES;

/// One queue of an `af_packet` port.
pub(crate) struct AfPacket {
    link: Link,
    /// `None` while the interface is missing.
    socket: Option<Socket>,
    receiver: AfPacketReceiver,
    sending: BurstSender,
    /// Frames lost for lack of room at the socket, which reports each once.
    lost: Cell<u64>,
    at: Arc<AfPacketInterface>,
    queue: usize,
}

impl AfPacket {
    fn new(
        link: Link,
        socket: Option<Socket>,
        joins: Joins,
        at: Arc<AfPacketInterface>,
        queue: usize,
    ) -> Self {
        let sending = BurstSender::new(joins);
        Self { link, socket, receiver: AfPacketReceiver::new(), sending, lost: Cell::new(0), at, queue }
    }

    fn lost(&self) -> u64 {
        let more = self.socket.as_ref().map_or(0, |socket| take_lost(socket.as_fd()));
        self.lost.set(self.lost.get() + more);
        self.lost.get()
    }

    /// Receives once all was handed out. Returns whether there may be more.
    fn fill(&mut self) -> Result<bool, PortError> {
        let Some(socket) = &self.socket else { return Ok(false) };
        self.link.counters.system_calls += 1;
        let filled = self.receiver.fill(socket.as_fd());
        filled.map_err(|source| self.link.description.failed("receive", source))
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
            if !self.fill()? {
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
        let sent = sending.send(link, socket.as_ref().map(AsFd::as_fd), pool, burst);
        sent.map_err(|source| self.link.description.failed("send", source))?;
        Ok(before - burst.len())
    }

    fn tick(&mut self, _pool: &mut FramePool) -> Result<(), PortError> {
        if let Some((number, socket)) = self.at.fresh.take(self.queue) {
            self.lost();
            self.socket = Some(socket);
            // One that has vanished meanwhile is missing still.
            let _ = self.link.use_interface(&self.at.config, number);
        }
        Ok(())
    }

    fn lacks_interface(&self) -> bool {
        self.link.lacks_interface()
    }

    fn take_path_mtu(&mut self) -> Option<(IpAddr, u16)> {
        self.link.path_mtus.take()
    }

    fn take_unsent(&mut self, unsent: &mut Vec<Unsent>) {
        self.link.unsent.take(unsent);
    }

    fn readable_fds(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(self.socket.iter().map(AsFd::as_fd).chain(self.link.readable_fds()).collect())
    }

    fn set_networks(&mut self, networks: &BTreeSet<Prefix>) -> io::Result<()> {
        self.at.networks.set(networks)
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
