//! UDP sockets as ports. Their datagrams are either the test packets themselves, for a tester among
//! hosts, or carry whole IP packets, as a link does.

use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use convoy_packet::{Frame, FramePool};
use convoy_port::{Port, PortCounters, PortDescription, PortError, PortKind};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, sendmmsg, setsockopt, sockopt};

use crate::device::MeasureError;
use crate::family::Family;

/// Datagrams per system call.
const MESSAGES: usize = 64;
/// The longest datagram, in bytes.
const LONGEST: usize = 9216;
/// Size of the tester's receive buffer in bytes; large, so that the tester itself loses nothing.
const RECEIVE_BUFFER: usize = 32 << 20;
/// Size of a gateway's receive buffer in bytes. It holds about as much as a network card's ring:
/// some 1,400 short packets, or 450 of 1450 bytes (the kernel doubles the value and counts its own
/// structures). With a longer queue, short trials would pass at rates that the gateway cannot
/// sustain.
const GATEWAY_BUFFER: usize = 512 << 10;

/// A UDP socket connected to its peer.
pub(crate) struct UdpEnd {
    description: PortDescription,
    counters: PortCounters,
    socket: UdpSocket,
    /// The family of packets for which the kernel adds IP and UDP headers; `None` where a datagram
    /// is a whole IP packet.
    family: Option<Family>,
    buffers: Vec<Vec<u8>>,
}

impl UdpEnd {
    /// A socket for packets from one address to another of the same family.
    pub(crate) fn open(at: SocketAddr, peer: SocketAddr) -> Result<Self, MeasureError> {
        let failed = |action: String| move |source: std::io::Error| MeasureError::Io { action, source };
        let socket = UdpSocket::bind(at).map_err(failed(format!("bind a UDP socket to {at}")))?;
        Self::connected(socket, peer, Some(Family::of(peer.ip())), RECEIVE_BUFFER)
    }

    /// Two loopback sockets that exchange whole IP packets: a link with real system calls that
    /// needs no privileges. The first is the tester's end, the second the gateway's.
    pub(crate) fn wire() -> Result<[Self; 2], MeasureError> {
        let bind = || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            let address = socket.local_addr()?;
            Ok((socket, address))
        };
        let failed =
            |source: std::io::Error| MeasureError::Io { action: "bind to loopback".to_owned(), source };
        let ((tester, tester_at), (gateway, gateway_at)) = (bind().map_err(failed)?, bind().map_err(failed)?);
        Ok([
            Self::connected(tester, gateway_at, None, RECEIVE_BUFFER)?,
            Self::connected(gateway, tester_at, None, GATEWAY_BUFFER)?,
        ])
    }

    fn connected(
        socket: UdpSocket,
        peer: SocketAddr,
        family: Option<Family>,
        buffer: usize,
    ) -> Result<Self, MeasureError> {
        let failed = |action: String| move |source: std::io::Error| MeasureError::Io { action, source };
        // Without the privilege for RcvBufForce, the kernel's limit applies.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &buffer)
            .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &buffer));
        socket.connect(peer).map_err(failed(format!("find a route to {peer}")))?;
        socket.set_nonblocking(true).map_err(failed("make a socket non-blocking".to_owned()))?;
        let mtu = match Family::of(peer.ip()) {
            Family::V4 => rustix::net::sockopt::ip_mtu(&socket),
            Family::V6 => rustix::net::sockopt::ipv6_mtu(&socket),
        };
        let mtu = mtu.map_err(|errno| failed(format!("query the MTU to {peer}"))(errno.into()))?;
        Ok(Self {
            description: PortDescription {
                name: format!("to {peer}"),
                kind: PortKind::of::<convoy_port::UdpSettings>(),
                mtu: usize::try_from(mtu).unwrap_or(0).min(LONGEST),
            },
            counters: PortCounters::default(),
            socket,
            family,
            buffers: vec![vec![0; LONGEST]; MESSAGES],
        })
    }

    /// Bytes of headers that the kernel adds to each packet.
    fn headers(&self) -> usize {
        self.family.map_or(0, |family| family.headers_length().into())
    }

    fn failed(&self, action: &str, errno: Errno) -> PortError {
        PortError::Io { port: self.description.name.clone(), action: action.to_owned(), source: errno.into() }
    }

    fn read(&mut self, limit: usize) -> Result<Vec<usize>, PortError> {
        let headers = self.headers();
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = self
            .buffers
            .iter_mut()
            .take(limit)
            .map(|buffer| [IoSliceMut::new(&mut buffer[headers..])])
            .collect();
        let flags = MsgFlags::MSG_DONTWAIT;
        // The message headers point into the slices and must not outlive the call.
        let mut messages = MultiHeaders::<()>::preallocate(slices.len(), None);
        let read = recvmmsg(self.socket.as_raw_fd(), &mut messages, slices.iter_mut(), flags, None);
        let lengths = read.map(|read| read.map(|message| message.bytes).collect());
        match lengths {
            Ok(lengths) => Ok(lengths),
            // ICMP errors about earlier packets are no failure of the socket.
            Err(
                Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH,
            ) => Ok(Vec::new()),
            Err(errno) => Err(self.failed("receive", errno)),
        }
    }
}

