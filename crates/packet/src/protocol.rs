//! Numbers of IP protocols and IPv6 extension headers (IANA).

/// IPv6 hop-by-hop options (RFC 8200 section 4.3).
pub const HOP_BY_HOP: u8 = 0;
/// ICMP (RFC 792).
pub const ICMP: u8 = 1;
/// IPv4 in IP (RFC 2003).
pub const IPV4: u8 = 4;
/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// DCCP (RFC 4340).
pub const DCCP: u8 = 33;
/// IPv6 in IP (RFC 2473).
pub const IPV6: u8 = 41;
/// IPv6 routing header (RFC 8200 section 4.4).
pub const ROUTING: u8 = 43;
/// IPv6 fragment header (RFC 8200 section 4.5).
pub const FRAGMENT: u8 = 44;
/// ESP (RFC 4303).
pub const ESP: u8 = 50;
/// AH (RFC 4302).
pub const AH: u8 = 51;
/// ICMPv6 (RFC 4443).
pub const ICMP_V6: u8 = 58;
/// No next header; a dummy packet inside ESP (RFC 4303 section 2.6).
pub const NO_NEXT_HEADER: u8 = 59;
/// IPv6 destination options (RFC 8200 section 4.6).
pub const DESTINATION_OPTIONS: u8 = 60;
/// SCTP (RFC 9260).
pub const SCTP: u8 = 132;
/// UDP-Lite (RFC 3828).
pub const UDP_LITE: u8 = 136;
/// AGGFRAG in ESP (RFC 9347 section 6.1).
pub const AGGFRAG: u8 = 144;

/// Whether the protocol's header begins with source and destination port.
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}
