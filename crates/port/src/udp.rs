//! ESP in UDP (RFC 3948): sockets on port 4500, with segmentation offload both ways.
//!
//! A run of datagrams to one peer leaves in one system call where the kernel segments (`UDP_SEGMENT`), and what the
//! kernel has coalesced (`UDP_GRO`) is taken apart here.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use convoy_packet::{Frame, FramePool, FrameSize, HEADROOM_BYTES, checksum};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::sockopt;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{Port, PortCounters, PortDescription, PortError, PortKind};

/// Room for the largest datagram, or for what the kernel coalesces into one.
const RECEIVE_BYTES: usize = 65_535;
/// Segments and bytes that the kernel takes in one send.
const SEGMENTS: usize = 64;
/// See [`SEGMENTS`].
const SEGMENT_BYTES: usize = 60_000;
/// Bytes of socket buffer asked for, each way.
const SOCKET_BUFFER: usize = 4 << 20;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;

/// One socket of one address.
struct Endpoint {
    socket: Socket,
    local: SocketAddr,
    /// Whether the kernel was told to set DF.
    sets_df: Option<bool>,
}

/// The `udp` port.
pub struct Udp {
    description: PortDescription,
    counters: PortCounters,
    endpoints: Vec<Endpoint>,
    can_segment: bool,
    buffer: Vec<u8>,
    /// Received into `buffer` and not handed out yet.
    pending: Option<Datagrams>,
}

/// What one receive brought: one datagram or several of one size.
#[derive(Clone, Copy)]
struct Datagrams {
    endpoint: usize,
    peer: SocketAddr,
    octet: u8,
    at: usize,
    len: usize,
    segment: usize,
}

impl Udp {
    /// A port with one socket for each address; `mtu` is of outer packets, in bytes.
    ///
    /// # Errors
    /// [`PortError::Io`] if the system refuses, for instance because the address is not this host's.
    pub fn bind(name: &str, addresses: &[IpAddr], port: u16, mtu: usize) -> Result<Self, PortError> {
        if addresses.is_empty() {
            let reason = "a udp port needs an address to listen on; add address = [\"192.0.2.1\"]".to_owned();
            return Err(PortError::Invalid { port: name.to_owned(), reason });
        }
        let mut endpoints = Vec::new();
        for address in addresses {
            let local = SocketAddr::new(*address, port);
            let socket = open(local).map_err(|source| PortError::Io {
                port: name.to_owned(),
                action: format!("listen on UDP {local}"),
                source,
            })?;
            endpoints.push(Endpoint { socket, local, sets_df: None });
        }
        Ok(Self {
            description: PortDescription { name: name.to_owned(), kind: PortKind::Udp, mtu },
            counters: PortCounters::default(),
            endpoints,
            can_segment: true,
            buffer: vec![0; RECEIVE_BYTES],
            pending: None,
        })
    }

    fn receive_datagrams(&mut self, endpoint: usize) -> Result<bool, PortError> {
        let socket = &self.endpoints[endpoint].socket;
        let mut control = cmsg_space!(u8, i32, i32);
        let mut slices = [IoSliceMut::new(&mut self.buffer)];
        self.counters.system_calls += 1;
        let message = recvmsg::<SockaddrStorage>(
            socket.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            MsgFlags::MSG_DONTWAIT,
        );
        let message = match message {
            Ok(message) => message,
            // ECONNREFUSED tells of an earlier send; nothing was lost here.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => return Ok(false),
            Err(error) => return Err(self.io("receive", error)),
        };
        let (mut octet, mut segment) = (0, message.bytes);
        for control in message.cmsgs().into_iter().flatten() {
            match control {
                ControlMessageOwned::Ipv4Tos(tos) => octet = tos,
                ControlMessageOwned::Ipv6TClass(class) => octet = class as u8,
                ControlMessageOwned::UdpGroSegments(size) if size > 0 => segment = size as usize,
                _ => {}
            }
        }
        let peer = message.address.as_ref().and_then(socket_address);
        let len = message.bytes;
        let Some(peer) = peer else { return Ok(false) };
        self.pending = Some(Datagrams { endpoint, peer, octet, at: 0, len, segment: segment.max(1) });
        Ok(true)
    }

