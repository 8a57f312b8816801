//! Socket options that the safe libraries lack.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// Whether packets of this socket carry DF. Without it the kernel fragments where it must.
pub(crate) fn set_dont_fragment(socket: BorrowedFd<'_>, dont_fragment: bool) -> std::io::Result<()> {
    let value = if dont_fragment { libc::IP_PMTUDISC_DO } else { libc::IP_PMTUDISC_DONT };
    let results = [(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER), (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)]
        .map(|(level, option)| {
            // SAFETY: the pointer and length are of `value`, which lives until the call returns; the
            // descriptor is borrowed, so open.
            unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    level,
                    option,
                    (&raw const value).cast(),
                    size_of_val(&value) as libc::socklen_t,
                )
            }
        });
    // One of the two is of the socket's family.
    if results.contains(&0) { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// A descriptor that `owner` keeps open for as long as it lives.
pub(crate) fn borrow<T>(_owner: &T, descriptor: std::os::fd::RawFd) -> BorrowedFd<'_> {
    // SAFETY: the descriptor belongs to a device inside `_owner`, whose lifetime bounds the result.
    unsafe { BorrowedFd::borrow_raw(descriptor) }
}
