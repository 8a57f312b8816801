//! ESP and AH right on IP: raw sockets of protocols 50 and 51.
//!
//! Over IPv4 the kernel hands out and takes whole packets. Over IPv6 it keeps the header to itself, so it is made from what
//! the kernel tells beside the payload, and left out again. What routers say of packets that were too big comes with it.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use convoy_packet::icmp::{v4, v6};
use convoy_packet::protocol::{AH, ESP, ICMP, ICMP_V6};
use convoy_packet::{Frame, FramePool, FrameSize, IpHeader, Ipv4, Ipv6, ipv6};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use crate::{Port, PortCounters, PortDescription, PortError, PortKind};

/// What the port carries.
const PROTOCOLS: [u8; 2] = [ESP, AH];
const PACKET_BYTES: usize = 65_535;
/// Bytes of socket buffer asked for, each way.
const SOCKET_BUFFER: usize = 4 << 20;

/// A socket filter that takes nothing of any packet.
const REFUSE_ALL: [SockFilter; 1] = [refuse()];
/// Takes ICMP "destination unreachable", of which "fragmentation needed" is one (RFC 1191), and no other.
const TOO_BIG_V4: [SockFilter; 5] = [
    SockFilter::new((libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16, 0, 0, 0),
    SockFilter::new((libc::BPF_LD | libc::BPF_B | libc::BPF_IND) as u16, 0, 0, 0),
    skip_unless(v4::UNREACHABLE as u32),
    accept(),
    refuse(),
];
/// Takes ICMPv6 "packet too big" (RFC 4443 section 3.2), and no other; the kernel shows no IPv6 header.
const TOO_BIG_V6: [SockFilter; 4] = [
    SockFilter::new((libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16, 0, 0, 0),
    skip_unless(v6::PACKET_TOO_BIG as u32),
    accept(),
    refuse(),
];

const fn skip_unless(value: u32) -> SockFilter {
    SockFilter::new((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, 0, 1, value)
}

const fn accept() -> SockFilter {
    SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, u32::MAX)
}

const fn refuse() -> SockFilter {
    SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0)
}

struct Endpoint {
    socket: Socket,
    local: IpAddr,
    protocol: u8,
}

/// The `raw` port.
pub struct Raw {
    description: PortDescription,
    counters: PortCounters,
    endpoints: Vec<Endpoint>,
    buffer: Vec<u8>,
}

impl Raw {
    /// The queues of a port, each with a socket for each address and protocol; `mtu` is of outer packets, in bytes. The
    /// kernel gives a packet to every raw socket of its protocol, so the first queue alone receives.
    ///
    /// # Errors
    /// [`PortError::Io`] if the system refuses: raw sockets need CAP_NET_RAW.
    pub fn bind(name: &str, addresses: &[IpAddr], mtu: usize, queues: usize) -> Result<Vec<Self>, PortError> {
        (0..queues).map(|queue| Self::bind_queue(name, addresses, mtu, queue == 0)).collect()
    }

    fn bind_queue(name: &str, addresses: &[IpAddr], mtu: usize, receives: bool) -> Result<Self, PortError> {
        if addresses.is_empty() {
            let reason = "a raw port needs an address to listen on; add address = [\"192.0.2.1\"]".to_owned();
            return Err(PortError::Invalid { port: name.to_owned(), reason });
        }
        let mut endpoints = Vec::new();
        for address in addresses {
            let reports = if address.is_ipv4() { ICMP } else { ICMP_V6 };
            for protocol in PROTOCOLS.into_iter().chain(receives.then_some(reports)) {
                let socket = open(*address, protocol, receives).map_err(|source| PortError::Io {
                    port: name.to_owned(),
                    action: format!(
                        "listen for IP protocol {protocol} at {address} (run as root, or with CAP_NET_RAW)"
                    ),
                    source,
                })?;
                endpoints.push(Endpoint { socket, local: *address, protocol });
            }
        }
        Ok(Self {
            description: PortDescription { name: name.to_owned(), kind: PortKind::Raw, mtu },
            counters: PortCounters::default(),
            endpoints,
            buffer: vec![0; PACKET_BYTES],
        })
    }

    /// Receives one packet into a frame; `None` if there is none.
    fn receive_one(&mut self, at: usize, pool: &mut FramePool) -> Result<Option<Frame>, PortError> {
        let Endpoint { socket, local, protocol } = &self.endpoints[at];
        let mut control = cmsg_space!(i32);
        let mut slices = [IoSliceMut::new(&mut self.buffer)];
        self.counters.system_calls += 1;
        let fd = socket.as_raw_fd();
        let message = recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut control), MsgFlags::MSG_DONTWAIT);
        let message = match message {
            Ok(message) => message,
            // An ICMP error about an earlier packet; nothing was lost here.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::EPROTO) => {
                return Ok(None);
            }
            Err(error) => {
                return Err(PortError::Io {
                    port: self.description.name.clone(),
                    action: "receive".to_owned(),
                    source: error.into(),
                });
            }
        };
        let len = message.bytes;
        let peer = message.address.as_ref().and_then(SockaddrStorage::as_sockaddr_in6).map(|peer| peer.ip());
        let mut class = 0;
        for control in message.cmsgs().into_iter().flatten() {
            if let ControlMessageOwned::Ipv6TClass(value) = control {
                class = value as u8;
            }
        }
        let (local, protocol) = (*local, *protocol);
        let packet = &self.buffer[..len];
        let frame = FrameSize::for_packet(len, 0).and_then(|size| pool.take(size)).and_then(|mut frame| {
            let is_whole = frame.fill(packet).is_ok()
                && match (local, peer) {
                    (IpAddr::V6(local), Some(peer)) => {
                        prepend_header(&mut frame, peer, local, protocol, class).is_some()
                    }
                    _ => local.is_ipv4(),
                };
            is_whole.then_some(frame)
        });
        match &frame {
            Some(frame) => {
                self.counters.received_packets += 1;
                self.counters.received_bytes += frame.len() as u64;
            }
            None => self.counters.receive_dropped += 1,
        }
        Ok(Some(frame).flatten())
    }

    /// Sends one packet; `false` if the socket has no room now.
    fn send_one(&mut self, packet: &[u8]) -> bool {
        let Some((source, peer, protocol, start, class)) = parse(packet) else {
            self.counters.send_dropped += 1;
            return true;
        };
        let of = |endpoint: &&Endpoint| endpoint.local == source && endpoint.protocol == protocol;
        let Some(endpoint) = self.endpoints.iter().find(of) else {
            self.counters.send_dropped += 1;
            return true;
        };
        let class = i32::from(class);
        let classes = [ControlMessage::Ipv6TClass(&class)];
        let control = if source.is_ipv6() { &classes[..] } else { &[] };
        let slices = [IoSlice::new(&packet[start..])];
        let to = SockaddrStorage::from(peer);
        self.counters.system_calls += 1;
        match sendmsg(endpoint.socket.as_raw_fd(), &slices, control, MsgFlags::MSG_DONTWAIT, Some(&to)) {
            Ok(_) => {
                self.counters.sent_packets += 1;
                self.counters.sent_bytes += packet.len() as u64;
                true
            }
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => false,
            // Too long for the path, no route: this packet is lost, the port lives.
            Err(_) => {
                self.counters.send_dropped += 1;
                true
            }
        }
    }
}

