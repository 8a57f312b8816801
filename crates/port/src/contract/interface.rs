//! The `Port` trait and its reports.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use convoy_kernel::Prefix;
use convoy_packet::{Frame, FramePool};

use super::kind::{PortKind, PortSettings};
use crate::unsent::Unsent;

/// A port's description of itself.
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
    /// The error of a port to which the system refused an action.
    pub(crate) fn failed(&self, action: &str, source: std::io::Error) -> PortError {
        PortError::Io { port: self.name.clone(), action: action.to_owned(), source }
    }
}

/// A port's counters since it was opened.
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
    /// Received packets that were dropped: malformed, too long, or no frame was free.
    pub receive_dropped: u64,
    /// Packets that could not be sent, other than for lack of room: too long, no route.
    pub send_dropped: u64,
    /// System calls made, both ways.
    pub system_calls: u64,
}

impl PortCounters {
    /// Counts a received packet of `bytes` bytes.
    #[inline]
    pub fn count_received(&mut self, bytes: usize) {
        self.received_packets += 1;
        self.received_bytes += bytes as u64;
    }

    /// Counts a sent packet of `bytes` bytes.
    #[inline]
    pub fn count_sent(&mut self, bytes: usize) {
        self.sent_packets += 1;
        self.sent_bytes += bytes as u64;
    }
}

/// Why a port failed as a whole. Failures of single packets are counted, not errors.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The system refused.
    #[error("port {port}: cannot {action}: {source}")]
    Io {
        /// Its name.
        port: String,
        /// The action, for example `open /dev/net/tun`.
        action: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Its configuration is impossible.
    #[error("port {port}: {reason}")]
    Invalid {
        /// Its name.
        port: String,
        /// Why, and what to do.
        reason: String,
    },
}

/// One queue of one port; a worker owns it. No call blocks.
pub trait Port: Send {
    /// The port's description.
    fn description(&self) -> &PortDescription;

    /// Appends up to `limit` received packets to `burst`, in frames from `pool`, and returns how
    /// many; 0 if there are none. Without a free frame, packets stay in the port or are counted as
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

    /// Sends from the front of `burst` as much as there is room for, and returns those frames to
    /// `pool` (or passes them on, like `memory`). The rest stays in `burst`, in order.
    ///
    /// # Errors
    /// [`PortError`] if the port as a whole failed.
    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError>;

    /// Timed work, called some ten times a second, whether or not anything is received or sent
    /// meanwhile: packets that the port keeps, for an answer or for room, go on or are dropped. A
    /// worker stops reading while its pool is short of frames, so what a port keeps must be bounded
    /// by a share of the pool, and come back without another call.
    ///
    /// # Errors
    /// [`PortError`] if the port as a whole failed.
    fn tick(&mut self, _pool: &mut FramePool) -> Result<(), PortError> {
        Ok(())
    }

    /// Whether the interface that it uses does not exist, so that it can neither receive nor send
    /// until that is back. What is sent meanwhile is dropped and counted. Its descriptors may have
    /// changed when it has its interface again, which [`tick`](Self::tick) finds out.
    fn lacks_interface(&self) -> bool {
        false
    }

    /// Whether its device seals frames tagged [`Offload::Seal`](convoy_packet::Offload::Seal) as
    /// they leave. Any other port must never get one: it would send plaintext.
    fn seals(&self) -> bool {
        false
    }

    /// Whether nothing will be received any more: a capture that was read to its end.
    fn is_ended(&self) -> bool {
        false
    }

    /// Has packets of ESP with this SPI received by this queue rather than another one of the port,
    /// if that can be directed: its worker has their SA.
    fn take_spi(&mut self, _spi: u32) {}

    /// Takes one path MTU found: packets with DF to this destination did not fit, and its path
    /// carries this many bytes.
    fn take_path_mtu(&mut self) -> Option<(IpAddr, u16)> {
        None
    }

    /// Moves the packets that the system refused to send since the last call, with the reasons, to
    /// `unsent`. They are among those [counted](PortCounters::send_dropped) as dropped.
    fn take_unsent(&mut self, _unsent: &mut Vec<Unsent>) {}

    /// The descriptors of which one becomes readable when `receive` has something new; constant
    /// while the port has its interface. `None` if the port must be polled. After a `receive` that
    /// returned less than the limit, only later packets make one readable, unless some
    /// [wait](Self::has_waiting) inside.
    fn readable_fds(&self) -> Option<Vec<BorrowedFd<'_>>> {
        None
    }

    /// Sets the networks behind the tunnels to which an inside port takes packets, if it needs to
    /// know. Queues of one port share the setting. It needs no privileges.
    ///
    /// # Errors
    /// What the system refused.
    fn set_networks(&mut self, _networks: &BTreeSet<Prefix>) -> std::io::Result<()> {
        Ok(())
    }

    /// Takes over those of these settings of its own kind that a reload changes
    /// ([`PortSettings::reloaded`]), without losing packets.
    fn take_settings(&mut self, _settings: &PortSettings) {}

    /// Sets whether the kernel's interface of the port has a link (a carrier), if it has one: not
    /// while its packets would be lost. It needs no privileges.
    ///
    /// # Errors
    /// What the system refused.
    fn set_link(&mut self, _is_up: bool) -> std::io::Result<()> {
        Ok(())
    }

    /// Whether packets that it took from the system wait inside it, for frames or for room in a
    /// burst.
    fn has_waiting(&self) -> bool {
        false
    }

    /// Whether `receive` would return packets, as far as visible without a system call: in a ring
    /// that the kernel fills.
    fn has_input(&self) -> bool {
        false
    }

    /// Its counters.
    fn counters(&self) -> PortCounters;

    /// Additional counters of its device, by name: packets sealed by a card, for example.
    fn device_counters(&self) -> Vec<(Cow<'static, str>, u64)> {
        Vec::new()
    }
}
