//! The `Port` trait and what it reports.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use convoy_packet::{Frame, FramePool};

use crate::{PortKind, Prefix, Unsent};

/// What a port says of itself.
#[derive(Clone, Debug)]
pub struct PortDescription {
    /// As configured, for example `inside`.
    pub name: String,
    /// Its kind.
    pub kind: PortKind,
    /// The largest IP packet that it sends whole, in bytes.
    pub mtu: usize,
}

impl PortDescription {
    /// The system refused the port something.
    pub(crate) fn failed(&self, action: &str, source: std::io::Error) -> PortError {
        PortError::Io { port: self.name.clone(), action: action.to_owned(), source }
    }
}

/// What a port has counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets handed out by `receive`.
    pub received_packets: u64,
    /// Their bytes, IP header included.
    pub received_bytes: u64,
    /// Packets that left.
    pub sent_packets: u64,
    /// Their bytes, IP header included.
    pub sent_bytes: u64,
    /// Packets that arrived and could not be handed out: malformed, too long, or no frame was free.
    pub receive_dropped: u64,
    /// Packets that could not leave, other than for want of room: too long, no route.
    pub send_dropped: u64,
    /// System calls made, both ways.
    pub system_calls: u64,
}

impl PortCounters {
    #[inline]
    pub(crate) fn count_received(&mut self, bytes: usize) {
        self.received_packets += 1;
        self.received_bytes += bytes as u64;
    }

    #[inline]
    pub(crate) fn count_sent(&mut self, bytes: usize) {
        self.sent_packets += 1;
        self.sent_bytes += bytes as u64;
    }
}

/// Why a port failed as a whole. Single packets that fail are counted, not errors.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The system refused.
    #[error("port {port}: {action}: {source}")]
    Io {
        /// Its name.
        port: String,
        /// What was tried, for example `open /dev/net/tun`.
        action: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It was asked for something that it cannot be.
    #[error("port {port}: {reason}")]
    Invalid {
        /// Its name.
        port: String,
        /// Why, and what to do.
        reason: String,
    },
}

/// One queue of one port; a worker owns it. Nothing here waits.
pub trait Port: Send {
    /// What it is.
    fn description(&self) -> &PortDescription;

    /// Appends up to `limit` received packets to `burst`, in frames from `pool`, and returns how
    /// many. None at hand is 0. With no free frame, packets stay where they are or are counted as
    /// dropped.
    ///
    /// # Errors
    /// [`PortError`] if the port as a whole failed.
    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError>;

    /// Sends from the front of `burst` as much as there is room for, and gives those frames back to
    /// `pool` (or passes them on, as `memory` does). What has no room stays in `burst`, in order.
    ///
    /// # Errors
    /// [`PortError`] if the port as a whole failed.
    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError>;

    /// What time alone brings about, some ten times a second, whether or not anything is received
    /// or sent meanwhile: packets that the port keeps, for an answer or for room, go on or are
    /// given up. A worker stops reading while its pool is short of frames, so that what a port
    /// keeps must be bounded by a share of the pool, and come back without another call.
    ///
    /// # Errors
    /// [`PortError`] if the port as a whole failed.
    fn tick(&mut self, _pool: &mut FramePool) -> Result<(), PortError> {
        Ok(())
    }

    /// Whether its device seals frames that are tagged
    /// [`Offload::Seal`](convoy_packet::Offload::Seal) as they leave. Any other port must never be
    /// given one: it would send plaintext.
    fn seals(&self) -> bool {
        false
    }

    /// Whether nothing will ever be received again: a capture that was read to its end.
    fn is_ended(&self) -> bool {
        false
    }

    /// Takes one finding of the kind: packets with DF to this destination did not fit, and its
    /// path's MTU is so many bytes.
    fn take_path_mtu(&mut self) -> Option<(IpAddr, u16)> {
        None
    }

    /// Moves to `unsent` which packets the system refused to send since the last call, and why.
    /// They are among those [counted](PortCounters::send_dropped) as dropped.
    fn take_unsent(&mut self, _unsent: &mut Vec<Unsent>) {}

    /// The descriptors of which one becomes readable when `receive` has something new; they stay
    /// the same for as long as the port lives. `None` if it must be asked again and again. After a
    /// `receive` that brought less than the limit, only what comes later makes one readable, or
    /// what [waits](Self::has_waiting) is left.
    fn readable_fds(&self) -> Option<Vec<BorrowedFd<'_>>> {
        None
    }

    /// Has it take packets to these networks behind the tunnels from now on, if it is inside and is
    /// told which. Queues of one port share what they are told. It needs no privileges.
    ///
    /// # Errors
    /// What the system refused.
    fn set_networks(&mut self, _networks: &[Prefix]) -> std::io::Result<()> {
        Ok(())
    }

    /// Whether packets that it took from the system wait inside it, for frames or for room in a
    /// burst.
    fn has_waiting(&self) -> bool {
        false
    }

    /// Whether `receive` would bring packets, as far as that can be told without a system call:
    /// from a ring that the kernel fills.
    fn has_input(&self) -> bool {
        false
    }

    /// What it has counted.
    fn counters(&self) -> PortCounters;

    /// What its device has counted beside, each under its name: packets that a card has sealed, for
    /// example.
    fn device_counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
