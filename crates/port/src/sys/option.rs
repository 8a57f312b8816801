//! Socket options.

#![allow(unsafe_code)]

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The level of a family's options.
fn level(family: &IpAddr) -> i32 {
    if family.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 }
}

fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and length are of `value`, which lives until the call returns; the descriptor is borrowed,
    // so open.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks for what the synthetic IP header needs beside each datagram: destination, traffic class, hop limit.
pub(crate) fn receive_beside(socket: BorrowedFd<'_>, family: &IpAddr) -> io::Result<()> {
    let options = if family.is_ipv4() {
        [libc::IP_PKTINFO, libc::IP_RECVTOS, libc::IP_RECVTTL]
    } else {
        [libc::IPV6_RECVPKTINFO, libc::IPV6_RECVTCLASS, libc::IPV6_RECVHOPLIMIT]
    };
    options.into_iter().try_for_each(|option| set(socket, level(family), option, 1))
}

/// Whether packets of this socket carry DF and are refused where they exceed the path's MTU. Without it the kernel
/// fragments where it must.
pub(crate) fn set_dont_fragment(
    socket: BorrowedFd<'_>,
    family: &IpAddr,
    dont_fragment: bool,
) -> io::Result<()> {
    let (option, values) = if family.is_ipv4() {
        (libc::IP_MTU_DISCOVER, [libc::IP_PMTUDISC_DONT, libc::IP_PMTUDISC_DO])
    } else {
        (libc::IPV6_MTU_DISCOVER, [libc::IPV6_PMTUDISC_DONT, libc::IPV6_PMTUDISC_DO])
    };
    set(socket, level(family), option, values[usize::from(dont_fragment)])
}

/// The MTU of the path to the peer of a connected socket, in bytes, as the kernel knows it now.
pub(crate) fn connected_mtu(socket: BorrowedFd<'_>, family: &IpAddr) -> io::Result<u16> {
    let option = if family.is_ipv4() { libc::IP_MTU } else { libc::IPV6_MTU };
    let mut value = 0_i32;
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointers are to `value` and its length, which live until the call returns; the descriptor is borrowed,
    // so open.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level(family), option, (&raw mut value).cast(), &raw mut len)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u16::try_from(value).unwrap_or(u16::MAX))
}

/// A descriptor that `owner` keeps open for as long as it lives.
pub(crate) fn borrow<T>(_owner: &T, descriptor: std::os::fd::RawFd) -> BorrowedFd<'_> {
    // SAFETY: the descriptor belongs to a device inside `_owner`, whose lifetime bounds the result.
    unsafe { BorrowedFd::borrow_raw(descriptor) }
}
