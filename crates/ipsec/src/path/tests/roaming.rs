//! Peers that roam, and peers whose address is not known yet.

use std::net::SocketAddr;

use super::*;
use crate::sa::config::NatKeepalive;

/// The second gateway of a link, whose peer may roam; `at` replaces the peer's known address.
fn roamed_to(link: &Link, at: Option<IpAddr>) -> Gateway {
    let mut b = Gateway::new(link.config(1));
    for direction in [SaDirection::Outbound, SaDirection::Inbound] {
        let sa = link.sa(1, direction);
        b.install(SaConfig { roams: true, remote: at.unwrap_or(sa.remote), ..sa });
    }
    b.ipsec.set_policies(link.policies(1));
    b
}

/// Natively, in UDP, and by AH; IPv4 and IPv6.
fn links() -> Vec<Link> {
    let esp = [(None, SaProtocol::Esp, GCM), (Some(ENCAP), SaProtocol::Esp, GCM)];
    let ah = (None, SaProtocol::Ah, NULL_SHA1);
    let ways = esp.into_iter().chain([ah]);
    let both = ways.flat_map(|way| [(way, false), (way, true)]);
    both.map(|((encap, protocol, transform), outer_v6)| Link {
        encap,
        protocol,
        transform,
        outer_v6,
        ..Link::default()
    })
    .collect()
}

/// The link of the same tunnel whose first end is elsewhere.
fn elsewhere(link: &Link) -> IpAddr {
    if link.outer_v6 { "2001:db8::77" } else { "198.51.100.77" }.parse().expect("an address")
}

/// The first gateway of a link, sending from another address and port.
fn moved(link: &Link) -> Gateway {
    let mut a = link.gateway(0);
    let known = a.ipsec.tables.ends(OUT).expect("installed");
    let encap = known.encap.map(|encap| UdpEncap { local_port: 40_000, ..encap });
    assert!(a.move_sa(OUT, &SaEnds { local: elsewhere(link), encap, ..known }));
    a
}

fn receive(b: &mut Gateway, packets: &[Vec<u8>]) -> usize {
    let received = b.receive(packets).len();
    if b.ipsec.inbound.has_roamed() {
        b.ipsec.follow_roamers();
    }
    assert!(!b.ipsec.inbound.has_roamed());
    received
}

/// Where a gateway's answers go.
fn destination(b: &mut Gateway) -> Option<SocketAddr> {
    let back = udp(["10.2.0.9", "10.1.0.5"].map(|text| text.parse().expect(text)), 100);
    let sent = b.send(&[back]);
    let packet = sent.first()?;
    let layout = Layout::parse(packet).expect("an outer packet");
    let port = if layout.protocol == 17 {
        u16::from_be_bytes([layout.body(packet)[2], layout.body(packet)[3]])
    } else {
        0
    };
    Some(SocketAddr::new(layout.addresses(packet).1, port))
}

#[test]
fn answers_follow_a_peer_that_roams_from_its_first_authentic_packet_on() {
    for link in links() {
        let mut b = roamed_to(&link, None);
        let home = SocketAddr::new(link.ends()[0], link.encap.map_or(0, |_| 4500));
        assert_eq!(receive(&mut b, &link.gateway(0).send(&[link.packet(false, 100)])), 1);
        assert_eq!(destination(&mut b), Some(home), "{link:?}");
        let mut a = moved(&link);
        a.ipsec.tables.set_sequence(OUT_ID, 1);
        assert_eq!(receive(&mut b, &a.send(&[link.packet(false, 100)])), 1);
        let away = SocketAddr::new(elsewhere(&link), link.encap.map_or(0, |_| 40_000));
        assert_eq!(destination(&mut b), Some(away), "{link:?}");
        b.assert_no_leak();
    }
}

