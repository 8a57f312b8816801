//! TUN devices: their files of `/dev/net/tun`, attached to an interface.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `_IOW('T', 202, int)`
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
/// `_IOW('T', 208, unsigned int)`
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;

/// Attaches the file of a TUN device to the interface of this name, which it creates if there is
/// none. It needs CAP_NET_ADMIN.
pub(crate) fn attach_tun(file: BorrowedFd<'_>, name: &str, has_more_queues: bool) -> io::Result<()> {
    // SAFETY: it is made of integers, for which zeros are values.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    let more = if has_more_queues { libc::IFF_MULTI_QUEUE } else { 0 };
    request.ifr_ifru.ifru_flags =
        (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | more) as libc::c_short;
    // SAFETY: the kernel reads and writes a whole `ifreq`; the descriptor is borrowed, so open.
    done(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) })
}

/// Has the kernel pass on super-packets of TCP and, where it can (Linux 6.2), of UDP.
pub(crate) fn set_tun_offloads(file: BorrowedFd<'_>) -> io::Result<()> {
    let of_tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    let of_udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
    // SAFETY: the argument is a number; the descriptor is borrowed, so open.
    let set =
        |bits: u32| done(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, libc::c_ulong::from(bits)) });
    set(of_tcp | of_udp).or_else(|_| set(of_tcp))
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
