//! The common parts of the ports at an Ethernet interface of the kernel's, `af_xdp` and
//! `af_packet`.
//!
//! A BPF program decides which frames are the gateway's ([`program`]): ESP, AH and, with charon,
//! IKE. ARP, ssh and everything else stay with the kernel. The kernel also knows the next hops on
//! the link ([`next_hops`]), and sends packets itself whose next hop it does not know yet. It also
//! reassembles datagrams that were fragmented on the way, since only the first fragment shows a
//! port: they come to the port through sockets, as does what arrives by another interface.

mod networks;
mod next_hops;
mod program;
mod settings;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use convoy_kernel::Prefix;
use convoy_kernel::queries::HostInterface;
use nix::errno::Errno;

use convoy_packet::{Frame, FramePool, Ipv4, Ipv6, MacAddress, ethernet, ipv6, udp};

use crate::fragments::{FragmentEnds, FragmentSender};
use crate::path_mtu::PathMtus;
use crate::udp::reports::Reports;
use crate::udp::{UdpConfig, UdpQueue};
use crate::unsent::UnsentPackets;
use crate::{Port, PortCounters, PortDescription, PortError, PortKind};
pub(crate) use networks::Networks;
use next_hops::{Egress, NextHops};
pub(crate) use program::{Hook, Station, TAG_BYTES, is_tag, program};
pub(crate) use settings::{By, LinkSettings};

/// Calls of `receive` that return something between two looks at routes and neighbours. A call that
/// returns nothing looks as well.
const CALLS: u32 = 64;

/// What a port takes from the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkTakes {
    /// Outside: ESP and AH to these addresses, and ESP in UDP to this port of theirs.
    Protected {
        /// The tunnels' local addresses.
        addresses: Vec<IpAddr>,
        /// The port of UDP.
        udp_port: u16,
        /// Whose the other datagrams to that port are.
        beside: Beside,
    },
    /// Inside: packets sent to this host that go on to these networks.
    Plaintext {
        /// The networks behind the tunnels.
        networks: Vec<Prefix>,
    },
    /// A host: datagrams to an address and port, and no fragments of them.
    Datagrams {
        /// The address and port.
        to: SocketAddr,
    },
}

/// Whose datagrams are that arrive at the UDP port of ESP and are no ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Another port's, which has the same address.
    Others,
    /// This port's: keep-alives.
    Nobody,
    /// The gateway's, and those to this port as well: IKE.
    Ike(u16),
}

/// The configuration of a port at an interface.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// As configured.
    pub name: String,
    /// `af_xdp` or `af_packet`.
    pub kind: PortKind,
    /// The kernel's interface.
    pub interface: String,
    /// What it takes.
    pub takes: LinkTakes,
    /// The largest packet, in bytes; the interface's MTU if it is less, or if this is missing.
    pub mtu: Option<usize>,
    /// One for each worker.
    pub queues: usize,
    /// The addresses at which it receives ICMP about paths.
    pub reports: Vec<IpAddr>,
    /// The mark of packets that leave through the kernel (`SO_MARK`), and of its rules.
    pub mark: Option<u32>,
}

impl LinkConfig {
    /// An error while the port was opened.
    pub(crate) fn failed(&self, action: &str, source: io::Error) -> PortError {
        let action = format!("{action} {}", self.interface);
        PortError::Io { port: self.name.clone(), action, source }
    }

    /// The kernel's number of the interface; `None` if it does not exist.
    pub(crate) fn interface_number(&self) -> Result<Option<u32>, PortError> {
        match nix::net::if_::if_nametoindex(self.interface.as_str()) {
            Ok(number) => Ok(Some(number)),
            Err(Errno::ENODEV) => Ok(None),
            Err(error) => Err(self.failed("find the interface", error.into())),
        }
    }

    /// The largest packet at an interface, in bytes.
    fn mtu_at(&self, interface: HostInterface) -> usize {
        self.mtu.unwrap_or(usize::MAX).min(interface.mtu)
    }

    /// Sockets at its UDP ports: that of ESP, and with charon that of IKE. They receive what the
    /// program leaves to the kernel: datagrams in fragments, keep-alives, and what comes by another
    /// interface. They also keep the kernel from refusing it, and another program from answering
    /// it.
    fn datagrams(&self) -> Result<Option<UdpQueue>, PortError> {
        let LinkTakes::Protected { addresses, udp_port, beside } = &self.takes else { return Ok(None) };
        let ports = match beside {
            Beside::Others => return Ok(None),
            Beside::Nobody => vec![*udp_port],
            Beside::Ike(ike_port) => vec![*udp_port, *ike_port],
        };
        let queues = UdpQueue::bind(&UdpConfig {
            name: self.name.clone(),
            addresses: addresses.clone(),
            ports,
            // Nothing leaves by them.
            mtu: u16::MAX,
            own_ports: None,
            queues: 1,
            offloads: false,
            reports: Vec::new(),
            mark: None,
        })?;
        Ok(queues.into_iter().next())
    }
}

