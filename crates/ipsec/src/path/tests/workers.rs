//! Two workers of one gateway: one has the tunnel and its SAs, the other gets packets of them.

use super::size::router_says;
use super::*;
use crate::sad::directory::Directory;

/// Of the workers, the one that has the tunnel of a [`Link`].
const OWNER: usize = 1;
const OTHER: usize = 0;

/// The workers of one end, with policies and no SA.
fn bare(link: &Link, end: usize) -> [Gateway; 2] {
    let directory = Arc::new(Directory::new(2));
    [0, 1].map(|worker| {
        let config = IpsecConfig { worker, ..link.config(end) };
        let mut gateway = Gateway::of(Ipsec::among(config, Arc::clone(&directory)));
        gateway.ipsec.set_policies(link.policies(end));
        gateway
    })
}

fn workers(link: &Link, end: usize) -> [Gateway; 2] {
    let mut workers = bare(link, end);
    workers[OWNER].install(link.sa(end, SaDirection::Outbound));
    workers[OWNER].install(link.sa(end, SaDirection::Inbound));
    workers
}

/// What a worker hands over, and to whom.
fn handed(gateway: &mut Gateway) -> Vec<(u16, Vec<u8>)> {
    let frames: Vec<_> =
        gateway.outbound.for_others.drain(..).chain(gateway.inbound.for_others.drain(..)).collect();
    let packets = frames.iter().map(|(to, frame)| (*to, frame.to_vec())).collect();
    frames.into_iter().for_each(|(_, frame)| gateway.pool.give_back(frame));
    packets
}

/// Has a packet from outside arrive at the worker that has not its SA, and the rest of its way.
fn receive_elsewhere(workers: &mut [Gateway; 2], outer: &[Vec<u8>]) -> Vec<Vec<u8>> {
    assert!(workers[OTHER].receive(outer).is_empty());
    let handed = handed(&mut workers[OTHER]);
    assert!(handed.iter().all(|(to, _)| *to == OWNER as u16));
    let packets: Vec<_> = handed.into_iter().map(|(_, packet)| packet).collect();
    let inner = workers[OWNER].receive(&packets);
    assert!(workers[OWNER].inbound.for_others.is_empty(), "nothing goes round in circles");
    inner
}

#[test]
fn a_worker_asks_for_an_sa_of_its_own_and_hands_over_until_it_is_there() {
    let link = Link::default();
    let mut a = workers(&link, 0);
    let packet = link.packet(false, 100);
    let tunnel = link.sa(0, SaDirection::Outbound).tunnel;
    assert!(a[OTHER].send(std::slice::from_ref(&packet)).is_empty());
    assert!(a[OTHER].outbound.own_sa.is_empty(), "an acquire would get no answer");
    a.iter_mut().for_each(|worker| worker.ipsec.tables.set_own_sas(tunnel, true));
    for _ in 0..3 {
        assert!(a[OTHER].send(std::slice::from_ref(&packet)).is_empty());
    }
    assert_eq!(handed(&mut a[OTHER]).len(), 4, "no packet waits for it");
    let asked: Vec<_> = a[OTHER].outbound.own_sa.drain(..).collect();
    assert!(matches!(asked[..], [(of, flow)] if of == tunnel && !flow.source().is_ipv6()), "{asked:?}");
    let own = SaConfig { spi: 0x7777, ..link.sa(0, SaDirection::Outbound) };
    a[OTHER].install(own);
    assert_eq!(a[OTHER].send(std::slice::from_ref(&packet)).len(), 1);
    assert_eq!(a[OWNER].send(std::slice::from_ref(&packet)).len(), 1);
    assert!(a[OWNER].outbound.own_sa.is_empty() && a[OTHER].outbound.own_sa.is_empty());
}

#[test]
fn packets_of_another_workers_tunnel_are_handed_over_both_ways() {
    let link = Link::default();
    let (mut a, mut b) = (workers(&link, 0), workers(&link, 1));
    let packet = link.packet(false, 100);
    assert!(a[OTHER].send(std::slice::from_ref(&packet)).is_empty());
    assert_eq!(handed(&mut a[OTHER]), [(OWNER as u16, packet.clone())]);
    let outer = a[OWNER].send(std::slice::from_ref(&packet));
    assert_eq!(receive_elsewhere(&mut b, &outer), [packet]);
    for worker in a.iter_mut().chain(&mut b) {
        assert_eq!(worker.ipsec.counters().drops.total(), 0);
        worker.assert_no_leak();
    }
}

