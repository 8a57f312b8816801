//! One raw socket: whole IP packets of one protocol at one address.
//!
//! Over IPv4 the kernel hands out and takes whole packets. Over IPv6 it keeps the header to itself, so it is made from what
//! the kernel tells beside the payload.

use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use convoy_packet::icmp::{v4, v6};
use convoy_packet::protocol::{ICMP, ICMP_V6};
use convoy_packet::{Frame, FramePool, FrameSize, IpHeader, ipv6};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use crate::{PortCounters, sys};

/// Room for any packet, in bytes.
pub(crate) const PACKET_BYTES: usize = 65_535;
/// Bytes of socket buffer asked for, each way.
const SOCKET_BUFFER: usize = 4 << 20;

/// A socket filter that takes nothing of any packet.
const REFUSE_ALL: [SockFilter; 1] = [refuse()];
/// Takes ICMP "fragmentation needed" (RFC 1191), and no other.
const TOO_BIG_V4: [SockFilter; 5] = [
    SockFilter::new((libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16, 0, 0, 0),
    // Type and code.
    SockFilter::new((libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u16, 0, 0, 0),
    skip_unless(u32::from_be_bytes([0, 0, v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED])),
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

pub(crate) struct RawSocket {
    pub(super) socket: Socket,
    pub(super) local: IpAddr,
    pub(super) protocol: u8,
}

impl RawSocket {
    /// A socket for packets of `protocol` from and to `local`; without `receives` only from it. What it sends has the mark.
    pub(crate) fn open(
        local: IpAddr,
        protocol: u8,
        receives: bool,
        mark: Option<u32>,
    ) -> std::io::Result<Self> {
        let address = SocketAddr::new(local, 0);
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(protocol))))?;
        match protocol {
            ICMP => socket.attach_filter(&TOO_BIG_V4)?,
            ICMP_V6 => socket.attach_filter(&TOO_BIG_V6)?,
            _ if !receives => socket.attach_filter(&REFUSE_ALL)?,
            _ => {}
        }
        socket.set_nonblocking(true)?;
        if let Some(mark) = mark {
            socket.set_mark(mark)?;
        }
        if local.is_ipv4() {
            socket.set_header_included_v4(true)?;
        } else {
            setsockopt(&socket, sockopt::Ipv6RecvTClass, &true)?;
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        }
        // DF itself is as the packet has it where the packet comes with its header.
        sys::set_dont_fragment(socket.as_fd(), &local, true)?;
        // What the system allows is enough.
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
        socket.bind(&address.into())?;
        Ok(Self { socket, local, protocol })
    }

    /// A socket for what routers say of packets from `local` that were too big. It says nothing of who is to be believed.
    pub(crate) fn of_reports(local: IpAddr) -> std::io::Result<Self> {
        Self::open(local, if local.is_ipv4() { ICMP } else { ICMP_V6 }, true, None)
    }

    /// Receives one packet into a frame by way of `buffer`; `None` if there is none. One that finds no frame is counted as
    /// dropped.
    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
        counters: &mut PortCounters,
        pool: &mut FramePool,
    ) -> std::io::Result<Option<Frame>> {
        let mut control = cmsg_space!(i32, libc::in6_pktinfo);
        let (len, peer, class, local) = {
            let mut slices = [IoSliceMut::new(buffer)];
            counters.system_calls += 1;
            let fd = self.socket.as_raw_fd();
            let message =
                recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut control), MsgFlags::MSG_DONTWAIT);
            let message = match message {
                Ok(message) => message,
                // An ICMP error about an earlier packet; nothing was lost here.
                Err(
                    Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::EPROTO,
                ) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let peer = message.address.as_ref().and_then(SockaddrStorage::as_sockaddr_in6);
            let (mut class, mut local) = (0, self.local);
            for control in message.cmsgs().into_iter().flatten() {
                match control {
                    ControlMessageOwned::Ipv6TClass(value) => class = value as u8,
                    ControlMessageOwned::Ipv6PacketInfo(info) => local = info.ipi6_addr.s6_addr.into(),
                    _ => {}
                }
            }
            (message.bytes, peer.map(|peer| peer.ip()), class, local)
        };
        let packet = &buffer[..len];
        let frame = FrameSize::for_packet(len, 0).and_then(|size| pool.take(size)).and_then(|mut frame| {
            let is_whole = frame.fill(packet).is_ok()
                && match (local, peer) {
                    (IpAddr::V6(local), Some(peer)) => {
                        prepend_header(&mut frame, peer, local, self.protocol, class).is_some()
                    }
                    _ => local.is_ipv4(),
                };
            if is_whole {
                return Some(frame);
            }
            pool.give_back(frame);
            None
        });
        match &frame {
            Some(frame) => {
                counters.received_packets += 1;
                counters.received_bytes += frame.len() as u64;
            }
            None => counters.receive_dropped += 1,
        }
        Ok(frame)
    }
}

impl AsFd for RawSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
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