#[test]
fn forged_replayed_and_older_packets_move_no_roaming_peer() {
    for link in links() {
        let (mut a, mut b) = (moved(&link), roamed_to(&link, None));
        let away = SocketAddr::new(elsewhere(&link), link.encap.map_or(0, |_| 40_000));
        // 1 and 2 are late, 3 is the newest of those that arrive, 4 is forged.
        let mut sent = a.send(&vec![link.packet(false, 100); 4]);
        assert_eq!(receive(&mut b, &sent[2..3]), 1);
        assert_eq!(destination(&mut b), Some(away));
        let mut home = link.gateway(0);
        let mut from_home = home.send(&vec![link.packet(false, 100); 4]);
        assert_eq!(receive(&mut b, &from_home[1..2]), 1, "new, but older than the newest");
        assert_eq!(destination(&mut b), Some(away), "{link:?}");
        assert_eq!(receive(&mut b, &from_home[1..3]), 0, "replayed");
        assert_eq!(destination(&mut b), Some(away), "{link:?}");
        let last = from_home[3].len() - 1;
        from_home[3][last] ^= 1;
        assert_eq!(receive(&mut b, &from_home[3..]), 0, "forged");
        assert_eq!(destination(&mut b), Some(away), "{link:?}");
        assert!(receive(&mut b, &sent.split_off(3)) == 1, "the true one still comes");
        assert_eq!(b.sa_drops(IN, DropReason::Replayed), 2);
        assert_eq!(b.sa_drops(IN, DropReason::IntegrityFailed), 1);
        b.assert_no_leak();
    }
}

#[test]
fn a_peer_that_may_not_roam_is_answered_where_it_was() {
    for link in links() {
        let (mut a, mut b) = (moved(&link), link.gateway(1));
        assert_eq!(receive(&mut b, &a.send(&[link.packet(false, 100)])), 1);
        assert_eq!(destination(&mut b).map(|to| to.ip()), Some(link.ends()[0]), "{link:?}");
    }
}

#[test]
fn nothing_is_sent_to_a_peer_until_its_address_is_known() {
    for link in links() {
        let nowhere: IpAddr = if link.outer_v6 { "::" } else { "0.0.0.0" }.parse().expect("an address");
        let mut b = roamed_to(&link, Some(nowhere));
        assert_eq!(destination(&mut b), None);
        assert_eq!(b.sa_drops(OUT, DropReason::OutboundNoPeer), 1);
        assert_eq!(b.drops(DropReason::OutboundNoSa), 0);
        assert_eq!(receive(&mut b, &moved(&link).send(&[link.packet(false, 100)])), 1);
        let away = SocketAddr::new(elsewhere(&link), link.encap.map_or(0, |_| 40_000));
        assert_eq!(destination(&mut b), Some(away), "{link:?}");
        b.assert_no_leak();
    }
}

#[test]
fn peers_whose_addresses_are_not_known_may_have_one_spi_but_not_one_address() {
    let link = Link { encap: Some(ENCAP), ..Link::default() };
    let nowhere = "0.0.0.0".parse().expect("an address");
    let mut gateway = Gateway::new(link.config(0));
    let sa =
        SaConfig { remote: nowhere, nat_keepalive: NatKeepalive::Never, ..link.sa(0, SaDirection::Outbound) };
    let one = gateway.install(sa.clone());
    let other = gateway.install(SaConfig { tunnel: TunnelId(8), ..sa });
    let known = SaEnds { remote: link.ends()[1], ..gateway.ipsec.tables.ends(one).expect("installed") };
    assert!(gateway.move_sa(one, &known));
    assert!(!gateway.move_sa(other, &known), "its SPI is taken there");
    let third = SaEnds { remote: elsewhere(&link), ..known };
    assert!(gateway.move_sa(other, &third) && gateway.ipsec.tables.directory().len() == 2);
    gateway.ipsec.remove(one);
    gateway.ipsec.remove(other);
    assert!(gateway.ipsec.tables.directory().is_empty());
}

#[test]
fn an_sa_that_waits_for_its_peer_can_be_removed() {
    let link = Link::default();
    let mut b = roamed_to(&link, Some("0.0.0.0".parse().expect("an address")));
    b.ipsec.withdraw(OUT);
    b.ipsec.remove(OUT);
    assert_eq!(destination(&mut b), None);
    assert_eq!(b.drops(DropReason::OutboundNoSa), 1);
    b.ipsec.follow_roamers();
    b.assert_no_leak();
}