    /// Hands out what was received, as whole IP packets; `false` if frames ran out.
    fn hand_out(&mut self, pool: &mut FramePool, limit: usize, burst: &mut Vec<Frame>) -> bool {
        let Some(mut datagrams) = self.pending.take() else { return true };
        while burst.len() < limit && (datagrams.at < datagrams.len || datagrams.len == 0) {
            let end = (datagrams.at + datagrams.segment).min(datagrams.len);
            let payload = &self.buffer[datagrams.at..end];
            let Some(size) = FrameSize::for_packet(payload.len(), 0) else {
                self.counters.receive_dropped += 1;
                datagrams.at = end;
                continue;
            };
            let Some(mut frame) = pool.take(size) else {
                self.pending = Some(datagrams);
                return false;
            };
            let local = self.endpoints[datagrams.endpoint].local;
            if frame.fill(payload).is_ok()
                && wrap(&mut frame, datagrams.peer, local, datagrams.octet).is_some()
            {
                self.counters.received_packets += 1;
                self.counters.received_bytes += frame.len() as u64;
                burst.push(frame);
            } else {
                self.counters.receive_dropped += 1;
                pool.give_back(frame);
            }
            datagrams.at = end;
            if datagrams.len == 0 {
                return true;
            }
        }
        if datagrams.at < datagrams.len {
            self.pending = Some(datagrams);
            return false;
        }
        true
    }

    fn io(&self, action: &str, error: Errno) -> PortError {
        PortError::Io {
            port: self.description.name.clone(),
            action: action.to_owned(),
            source: std::io::Error::from(error),
        }
    }

    /// Sends a run; `Ok(false)` if the socket has no room now.
    fn send_run(&mut self, run: &[Frame], head: Head) -> Result<bool, PortError> {
        let Some(at) = self.endpoints.iter().position(|endpoint| endpoint.local.ip() == head.source) else {
            self.counters.send_dropped += run.len() as u64;
            return Ok(true);
        };
        let endpoint = &mut self.endpoints[at];
        if endpoint.sets_df != Some(head.dont_fragment) {
            set_df(&endpoint.socket, head.dont_fragment);
            endpoint.sets_df = Some(head.dont_fragment);
        }
        let slices: Vec<IoSlice<'_>> = run.iter().map(|frame| IoSlice::new(&frame[head.len..])).collect();
        let segment = (run[0].len() - head.len) as u16;
        let class = i32::from(head.octet);
        let mut control = vec![match head.source {
            IpAddr::V4(_) => ControlMessage::Ipv4Tos(&head.octet),
            IpAddr::V6(_) => ControlMessage::Ipv6TClass(&class),
        }];
        if run.len() > 1 {
            control.push(ControlMessage::UdpGsoSegments(&segment));
        }
        let peer = SockaddrStorage::from(head.peer);
        self.counters.system_calls += 1;
        let fd = self.endpoints[at].socket.as_raw_fd();
        match sendmsg(fd, &slices, &control, MsgFlags::MSG_DONTWAIT, Some(&peer)) {
            Ok(_) => {
                self.counters.sent_packets += run.len() as u64;
                self.counters.sent_bytes += run.iter().map(|frame| frame.len() as u64).sum::<u64>();
                Ok(true)
            }
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => Ok(false),
            // The device cannot segment: one by one from now on.
            Err(Errno::EIO | Errno::EINVAL) if run.len() > 1 => {
                self.can_segment = false;
                Ok(false)
            }
            // Too long for the path, no route, refused: this run is lost, the port lives.
            Err(_) => {
                self.counters.send_dropped += run.len() as u64;
                Ok(true)
            }
        }
    }
}

fn open(local: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if local.is_ipv6() {
        socket.set_only_v6(true)?;
        setsockopt(&socket, sockopt::Ipv6RecvTClass, &true)?;
    } else {
        setsockopt(&socket, sockopt::IpRecvTos, &true)?;
    }
    // Old kernels lack it; then datagrams come one by one.
    let _ = setsockopt(&socket, sockopt::UdpGroSegment, &true);
    // What the system allows is enough.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&local.into())?;
    Ok(socket)
}

