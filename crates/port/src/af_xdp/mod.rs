//! The `af_xdp` port: an Ethernet interface of the kernel's, whose packets go by rings between the device, or its driver, and the process's
//! packet memory, without the kernel's network stack.
//!
//! A program at the interface ([`program`]) takes what is the gateway's; ARP, IKE, ssh and all else stay with the kernel. Since the rings of all
//! ports have frames of one memory, a packet crosses the gateway without a copy where both drivers can do without. Where packets go on the link is
//! the kernel's to know ([`next_hops`]).

mod assembler;
mod next_hops;
mod open;
mod program;
mod settings;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use convoy_packet::{CHUNK_BYTES, Frame, FramePool, Ipv4, Ipv6, MacAddress, ethernet, ipv6, udp};

use crate::fragments::{Ends, FragmentSender};
use crate::path_mtu::PathMtus;
use crate::sys::XdpSocket;
use crate::udp::reports::Reports;
use crate::{Port, PortCounters, PortDescription, PortError, PortKind, Prefix};
use next_hops::{NextHops, Way};
use open::Attachment;
pub use settings::AfXdpSettings;

/// Calls of `receive` that bring something between two looks at routes and neighbours. A call that brings nothing looks as well.
const CALLS: u32 = 64;

/// What a port takes from the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfXdpTakes {
    /// Outside: ESP and AH to these addresses, and ESP in UDP to this port of theirs.
    Protected {
        /// The tunnels' local addresses.
        addresses: Vec<IpAddr>,
        /// The port of UDP.
        udp_port: u16,
        /// Whether the port is bound, so that the kernel does not refuse what comes there beside ESP.
        holds_port: bool,
    },
    /// Inside: packets that are sent to this host and go on to these networks.
    Plaintext {
        /// The networks behind the tunnels.
        networks: Vec<Prefix>,
    },
}

/// What an `af_xdp` port is made from.
#[derive(Clone, Debug)]
pub struct AfXdpConfig {
    /// As configured.
    pub name: String,
    /// The kernel's interface.
    pub interface: String,
    /// What it takes.
    pub takes: AfXdpTakes,
    /// The largest packet, in bytes; the interface's MTU if it is less, or if this is missing.
    pub mtu: Option<usize>,
    /// How many queues the interface must have: one for each worker.
    pub queues: usize,
    /// The addresses at which it hears what ICMP says of paths.
    pub reports: Vec<IpAddr>,
    /// The mark of packets that leave by the kernel (`SO_MARK`), and of its rules.
    pub mark: Option<u32>,
}

/// One queue of an `af_xdp` port.
pub struct AfXdp {
    description: PortDescription,
    counters: PortCounters,
    socket: XdpSocket,
    next_hops: NextHops,
    /// For packets whose way is the kernel's to find.
    kernel: FragmentSender,
    sent_by_kernel: u64,
    is_outside: bool,
    reports: Reports,
    path_mtus: PathMtus,
    /// Calls of `receive` since the last look at routes and neighbours.
    calls: u32,
    received: Vec<Frame>,
    _attachment: Arc<Attachment>,
}

impl AfXdp {
    fn make(
        config: &AfXdpConfig,
        queue: usize,
        socket: XdpSocket,
        next_hops: NextHops,
        attachment: Arc<Attachment>,
    ) -> io::Result<Self> {
        let ends: Vec<IpAddr> = match &config.takes {
            AfXdpTakes::Protected { addresses, .. } => addresses.clone(),
            AfXdpTakes::Plaintext { networks } => networks.iter().map(|network| network.address).collect(),
        };
        let reports = if queue == 0 { &config.reports[..] } else { &[] };
        let mtu = config.mtu.unwrap_or(usize::MAX).min(next_hops.interface().mtu);
        Ok(Self {
            description: PortDescription { name: config.name.clone(), kind: PortKind::AfXdp, mtu },
            counters: PortCounters::default(),
            socket,
            next_hops,
            kernel: FragmentSender::open(&ends, config.mark)?,
            sent_by_kernel: 0,
            is_outside: matches!(config.takes, AfXdpTakes::Protected { .. }),
            reports: Reports::open(reports)?,
            path_mtus: PathMtus::default(),
            calls: 0,
            received: Vec::with_capacity(64),
            _attachment: attachment,
        })
    }

