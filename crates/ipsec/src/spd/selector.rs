//! Traffic selectors (RFC 4301 section 4.4.1.1), in swanctl's notation.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use convoy_packet::protocol::{ICMP, ICMP_V6};

use crate::ip::flow::{FlowKey, address_number, number_address};

/// Addresses of one family from first to last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRange {
    pub(crate) first: u128,
    pub(crate) last: u128,
    pub(crate) is_v6: bool,
}

impl AddressRange {
    /// From `first` to `last`, both included.
    ///
    /// # Errors
    /// [`SelectorError::Range`] if they are of different families or the wrong way round.
    pub fn new(first: IpAddr, last: IpAddr) -> Result<Self, SelectorError> {
        let (low, high) = (address_number(first), address_number(last));
        if first.is_ipv6() != last.is_ipv6() || low > high {
            return Err(SelectorError::Range(format!("{first}-{last}")));
        }
        Ok(Self { first: low, last: high, is_v6: first.is_ipv6() })
    }

    /// The addresses that share their first `bits` with `address`; host bits are ignored, as
    /// swanctl does.
    ///
    /// # Errors
    /// [`SelectorError::Prefix`] if the family has fewer bits.
    pub fn prefix(address: IpAddr, bits: u8) -> Result<Self, SelectorError> {
        let width: u8 = if address.is_ipv6() { 128 } else { 32 };
        if bits > width {
            return Err(SelectorError::Prefix(format!("{address}/{bits}")));
        }
        let host_bits = u32::from(width - bits);
        let mask = if host_bits == 128 { u128::MAX } else { (1u128 << host_bits) - 1 };
        let number = address_number(address);
        Ok(Self { first: number & !mask, last: number | mask, is_v6: address.is_ipv6() })
    }

    /// The lowest address.
    pub const fn first(&self) -> IpAddr {
        number_address(self.is_v6, self.first)
    }

    /// The highest address.
    pub const fn last(&self) -> IpAddr {
        number_address(self.is_v6, self.last)
    }

    /// As an address and the length of a prefix in bits, if the range is one.
    pub fn as_prefix(&self) -> Option<(IpAddr, u8)> {
        let width = if self.is_v6 { 128 } else { 32 };
        let differing = self.first ^ self.last;
        let host_bits = (128 - differing.leading_zeros()) as u8;
        let is_whole = differing.count_ones() == u32::from(host_bits) && self.first & differing == 0;
        is_whole.then(|| (self.first(), width - host_bits))
    }

    /// The fewest prefixes that together are these addresses, ascending: one in most cases, at most
    /// two for each bit of the family. Each is its first address and its length in bits.
    pub fn prefixes(self) -> impl Iterator<Item = (IpAddr, u8)> {
        let number = move |(first, bits)| (number_address(self.is_v6, first), bits);
        self.prefix_numbers().map(number)
    }

    /// Those [`prefixes`](Self::prefixes) with addresses as numbers.
    pub(crate) fn prefix_numbers(self) -> impl Iterator<Item = (u128, u8)> {
        let width: u32 = if self.is_v6 { 128 } else { 32 };
        let mut next = Some(self.first);
        std::iter::from_fn(move || {
            let first = next?;
            let fits = (self.last - first).checked_add(1).map_or(128, u128::ilog2);
            let host_bits = first.trailing_zeros().min(fits).min(width);
            let last = first | u128::MAX.checked_shr(128 - host_bits).unwrap_or(0);
            next = (last < self.last).then(|| last + 1);
            Some((first, (width - host_bits) as u8))
        })
    }

    /// Whether `address` is one of them.
    pub const fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv6() == self.is_v6 && self.holds(address_number(address))
    }

    /// Whether all of `other` are among them.
    pub const fn covers(&self, other: &Self) -> bool {
        self.is_v6 == other.is_v6 && self.first <= other.first && other.last <= self.last
    }

    /// Whether they are of IPv6.
    pub(crate) const fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// The first and the last address as numbers.
    pub(crate) const fn bounds(&self) -> [u128; 2] {
        [self.first, self.last]
    }

    const fn holds(&self, number: u128) -> bool {
        self.first <= number && number <= self.last
    }
}

impl FromStr for AddressRange {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let address = |part: &str| part.trim().parse().map_err(|_| SelectorError::Address(part.to_owned()));
        if let Some((first, last)) = text.split_once('-') {
            return Self::new(address(first)?, address(last)?);
        }
        match text.split_once('/') {
            Some((base, bits)) => {
                let bits = bits.trim().parse().map_err(|_| SelectorError::Prefix(text.to_owned()))?;
                Self::prefix(address(base)?, bits)
            }
            None => {
                let single = address(text)?;
                Self::new(single, single)
            }
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_prefix() {
            Some((address, bits)) => write!(f, "{address}/{bits}"),
            None => write!(f, "{}-{}", self.first(), self.last()),
        }
    }
}

/// The ports of one side; for ICMP, `type << 8 | code`, so that a type with any code is a range of
/// 256.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ports {
    /// Any port, including packets whose ports are invisible.
    #[default]
    Any,
    /// Only packets whose ports are invisible: fragments other than the first.
    Opaque,
    /// From the first to the last, both included; packets whose ports are invisible do not match.
    Range(u16, u16),
}

