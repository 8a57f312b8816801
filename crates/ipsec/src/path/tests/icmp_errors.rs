//! ICMP errors of others, inside tunnels (RFC 4301 section 6.2).

use super::*;
use convoy_packet::icmp::{self, v4, v6};
use convoy_packet::protocol::{ICMP, ICMP_V6, TCP};

/// The hosts behind the two gateways, a router of the second site that no selector names, and a
/// host elsewhere.
fn hosts(is_v6: bool) -> [IpAddr; 4] {
    let texts = if is_v6 {
        ["2001:db8:1::5", "2001:db8:2::9", "2001:db8:ffff::1", "2001:db8:99::80"]
    } else {
        ["10.1.0.5", "10.2.0.9", "172.16.0.1", "198.51.100.80"]
    };
    texts.map(|text| text.parse().expect(text))
}

/// The first bytes of a TCP segment between two ports.
fn segment(source: IpAddr, destination: IpAddr, ports: [u16; 2]) -> Vec<u8> {
    let header = IpHeader::new(TCP, source, destination);
    let mut packet = vec![0; header.header_len() + 20];
    let at = header.header_len();
    packet[at..at + 2].copy_from_slice(&ports[0].to_be_bytes());
    packet[at + 2..at + 4].copy_from_slice(&ports[1].to_be_bytes());
    header.write(&mut packet);
    packet
}

/// An ICMP or ICMPv6 message from `source` to `destination`.
fn message(source: IpAddr, destination: IpAddr, (kind, code, rest): (u8, u8, u32), body: &[u8]) -> Vec<u8> {
    let protocol = if source.is_ipv6() { ICMP_V6 } else { ICMP };
    let header = IpHeader::new(protocol, source, destination);
    let at = header.header_len();
    let mut packet = [&vec![0; at + icmp::HEADER_BYTES], body].concat();
    header.write(&mut packet);
    let len = packet.len() - at;
    let pseudo = if source.is_ipv6() { checksum::pseudo_header(&packet, ICMP_V6, len) } else { 0 };
    icmp::write(&mut packet[at..], kind, code, rest, pseudo);
    packet
}

fn too_big(is_v6: bool, mtu: u32) -> (u8, u8, u32) {
    if is_v6 { (v6::PACKET_TOO_BIG, 0, mtu) } else { (v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED, mtu) }
}

fn time_exceeded(is_v6: bool) -> (u8, u8, u32) {
    (if is_v6 { v6::TIME_EXCEEDED } else { v4::TIME_EXCEEDED }, 0, 0)
}

/// Two gateways whose tunnel carries HTTPS to the second site and nothing else.
fn https_alone() -> [Gateway; 2] {
    let [mut a, mut b] = Link::default().pair();
    let sites = [("10.1.0.0/16", "10.2.0.0/16"), ("2001:db8:1::/48", "2001:db8:2::/48")];
    let servers = sites.map(|(site, servers)| (site.to_owned(), format!("{servers}[tcp/443]")));
    a.ipsec.set_policies(servers.iter().map(|(site, servers)| protect(site, servers)).collect());
    b.ipsec.set_policies(servers.iter().map(|(site, servers)| protect(servers, site)).collect());
    [a, b]
}

/// A gateway that checks nothing on the way out, as a peer gone bad.
fn lets_all_out(gateway: &mut Gateway) {
    gateway.ipsec.set_policies(vec![protect("0.0.0.0/0", "0.0.0.0/0"), protect("::/0", "::/0")]);
}

#[test]
fn an_error_about_a_flow_of_others_is_dropped_although_its_own_header_fits() {
    for is_v6 in [false, true] {
        let [us, them, _, elsewhere] = hosts(is_v6);
        let [mut a, mut b] = Link::default().pair();
        let about = |destination| segment(us, destination, [40_000, 443]);
        let fitting = message(them, us, too_big(is_v6, 600), &about(them));
        let forged = message(them, us, too_big(is_v6, 600), &about(elsewhere));
        let backwards = message(them, us, too_big(is_v6, 600), &segment(them, us, [443, 40_000]));
        let empty = message(them, us, too_big(is_v6, 600), &[]);
        let outer = b.send(&[fitting.clone(), forged.clone(), backwards, empty]);
        assert_eq!(outer.len(), 4, "their headers are within the tunnel's selectors");
        assert_eq!(a.receive(&outer), [fitting]);
        assert_eq!((a.drops(DropReason::IcmpMismatch), a.sa_drops(IN, DropReason::IcmpMismatch)), (3, 3));
        a.ipsec.tables.config.check_icmp = false;
        let outer = b.send(std::slice::from_ref(&forged));
        assert_eq!(a.receive(&outer), [forged], "anyone who wants it so");
        a.assert_no_leak();
    }
}

