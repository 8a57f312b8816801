//! What policies are matched against: a packet's addresses, protocol and ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use convoy_packet::Layout;

/// An IPv4 or IPv6 address as a number, for comparison without branches on its family.
pub(crate) const fn address_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits() as u128,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The inverse of [`address_number`].
pub(crate) const fn number_address(is_v6: bool, number: u128) -> IpAddr {
    if is_v6 {
        IpAddr::V6(Ipv6Addr::from_bits(number))
    } else {
        IpAddr::V4(Ipv4Addr::from_bits(number as u32))
    }
}

/// The selector fields of one packet (RFC 4301 section 4.4.1.1).
///
/// For ICMP both ports are `type << 8 | code`. Where the ports cannot be seen (a fragment other than the
/// first, an unknown protocol) they are 0 and `ports_known` is false: that is OPAQUE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address as a number.
    pub(crate) source: u128,
    /// Destination address as a number.
    pub(crate) destination: u128,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) protocol: u8,
    pub(crate) is_v6: bool,
    pub(crate) ports_known: bool,
}

impl FlowKey {
    /// A key from its parts; `ports` are source and destination, `None` where they cannot be seen.
    ///
    /// # Panics
    /// If the addresses are of different families: no packet's are.
    pub fn new(source: IpAddr, destination: IpAddr, protocol: u8, ports: Option<(u16, u16)>) -> Self {
        assert_eq!(source.is_ipv6(), destination.is_ipv6(), "a packet's addresses are of one family");
        let (source_port, destination_port) = ports.unwrap_or_default();
        Self {
            source: address_number(source),
            destination: address_number(destination),
            source_port,
            destination_port,
            protocol,
            is_v6: source.is_ipv6(),
            ports_known: ports.is_some(),
        }
    }

    /// The key of `packet`, of which `layout` is the layout.
    pub(crate) fn of(packet: &[u8], layout: &Layout) -> Self {
        let (source, destination) = layout.address_numbers(packet);
        let ports = layout.ports(packet);
        let (source_port, destination_port) = ports.unwrap_or_default();
        Self {
            source,
            destination,
            source_port,
            destination_port,
            protocol: layout.protocol,
            is_v6: layout.is_v6,
            ports_known: ports.is_some(),
        }
    }

    /// The key of a packet that an ICMP error quotes and may cut short behind its IP headers; `None` if those are malformed or
    /// not all there.
    pub(crate) fn of_quoted(packet: &[u8]) -> Option<Self> {
        let mut layout = Layout::parse_quoted(packet).ok()?;
        layout.total_len = layout.total_len.min(packet.len());
        (layout.payload <= layout.total_len).then(|| Self::of(packet, &layout))
    }

    /// The source address.
    pub const fn source(&self) -> IpAddr {
        number_address(self.is_v6, self.source)
    }

    /// The protocol above IP and its extension headers.
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Source and destination port, or what stands for them, where they are known.
    pub fn ports(&self) -> Option<(u16, u16)> {
        self.ports_known.then_some((self.source_port, self.destination_port))
    }

    /// The destination address.
    pub const fn destination(&self) -> IpAddr {
        number_address(self.is_v6, self.destination)
    }

    /// The same flow seen from the other end.
    pub const fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ..self
        }
    }
}