fn set_df(socket: &Socket, dont_fragment: bool) {
    // A kernel without the option sends as it likes, which is what it does now.
    let _ = crate::sys::set_dont_fragment(socket.as_fd(), dont_fragment);
}

fn socket_address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|v4| SocketAddr::new(IpAddr::V4(v4.ip()), v4.port()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddr::new(IpAddr::V6(v6.ip()), v6.port())))
}

/// Writes the IP and UDP header before a datagram that the kernel took apart. The UDP checksum is 0: the kernel has
/// checked it.
fn wrap(frame: &mut Frame, source: SocketAddr, destination: SocketAddr, octet: u8) -> Option<()> {
    const _: () = assert!(IPV6_HEADER + UDP_HEADER <= HEADROOM_BYTES);
    let udp_len = (frame.len() + UDP_HEADER) as u16;
    let udp = frame.prepend(UDP_HEADER).ok()?;
    udp[0..2].copy_from_slice(&source.port().to_be_bytes());
    udp[2..4].copy_from_slice(&destination.port().to_be_bytes());
    udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
    udp[6..8].fill(0);
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let total = (frame.len() + IPV4_HEADER) as u16;
            let ip = frame.prepend(IPV4_HEADER).ok()?;
            ip.fill(0);
            ip[0] = 0x45;
            ip[1] = octet;
            ip[2..4].copy_from_slice(&total.to_be_bytes());
            ip[8] = 64;
            ip[9] = 17;
            ip[12..16].copy_from_slice(&source.octets());
            ip[16..20].copy_from_slice(&destination.octets());
            let sum = checksum::of(ip, 0);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let ip = frame.prepend(IPV6_HEADER).ok()?;
            ip.fill(0);
            ip[0] = 0x60 | octet >> 4;
            ip[1] = octet << 4;
            ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
            ip[6] = 17;
            ip[7] = 64;
            ip[8..24].copy_from_slice(&source.octets());
            ip[24..40].copy_from_slice(&destination.octets());
        }
        _ => return None,
    }
    Some(())
}

/// What is read off a packet's headers before they are left out.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Head {
    source: IpAddr,
    peer: SocketAddr,
    octet: u8,
    dont_fragment: bool,
    /// Length of the headers, in bytes.
    len: usize,
}

fn head(packet: &[u8]) -> Option<Head> {
    let port = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            let address = |at: usize| {
                let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
                Some(IpAddr::V4(Ipv4Addr::from(octets)))
            };
            // A fragment of a larger packet has no UDP header of its own; only a `raw` port can send it.
            if *packet.get(9)? != 17 || u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0 {
                return None;
            }
            let peer = SocketAddr::new(address(16)?, port(header + 2)?);
            let len = header + UDP_HEADER;
            (packet.len() >= len).then_some(Head {
                source: address(12)?,
                peer,
                octet: packet[1],
                dont_fragment: packet[6] & 0x40 != 0,
                len,
            })
        }
        6 => {
            let address = |at: usize| {
                let octets: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
                Some(IpAddr::V6(Ipv6Addr::from(octets)))
            };
            if *packet.get(6)? != 17 {
                return None;
            }
            let peer = SocketAddr::new(address(24)?, port(IPV6_HEADER + 2)?);
            let len = IPV6_HEADER + UDP_HEADER;
            let octet = packet[0] << 4 | packet[1] >> 4;
            (packet.len() >= len).then_some(Head {
                source: address(8)?,
                peer,
                octet,
                dont_fragment: true,
                len,
            })
        }
        _ => None,
    }
}

/// How many frames from the front can leave in one call: one head, one length, the last may be shorter.
fn run_len(burst: &[Frame], first: Head, can_segment: bool) -> usize {
    let size = burst[0].len();
    let mut bytes = 0;
    let mut count = 0;
    for frame in burst.iter().take(if can_segment { SEGMENTS } else { 1 }) {
        bytes += frame.len();
        // An empty datagram is no segment: it would vanish in a run.
        let fits = (first.len + 1..=size).contains(&frame.len())
            && bytes <= SEGMENT_BYTES
            && head(frame) == Some(first);
        if count > 0 && !fits {
            break;
        }
        count += 1;
        if frame.len() < size {
            break;
        }
    }
    count
}

