//! ESP and AH right on IP: raw sockets of protocols 50 and 51, and ICMP "too big" of routers.

mod receive;
mod send;
mod settings;
mod socket;

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use convoy_packet::protocol::{AH, ESP};
use convoy_packet::{Frame, FramePool};

use crate::fragments::FragmentSender;
use crate::sockets::Outgoing;
use crate::{Port, PortCounters, PortDescription, PortError, PortKind, Unsent, sys};
pub(crate) use receive::RawReceiver;
use send::{RawHead, RawSends, SendPath};
pub use settings::RawSettings;
pub(crate) use socket::RawSocket;

/// The protocols of the port.
const PROTOCOLS: [u8; 2] = [ESP, AH];
/// Messages received at once.
const MESSAGES: usize = 32;
/// Every this many calls, `receive` asks all sockets even if one had something: a busy one must not
/// keep the others waiting.
const ASKS_ALL_EVERY: u32 = 8;

/// The `raw` port.
pub struct Raw {
    out: Outgoing,
    endpoints: Vec<RawSocket>,
    /// Whether it is the queue that receives.
    receives: bool,
    receiver: RawReceiver,
    /// The socket to ask first, so that all are served in turn.
    turn: usize,
    /// Calls of `receive`.
    calls: u32,
    plan: RawSends,
}

impl Raw {
    /// The queues of a port, each with a socket for each address and protocol; `mtu` is of outer
    /// packets, in bytes. The kernel delivers a packet to every raw socket of its protocol, so only
    /// the first queue receives. It receives ICMP about paths at the addresses in `reports`: those
    /// of which no other port does. Outgoing packets have the mark (`SO_MARK`), for routing rules;
    /// that needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// [`PortError::Io`] if the system refuses: raw sockets need CAP_NET_RAW.
    pub fn bind(
        name: &str,
        addresses: &[IpAddr],
        reports: &[IpAddr],
        mtu: usize,
        queues: usize,
        mark: Option<u32>,
    ) -> Result<Vec<Self>, PortError> {
        let bind = |queue| Self::bind_queue(name, addresses, (queue == 0).then_some(reports), mtu, mark);
        (0..queues).map(bind).collect()
    }

    fn bind_queue(
        name: &str,
        addresses: &[IpAddr],
        receives: Option<&[IpAddr]>,
        mtu: usize,
        mark: Option<u32>,
    ) -> Result<Self, PortError> {
        if addresses.is_empty() {
            let reason = "a raw port needs an address to listen on; add address = [\"192.0.2.1\"]".to_owned();
            return Err(PortError::Invalid { port: name.to_owned(), reason });
        }
        let failed = |protocol: &str, address: &IpAddr, source| PortError::Io {
            port: name.to_owned(),
            action: format!("listen for {protocol} at {address} (run as root, or with CAP_NET_RAW)"),
            source,
        };
        let mut endpoints = Vec::new();
        for address in addresses {
            for protocol in PROTOCOLS {
                let socket = RawSocket::open(*address, protocol, receives.is_some(), mark)
                    .map_err(|source| failed(&format!("IP protocol {protocol}"), address, source))?;
                endpoints.push(socket);
            }
        }
        for address in receives.into_iter().flatten() {
            let reports = RawSocket::of_reports(*address);
            endpoints.push(reports.map_err(|source| failed("ICMP", address, source))?);
        }
        let fragments = FragmentSender::open(addresses, mark).map_err(|source| PortError::Io {
            port: name.to_owned(),
            action: "open a socket for fragments (run as root, or with CAP_NET_RAW)".to_owned(),
            source,
        })?;
        let description = PortDescription { name: name.to_owned(), kind: PortKind::of::<RawSettings>(), mtu };
        Ok(Self {
            out: Outgoing::new(description, fragments),
            endpoints,
            receives: receives.is_some(),
            receiver: RawReceiver::new(if receives.is_some() { MESSAGES } else { 1 }),
            turn: 0,
            calls: 0,
            plan: RawSends::new(),
        })
    }

