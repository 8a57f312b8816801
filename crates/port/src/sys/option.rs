//! Socket options.

#![allow(unsafe_code)]

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// The level of a family's options.
fn level(family: &IpAddr) -> i32 {
    if family.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 }
}

fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and length are of `value`, which lives until the call returns; the
    // descriptor is borrowed, so open.
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

/// Has a program choose among the sockets that share a port (`SO_REUSEPORT`), by their order.
pub(crate) fn attach_reuse_port(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF, program.as_raw_fd())
}

/// Sets whether the TUN device of a descriptor has a carrier (`TUNSETCARRIER`, Linux 5.0).
pub(crate) fn set_carrier(tun: BorrowedFd<'_>, has_carrier: bool) -> io::Result<()> {
    // _IOW('T', 226, int)
    const TUNSETCARRIER: libc::Ioctl = 0x4004_54e2;
    let value = libc::c_int::from(has_carrier);
    // SAFETY: the pointer is to an `int`, which the kernel only reads during the call; the
    // descriptor is borrowed, so open.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETCARRIER, &raw const value) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Requests the ancillary data for the synthetic IP header of each datagram: destination, traffic
/// class, hop limit.
pub(crate) fn receive_beside(socket: BorrowedFd<'_>, family: &IpAddr) -> io::Result<()> {
    let options = if family.is_ipv4() {
        [libc::IP_PKTINFO, libc::IP_RECVTOS, libc::IP_RECVTTL]
    } else {
        [libc::IPV6_RECVPKTINFO, libc::IPV6_RECVTCLASS, libc::IPV6_RECVHOPLIMIT]
    };
    options.into_iter().try_for_each(|option| set(socket, level(family), option, 1))
}

/// Whether packets of this socket stay unfragmented, over IPv4 by DF. Otherwise this host fragments
/// packets that are too long for the interface, and over IPv4 routers do. The kernel's belief about
/// the path, from ICMP that anybody may have sent, changes nothing: only the interface's own MTU
/// counts.
pub(crate) fn set_dont_fragment(
    socket: BorrowedFd<'_>,
    family: &IpAddr,
    dont_fragment: bool,
) -> io::Result<()> {
    let (option, values) = if family.is_ipv4() {
        (libc::IP_MTU_DISCOVER, [libc::IP_PMTUDISC_OMIT, libc::IP_PMTUDISC_PROBE])
    } else {
        (libc::IPV6_MTU_DISCOVER, [libc::IPV6_PMTUDISC_OMIT, libc::IPV6_PMTUDISC_PROBE])
    };
    set(socket, level(family), option, values[usize::from(dont_fragment)])
}

/// The MTU of the interface for which a packet of this socket was too long, in bytes. `resend`
/// tries it once more, and the kernel records the number. `None` if it was not refused for its
/// length this time.
///
/// A connected socket is not asked (`IP_MTU`): that returns the path's MTU, which anybody may have
/// forged.
pub(crate) fn mtu_of_refusal(
    socket: BorrowedFd<'_>,
    family: &IpAddr,
    resend: impl FnOnce() -> io::Result<()>,
) -> Option<u16> {
    let option = if family.is_ipv4() { libc::IP_RECVERR } else { libc::IPV6_RECVERR };
    set(socket, level(family), option, 1).ok()?;
    let mtu = resend().err().and_then(|_| refusal(socket));
    // Other errors queued meanwhile are dropped with it. Left on for longer, ICMP from anywhere
    // would fail other calls.
    let _ = set(socket, level(family), option, 0);
    mtu
}

/// Reads the socket's queue of errors up to the first that a packet's length was refused on this
/// host.
fn refusal(socket: BorrowedFd<'_>) -> Option<u16> {
    /// Errors of other origins that are skipped.
    const PASSED_OVER: usize = 16;
    for _ in 0..PASSED_OVER {
        let mut control = cmsg_space!([u8; 128]);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<()>(socket.as_raw_fd(), &mut [], Some(&mut control), flags).ok()?;
        for control in message.cmsgs().into_iter().flatten() {
            let (ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _)) =
                control
            else {
                continue;
            };
            if error.ee_origin == libc::SO_EE_ORIGIN_LOCAL && error.ee_errno == libc::EMSGSIZE as u32 {
                return Some(u16::try_from(error.ee_info).unwrap_or(u16::MAX));
            }
        }
    }
    None
}

/// A descriptor that `owner` keeps open for as long as it lives.
pub(crate) fn borrow<T>(_owner: &T, descriptor: std::os::fd::RawFd) -> BorrowedFd<'_> {
    // SAFETY: the descriptor belongs to a device inside `_owner`, whose lifetime bounds the result.
    unsafe { BorrowedFd::borrow_raw(descriptor) }
}
