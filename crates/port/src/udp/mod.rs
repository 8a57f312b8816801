//! ESP in UDP (RFC 3948): sockets on port 4500, with segmentation offload both ways.
//!
//! A run of datagrams to one peer leaves as one message that the kernel or the device segments
//! (`UDP_SEGMENT`), and all messages of a burst in one system call; bursts to several peers are
//! sorted by peer first (`sort.rs`). What the kernel has coalesced (`UDP_GRO`) is split here.
//! Datagrams of any content are handed up: telling ESP from IKE and keep-alives is not the port's
//! business. So is ICMP about paths: the kernel's own path MTUs change nothing here.

mod endpoint;
mod header;
mod receive;
pub(crate) mod reports;
mod send;
mod settings;
mod sort;
mod steering;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use convoy_packet::{Frame, FramePool};

use crate::fragments::{FragmentEnds, FragmentSender};
use crate::sockets::Outgoing;
use crate::{Port, PortCounters, PortDescription, PortError, PortKind, Unsent, sys};
use endpoint::{Endpoint, Sharing};
use receive::UdpReceiver;
use reports::Reports;
use send::{Bounds, UdpSends};
pub use settings::UdpSettings;
use sort::Sorter;
use steering::Steering;

/// The configuration of a `udp` port.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// The port's name, for example `outside`.
    pub name: String,
    /// The addresses to listen on; `0.0.0.0` and `::` are all of a family.
    pub addresses: Vec<IpAddr>,
    /// The UDP ports: 4500 for ESP in UDP (RFC 3948) and IKE, 500 for IKE; 0 is one that the system
    /// chooses.
    pub ports: Vec<u16>,
    /// The largest outer packet, in bytes.
    pub mtu: u16,
    /// The source port of packets that are the first queue's own; each further queue has the next
    /// port. Packets to it arrive as if they were sent to the first of `ports`.
    pub own_ports: Option<u16>,
    /// Queues, each for one worker. The kernel gives packets of an SPI to the queue that
    /// [takes](Port::take_spi) it, and all others of one peer to one queue.
    pub queues: usize,
    /// Whether the kernel may segment and coalesce (`UDP_SEGMENT`, `UDP_GRO`), where it can.
    pub offloads: bool,
    /// The addresses at which the port receives ICMP about paths; not those of which another port
    /// does.
    pub reports: Vec<IpAddr>,
    /// The mark of what the kernel sends for this port (`SO_MARK`), for routing rules; needs
    /// CAP_NET_ADMIN.
    pub mark: Option<u32>,
}

/// One queue of the `udp` port.
pub struct UdpQueue {
    out: Outgoing,
    endpoints: Vec<Endpoint>,
    receiver: UdpReceiver,
    reports: Reports,
    /// The endpoint to ask first, so that all are served in turn.
    turn: usize,
    plan: UdpSends,
    sorter: Sorter,
    /// Directs packets to this queue, among several, where the kernel can do so.
    steering: Option<Steering>,
    why_not_steered: Option<io::Error>,
}

impl UdpQueue {
    /// Opens the port's queues, each with one socket for each address.
    ///
    /// # Errors
    /// [`PortError`] if the system refuses, for instance because the address is not this host's, or
    /// without CAP_NET_RAW; it says what to do.
    pub fn bind(config: &UdpConfig) -> Result<Vec<Self>, PortError> {
        if config.addresses.is_empty() || config.ports.is_empty() || config.queues == 0 {
            let reason =
                "a udp port needs an address to listen on, address = [\"192.0.2.1\"], a port and a queue"
                    .into();
            return Err(PortError::Invalid { port: config.name.clone(), reason });
        }
        // The kernel delivers an ICMP message to every raw socket, so only the first queue receives
        // them.
        let queues = (0..config.queues).map(|queue| Self::bind_queue(config, queue));
        let mut queues: Vec<Self> = queues.collect::<Result<_, _>>()?;
        if let [first, _, ..] = &queues[..] {
            let shared = first.endpoints.iter().take(config.ports.len() * config.addresses.len());
            match steering::steer(shared, config.queues) {
                Ok(all) => {
                    queues.iter_mut().zip(all).for_each(|(queue, steering)| queue.steering = Some(steering));
                }
                Err(error) => queues[0].why_not_steered = Some(error),
            }
        }
        Ok(queues)
    }