/// The common state of a port's queue.
pub(crate) struct Link {
    pub(crate) description: PortDescription,
    /// Without those of what came through the kernel's sockets.
    pub(crate) counters: PortCounters,
    pub(crate) path_mtus: PathMtus,
    pub(crate) unsent: UnsentPackets,
    next_hops: NextHops,
    /// For packets whose next hop the kernel must find.
    kernel: FragmentSender,
    sent_by_kernel: u64,
    is_outside: bool,
    reports: Reports,
    /// What the kernel has of the port's datagrams.
    datagrams: Option<UdpQueue>,
    /// Calls of `receive` since the last look at routes and neighbours.
    calls: u32,
}

impl Link {
    /// Opens the sockets of one queue; the first receives ICMP, and datagrams from the kernel.
    pub(crate) fn open(config: &LinkConfig, number: Option<u32>, queue: usize) -> Result<Self, PortError> {
        let ends: Vec<IpAddr> = match &config.takes {
            LinkTakes::Protected { addresses, .. } => addresses.clone(),
            // A reload may add networks of either family.
            LinkTakes::Plaintext { .. } => {
                vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
            }
            LinkTakes::Datagrams { to } => vec![to.ip()],
        };
        let reports = if queue == 0 { &config.reports[..] } else { &[] };
        let next_hops = NextHops::open(number, config.mark);
        let next_hops = next_hops.map_err(|error| config.failed("ask the kernel about", error))?;
        let sockets = |error| config.failed("open sockets for", error);
        let mtu = config.mtu_at(next_hops.interface());
        Ok(Self {
            description: PortDescription { name: config.name.clone(), kind: config.kind, mtu },
            counters: PortCounters::default(),
            path_mtus: PathMtus::default(),
            unsent: UnsentPackets::default(),
            next_hops,
            // A kernel may lack IPv6.
            kernel: FragmentSender::open(&ends, config.mark)
                .or_else(|_| FragmentSender::open(&ends[..1], config.mark))
                .map_err(sockets)?,
            sent_by_kernel: 0,
            is_outside: matches!(config.takes, LinkTakes::Protected { .. }),
            reports: Reports::open(reports).map_err(sockets)?,
            datagrams: if queue == 0 { config.datagrams()? } else { None },
            calls: 0,
        })
    }

    /// The interface as last reported by the kernel.
    pub(crate) fn interface(&self) -> HostInterface {
        self.next_hops.interface()
    }

    /// Whether the interface does not exist.
    pub(crate) fn lacks_interface(&self) -> bool {
        self.interface() == HostInterface::MISSING
    }

    /// Goes on at an interface.
    ///
    /// # Errors
    /// It has vanished again, or is no Ethernet interface.
    pub(crate) fn use_interface(&mut self, config: &LinkConfig, number: u32) -> Result<(), PortError> {
        self.next_hops.use_interface(number).map_err(|error| config.failed("ask the kernel about", error))?;
        self.description.mtu = config.mtu_at(self.interface());
        Ok(())
    }

    /// Packets that the kernel has sent for the port.
    pub(crate) fn sent_by_kernel(&self) -> u64 {
        self.sent_by_kernel
    }

    /// Its counters, whichever way packets came.
    pub(crate) fn counters(&self) -> PortCounters {
        let by_socket = self.datagrams.as_ref().map(Port::counters).unwrap_or_default();
        PortCounters {
            received_packets: self.counters.received_packets + by_socket.received_packets,
            received_bytes: self.counters.received_bytes + by_socket.received_bytes,
            receive_dropped: self.counters.receive_dropped + by_socket.receive_dropped,
            system_calls: self.counters.system_calls + by_socket.system_calls,
            ..self.counters
        }
    }

