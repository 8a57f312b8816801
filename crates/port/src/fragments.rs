//! Fragments of outer packets. A UDP socket sends only whole datagrams and an IPv6 raw socket
//! writes its own header, so packets that were cut before they reached the port leave by sockets
//! that take packets with their headers.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use convoy_packet::Layout;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use socket2::{Domain, Protocol, Socket, Type};

use crate::sys;

/// A socket for each family of the port's addresses.
pub(crate) struct FragmentSender {
    v4: Option<Socket>,
    v6: Option<Socket>,
}

/// Source and destination of a fragment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FragmentEnds {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
}

impl FragmentEnds {
    /// The ends of a fragment; `None` for anything else.
    pub(crate) fn of_fragment(packet: &[u8]) -> Option<Self> {
        let layout = Layout::parse(packet).ok().filter(|layout| layout.fragment.is_some())?;
        let (source, destination) = layout.addresses(packet);
        Some(Self { source, destination })
    }
}

impl FragmentSender {
    /// Sockets for the families of `addresses`; what they send has the mark. They need CAP_NET_RAW.
    pub(crate) fn open(addresses: &[IpAddr], mark: Option<u32>) -> std::io::Result<Self> {
        let of = |any: IpAddr| {
            let is_wanted = addresses.iter().any(|address| address.is_ipv4() == any.is_ipv4());
            is_wanted.then(|| open(any, mark)).transpose()
        };
        Ok(Self { v4: of(Ipv4Addr::UNSPECIFIED.into())?, v6: of(Ipv6Addr::UNSPECIFIED.into())? })
    }

    /// The socket by which a packet from this source leaves.
    pub(crate) fn socket(&self, source: IpAddr) -> Option<BorrowedFd<'_>> {
        let socket = if source.is_ipv4() { &self.v4 } else { &self.v6 };
        socket.as_ref().map(AsFd::as_fd)
    }

    /// Sends a fragment unchanged. Does not block.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn send(&self, packet: &[u8], ends: FragmentEnds) -> std::io::Result<()> {
        let Some(socket) = self.socket(ends.source) else {
            return Err(std::io::ErrorKind::AddrNotAvailable.into());
        };
        // The header has the source; this is for the route, which may depend on it.
        let (v4, v6) = (pktinfo_v4(ends.source), pktinfo_v6(ends.source));
        let control = match (&v4, &v6) {
            (Some(info), _) => [ControlMessage::Ipv4PacketInfo(info)],
            (_, Some(info)) => [ControlMessage::Ipv6PacketInfo(info)],
            _ => return Err(std::io::ErrorKind::AddrNotAvailable.into()),
        };
        let to = SockaddrStorage::from(SocketAddr::new(ends.destination, 0));
        let slices = [IoSlice::new(packet)];
        sendmsg(socket.as_raw_fd(), &slices, &control, MsgFlags::MSG_DONTWAIT, Some(&to))?;
        Ok(())
    }
}

impl FragmentSender {
    /// Sends a packet unchanged, from any source, by the kernel's route to its destination. Does
    /// not block.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn send_routed(&self, packet: &[u8], destination: IpAddr) -> std::io::Result<()> {
        let Some(socket) = self.socket(destination) else {
            return Err(std::io::ErrorKind::AddrNotAvailable.into());
        };
        let to = SockaddrStorage::from(SocketAddr::new(destination, 0));
        let slices = [IoSlice::new(packet)];
        sendmsg(socket.as_raw_fd(), &slices, &[], MsgFlags::MSG_DONTWAIT, Some(&to))?;
        Ok(())
    }
}

/// With protocol `IPPROTO_RAW` it sends packets with their headers and receives none.
fn open(any: IpAddr, mark: Option<u32>) -> std::io::Result<Socket> {
    let domain = Domain::for_address(SocketAddr::new(any, 0));
    let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))?;
    socket.set_nonblocking(true)?;
    if let Some(mark) = mark {
        socket.set_mark(mark)?;
    }
    sys::set_dont_fragment(socket.as_fd(), &any, true)?;
    Ok(socket)
}

fn pktinfo_v4(source: IpAddr) -> Option<libc::in_pktinfo> {
    let IpAddr::V4(source) = source else { return None };
    let address = |octets: [u8; 4]| libc::in_addr { s_addr: u32::from_ne_bytes(octets) };
    Some(libc::in_pktinfo {
        ipi_ifindex: 0,
        ipi_spec_dst: address(source.octets()),
        ipi_addr: address([0; 4]),
    })
}

fn pktinfo_v6(source: IpAddr) -> Option<libc::in6_pktinfo> {
    let IpAddr::V6(source) = source else { return None };
    Some(libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: source.octets() }, ipi6_ifindex: 0 })
}
