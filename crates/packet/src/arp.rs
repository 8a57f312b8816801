//! ARP (RFC 826) for IPv4 on Ethernet.

use std::net::Ipv4Addr;

use crate::HeaderError;
use crate::ethernet::MacAddress;
use crate::field::{fixed, u16_at};

/// Length of a message, in bytes.
pub const ARP_BYTES: usize = 28;
const NAME: &str = "ARP";
/// Hardware type Ethernet, protocol type IPv4, and the lengths of their addresses.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// What a message asks or says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Who has the target's address?
    Request,
    /// The sender has its address.
    Reply,
}

/// A message, read or to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// What it is.
    pub operation: Operation,
    /// The sender's hardware address.
    pub sender_mac: MacAddress,
    /// The sender's IP address; 0.0.0.0 in a probe (RFC 5227).
    pub sender: Ipv4Addr,
    /// The target's hardware address; means nothing in a request.
    pub target_mac: MacAddress,
    /// The target's IP address.
    pub target: Ipv4Addr,
}

impl Arp {
    /// Reads a message; Ethernet's padding may follow it. `None` if it is not a request or reply
    /// for IPv4 on Ethernet.
    ///
    /// # Errors
    /// [`HeaderError::TooShort`].
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, HeaderError> {
        let bytes = fixed::<ARP_BYTES>(NAME, bytes)?;
        let operation = match u16_at(bytes, 6) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Ok(None),
        };
        if bytes[..6] != ETHERNET_IPV4 {
            return Ok(None);
        }
        let address = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
        let mac = |at: usize| MacAddress::at(bytes, at);
        Ok(Some(Self {
            operation,
            sender_mac: mac(8),
            sender: address(14),
            target_mac: mac(18),
            target: address(24),
        }))
    }

    /// The message's bytes.
    pub fn to_bytes(&self) -> [u8; ARP_BYTES] {
        let mut bytes = [0; ARP_BYTES];
        bytes[..6].copy_from_slice(&ETHERNET_IPV4);
        bytes[7] = if self.operation == Operation::Request { 1 } else { 2 };
        bytes[8..14].copy_from_slice(&self.sender_mac.0);
        bytes[14..18].copy_from_slice(&self.sender.octets());
        bytes[18..24].copy_from_slice(&self.target_mac.0);
        bytes[24..].copy_from_slice(&self.target.octets());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_written_as_rfc_826_has_it() {
        let request = Arp {
            operation: Operation::Request,
            sender_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            sender: Ipv4Addr::new(192, 0, 2, 1),
            target_mac: MacAddress([0; 6]),
            target: Ipv4Addr::new(192, 0, 2, 9),
        };
        let bytes = request.to_bytes();
        assert_eq!(bytes[..14], [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[14..], [192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 192, 0, 2, 9]);
        assert_eq!(Arp::parse(&bytes), Ok(Some(request)));
        let padded = [&bytes[..], &[0; 18]].concat();
        assert_eq!(Arp::parse(&padded), Ok(Some(request)));
    }

    #[test]
    fn other_hardware_and_other_operations_are_none() {
        let mut bytes = [0; ARP_BYTES];
        bytes[..8].copy_from_slice(&[0, 6, 8, 0, 6, 4, 0, 1]);
        assert_eq!(Arp::parse(&bytes), Ok(None));
        bytes[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 3]);
        assert_eq!(Arp::parse(&bytes), Ok(None));
    }

    proptest! {
        #[test]
        fn any_bytes_give_what_is_written_back_or_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..40), is_whole: bool) {
            let mut bytes = bytes;
            if is_whole && bytes.len() >= 8 {
                bytes[..6].copy_from_slice(&ETHERNET_IPV4);
                bytes[6] = 0;
            }
            match Arp::parse(&bytes) {
                Ok(Some(message)) => prop_assert_eq!(&message.to_bytes()[..], &bytes[..ARP_BYTES]),
                Ok(None) => {}
                Err(error) => prop_assert!(bytes.len() < ARP_BYTES, "{}", error),
            }
        }
    }
}