impl Ports {
    /// Whether these match whatever `other` matches.
    const fn covers(self, other: Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (Self::Opaque, Self::Opaque) => true,
            (Self::Range(first, last), Self::Range(low, high)) => first <= low && high <= last,
            _ => false,
        }
    }

    /// Whether a packet can have ports of both.
    const fn meets(self, other: Self) -> bool {
        !matches!((self, other), (Self::Opaque, Self::Range(..)) | (Self::Range(..), Self::Opaque))
    }

    const fn matches(self, known: bool, port: u16) -> bool {
        match self {
            Self::Any => true,
            Self::Opaque => !known,
            Self::Range(first, last) => known && first <= port && port <= last,
        }
    }
}

/// What one side of a [`Selector`] admits.
///
/// ```
/// use convoy_ipsec::TrafficSelector;
/// let web: TrafficSelector = "10.1.0.0/24[tcp/80]".parse().expect("well-formed");
/// assert_eq!(web.to_string(), "10.1.0.0/24[tcp/80]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrafficSelector {
    /// The addresses.
    pub addresses: AddressRange,
    /// The IP protocol behind all extension headers; `None` is any.
    pub protocol: Option<u8>,
    /// The ports.
    pub ports: Ports,
}

impl TrafficSelector {
    /// Whether this admits whatever `other` admits.
    pub const fn covers(&self, other: &Self) -> bool {
        let protocol = match (self.protocol, other.protocol) {
            (None, _) => true,
            (Some(own), Some(number)) => own == number,
            (Some(_), None) => false,
        };
        protocol && self.addresses.covers(&other.addresses) && self.ports.covers(other.ports)
    }
}

/// Local and remote side of the traffic of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Our side of the gateway: the source of outbound, the destination of inbound packets.
    pub local: TrafficSelector,
    /// The peer's side.
    pub remote: TrafficSelector,
}

impl Selector {
    /// Whether any packet can match: not if the two sides have different families or protocols, or
    /// if only one of them wants visible ports.
    ///
    /// ```
    /// use convoy_ipsec::Selector;
    /// let pair = |local: &str, remote: &str| Selector {
    ///     local: local.parse().expect("well-formed"),
    ///     remote: remote.parse().expect("well-formed"),
    /// };
    /// assert!(pair("10.1.0.0/24", "10.2.0.0/24[tcp]").can_match());
    /// assert!(!pair("10.1.0.0/24", "fd00::/64").can_match());
    /// assert!(!pair("10.1.0.0/24[udp]", "10.2.0.0/24[tcp]").can_match());
    /// ```
    pub const fn can_match(&self) -> bool {
        let (local, remote) = (&self.local, &self.remote);
        let protocols_meet = match (local.protocol, remote.protocol) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        protocols_meet && local.addresses.is_v6 == remote.addresses.is_v6 && local.ports.meets(remote.ports)
    }

    /// Whether an outbound packet's flow is admitted.
    pub const fn matches_outbound(&self, flow: &FlowKey) -> bool {
        let (known, (source, destination)) = match flow.ports() {
            Some(ports) => (true, ports),
            None => (false, (0, 0)),
        };
        self.matches_but_for_ports(flow)
            && self.local.ports.matches(known, source)
            && self.remote.ports.matches(known, destination)
    }

    /// Whether the flow of an outbound packet that was quoted is admitted, as far as the quote
    /// reaches.
    pub(crate) const fn matches_quoted(&self, flow: &FlowKey) -> bool {
        if flow.ports().is_some() { self.matches_outbound(flow) } else { self.matches_but_for_ports(flow) }
    }

    const fn matches_but_for_ports(&self, flow: &FlowKey) -> bool {
        let (local, remote) = (&self.local, &self.remote);
        local.addresses.is_v6 == flow.is_v6()
            && remote.addresses.is_v6 == flow.is_v6()
            && local.addresses.holds(flow.source)
            && remote.addresses.holds(flow.destination)
            && admits(local.protocol, flow.protocol())
            && admits(remote.protocol, flow.protocol())
    }

    /// Whether this admits each flow that `other` admits, comparing local with local and remote
    /// with remote.
    pub const fn covers(&self, other: &Self) -> bool {
        self.local.covers(&other.local) && self.remote.covers(&other.remote)
    }

    /// Whether an inbound packet's flow is admitted.
    pub const fn matches_inbound(&self, flow: &FlowKey) -> bool {
        self.matches_outbound(&flow.reversed())
    }
}

const fn admits(selected: Option<u8>, protocol: u8) -> bool {
    match selected {
        Some(number) => number == protocol,
        None => true,
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} === {}", self.local, self.remote)
    }
}