fn open(address: IpAddr, protocol: u8, receives: bool) -> std::io::Result<Socket> {
    let local = SocketAddr::new(address, 0);
    let socket =
        Socket::new(Domain::for_address(local), Type::RAW, Some(Protocol::from(i32::from(protocol))))?;
    match protocol {
        ICMP => socket.attach_filter(&TOO_BIG_V4)?,
        ICMP_V6 => socket.attach_filter(&TOO_BIG_V6)?,
        _ if !receives => socket.attach_filter(&REFUSE_ALL)?,
        _ => {}
    }
    socket.set_nonblocking(true)?;
    if address.is_ipv4() {
        socket.set_header_included_v4(true)?;
    } else {
        setsockopt(&socket, sockopt::Ipv6RecvTClass, &true)?;
    }
    // What the system allows is enough.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&local.into())?;
    Ok(socket)
}

/// Source, destination, protocol, where what the kernel takes starts, and the traffic class of a packet.
fn parse(packet: &[u8]) -> Option<(IpAddr, SocketAddr, u8, usize, u8)> {
    if let Ok(ip) = Ipv6::parse(packet) {
        let peer = SocketAddr::new(ip.destination().into(), 0);
        return Some((ip.source().into(), peer, ip.next_header(), ipv6::HEADER_BYTES, ip.traffic_class()));
    }
    let ip = Ipv4::parse(packet).ok()?;
    let peer = SocketAddr::new(ip.destination().into(), 0);
    Some((ip.source().into(), peer, ip.protocol(), 0, ip.traffic_class()))
}

/// Puts the IPv6 header back before what the kernel took it from.
fn prepend_header(
    frame: &mut Frame,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    protocol: u8,
    class: u8,
) -> Option<()> {
    frame.prepend(ipv6::HEADER_BYTES).ok()?;
    IpHeader { traffic_class: class, ..IpHeader::new(protocol, source.into(), destination.into()) }
        .write(frame);
    Some(())
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
        for at in 0..self.endpoints.len() {
            while burst.len() - before < limit {
                match self.receive_one(at, pool)? {
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

    fn readable_fd(&self) -> Option<BorrowedFd<'_>> {
        // Several sockets: the worker asks them in turn.
        match self.endpoints.as_slice() {
            [only] => Some(only.socket.as_fd()),
            _ => None,
        }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests;
