//! ESP and AH right on IP: raw sockets of protocols 50 and 51. What routers say of packets that were too big comes with it.

mod socket;

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use convoy_packet::protocol::{AH, ESP, FRAGMENT};
use convoy_packet::{Frame, FramePool, Ipv4, Ipv6, ipv6};
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};

use crate::fragments::{Ends, FragmentSender};
use crate::path_mtu::PathMtus;
use crate::{Port, PortCounters, PortDescription, PortError, PortKind, sys};
pub(crate) use socket::{PACKET_BYTES, RawSocket};

/// What the port carries.
const PROTOCOLS: [u8; 2] = [ESP, AH];

/// The `raw` port.
pub struct Raw {
    description: PortDescription,
    counters: PortCounters,
    endpoints: Vec<RawSocket>,
    fragments: FragmentSender,
    path_mtus: PathMtus,
    buffer: Vec<u8>,
}

impl Raw {
    /// The queues of a port, each with a socket for each address and protocol; `mtu` is of outer packets, in bytes. The
    /// kernel gives a packet to every raw socket of its protocol, so the first queue alone receives. It hears what ICMP says of paths at
    /// the addresses in `reports`: those of which no other port does. What leaves has the mark (`SO_MARK`), by which routing rules know
    /// it; that needs CAP_NET_ADMIN.
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
        Ok(Self {
            description: PortDescription { name: name.to_owned(), kind: PortKind::Raw, mtu },
            counters: PortCounters::default(),
            endpoints,
            fragments,
            path_mtus: PathMtus::default(),
            buffer: vec![0; PACKET_BYTES],
        })
    }

    /// Sends one packet; `false` if the socket has no room now.
    fn send_one(&mut self, packet: &[u8]) -> bool {
        let Some(outgoing) = Outgoing::of(packet, &self.endpoints) else {
            self.counters.send_dropped += 1;
            return true;
        };
        self.counters.system_calls += 1;
        let error = match outgoing.send(packet, &self.endpoints, &self.fragments) {
            Ok(()) => {
                self.counters.sent_packets += 1;
                self.counters.sent_bytes += packet.len() as u64;
                return true;
            }
            Err(error) => error,
        };
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => return false,
            Some(libc::EMSGSIZE) => self.exceeded(&outgoing, packet),
            // No route, forbidden: this packet is lost, the port lives.
            _ => {}
        }
        self.counters.send_dropped += 1;
        true
    }

    /// A packet was too long for its interface.
    fn exceeded(&mut self, outgoing: &Outgoing, packet: &[u8]) {
        let (endpoints, fragments) = (&self.endpoints, &self.fragments);
        self.path_mtus.exceeded(outgoing.ends.destination, packet.len(), || {
            let socket = match outgoing.endpoint {
                Some(at) => endpoints[at].as_fd(),
                None => fragments.socket(outgoing.ends.source)?,
            };
            sys::mtu_of_refusal(socket, &outgoing.ends.source, || outgoing.send(packet, endpoints, fragments))
        });
    }
}

/// How a packet leaves.
struct Outgoing {
    ends: Ends,
    /// The socket of its source and protocol; `None` for an IPv6 fragment, which leaves with its header.
    endpoint: Option<usize>,
    /// Where what that socket takes starts, and the traffic class, if it is told beside.
    start: usize,
    class: Option<u8>,
}

impl Outgoing {
    fn of(packet: &[u8], endpoints: &[RawSocket]) -> Option<Self> {
        let (ends, protocol, start, class) = parse(packet)?;
        if protocol == FRAGMENT {
            let is_ours = endpoints.iter().any(|endpoint| endpoint.local == ends.source);
            return is_ours.then_some(Self { ends, endpoint: None, start: 0, class: None });
        }
        let of = |endpoint: &RawSocket| endpoint.local == ends.source && endpoint.protocol == protocol;
        let endpoint = Some(endpoints.iter().position(of)?);
        Some(Self { ends, endpoint, start, class })
    }

    fn send(
        &self,
        packet: &[u8],
        endpoints: &[RawSocket],
        fragments: &FragmentSender,
    ) -> std::io::Result<()> {
        let Some(endpoint) = self.endpoint.map(|at| &endpoints[at]) else {
            return fragments.send(packet, self.ends);
        };
        let class = self.class.map(i32::from);
        let control = class.as_ref().map(ControlMessage::Ipv6TClass);
        let slices = [IoSlice::new(&packet[self.start..])];
        let to = SockaddrStorage::from(SocketAddr::new(self.ends.destination, 0));
        sendmsg(
            endpoint.as_fd().as_raw_fd(),
            &slices,
            control.as_slice(),
            MsgFlags::MSG_DONTWAIT,
            Some(&to),
        )?;
        Ok(())
    }
}

/// The ends and the protocol of a packet, where what the kernel takes of it starts, and the traffic class that goes beside.
fn parse(packet: &[u8]) -> Option<(Ends, u8, usize, Option<u8>)> {
    if let Ok(ip) = Ipv6::parse(packet) {
        let ends = Ends { source: ip.source().into(), destination: ip.destination().into() };
        return Some((ends, ip.next_header(), ipv6::HEADER_BYTES, Some(ip.traffic_class())));
    }
    let ip = Ipv4::parse(packet).ok()?;
    let ends = Ends { source: ip.source().into(), destination: ip.destination().into() };
    Some((ends, ip.protocol(), 0, None))
}

impl Port for Raw {
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
        for endpoint in &self.endpoints {
            while burst.len() - before < limit {
                let received = endpoint.receive(&mut self.buffer, &mut self.counters, pool);
                let received = received.map_err(|source| PortError::Io {
                    port: self.description.name.clone(),
                    action: "receive".to_owned(),
                    source,
                })?;
                match received {
                    Some(frame) => burst.push(frame),
                    None => break,
                }
            }
        }
        Ok(burst.len() - before)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let mut sent = 0;
        while sent < burst.len() && self.send_one(&burst[sent]) {
            sent += 1;
        }
        for frame in burst.drain(..sent) {
            pool.give_back(frame);
        }
        Ok(sent)
    }

    fn take_path_mtu(&mut self) -> Option<(IpAddr, u16)> {
        self.path_mtus.take()
    }

    fn readable_fd(&self) -> Option<BorrowedFd<'_>> {
        // Several sockets: the worker asks them in turn.
        match self.endpoints.as_slice() {
            [only] => Some(only.as_fd()),
            _ => None,
        }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests;