#[test]
fn traceroute_passes_a_selector_with_a_port() {
    for is_v6 in [false, true] {
        let [us, server, router, _] = hosts(is_v6);
        let [mut a, mut b] = https_alone();
        let probe = segment(us, server, [33_434, 443]);
        assert_eq!(b.receive(&a.send(std::slice::from_ref(&probe))).len(), 1);
        // Hops beyond the tunnel: one with an address of the site's, one with another.
        for hop in [server, router] {
            let answer = message(hop, us, time_exceeded(is_v6), &probe);
            let outer = b.send(std::slice::from_ref(&answer));
            assert_eq!((outer.len(), a.receive(&outer)), (1, vec![answer]), "from {hop}");
        }
        let echo = message(server, us, (if is_v6 { 129 } else { v4::ECHO_REPLY }, 0, 0), &probe);
        assert!(b.send(&[echo]).is_empty());
        assert_eq!(b.drops(DropReason::OutboundNoPolicy), 1);
        assert_eq!([&a, &b].map(|gateway| gateway.ipsec.counters().drops.total()), [0, 1]);
        a.assert_no_leak();
        b.assert_no_leak();
    }
}

#[test]
fn path_mtu_discovery_passes_a_selector_with_a_port_both_ways() {
    for is_v6 in [false, true] {
        let [us, server, router, _] = hosts(is_v6);
        let [mut a, mut b] = https_alone();
        let reported_us = message(router, us, too_big(is_v6, 1_300), &segment(us, server, [40_000, 443]));
        let outer = b.send(std::slice::from_ref(&reported_us));
        assert_eq!(a.receive(&outer), [reported_us]);
        let reported_server = message(us, server, too_big(is_v6, 1_300), &segment(server, us, [443, 40_000]));
        let outer = a.send(std::slice::from_ref(&reported_server));
        assert_eq!(b.receive(&outer), [reported_server]);
        a.assert_no_leak();
        b.assert_no_leak();
    }
}

#[test]
fn an_error_that_follows_no_flow_of_the_tunnel_goes_out_by_none() {
    let [us, server, router, elsewhere] = hosts(false);
    let [_, mut b] = https_alone();
    let probe = |ports| segment(us, server, ports);
    let refused = [
        message(router, us, time_exceeded(false), &probe([33_434, 80])), // no flow of the tunnel
        message(router, us, time_exceeded(false), &segment(us, elsewhere, [33_434, 443])), // nor this one
        message(router, elsewhere, time_exceeded(false), &probe([33_434, 443])), // not for its sender
        message(router, us, (v4::REDIRECT, 1, 0), &probe([33_434, 443])), // not about the packet's way
        message(router, us, time_exceeded(false), &[]),
    ];
    assert!(b.send(&refused).is_empty());
    assert_eq!(b.drops(DropReason::OutboundNoPolicy), refused.len() as u64);
    b.assert_no_leak();
}

#[test]
fn an_error_that_follows_no_flow_of_the_tunnel_comes_in_by_none() {
    let [us, server, router, elsewhere] = hosts(false);
    let [mut a, mut b] = https_alone();
    lets_all_out(&mut b);
    let probe = |ports| segment(us, server, ports);
    let outer = b.send(&[
        message(router, us, time_exceeded(false), &probe([33_434, 80])),
        message(router, us, time_exceeded(false), &segment(us, elsewhere, [33_434, 443])),
        message(router, elsewhere, time_exceeded(false), &probe([33_434, 443])),
        message(router, us, (v4::REDIRECT, 1, 0), &probe([33_434, 443])),
        message(router, us, (v4::ECHO, 0, 0), &probe([33_434, 443])),
    ]);
    assert_eq!((outer.len(), a.receive(&outer).len()), (5, 0));
    assert_eq!((a.drops(DropReason::IcmpMismatch), a.drops(DropReason::PolicyMismatch)), (2, 3));
    a.assert_no_leak();
}

#[test]
fn no_sa_is_negotiated_for_an_error() {
    let [us, server, router, _] = hosts(false);
    let [_, mut b] = https_alone();
    b.ipsec.tables.config.acquire = true;
    b.ipsec.remove(OUT);
    assert!(b.send(&[message(router, us, time_exceeded(false), &segment(us, server, [1, 443]))]).is_empty());
    assert!(b.outbound.without_sa.is_empty());
    assert_eq!(b.drops(DropReason::OutboundNoSa), 1);
    b.assert_no_leak();
}

#[test]
fn a_policy_that_discards_errors_is_applied() {
    let [us, server, router, _] = hosts(false);
    let [_, mut b] = https_alone();
    let protects = protect("10.2.0.0/16[tcp/443]", "10.1.0.0/16");
    b.ipsec.set_policies(vec![protects, policy("0.0.0.0/0[icmp]", "0.0.0.0/0", Action::Discard)]);
    assert!(b.send(&[message(router, us, time_exceeded(false), &segment(us, server, [1, 443]))]).is_empty());
    assert_eq!(b.drops(DropReason::OutboundDiscard), 1);
    b.assert_no_leak();
}
