//! An IP header that is written for packet after packet, with its constant parts computed once.

use std::net::IpAddr;

use crate::{IpHeader, checksum, ipv4, ipv6};

/// A header of either family without options or extension headers. Each packet has its own traffic
/// class, length, identification and DF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpTemplate {
    /// Source and destination as they are sent; IPv4's are the first eight bytes.
    addresses: [u8; 32],
    /// The sum of the words of an IPv4 header that stay the same.
    sum: u16,
    protocol: u8,
    hop_limit: u8,
    is_v6: bool,
}

/// The parts of a header that differ between packets, beside its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpVariables {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// IPv4: what the fragments of one datagram share.
    pub identification: u16,
    /// IPv4: DF.
    pub dont_fragment: bool,
}

impl IpTemplate {
    /// The template of `header`, whose addresses are of one family.
    pub fn new(header: &IpHeader) -> Self {
        let mut addresses = [0; 32];
        let is_v6 = match (header.source, header.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                addresses[..4].copy_from_slice(&source.octets());
                addresses[4..8].copy_from_slice(&destination.octets());
                false
            }
            (source, destination) => {
                for (place, address) in [source, destination].into_iter().enumerate() {
                    let bytes = match address {
                        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                        IpAddr::V6(v6) => v6.octets(),
                    };
                    addresses[16 * place..][..16].copy_from_slice(&bytes);
                }
                true
            }
        };
        let (protocol, hop_limit) = (header.protocol, header.hop_limit);
        let fixed = 0x4500 + u64::from(u16::from_be_bytes([hop_limit, protocol]));
        let sum = !checksum::of(&addresses[..8], fixed);
        Self { addresses, sum, protocol, hop_limit, is_v6 }
    }

    /// Whether it is an IPv6 header.
    #[inline]
    pub const fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// The sum of an IPv4 header's words that are the same in each packet: addresses, protocol and
    /// hop limit.
    #[inline]
    pub const fn address_sum(&self) -> u16 {
        self.sum
    }

    /// Length of the header, in bytes.
    #[inline]
    pub const fn header_len(&self) -> usize {
        if self.is_v6 { ipv6::HEADER_BYTES } else { ipv4::HEADER_BYTES }
    }

    /// Writes the header to the front of `packet`, whose length is final and at most 65,535 bytes.
    ///
    /// # Panics
    /// If `packet` is shorter than the header.
    #[inline(always)]
    pub fn write(&self, packet: &mut [u8], own: IpVariables) {
        if self.is_v6 {
            return self.write_v6(packet, own);
        }
        let len = packet.len() as u16;
        let Some(header) = packet.first_chunk_mut() else { panic!("the packet is shorter than its header") };
        self.write_v4(header, len, own);
    }

    // Not inlined beside the other, or both copy their addresses by one call.
    #[inline(never)]
    fn write_v6(&self, packet: &mut [u8], own: IpVariables) {
        let class = u64::from(own.traffic_class);
        let payload = (packet.len() - ipv6::HEADER_BYTES) as u16;
        let last = u64::from(u16::from_be_bytes([self.protocol, self.hop_limit]));
        let first = 6 << 60 | class << 52 | u64::from(payload) << 16 | last;
        packet[..8].copy_from_slice(&first.to_be_bytes());
        packet[8..ipv6::HEADER_BYTES].copy_from_slice(&self.addresses);
    }

    /// Writes an IPv4 header, of a packet that is `len` bytes long.
    #[inline(always)]
    fn write_v4(&self, header: &mut [u8; ipv4::HEADER_BYTES], len: u16, own: IpVariables) {
        let (class, id) = (u64::from(own.traffic_class), u64::from(own.identification));
        let flags = if own.dont_fragment { u64::from(ipv4::DONT_FRAGMENT) } else { 0 };
        let sum = u64::from(self.sum) + class + u64::from(len) + id + flags;
        let first = 0x45 << 56 | class << 48 | u64::from(len) << 32 | id << 16 | flags;
        let second = u32::from(self.hop_limit) << 24 | u32::from(self.protocol) << 16;
        let second = second | u32::from(checksum::fold_twice(sum));
        header[..8].copy_from_slice(&first.to_be_bytes());
        header[8..12].copy_from_slice(&second.to_be_bytes());
        header[12..].copy_from_slice(&self.addresses[..8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn ends() -> impl Strategy<Value = (IpAddr, IpAddr)> {
        let v4 = any::<(u32, u32)>();
        let v6 = any::<(u128, u128)>();
        prop_oneof![
            v4.prop_map(|(a, b)| (Ipv4Addr::from_bits(a).into(), Ipv4Addr::from_bits(b).into())),
            v6.prop_map(|(a, b)| (Ipv6Addr::from_bits(a).into(), Ipv6Addr::from_bits(b).into())),
        ]
    }

    proptest! {
        #[test]
        fn a_template_writes_what_the_header_does(
            ends in ends(), class: u8, protocol: u8, hop_limit: u8, id: u16, dont_fragment: bool, len in 40usize..65_536,
        ) {
            let header = IpHeader {
                traffic_class: class, protocol, hop_limit, identification: id, dont_fragment, source: ends.0, destination: ends.1,
            };
            let (mut expected, mut written) = (vec![9; len], vec![9; len]);
            header.write(&mut expected);
            let template = IpTemplate::new(&IpHeader { traffic_class: !class, identification: !id, ..header });
            let own = IpVariables { traffic_class: class, identification: id, dont_fragment };
            template.write(&mut written, own);
            prop_assert_eq!(&written[..40], &expected[..40]);
            prop_assert_eq!(template.header_len(), header.header_len());
        }
    }
}
