//! Packet sockets: whole Ethernet frames to and from an interface.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Length of the header that stands before each frame with [`begin_offload_headers`]
/// (`struct virtio_net_hdr`), in bytes.
pub const OFFLOAD_HEADER_BYTES: usize = 10;

fn set<T>(socket: BorrowedFd<'_>, option: i32, value: &T) -> io::Result<()> {
    set_at(socket, libc::SOL_PACKET, option, value)
}

fn set_at<T>(socket: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and length are of `value`, which lives until the call returns; the
    // descriptor is borrowed, so open.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const *value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel put a header before each frame that says what it left undone, and parse one
/// before each frame it is given.
pub fn begin_offload_headers(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::PACKET_VNET_HDR, &1_i32)
}

/// Excludes what this host itself sends by the interface.
pub fn ignore_outgoing(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::PACKET_IGNORE_OUTGOING, &1_i32)
}

/// Reads an option that is made of integers.
fn get<T>(socket: BorrowedFd<'_>, option: i32, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and length are of `value`, which lives until the call returns; the
    // descriptor is borrowed, so open.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, (&raw mut *value).cast(), &raw mut len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Restricts the socket to frames accepted by a program.
pub(crate) fn filter(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    set_at(socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &program.as_raw_fd())
}

/// The flags of `PACKET_FANOUT`: the kernel chooses a group's number; no member gets what this host
/// sends.
const FANOUT_UNIQUE: u32 = 0x2000;
const FANOUT_IGNORES_OUTGOING: u32 = 0x4000;

/// Distributes received frames among the sockets, all frames of one flow to one of them. They must
/// be bound.
pub(crate) fn share(sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    let hash = libc::PACKET_FANOUT_HASH | FANOUT_IGNORES_OUTGOING;
    let Some((first, others)) = sockets.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Ok(());
    };
    set(*first, libc::PACKET_FANOUT, &((hash | FANOUT_UNIQUE) << 16))?;
    let mut chosen = 0_u32;
    get(*first, libc::PACKET_FANOUT, &mut chosen)?;
    let group = (hash << 16) | (chosen & 0xffff);
    others.iter().try_for_each(|socket| set(*socket, libc::PACKET_FANOUT, &group))
}

/// Frames lost for lack of room at the socket since the last call.
pub(crate) fn take_lost(socket: BorrowedFd<'_>) -> u64 {
    let mut counted = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    get(socket, libc::PACKET_STATISTICS, &mut counted).map_or(0, |()| counted.tp_drops.into())
}

/// Makes the interface accept frames to any address, while the socket is open.
pub fn take_all(socket: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: interface as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// The MTU of an interface, in bytes.
pub fn interface_mtu(socket: BorrowedFd<'_>, name: &str) -> io::Result<usize> {
    // SAFETY: it is made of integers, for which zeros are values.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    // SAFETY: SIOCGIFMTU reads the name and writes the MTU of a whole `ifreq`; the descriptor is
    // borrowed, so open.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just written this member.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(usize::try_from(mtu).unwrap_or(0))
}
