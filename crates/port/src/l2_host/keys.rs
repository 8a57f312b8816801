//! The configuration keys of the ports that are hosts of their own on a link, `card` and `dpdk`, in
//! every build.

use std::net::{Ipv4Addr, Ipv6Addr};

use convoy_packet::MacAddress;
use convoy_settings::{Checker, Text};

use crate::contract::CheckedPort;

/// Its own addresses are a host's, of both families.
pub fn check_addresses(entry: &CheckedPort<'_>, c: &mut Checker<'_>) {
    for (text, address) in entry.addresses {
        let address = address.addr();
        if address.is_unspecified() || address.is_multicast() {
            let what = "this kind of port needs an address of a host, such as 192.0.2.1/24";
            c.add(&text.span(), "port.address", what);
        }
    }
}

/// The router to what is not on its link.
pub fn gateway(c: &mut Checker<'_>, text: &Text) -> Option<Ipv4Addr> {
    let parsed = text.get_ref().parse().ok();
    if parsed.is_none() {
        let what = format!("{:?} is not an IPv4 address such as 192.0.2.254", text.get_ref());
        c.add(&text.span(), "port.gateway", what);
    }
    parsed
}

/// The router of IPv6 to what is not on its link.
pub fn gateway_v6(c: &mut Checker<'_>, text: &Text) -> Option<Ipv6Addr> {
    let parsed = text.get_ref().parse().ok();
    if parsed.is_none() {
        let what = format!("{:?} is not an IPv6 address such as 2001:db8::fe", text.get_ref());
        c.add(&text.span(), "port.gateway_v6", what);
    }
    parsed
}

/// An Ethernet address of one host: the first byte's lowest bit is for groups.
pub fn mac(c: &mut Checker<'_>, text: &Text) -> Option<MacAddress> {
    let parsed = text.get_ref().parse::<MacAddress>().ok();
    let parsed = parsed.filter(|mac| !mac.is_multicast() && *mac != MacAddress([0; 6]));
    if parsed.is_none() {
        let what = format!("{:?} is not a MAC address such as 02:00:5e:10:00:01", text.get_ref());
        c.add(&text.span(), "port.mac", what);
    }
    parsed
}
