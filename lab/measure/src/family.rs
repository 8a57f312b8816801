//! IPv4 and IPv6, and the header lengths of test packets.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use convoy_packet::{ipv4, ipv6, udp};
use serde::{Serialize, Serializer};

use crate::stamp::STAMP_LENGTH;

/// An IP address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub const fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The family of a packet, by its first byte; `None` for anything else and for IPv4 with
    /// options.
    #[inline]
    pub(crate) fn of_packet(packet: &[u8]) -> Option<Self> {
        match packet.first()? {
            0x45 => Some(Self::V4),
            first if first >> 4 == 6 => Some(Self::V6),
            _ => None,
        }
    }

    /// Length of the IP and UDP headers together, in bytes.
    pub(crate) const fn headers_length(self) -> u16 {
        let ip = match self {
            Self::V4 => ipv4::HEADER_BYTES,
            Self::V6 => ipv6::HEADER_BYTES,
        };
        (ip + udp::HEADER_BYTES) as u16
    }

    /// The shortest packet that holds a stamp, in bytes.
    pub const fn least_length(self) -> u16 {
        self.headers_length() + STAMP_LENGTH
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

impl Serialize for Family {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "ipv4" => Ok(Self::V4),
            "ipv6" => Ok(Self::V6),
            _ => Err("ipv4 or ipv6 is expected".to_owned()),
        }
    }
}

/// The address families of a gateway's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Families {
    /// Family of plaintext packets.
    pub inner: Family,
    /// Family of the tunnels' outer packets.
    pub outer: Family,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_tells_its_family_and_how_short_it_may_be() {
        assert_eq!(Family::of_packet(&[0x45]), Some(Family::V4));
        assert_eq!(Family::of_packet(&[0x6b]), Some(Family::V6));
        for other in [&[][..], &[0x46], &[0x55]] {
            assert_eq!(Family::of_packet(other), None);
        }
        assert_eq!([Family::V4, Family::V6].map(Family::least_length), [52, 72]);
    }

    #[test]
    fn families_are_read_as_they_are_written() {
        for family in [Family::V4, Family::V6] {
            assert_eq!(family.to_string().parse(), Ok(family));
        }
        assert!("4".parse::<Family>().is_err());
    }
}