    fn failed(&self, action: &str, source: io::Error) -> PortError {
        PortError::Io { port: self.description.name.clone(), action: action.to_owned(), source }
    }

    /// Reads what the kernel says of routes and neighbours and, up to `limit` frames in `burst`, what ICMP says of paths, if it is time.
    fn look(
        &mut self,
        was_idle: bool,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<(), PortError> {
        self.calls += 1;
        if was_idle || self.calls >= CALLS {
            self.calls = 0;
            let calls = self.next_hops.follow().map_err(|source| self.failed("follow routes", source))?;
            self.counters.system_calls += calls;
        }
        let reports = self.reports.receive(was_idle, &mut self.counters, pool, limit, burst);
        reports.map_err(|source| self.failed("receive ICMP", source))
    }

    fn flush(&mut self) -> Result<(), PortError> {
        let calls = self.socket.flush().map_err(|source| self.failed("send", source))?;
        self.counters.system_calls += calls;
        Ok(())
    }

    /// Sends one packet, or counts it as dropped. There is room for it.
    fn send_one(&mut self, pool: &mut FramePool, mut frame: Frame) {
        let bytes = frame.len();
        let interface = self.next_hops.interface();
        let Some(destination) = destination(&frame) else {
            self.counters.send_dropped += 1;
            return pool.give_back(frame);
        };
        if bytes > interface.mtu {
            self.path_mtus.exceeded(destination, bytes, || u16::try_from(interface.mtu).ok());
            self.counters.send_dropped += 1;
            return pool.give_back(frame);
        }
        if self.is_outside && destination.is_ipv6() {
            udp::complete_checksum(&mut frame);
        }
        let is_sent = match self.next_hops.way(destination) {
            Way::Link(mac) if frame.capacity() == CHUNK_BYTES => {
                self.send_to(pool, frame, mac, interface.mac, destination.is_ipv6())
            }
            _ => {
                let is_sent = self.send_by_kernel(&frame, destination);
                pool.give_back(frame);
                is_sent
            }
        };
        if is_sent {
            self.counters.sent_packets += 1;
            self.counters.sent_bytes += bytes as u64;
        } else {
            self.counters.send_dropped += 1;
        }
    }

    fn send_to(
        &mut self,
        pool: &mut FramePool,
        mut frame: Frame,
        to: MacAddress,
        from: MacAddress,
        is_v6: bool,
    ) -> bool {
        let ethertype = if is_v6 { ethernet::IPV6 } else { ethernet::IPV4 };
        let is_framed = frame
            .prepend(ethernet::HEADER_BYTES)
            .map(|place| place.copy_from_slice(&ethernet::header(to, from, ethertype)))
            .is_ok();
        let refused = if is_framed { self.socket.send(frame).err() } else { Some(frame) };
        let is_sent = refused.is_none();
        refused.into_iter().for_each(|frame| pool.give_back(frame));
        is_sent
    }

    /// The kernel finds out how to reach what it does not know, and says so.
    fn send_by_kernel(&mut self, packet: &[u8], destination: IpAddr) -> bool {
        self.counters.system_calls += 1;
        let sent = if self.is_outside {
            source(packet).map_or(Ok(()), |source| self.kernel.send(packet, Ends { source, destination }))
        } else {
            self.kernel.send_routed(packet, destination)
        };
        self.sent_by_kernel += u64::from(sent.is_ok());
        sent.is_ok()
    }
}

impl Port for AfXdp {
    fn description(&self) -> &PortDescription {
        &self.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let before = burst.len();
        // What a full device left in the ring, and what it has done with since.
        if self.socket.is_sending() {
            self.flush()?;
            self.socket.reap(pool);
        }
        self.counters.system_calls += self.socket.receive(pool, limit, &mut self.received);
        for mut frame in self.received.drain(..) {
            if strip(&mut frame).is_some() {
                self.counters.received_packets += 1;
                self.counters.received_bytes += frame.len() as u64;
                burst.push(frame);
            } else {
                self.counters.receive_dropped += 1;
                pool.give_back(frame);
            }
        }
        let was_idle = burst.len() == before;
        self.look(was_idle, pool, before + limit, burst)?;
        Ok(burst.len() - before)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        self.socket.reap(pool);
        let count = burst.len().min(self.socket.room());
        for frame in burst.drain(..count) {
            self.send_one(pool, frame);
        }
        self.flush()?;
        Ok(count)
    }