#[test]
fn only_the_owner_has_an_sa() {
    let link = Link::default();
    let workers = workers(&link, 0);
    assert_eq!(workers.map(|worker| worker.ipsec.tables.sas().count()), [0, 2]);
}

#[test]
fn a_packet_whose_tunnel_has_no_sa_waits_or_is_dropped_at_the_tunnels_owner() {
    let link = Link::default();
    let mut a = bare(&link, 0);
    let packet = link.packet(false, 100);
    a[OWNER].ipsec.tables.config.acquire = true;
    a[OTHER].ipsec.tables.config.acquire = true;
    for worker in &mut a {
        worker.send(std::slice::from_ref(&packet));
    }
    assert_eq!(handed(&mut a[OTHER]), [(OWNER as u16, packet)]);
    assert!(a[OTHER].outbound.without_sa.is_empty());
    let waiting = a[OWNER].outbound.without_sa.pop().expect("handed back");
    let Gateway { ipsec, pool, .. } = &mut a[OWNER];
    ipsec.tables.give_up(pool, waiting);
    assert_eq!(a[OWNER].drops(DropReason::OutboundNoSa), 1);
}

#[test]
fn a_rekey_loses_nothing_whichever_worker_gets_the_packets() {
    let link = Link::default();
    let packet = |len| link.packet(false, len);
    let successor = |end, direction| {
        let sa = link.sa(end, direction);
        SaConfig { spi: sa.spi + 0x1000, ..sa }
    };
    let (mut a, mut b) = (workers(&link, 0), workers(&link, 1));
    let before = a[OWNER].send(&[packet(100)]);
    // The receiver first, so that nothing comes by an SA that it has not got.
    b[OWNER].install(successor(1, SaDirection::Inbound));
    assert_eq!(receive_elsewhere(&mut b, &before), [packet(100)]);
    a[OWNER].install(successor(0, SaDirection::Outbound));
    let after = a[OWNER].send(&[packet(200)]);
    assert_eq!(receive_elsewhere(&mut b, &after), [packet(200)]);
    // What was sent by the old one may still come, until it is withdrawn.
    a[OWNER].ipsec.remove(OUT);
    let late = {
        let mut a = link.gateway(0);
        a.ipsec.tables.set_sequence(OUT_ID, 7);
        a.send(&[packet(300)])
    };
    assert_eq!(receive_elsewhere(&mut b, &late), [packet(300)]);
    assert_eq!([OWNER, OTHER].map(|worker| b[worker].ipsec.counters().drops.total()), [0, 0]);
    // What the other worker has handed over finds the SA gone.
    assert!(b[OTHER].receive(&late).is_empty());
    let on_the_way = handed(&mut b[OTHER]);
    b[OWNER].ipsec.withdraw(IN);
    assert!(b[OWNER].receive(&[on_the_way[0].1.clone()]).is_empty());
    assert!(b[OWNER].inbound.for_others.is_empty());
    assert!(b[OTHER].receive(&late).is_empty());
    assert!(handed(&mut b[OTHER]).is_empty());
    assert_eq!([OWNER, OTHER].map(|worker| b[worker].drops(DropReason::UnknownSpi)), [1, 1]);
    assert_eq!(b[OWNER].ipsec.tables.directory().len(), 2, "the outbound one and the successor");
}

#[test]
fn an_spi_of_another_workers_sa_is_refused_and_free_once_that_is_withdrawn() {
    let link = Link::default();
    let mut workers = workers(&link, 0);
    // This tunnel is the other worker's.
    let rival = SaConfig { tunnel: TunnelId(8), ..link.sa(0, SaDirection::Inbound) };
    let error = workers[OTHER].ipsec.install(rival.clone()).expect_err("the SPI is taken").to_string();
    assert!(error.contains("its SPI is used by inbound ESP SA 0x00001002"), "{error}");
    assert_eq!(workers[OTHER].ipsec.tables.sas().count(), 0);
    workers[OWNER].ipsec.withdraw(IN);
    let index = workers[OTHER].ipsec.install(rival).expect("free");
    workers[OWNER].ipsec.remove(IN);
    assert_eq!(workers[OTHER].ipsec.tables.directory().len(), 2, "the removal was of the old one");
    let number = workers[OTHER].ipsec.tables.number(index).expect("installed");
    assert_eq!((number.owner, workers[OTHER].ipsec.tables.place(number)), (OTHER as u16, Some(index)));
    assert_eq!(workers[OWNER].ipsec.tables.place(number), None);
}