    /// Descriptors that become readable when the kernel has news of routes, neighbours or paths, or
    /// a datagram.
    pub(crate) fn readable_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let datagrams = self.datagrams.as_ref().and_then(Port::readable_fds).unwrap_or_default();
        std::iter::once(self.next_hops.as_fd()).chain(self.reports.sockets()).chain(datagrams)
    }

    /// Whether received reports or datagrams wait to be handed out.
    pub(crate) fn has_waiting(&self) -> bool {
        self.reports.has_waiting() || self.datagrams.as_ref().is_some_and(Port::has_waiting)
    }

    /// Reads the kernel's news of routes and neighbours and, up to `limit` frames in `burst`, ICMP
    /// about paths and datagrams, if it is time.
    pub(crate) fn look(
        &mut self,
        was_idle: bool,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<(), PortError> {
        self.calls += 1;
        if was_idle || self.calls >= CALLS {
            self.calls = 0;
            let calls =
                self.next_hops.follow().map_err(|source| self.description.failed("follow routes", source))?;
            self.counters.system_calls += calls;
            let room = limit.saturating_sub(burst.len());
            if let Some(datagrams) = &mut self.datagrams {
                datagrams.receive(pool, room, burst)?;
            }
        }
        let reports = self.reports.receive(was_idle, &mut self.counters, pool, limit, burst);
        reports.map_err(|source| self.description.failed("receive ICMP", source))
    }

    /// The address on the link to which a packet leaves. `None` for one that is done, and counted:
    /// the kernel sent it, or it cannot leave. One that the device cannot take also leaves through
    /// the kernel.
    pub(crate) fn next_hop(&mut self, frame: &mut Frame, device_takes_it: bool) -> Option<MacAddress> {
        let Some(destination) = destination(frame) else {
            self.counters.send_dropped += 1;
            return None;
        };
        // Without the inside interface the kernel's routes may lead outside.
        if self.lacks_interface() && !self.is_outside {
            self.count_refused(frame, &io::Error::from_raw_os_error(libc::ENODEV));
            return None;
        }
        let (bytes, most) = (frame.len(), self.interface().mtu);
        if bytes > most {
            self.path_mtus.exceeded(destination, bytes, || u16::try_from(most).ok());
            self.counters.send_dropped += 1;
            self.unsent.too_long(frame);
            return None;
        }
        if self.is_outside && destination.is_ipv6() {
            udp::complete_checksum(frame);
        }
        match self.next_hops.egress(destination) {
            Egress::Link(mac) if device_takes_it => Some(mac),
            _ => {
                self.send_by_kernel(frame, destination);
                None
            }
        }
    }

    /// The kernel resolves the unknown next hop, and reports it.
    fn send_by_kernel(&mut self, packet: &[u8], destination: IpAddr) {
        self.counters.system_calls += 1;
        let sent = if self.is_outside {
            source(packet)
                .map_or(Ok(()), |source| self.kernel.send(packet, FragmentEnds { source, destination }))
        } else {
            self.kernel.send_routed(packet, destination)
        };
        match sent {
            Ok(()) => {
                self.sent_by_kernel += 1;
                self.counters.count_sent(packet.len());
            }
            Err(error) => self.count_refused(packet, &error),
        }
    }

    /// Counts a packet that the system refused to send.
    pub(crate) fn count_refused(&mut self, packet: &[u8], error: &io::Error) {
        self.counters.send_dropped += 1;
        self.unsent.refused(packet, error);
    }

    /// The Ethernet header of a packet to this address.
    pub(crate) fn header(&self, to: MacAddress, packet: &[u8]) -> [u8; ethernet::HEADER_BYTES] {
        let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
        let ethertype = if is_v6 { ethernet::IPV6 } else { ethernet::IPV4 };
        ethernet::header(to, self.interface().mac, ethertype)
    }
}

/// The length of the IP packet at the start of some bytes, since short frames are padded. `None` if
/// it is truncated.
pub(crate) fn packet_len(bytes: &[u8]) -> Option<usize> {
    let len = match bytes.first()? >> 4 {
        4 => Ipv4::parse_quoted(bytes).ok()?.total_length().into(),
        6 => ipv6::HEADER_BYTES + usize::from(Ipv6::parse_quoted(bytes).ok()?.payload_length()),
        _ => return None,
    };
    (len <= bytes.len()).then_some(len)
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
    use convoy_packet::IpHeader;

    use super::*;

    fn received(address: &str, payload: usize, more: usize) -> Vec<u8> {
        let address: IpAddr = address.parse().expect("an address");
        let header = IpHeader::new(50, address, address);
        let mut packet = vec![7; header.header_len() + payload];
        header.write(&mut packet);
        [packet, vec![0; more]].concat()
    }

    #[test]
    fn what_pads_a_short_frame_is_no_part_of_its_packet() {
        for (address, header) in [("192.0.2.1", 20), ("2001:db8::1", 40)] {
            for (payload, more) in [(8, 18), (8, 0), (100, 4)] {
                let bytes = received(address, payload, more);
                assert_eq!(packet_len(&bytes), Some(header + payload), "{address}");
                assert_eq!(destination(&bytes), address.parse().ok());
                assert_eq!(source(&bytes), address.parse().ok());
            }
        }
    }

    #[test]
    fn a_stump_is_no_packet() {
        for address in ["192.0.2.1", "2001:db8::1"] {
            let whole = received(address, 8, 0);
            for len in 0..whole.len() {
                assert_eq!(packet_len(&whole[..len]), None, "{address}, {len} bytes");
            }
        }
    }
}