impl Port for Udp {
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
        let limit = before + limit;
        for endpoint in 0..self.endpoints.len() {
            while burst.len() < limit && self.hand_out(pool, limit, burst) {
                if !self.receive_datagrams(endpoint)? {
                    break;
                }
            }
        }
        self.hand_out(pool, limit, burst);
        Ok(burst.len() - before)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let mut sent = 0;
        while sent < burst.len() {
            let Some(first) = head(&burst[sent]) else {
                self.counters.send_dropped += 1;
                sent += 1;
                continue;
            };
            let count = run_len(&burst[sent..], first, self.can_segment);
            let could_segment = self.can_segment;
            if self.send_run(&burst[sent..sent + count], first)? {
                sent += count;
            } else if could_segment == self.can_segment {
                break;
            }
        }
        for frame in burst.drain(..sent) {
            pool.give_back(frame);
        }
        Ok(sent)
    }

    fn readable_fd(&self) -> Option<BorrowedFd<'_>> {
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
mod tests {
    use super::*;

    fn port(address: &str, number: u16) -> Udp {
        Udp::bind("outside", &[address.parse().expect("an address")], number, 1500)
            .expect("loopback is there")
    }

    /// A packet as IPsec makes it: headers of the outer packet and a payload.
    fn packet(pool: &mut FramePool, from: SocketAddr, to: SocketAddr, payload: &[u8], octet: u8) -> Frame {
        let mut frame = pool.take_filled(payload, 0).expect("a frame");
        wrap(&mut frame, from, to, octet).expect("one family");
        frame
    }

    fn exchange(address: &str, numbers: (u16, u16)) {
        let (mut a, mut b) = (port(address, numbers.0), port(address, numbers.1));
        let mut pool = FramePool::new(256, 64);
        let end = |number| SocketAddr::new(address.parse().expect("an address"), number);
        let payloads = (0..100u8).map(|k| vec![k; 700]);
        let payloads = payloads.chain([1usize, 40, 1400, 8000, 0, 9].map(|len| vec![7; len]));
        let mut burst: Vec<Frame> =
            payloads.map(|payload| packet(&mut pool, end(numbers.0), end(numbers.1), &payload, 2)).collect();
        let expected: Vec<Vec<u8>> = burst.iter().map(|frame| frame.to_vec()).collect();
        assert_eq!(a.send(&mut pool, &mut burst).expect("loopback"), 106);
        let mut received = Vec::new();
        for _ in 0..1000 {
            b.receive(&mut pool, 64, &mut received).expect("loopback");
            if received.len() == expected.len() {
                break;
            }
        }
        assert_eq!(received.len(), expected.len());
        for (got, want) in received.iter().zip(&expected) {
            assert_eq!(got[..], want[..], "headers, ECN and payload come through");
        }
        let calls = a.counters().system_calls;
        assert!(calls < 20, "106 packets took {calls} calls");
        pool.give_back_burst(&mut received);
    }

    #[test]
    fn bursts_cross_the_loopback_in_few_system_calls_over_ipv4() {
        exchange("127.0.0.1", (45_001, 45_002));
    }

    #[test]
    fn bursts_cross_the_loopback_in_few_system_calls_over_ipv6() {
        exchange("::1", (45_003, 45_004));
    }

    #[test]
    fn what_is_not_udp_or_not_from_here_is_counted() {
        let mut a = port("127.0.0.1", 45_005);
        let mut pool = FramePool::new(8, 0);
        let to: SocketAddr = "127.0.0.1:9".parse().expect("an address");
        let stranger: SocketAddr = "127.9.9.9:4500".parse().expect("an address");
        let mut burst = vec![
            pool.take_filled(&[0x45; 30], 0).expect("a frame"),
            packet(&mut pool, stranger, to, b"abc", 0),
        ];
        a.send(&mut pool, &mut burst).expect("not the port's fault");
        assert_eq!((a.counters().send_dropped, burst.len()), (2, 0));
        assert_eq!(pool.available(FrameSize::Small), 8);
    }
}
