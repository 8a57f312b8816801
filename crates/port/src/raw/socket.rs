//! One raw socket: packets of one protocol at one address.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use convoy_packet::icmp::{v4, v6};
use convoy_packet::protocol::{ICMP, ICMP_V6};
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use crate::sys;

/// Requested size of the socket buffers, in bytes, each way.
const SOCKET_BUFFER: usize = 4 << 20;

/// A socket filter that accepts nothing.
const REFUSE_ALL: [SockFilter; 1] = [refuse()];
/// Accepts ICMP "fragmentation needed" (RFC 1191) only.
const TOO_BIG_V4: [SockFilter; 5] = [
    SockFilter::new((libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16, 0, 0, 0),
    // Type and code.
    SockFilter::new((libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u16, 0, 0, 0),
    skip_unless(u32::from_be_bytes([0, 0, v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED])),
    accept(),
    refuse(),
];
/// Accepts ICMPv6 "packet too big" (RFC 4443 section 3.2) only; the kernel shows no IPv6 header.
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
    /// A socket for packets of `protocol` from and to `local`; without `receives` only from it.
    /// What it sends has the mark.
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
        // DF is the packet's own if it comes with its header.
        sys::set_dont_fragment(socket.as_fd(), &local, true)?;
        // A smaller buffer than requested is accepted.
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
        crate::sockets::allow_missing_address(&socket, &local)?;
        socket.bind(&address.into())?;
        Ok(Self { socket, local, protocol })
    }

    /// A socket for routers' "too big" about packets from `local`. It does not check whom to
    /// believe.
    pub(crate) fn of_reports(local: IpAddr) -> std::io::Result<Self> {
        Self::open(local, if local.is_ipv4() { ICMP } else { ICMP_V6 }, true, None)
    }
}

impl AsFd for RawSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