    /// Receives from one socket; returns whether it may have more.
    fn receive_from(&mut self, index: usize) -> Result<bool, PortError> {
        let filled = self.receiver.fill(&self.endpoints[index], &mut self.out.counters);
        filled.map_err(|source| self.out.description.failed("receive", source))
    }

    /// Sends the planned messages for the frames from `at` on; returns the first frame that is
    /// still to be sent, or `None` if there is no room now.
    fn send_planned(&mut self, socket: usize, burst: &[Frame], at: usize) -> Option<usize> {
        self.out.counters.system_calls += 1;
        let error = match self.plan.send(&self.endpoints[socket], burst) {
            Ok(sent) => {
                burst[at..at + sent].iter().for_each(|frame| self.out.counters.count_sent(frame.len()));
                return Some(at + sent);
            }
            Err(error) => error,
        };
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => return None,
            Some(libc::EINTR) => return Some(at),
            Some(libc::EMSGSIZE) => self.exceeded(socket, burst, at),
            // No route, forbidden: only this packet is lost.
            _ => {}
        }
        self.out.count_refused(&burst[at], &error);
        Some(at + 1)
    }

    /// The first planned packet, at `at`, was too long for its interface.
    fn exceeded(&mut self, socket: usize, burst: &[Frame], at: usize) {
        let (Some(head), socket) = (RawHead::of(&burst[at]), &self.endpoints[socket]) else { return };
        let plan = &mut self.plan;
        self.out.path_mtus.exceeded(head.ends.destination, burst[at].len(), || {
            plan.keep_first();
            let resend = || plan.send(socket, burst).map(drop);
            sys::mtu_of_refusal(socket.as_fd(), &head.ends.source, resend)
        });
    }
}

impl Port for Raw {
    fn description(&self) -> &PortDescription {
        &self.out.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let before = burst.len();
        let limit = before + limit;
        self.calls = self.calls.wrapping_add(1);
        let asks_all = self.calls.is_multiple_of(ASKS_ALL_EVERY);
        let mut drained = 0;
        while self.receiver.hand_out(&mut self.out.counters, pool, limit, burst)
            && burst.len() < limit
            && drained < self.endpoints.len()
            && self.receives
        {
            // Their watcher reports again what the others have.
            if drained > 0 && burst.len() > before && !asks_all {
                break;
            }
            let may_have_more = self.receive_from(self.turn)?;
            let had_some = self.receiver.has_waiting();
            drained = if may_have_more { 0 } else { drained + 1 };
            // The next call begins with the socket that had the last packets.
            if may_have_more || !had_some || asks_all {
                self.turn = (self.turn + 1) % self.endpoints.len();
            }
        }
        Ok(burst.len() - before)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let mut at = 0;
        while at < burst.len() {
            let next = match self.plan.lay_out(&self.endpoints, burst, at) {
                SendPath::Socket(socket) => self.send_planned(socket, burst, at),
                SendPath::Fragment(ends) => self.out.send_fragment(&burst[at], ends)?.then_some(at + 1),
                SendPath::None => {
                    self.out.count_not_from_here(&burst[at]);
                    Some(at + 1)
                }
            };
            let Some(next) = next else { break };
            at = next;
        }
        for frame in burst.drain(..at) {
            pool.give_back(frame);
        }
        Ok(at)
    }

    fn take_path_mtu(&mut self) -> Option<(IpAddr, u16)> {
        self.out.path_mtus.take()
    }

    fn take_unsent(&mut self, unsent: &mut Vec<Unsent>) {
        self.out.unsent.take(unsent);
    }

    fn readable_fds(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(self.endpoints.iter().filter(|_| self.receives).map(AsFd::as_fd).collect())
    }

    fn has_waiting(&self) -> bool {
        self.receiver.has_waiting()
    }

    fn counters(&self) -> PortCounters {
        self.out.counters
    }
}

#[cfg(test)]
mod tests;
