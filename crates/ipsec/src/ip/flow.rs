//! The key by which policies select packets: addresses, protocol and ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use convoy_packet::{Layout, PlainV6};

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
/// For ICMP both ports are `type << 8 | code`. Where the ports cannot be seen (a fragment other
/// than the first, an unknown protocol) they are 0: that is OPAQUE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address as a number.
    pub(crate) source: u128,
    /// Destination address as a number.
    pub(crate) destination: u128,
    /// Everything but the addresses in one word, so that keys compare quickly: the inside interface
    /// from bit [`INTERFACE_AT`] on, [`IS_V6`], [`PORTS_KNOWN`], the protocol from bit 32 on, the
    /// source port from bit 16 on, the destination port.
    pub(crate) upper: u64,
}

const IS_V6: u64 = 1 << 40;
const PORTS_KNOWN: u64 = 1 << 41;
const INTERFACE_AT: u32 = 42;

impl FlowKey {
    /// A key from its parts; `ports` are source and destination, `None` where they are invisible.
    ///
    /// # Panics
    /// If the addresses are of different families: no packet's are.
    pub fn new(source: IpAddr, destination: IpAddr, protocol: u8, ports: Option<(u16, u16)>) -> Self {
        assert_eq!(source.is_ipv6(), destination.is_ipv6(), "a packet's addresses are of one family");
        Self {
            source: address_number(source),
            destination: address_number(destination),
            upper: upper(source.is_ipv6(), protocol, ports),
        }
    }

    /// The key of a plain IPv6 packet on an inside interface.
    #[inline]
    pub(crate) fn of_plain_v6(plain: &PlainV6, interface: u16) -> Self {
        let PlainV6 { addresses: [source, destination], protocol, upper, .. } = *plain;
        let upper = IS_V6 | upper_with_ports(protocol, upper) | interface_bits(interface);
        Self { source, destination, upper }
    }

    /// The key of `packet` with `layout`.
    #[inline(always)]
    pub(crate) fn of(packet: &[u8], layout: &Layout) -> Self {
        let (source, destination) = layout.address_numbers(packet);
        Self { source, destination, upper: upper(layout.is_v6, layout.protocol, layout.ports(packet)) }
    }

    /// The same flow on an inside interface; without this it is on 0, which tunnels share.
    #[inline]
    #[must_use]
    pub const fn on(self, interface: u16) -> Self {
        let others = self.upper & ((1 << INTERFACE_AT) - 1);
        Self { upper: others | interface_bits(interface), ..self }
    }

    /// The inside interface.
    #[inline]
    pub const fn interface(&self) -> u16 {
        (self.upper >> INTERFACE_AT) as u16
    }

    /// The key of a packet that may be cut short behind its IP headers, as ICMP errors quote it;
    /// `None` if those are malformed or incomplete.
    pub fn of_quoted(packet: &[u8]) -> Option<Self> {
        let mut layout = Layout::parse_quoted(packet).ok()?;
        layout.total_len = layout.total_len.min(packet.len());
        (layout.payload <= layout.total_len).then(|| Self::of(packet, &layout))
    }

    /// The source address.
    pub const fn source(&self) -> IpAddr {
        number_address(self.is_v6(), self.source)
    }

    /// The destination address.
    pub const fn destination(&self) -> IpAddr {
        number_address(self.is_v6(), self.destination)
    }

    /// Whether the addresses are IPv6's.
    pub const fn is_v6(&self) -> bool {
        self.upper & IS_V6 != 0
    }

    /// The protocol above IP and its extension headers.
    pub const fn protocol(&self) -> u8 {
        (self.upper >> 32) as u8
    }

    /// Source and destination port, or their substitutes, where known.
    pub const fn ports(&self) -> Option<(u16, u16)> {
        if self.upper & PORTS_KNOWN == 0 {
            None
        } else {
            Some(((self.upper >> 16) as u16, self.upper as u16))
        }
    }

    /// The same flow seen from the other end.
    pub const fn reversed(self) -> Self {
        let ports = (self.upper as u32).rotate_left(16);
        Self {
            source: self.destination,
            destination: self.source,
            upper: self.upper & !(u32::MAX as u64) | ports as u64,
        }
    }
}

/// An inside interface in the upper part of a key.
#[inline]
pub(crate) const fn interface_bits(interface: u16) -> u64 {
    (interface as u64) << INTERFACE_AT
}

/// The upper part of the key of a packet with ports, source before destination; of IPv4 as it is.
#[inline]
pub(crate) fn upper_with_ports(protocol: u8, ports: u32) -> u64 {
    PORTS_KNOWN | u64::from(protocol) << 32 | u64::from(ports)
}

#[inline]
fn upper(is_v6: bool, protocol: u8, ports: Option<(u16, u16)>) -> u64 {
    let family = if is_v6 { IS_V6 } else { 0 };
    let ports = ports
        .map_or(0, |(source, destination)| PORTS_KNOWN | u64::from(source) << 16 | u64::from(destination));
    family | u64::from(protocol) << 32 | ports
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_key_gives_back_its_parts(
            ends in (any::<u128>(), any::<u128>()), is_v6: bool, protocol: u8, ports: Option<(u16, u16)>, interface: u16,
        ) {
            let [source, destination] = [ends.0, ends.1].map(|number| number_address(is_v6, number));
            let key = FlowKey::new(source, destination, protocol, ports);
            prop_assert_eq!((key.source(), key.destination()), (source, destination));
            prop_assert_eq!((key.is_v6(), key.protocol(), key.ports()), (is_v6, protocol, ports));
            let swapped = ports.map(|(source, destination)| (destination, source));
            prop_assert_eq!(key.reversed(), FlowKey::new(destination, source, protocol, swapped));
            prop_assert_eq!(key.reversed().reversed(), key);
            let there = key.on(interface);
            prop_assert_eq!((there.interface(), there.reversed().interface()), (interface, interface));
            prop_assert_eq!(there.on(0), key);
        }
    }
}