/// Why a traffic selector is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Not an address.
    #[error("`{0}` is not an IPv4 or IPv6 address")]
    Address(String),
    /// Not a prefix.
    #[error("`{0}`: expected a prefix length of 0 to 32 for IPv4, 0 to 128 for IPv6")]
    Prefix(String),
    /// Not a range of addresses.
    #[error("`{0}`: expected two addresses of one family, the lower first")]
    Range(String),
    /// Not a protocol.
    #[error(
        "`{0}`: expected a protocol as a number of 0 to 255, `any`, or a name such as `tcp`, `udp`, `icmp`"
    )]
    Protocol(String),
    /// Not ports.
    #[error(
        "`{0}`: expected a port, a range such as `1024-65535`, `any` or `opaque`; for ICMP a type such as `8`, or `type(code)`"
    )]
    Ports(String),
    /// The bracket is not closed.
    #[error("`{0}`: expected `address[protocol/port]`")]
    Bracket(String),
}

/// Protocols that selectors name. The first name of a number is the one printed.
const PROTOCOL_NAMES: [(&str, u8); 14] = [
    ("icmp", ICMP),
    ("igmp", 2),
    ("ipencap", 4),
    ("tcp", 6),
    ("udp", 17),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", ICMP_V6),
    ("icmpv6", ICMP_V6),
    ("ospf", 89),
    ("sctp", 132),
    ("udplite", 136),
];

fn parse_protocol(text: &str) -> Result<Option<u8>, SelectorError> {
    if text.eq_ignore_ascii_case("any") || text == "%any" {
        return Ok(None);
    }
    if let Some((_, number)) = PROTOCOL_NAMES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)) {
        return Ok(Some(*number));
    }
    text.parse().map(Some).map_err(|_| SelectorError::Protocol(text.to_owned()))
}

fn parse_ports(text: &str, protocol: Option<u8>) -> Result<Ports, SelectorError> {
    match text {
        "any" | "%any" => return Ok(Ports::Any),
        "opaque" | "%opaque" => return Ok(Ports::Opaque),
        _ => {}
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let bounds = |part: &str| {
        if is_icmp(protocol) { parse_icmp(part) } else { part.parse().map(|port| (port, port)).ok() }
    };
    match (bounds(first.trim()), bounds(last.trim())) {
        (Some((first, _)), Some((_, last))) if first <= last => Ok(Ports::Range(first, last)),
        _ => Err(SelectorError::Ports(text.to_owned())),
    }
}

const fn is_icmp(protocol: Option<u8>) -> bool {
    matches!(protocol, Some(ICMP | ICMP_V6))
}

/// The first and the last port of a type with any code, of `type(code)`, or of both as one number
/// from 256 on, as in strongSwan.
fn parse_icmp(text: &str) -> Option<(u16, u16)> {
    let port = match text.split_once('(') {
        Some((kind, code)) => {
            let (kind, code): (u8, u8) = (kind.parse().ok()?, code.strip_suffix(')')?.parse().ok()?);
            u16::from_be_bytes([kind, code])
        }
        None => match text.parse().ok()? {
            kind @ 0..256 => return Some((kind << 8, kind << 8 | 0xff)),
            port => port,
        },
    };
    Some((port, port))
}

impl FromStr for TrafficSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let text = text.trim();
        let Some((addresses, bracket)) = text.split_once('[') else {
            return Ok(Self { addresses: text.parse()?, protocol: None, ports: Ports::Any });
        };
        let bracket = bracket.strip_suffix(']').ok_or_else(|| SelectorError::Bracket(text.to_owned()))?;
        let (protocol, ports) = bracket.split_once('/').unwrap_or((bracket, "any"));
        let protocol = parse_protocol(protocol.trim())?;
        Ok(Self {
            addresses: addresses.trim().parse()?,
            protocol,
            ports: parse_ports(ports.trim(), protocol)?,
        })
    }
}

impl fmt::Display for TrafficSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.addresses)?;
        if self.protocol.is_none() && self.ports == Ports::Any {
            return Ok(());
        }
        match self.protocol {
            None => write!(f, "[any")?,
            Some(number) => match PROTOCOL_NAMES.iter().find(|(_, known)| *known == number) {
                Some((name, _)) => write!(f, "[{name}")?,
                None => write!(f, "[{number}")?,
            },
        }
        match self.ports {
            Ports::Any => write!(f, "]"),
            Ports::Opaque => write!(f, "/opaque]"),
            Ports::Range(first, last) if is_icmp(self.protocol) => {
                write!(f, "/")?;
                write_icmp(f, first, last)?;
                write!(f, "]")
            }
            Ports::Range(first, last) if first == last => write!(f, "/{first}]"),
            Ports::Range(first, last) => write!(f, "/{first}-{last}]"),
        }
    }
}

/// A range of ICMP's types and codes; codes are left out where all of them are meant.
fn write_icmp(f: &mut fmt::Formatter<'_>, first: u16, last: u16) -> fmt::Result {
    let ([first_type, first_code], [last_type, last_code]) = (first.to_be_bytes(), last.to_be_bytes());
    match (first_code, last_code) {
        (0, 255) if first_type == last_type => write!(f, "{first_type}"),
        (0, 255) => write!(f, "{first_type}-{last_type}"),
        _ if first == last => write!(f, "{first_type}({first_code})"),
        _ => write!(f, "{first_type}({first_code})-{last_type}({last_code})"),
    }
}

#[cfg(test)]
mod tests;