    /// Why the kernel does not give packets to the queue that takes their SPI, although there are
    /// several; the first queue knows it.
    pub fn why_not_steered(&self) -> Option<&io::Error> {
        self.why_not_steered.as_ref()
    }

    fn bind_queue(config: &UdpConfig, queue: usize) -> Result<Self, PortError> {
        let is_first = queue == 0;
        let sharing = match (config.queues, is_first) {
            (1, _) => Sharing::Alone,
            (_, true) => Sharing::First,
            (_, false) => Sharing::Further,
        };
        let mut endpoints = Vec::new();
        for port in &config.ports {
            for address in &config.addresses {
                endpoints.push(Endpoint::bind(config, SocketAddr::new(*address, *port), sharing)?);
            }
        }
        if let (Some(own), Some(main)) = (config.own_ports, config.ports.first()) {
            let own = u16::try_from(queue).ok().and_then(|queue| own.checked_add(queue)).unwrap_or(u16::MAX);
            for address in &config.addresses {
                let mut bound = Endpoint::bind(config, SocketAddr::new(*address, own), Sharing::Alone)?;
                bound.arrives_at = SocketAddr::new(*address, *main);
                endpoints.push(bound);
            }
        }
        let failed = |action: &str, source| PortError::Io {
            port: config.name.clone(),
            action: action.to_owned(),
            source,
        };
        let heard = if is_first { config.reports.as_slice() } else { &[] };
        let raw =
            |source| failed("listen for ICMP and send fragments (run as root, or with CAP_NET_RAW)", source);
        let reports = Reports::open(heard).map_err(raw)?;
        let fragments = FragmentSender::open(&config.addresses, config.mark).map_err(raw)?;
        let (name, mtu) = (config.name.clone(), config.mtu.into());
        let description = PortDescription { name, kind: PortKind::of::<UdpSettings>(), mtu };
        Ok(Self {
            out: Outgoing::new(description, fragments),
            endpoints,
            receiver: UdpReceiver::new(),
            reports,
            turn: 0,
            plan: UdpSends::new(),
            sorter: Sorter::default(),
            steering: None,
            why_not_steered: None,
        })
    }

    /// The addresses and ports it listens on, in the order of the configuration.
    pub fn local_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.endpoints.iter().map(|endpoint| endpoint.local)
    }

    /// The MTU of the interface towards `peer` in bytes, if a packet was ever too long for it.
    pub fn path_mtu(&self, peer: IpAddr) -> Option<u16> {
        self.out.path_mtus.get(peer)
    }

    /// Handles the first planned message, which the system refused; returns the first frame that is
    /// still to be sent, or `None` if there is no room now.
    fn refused(
        &mut self,
        error: std::io::Error,
        burst: &[Frame],
        single_until: &mut usize,
    ) -> Result<Option<usize>, PortError> {
        let frames = self.plan.first_frames();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => return Ok(None),
            Some(libc::EINTR) => return Ok(Some(frames.start)),
            Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT) => {
                return Err(self.out.description.failed("send", error));
            }
            // The device cannot segment: one by one from now on.
            Some(libc::EIO) if frames.len() > 1 => {
                self.endpoints[self.plan.endpoint].can_segment = false;
                return Ok(Some(frames.start));
            }
            // Segments may be too long for the interface: sent individually, the kernel reports
            // each.
            Some(_) if frames.len() > 1 => {
                *single_until = frames.end;
                return Ok(Some(frames.start));
            }
            Some(libc::EMSGSIZE) => self.exceeded(burst, frames.start),
            // No route, forbidden: only this packet is lost.
            _ => {}
        }
        self.out.count_refused(&burst[frames.start], &error);
        Ok(Some(frames.end))
    }

    /// The first planned message is the one frame at `at`, and was too long for its interface.
    fn exceeded(&mut self, burst: &[Frame], at: usize) {
        let Some(head) = self.plan.first else { return };
        let endpoint = &self.endpoints[self.plan.endpoint];
        let plan = &mut self.plan;
        self.out.path_mtus.exceeded(head.peer.ip(), burst[at].len(), || {
            plan.keep_first();
            let resend = || plan.send(endpoint, burst).map(drop);
            sys::mtu_of_refusal(endpoint.socket.as_fd(), &head.source, resend)
        });
    }

    /// Sends a frame that no UDP socket can send: a fragment. Returns `false` if there is no room
    /// now.
    fn send_fragment(&mut self, frame: &Frame) -> Result<bool, PortError> {
        let is_ours =
            |ends: &FragmentEnds| self.endpoints.iter().any(|endpoint| endpoint.sends_from(ends.source));
        let Some(ends) = FragmentEnds::of_fragment(frame).filter(is_ours) else {
            self.out.count_not_from_here(frame);
            return Ok(true);
        };
        self.out.send_fragment(frame, ends)
    }

    /// Receives from one endpoint; returns whether it may have more.
    fn receive_from(&mut self, index: usize) -> Result<bool, PortError> {
        self.out.counters.system_calls += 1;
        self.receiver.fill(&self.endpoints[index]).or_else(|error| match error.raw_os_error() {
            Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT) => {
                Err(self.out.description.failed("receive", error))
            }
            Some(libc::EAGAIN) => Ok(false),
            // Interrupted, or an ICMP error about an earlier packet.
            _ => Ok(true),
        })
    }
}

