//! Binds packet sockets to an interface, which no safe library does.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Binds the socket to the interface with this index, by which it sends; it receives nothing.
///
/// # Errors
/// The system's.
pub fn bind_to_send(socket: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    bind_to(socket, interface, 0)
}

/// Binds the socket to the interface with this index, for frames of any protocol.
///
/// # Errors
/// The system's.
pub fn bind(socket: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    bind_to(socket, interface, libc::ETH_P_ALL as u16)
}

fn bind_to(socket: BorrowedFd<'_>, interface: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the pointer and length are of `address`, which lives until the call returns; the
    // descriptor is borrowed, so open.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