impl Port for UdpEnd {
    fn description(&self) -> &PortDescription {
        &self.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        self.counters.system_calls += 1;
        let (headers, lengths) = (self.headers(), self.read(limit.min(MESSAGES))?);
        for (buffer, length) in self.buffers.iter_mut().zip(&lengths) {
            // The headers that the reader of stamps looks at.
            match self.family {
                Some(Family::V4) => buffer[0] = 0x45,
                Some(Family::V6) => buffer[0] = 0x60,
                None => {}
            }
            match pool.take_filled(&buffer[..headers + length], 0) {
                Some(frame) => {
                    self.counters.received_packets += 1;
                    self.counters.received_bytes += (headers + length) as u64;
                    burst.push(frame);
                }
                None => self.counters.receive_dropped += 1,
            }
        }
        Ok(lengths.len())
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let (headers, count) = (self.headers(), burst.len().min(MESSAGES));
        let slices: Vec<[IoSlice<'_>; 1]> = burst[..count]
            .iter()
            .map(|frame| [IoSlice::new(frame.get(headers..).unwrap_or_default())])
            .collect();
        // The socket is connected, so no message has an address.
        let addresses: [Option<()>; MESSAGES] = [None; MESSAGES];
        self.counters.system_calls += 1;
        let flags = MsgFlags::MSG_DONTWAIT;
        let mut messages = MultiHeaders::<()>::preallocate(count, None);
        let sent = sendmmsg(self.socket.as_raw_fd(), &mut messages, &slices, addresses, [], flags);
        let sent = match sent.map(Iterator::count) {
            Ok(sent) => sent,
            // The tester drops what does not fit, as a link would.
            Err(
                Errno::EAGAIN
                | Errno::ENOBUFS
                | Errno::EINTR
                | Errno::ECONNREFUSED
                | Errno::EHOSTUNREACH
                | Errno::ENETUNREACH
                | Errno::EPERM,
            ) => 0,
            Err(errno) => return Err(self.failed("send", errno)),
        };
        for frame in burst.drain(..sent) {
            self.counters.sent_packets += 1;
            self.counters.sent_bytes += frame.len() as u64;
            pool.give_back(frame);
        }
        Ok(sent)
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Stamp;

    fn pass_from_socket_to_socket([here, there]: [&str; 2], first: u8) {
        let address = |text: &str| text.parse().expect("an address");
        let (here, there) = (address(here), address(there));
        let mut near = UdpEnd::open(here, there).expect("loopback");
        let mut far = UdpEnd::open(there, here).expect("loopback");
        assert!(near.description().mtu >= 1500);
        let mut pool = FramePool::new(256, 0);
        let mut burst: Vec<Frame> = Vec::new();
        for sequence in 0..3 {
            let mut frame = pool.take_filled(&[first; 80], 0).expect("a frame");
            Stamp { stream: 1, sequence, sent_ns: 5 }.write(&mut frame);
            burst.push(frame);
        }
        assert_eq!(near.send(&mut pool, &mut burst).expect("it sends"), 3);
        let mut received = Vec::new();
        for _ in 0..1000 {
            far.receive(&mut pool, 64, &mut received).expect("it receives");
            if received.len() == 3 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let numbers: Vec<u64> =
            received.iter().filter_map(|frame| Stamp::read(frame)).map(|stamp| stamp.sequence).collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert!(received.iter().all(|frame| frame.len() == 80));
    }

    #[test]
    fn packets_pass_from_socket_to_socket_with_their_stamps() {
        pass_from_socket_to_socket(["127.0.0.1:29017", "127.0.0.2:29017"], 0x45);
        pass_from_socket_to_socket(["[::1]:29017", "[::1]:29018"], 0x60);
    }
}