impl Port for UdpQueue {
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
        let mut drained = 0;
        while self.receiver.hand_out(&mut self.out.counters, pool, limit, burst)
            && burst.len() < limit
            && drained < self.endpoints.len()
        {
            drained = if self.receive_from(self.turn)? { 0 } else { drained + 1 };
            self.turn = (self.turn + 1) % self.endpoints.len();
        }
        let was_idle = burst.len() == before;
        let reports = self.reports.receive(was_idle, &mut self.out.counters, pool, limit, burst);
        reports.map_err(|error| self.out.description.failed("receive ICMP", error))?;
        Ok(burst.len() - before)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        if self.endpoints.iter().any(|endpoint| endpoint.can_segment) {
            self.sorter.sort(burst);
        }
        let mut at = 0;
        let mut single_until = 0;
        while at < burst.len() {
            let bounds = Bounds { mtu: self.out.description.mtu, single_until };
            if !self.plan.lay_out(&self.endpoints, burst, at, bounds) {
                if !self.send_fragment(&burst[at])? {
                    break;
                }
                at += 1;
                continue;
            }
            let endpoint = &mut self.endpoints[self.plan.endpoint];
            let dont_fragment = self.plan.first.is_some_and(|head| head.dont_fragment);
            self.out.counters.system_calls += 1 + endpoint.set_df(dont_fragment);
            let result = self.plan.send(endpoint, burst);
            let next = match result {
                Ok(next) => {
                    burst[at..next].iter().for_each(|frame| self.out.counters.count_sent(frame.len()));
                    next
                }
                Err(error) => match self.refused(error, burst, &mut single_until)? {
                    Some(next) => next,
                    None => break,
                },
            };
            at = next;
        }
        for frame in burst.drain(..at) {
            pool.give_back(frame);
        }
        Ok(at)
    }

    fn take_spi(&mut self, spi: u32) {
        if let Some(steering) = &self.steering {
            steering.take(spi);
        }
    }

    fn take_path_mtu(&mut self) -> Option<(IpAddr, u16)> {
        self.out.path_mtus.take()
    }

    fn take_unsent(&mut self, unsent: &mut Vec<Unsent>) {
        self.out.unsent.take(unsent);
    }

    fn readable_fds(&self) -> Option<Vec<BorrowedFd<'_>>> {
        let datagrams = self.endpoints.iter().map(|endpoint| endpoint.socket.as_fd());
        Some(datagrams.chain(self.reports.sockets()).collect())
    }

    fn has_waiting(&self) -> bool {
        self.receiver.has_waiting() || self.reports.has_waiting()
    }

    fn counters(&self) -> PortCounters {
        self.out.counters
    }
}

#[cfg(test)]
mod tests;