    fn take_path_mtu(&mut self) -> Option<(IpAddr, u16)> {
        self.path_mtus.take()
    }

    fn readable_fds(&self) -> Option<Vec<BorrowedFd<'_>>> {
        let own = [self.socket.as_fd(), self.next_hops.as_fd()];
        Some(own.into_iter().chain(self.reports.sockets()).collect())
    }

    fn has_waiting(&self) -> bool {
        self.reports.has_waiting()
    }

    fn counters(&self) -> PortCounters {
        let lost = self.socket.statistics();
        PortCounters {
            receive_dropped: self.counters.receive_dropped + lost.dropped + lost.no_frame,
            ..self.counters
        }
    }

    fn device_counters(&self) -> Vec<(&'static str, u64)> {
        let lost = self.socket.statistics();
        let is_zero_copy = self.socket.is_zero_copy();
        vec![
            ("queues_without_copy", u64::from(is_zero_copy)),
            ("queues_with_copy", u64::from(!is_zero_copy)),
            ("sent_by_kernel", self.sent_by_kernel),
            ("ring_full", lost.dropped),
            ("no_frame", lost.no_frame),
        ]
    }
}

/// Takes the Ethernet header off, and what pads a short frame.
fn strip(frame: &mut Frame) -> Option<()> {
    frame.trim_front(ethernet::HEADER_BYTES).ok()?;
    let len = match frame.first()? >> 4 {
        4 => Ipv4::parse_quoted(frame).ok()?.total_length().into(),
        6 => ipv6::HEADER_BYTES + usize::from(Ipv6::parse_quoted(frame).ok()?.payload_length()),
        _ => return None,
    };
    if len > frame.len() {
        return None;
    }
    frame.truncate(len);
    Some(())
}

fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(Ipv4::parse_quoted(packet).ok()?.destination().into()),
        _ => Some(Ipv6::parse_quoted(packet).ok()?.destination().into()),
    }
}

fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(Ipv4::parse_quoted(packet).ok()?.source().into()),
        _ => Some(Ipv6::parse_quoted(packet).ok()?.source().into()),
    }
}

#[cfg(test)]
mod tests {
    use convoy_packet::{FrameSize, IpHeader};

    use super::*;

    fn received(address: &str, payload: usize, more: usize) -> Vec<u8> {
        let address: IpAddr = address.parse().expect("an address");
        let header = IpHeader::new(50, address, address);
        let mut packet = vec![7; header.header_len() + payload];
        header.write(&mut packet);
        let ethertype = if address.is_ipv4() { ethernet::IPV4 } else { ethernet::IPV6 };
        let mac = MacAddress([2, 0, 0, 0, 0, 1]);
        [&ethernet::header(mac, mac, ethertype)[..], &packet, &vec![0; more]].concat()
    }

    #[test]
    fn what_pads_a_short_frame_is_no_part_of_its_packet() {
        let mut pool = FramePool::new(1, 0);
        for (address, header) in [("192.0.2.1", 20), ("2001:db8::1", 40)] {
            for (payload, more) in [(8, 18), (8, 0), (100, 4)] {
                let bytes = received(address, payload, more);
                let mut frame = pool.take_filled(&bytes, 0).expect("a frame");
                strip(&mut frame).expect("whole");
                assert_eq!(frame[..], bytes[14..14 + header + payload], "{address}");
                assert_eq!(destination(&frame), address.parse().ok());
                assert_eq!(source(&frame), address.parse().ok());
                pool.give_back(frame);
            }
        }
    }

    #[test]
    fn a_stump_is_no_packet() {
        let mut pool = FramePool::new(1, 0);
        for address in ["192.0.2.1", "2001:db8::1"] {
            let whole = received(address, 8, 0);
            for len in 0..whole.len() {
                let mut frame = pool.take(FrameSize::Small).expect("a frame");
                frame.fill(&whole[..len]).expect("fits");
                assert!(strip(&mut frame).is_none(), "{address}, {len} bytes");
                pool.give_back(frame);
            }
        }
    }
}