#[test]
fn a_number_is_never_another_sas() {
    let link = Link::default();
    let mut a = link.gateway(0);
    let number = a.ipsec.tables.number(OUT).expect("installed");
    a.ipsec.remove(OUT);
    assert_eq!(a.install(link.sa(0, SaDirection::Outbound)), OUT, "the place is used again");
    assert_eq!(a.ipsec.tables.place(number), None);
    assert_ne!(a.ipsec.tables.number(OUT), Some(number));
}

#[test]
fn an_address_that_only_another_workers_sa_has_is_ours() {
    let link = Link::default();
    let mut b = workers(&link, 1);
    let elsewhere: IpAddr = "203.0.113.7".parse().expect("an address");
    let ends = crate::SaEnds { local: elsewhere, remote: link.ends()[0], encap: None };
    assert!(b[OWNER].move_sa(IN, &ends));
    let mut a = link.gateway(0);
    let to = crate::SaEnds { local: link.ends()[0], remote: elsewhere, encap: None };
    assert!(a.move_sa(OUT, &to));
    let outer = a.send(&[link.packet(false, 100)]);
    assert_eq!(receive_elsewhere(&mut b, &outer), [link.packet(false, 100)]);
    b[OWNER].ipsec.remove(IN);
    assert!(b[OTHER].receive(&outer).is_empty());
    assert_eq!(b[OTHER].drops(DropReason::InboundNoPolicy), 1, "a packet for somebody else");
}

#[test]
fn a_report_about_another_workers_sa_goes_to_that_worker() {
    let link = Link::default();
    let mut a = workers(&link, 0);
    let outer = a[OWNER].send(&[link.packet(false, 1_000)]);
    let report = router_says(&outer[0], 1_350);
    a[OTHER].receive(std::slice::from_ref(&report));
    assert_eq!(handed(&mut a[OTHER]), [(OWNER as u16, report.clone())]);
    assert_eq!(a[OWNER].view(OUT).path_mtu, Some(1_500));
    a[OWNER].receive(&[report]);
    assert_eq!(a[OWNER].view(OUT).path_mtu, Some(1_350));
}

#[test]
fn an_error_of_another_workers_tunnel_goes_to_that_worker() {
    let link = Link::default();
    let mut b = workers(&link, 1);
    let came = link.packet(false, 100);
    let layout = Layout::parse(&came).expect("well-formed");
    let router: IpAddr = "198.51.100.1".parse().expect("an address");
    let pool = &mut b[OTHER].pool;
    let error = crate::icmp::build(crate::icmp::IcmpError::TimeExceeded, &came, &layout, router, pool);
    let error = error.expect("may be answered");
    let packet = error.to_vec();
    pool.give_back(error);
    assert!(b[OTHER].send(std::slice::from_ref(&packet)).is_empty());
    assert_eq!(handed(&mut b[OTHER]), [(OWNER as u16, packet)]);
    b[OTHER].assert_no_leak();
}

#[test]
fn a_worker_with_an_sa_of_its_own_hands_nothing_over() {
    let link = Link::default();
    let of_resource = |end, direction| {
        let sa = link.sa(end, direction);
        SaConfig { spi: sa.spi + 0x1000, ..sa }
    };
    let (mut a, mut b) = (workers(&link, 0), workers(&link, 1));
    let own = a[OTHER].install(of_resource(0, SaDirection::Outbound));
    b[OTHER].install(of_resource(1, SaDirection::Inbound));
    let packet = link.packet(false, 100);
    let outer = a[OTHER].send(std::slice::from_ref(&packet));
    assert!(handed(&mut a[OTHER]).is_empty());
    assert_eq!(b[OTHER].receive(&outer), std::slice::from_ref(&packet));
    assert!(handed(&mut b[OTHER]).is_empty());
    assert_eq!(a[OTHER].view(own).usage.packets(), 1);
    let of_first = a[OWNER].send(std::slice::from_ref(&packet));
    let by_first = receive_elsewhere(&mut b, &of_first);
    assert_eq!(by_first, std::slice::from_ref(&packet), "the first SA is where it was");
    // Without it the worker falls back to the first one.
    a[OTHER].ipsec.withdraw(own);
    assert!(a[OTHER].send(std::slice::from_ref(&packet)).is_empty());
    assert_eq!(handed(&mut a[OTHER]), [(OWNER as u16, packet)]);
    assert_eq!([OWNER, OTHER].map(|worker| b[worker].ipsec.counters().drops.total()), [0, 0]);
}
