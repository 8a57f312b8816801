//! Source-specific joins by the kernel's interface for both versions of IP (RFC 3678 section 5.1).

use std::io;
use std::net::IpAddr;

use nix::setsockopt_impl;
use nix::sys::socket::SetSockOpt;
use socket2::Socket;

/// Length of the kernel's `sockaddr_storage` in words of its alignment.
const ADDRESS_WORDS: usize = 128 / size_of::<libc::c_ulong>();

/// An address as the kernel's `sockaddr_storage`, without a port.
type AddressStorage = [libc::c_ulong; ADDRESS_WORDS];

/// The kernel's `group_source_req` (RFC 3678 section 5.1), for both versions of IP.
#[repr(C)]
struct SourceRequest {
    interface: u32,
    group: AddressStorage,
    source: AddressStorage,
}

/// Joins a group for the packets of one source, on the interface of this index or, if it is 0, on
/// that of the route to the group.
///
/// # Errors
/// The kernel's.
pub(super) fn join_source(socket: &Socket, interface: u32, group: IpAddr, source: IpAddr) -> io::Result<()> {
    let request = SourceRequest { interface, group: storage(group), source: storage(source) };
    let joined =
        if group.is_ipv4() { JoinSourceV4.set(socket, &request) } else { JoinSourceV6.set(socket, &request) };
    Ok(joined?)
}

fn storage(address: IpAddr) -> AddressStorage {
    let mut bytes = [0; 128];
    let (family, at, octets): (_, _, &[u8]) = match &address {
        IpAddr::V4(v4) => (libc::AF_INET, 4, &v4.octets()),
        IpAddr::V6(v6) => (libc::AF_INET6, 8, &v6.octets()),
    };
    bytes[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
    bytes[at..at + octets.len()].copy_from_slice(octets);
    let mut words = bytes.chunks_exact(size_of::<libc::c_ulong>());
    std::array::from_fn(|_| {
        let word = words.next().and_then(|word| word.try_into().ok()).unwrap_or_default();
        libc::c_ulong::from_ne_bytes(word)
    })
}

/// MCAST_JOIN_SOURCE_GROUP of IPv4, which socket2 has only by the interface's address.
#[derive(Clone)]
struct JoinSourceV4;
/// MCAST_JOIN_SOURCE_GROUP of IPv6, which socket2 does not have.
#[derive(Clone)]
struct JoinSourceV6;

type SetRequest<'a> = nix::sys::socket::sockopt::SetStruct<'a, SourceRequest>;
setsockopt_impl!(
    JoinSourceV4,
    libc::IPPROTO_IP,
    libc::MCAST_JOIN_SOURCE_GROUP,
    SourceRequest,
    SetRequest<'_>
);
setsockopt_impl!(
    JoinSourceV6,
    libc::IPPROTO_IPV6,
    libc::MCAST_JOIN_SOURCE_GROUP,
    SourceRequest,
    SetRequest<'_>
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_stored_as_the_kernel_has_them() {
        let bytes = |address: &str| -> Vec<u8> {
            let words = storage(address.parse().expect("an address"));
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        let v4 = bytes("192.0.2.1");
        assert_eq!((&v4[..2], &v4[4..8]), (&(libc::AF_INET as u16).to_ne_bytes()[..], &[192, 0, 2, 1][..]));
        let v6 = bytes("2001:db8::1");
        assert_eq!((v6.len(), &v6[8..12], v6[23]), (128, &[0x20, 0x01, 0x0d, 0xb8][..], 1));
        assert_eq!(size_of::<SourceRequest>(), 2 * 128 + size_of::<libc::c_ulong>());
    }
}
