//! Socket addresses in the kernel's layout.

use std::net::{IpAddr, SocketAddr};

use super::buffer::Buffer;

const V4_BYTES: usize = 16;
const V6_BYTES: usize = 28;

/// An IPv4 or IPv6 socket address as the kernel reads and writes it (`sockaddr_in`,
/// `sockaddr_in6`).
pub(crate) type Name = Buffer<V6_BYTES>;

impl Name {
    /// The address, or `None` if it is of another family or truncated.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let bytes = self.bytes.get(..self.len)?;
        let (family, rest) = bytes.split_first_chunk()?;
        let (port, rest) = rest.split_first_chunk()?;
        let ip: IpAddr = match i32::from(u16::from_ne_bytes(*family)) {
            libc::AF_INET => (*rest.first_chunk::<4>()?).into(),
            libc::AF_INET6 => (*rest.get(4..)?.first_chunk::<16>()?).into(),
            _ => return None,
        };
        Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
    }
}

impl From<SocketAddr> for Name {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; V6_BYTES];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, len) = match address.ip() {
            IpAddr::V4(v4) => {
                bytes[4..8].copy_from_slice(&v4.octets());
                (libc::AF_INET, V4_BYTES)
            }
            IpAddr::V6(v6) => {
                bytes[8..24].copy_from_slice(&v6.octets());
                (libc::AF_INET6, V6_BYTES)
            }
        };
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        Self { bytes, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_were() {
        for address in ["192.0.2.1:4500", "[2001:db8::7]:65535", "0.0.0.0:0"] {
            let address: SocketAddr = address.parse().expect("an address");
            assert_eq!(Name::from(address).address(), Some(address));
        }
    }

    #[test]
    fn what_is_cut_short_or_of_another_family_is_no_address() {
        let mut name = Name::from(SocketAddr::from(([1, 2, 3, 4], 5)));
        name.set_len(6);
        assert_eq!(name.address(), None);
        assert_eq!(Name::EMPTY.address(), None);
        name.set_len(99);
        name.bytes[0] = 99;
        assert_eq!(name.address(), None);
    }

    #[test]
    fn the_layout_is_that_of_libc() {
        assert_eq!((V4_BYTES, V6_BYTES), (size_of::<libc::sockaddr_in>(), size_of::<libc::sockaddr_in6>()));
        assert_eq!(std::mem::offset_of!(libc::sockaddr_in6, sin6_addr), 8);
        assert_eq!(std::mem::offset_of!(libc::sockaddr_in, sin_addr), 4);
    }
}
