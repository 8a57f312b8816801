use super::*;

fn addresses(source: &str, destination: &str) -> [IpAddr; 2] {
    [source.parse().expect(source), destination.parse().expect(destination)]
}

#[test]
fn an_inner_packet_that_its_sa_may_not_carry_is_dropped() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    b.ipsec.set_policies(vec![protect("10.2.0.0/24[udp/53]", "10.1.0.0/24")]);
    let outer = a.send(&[
        link.packet(false, 100),
        udp(addresses("10.1.0.5", "10.2.7.9"), 100),
        udp(addresses("10.1.9.5", "10.2.0.9"), 100),
        link.packet(true, 100),
    ]);
    assert_eq!(b.receive(&outer), [link.packet(false, 100)]);
    assert_eq!(b.drops(DropReason::PolicyMismatch), 3);
    assert_eq!(b.sa_drops(IN, DropReason::PolicyMismatch), 3);
    b.assert_no_leak();
}

#[test]
fn what_no_policy_selects_is_dropped_both_ways() {
    let link = Link::default();
    let mut a = link.gateway(0);
    assert!(a.send(&[udp(addresses("10.1.0.5", "10.9.0.9"), 100)]).is_empty());
    assert!(a.receive(&[udp(addresses("10.9.0.9", "10.1.0.5"), 100)]).is_empty());
    assert_eq!(a.drops(DropReason::OutboundNoPolicy), 1);
    assert_eq!(a.drops(DropReason::InboundNoPolicy), 1);
    a.assert_no_leak();
}

#[test]
fn bypass_and_discard_are_done_in_order_of_priority() {
    let link = Link::default();
    let mut a = link.gateway(0);
    let mut policies = link.policies(0);
    policies.push(Policy { priority: 1, ..policy("10.1.0.0/16", "10.2.0.0/24", Action::Bypass) });
    policies.push(policy("10.1.0.0/16", "10.3.0.0/16", Action::Discard));
    a.ipsec.set_policies(policies);
    let bypassed = udp(addresses("10.1.0.5", "10.2.0.9"), 100);
    let discarded = udp(addresses("10.1.0.5", "10.3.0.9"), 100);
    assert!(a.send(&[bypassed.clone(), discarded]).is_empty());
    assert_eq!(a.outbound.bypass.len(), 1);
    assert_eq!(a.outbound.bypass[0][..], bypassed[..]);
    let answer = udp(addresses("10.2.0.9", "10.1.0.5"), 100);
    a.receive(&[
        answer,
        udp(addresses("10.3.0.9", "10.1.0.5"), 100),
        udp(addresses("10.2.7.9", "10.1.0.5"), 100),
    ]);
    assert_eq!(a.inbound.bypass.len(), 1);
    assert_eq!(a.drops(DropReason::OutboundDiscard), 1);
    assert_eq!(a.drops(DropReason::InboundDiscard), 1);
    assert_eq!(a.drops(DropReason::InboundUnprotected), 1);
    a.assert_no_leak();
}

#[test]
fn policies_outlive_the_sas_that_they_use() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    let packet = [link.packet(false, 100)];
    let in_flight = a.prepare(&packet);
    let successor = SaConfig { spi: 0x2001, ..link.sa(0, SaDirection::Outbound) };
    let next = a.install(successor);
    b.install(SaConfig { spi: 0x2001, ..link.sa(1, SaDirection::Inbound) });
    let outer = a.send(&packet);
    assert_eq!(outer[0][20..24], [0, 0, 0x20, 1]);
    assert_eq!(b.receive(&outer), packet);
    a.ipsec.remove(OUT);
    assert!(a.seal(in_flight).is_empty(), "it outlived its SA");
    assert_eq!(a.drops(DropReason::OutboundNoSa), 1);
    a.ipsec.remove(next);
    assert!(a.send(&packet).is_empty());
    assert_eq!(a.drops(DropReason::OutboundNoSa), 2);
    let lost: Vec<u64> = a.ipsec.tables.dropped_without_sa().map(|(_, packets)| packets).collect();
    assert_eq!(lost, [1], "the other had an SA when it came");
    a.assert_no_leak();
}

#[test]
fn a_packet_without_sa_is_handed_back_where_a_key_daemon_may_be_asked() {
    let link = Link::default();
    let mut a = link.gateway(0);
    a.ipsec.tables.config.acquire = true;
    a.ipsec.remove(OUT);
    let packet = link.packet(false, 100);
    assert!(a.send(std::slice::from_ref(&packet)).is_empty());
    let waiting = a.outbound.without_sa.pop().expect("handed back");
    assert_eq!(
        (&waiting.frame[..], waiting.flow.destination()),
        (&packet[..], "10.2.0.9".parse().expect("an address"))
    );
    assert_eq!(a.drops(DropReason::OutboundNoSa), 0);
    let tunnel = waiting.tunnel;
    a.ipsec.tables.give_up(&mut a.pool, waiting);
    assert_eq!(a.drops(DropReason::OutboundNoSa), 1);
    assert_eq!(a.ipsec.tables.dropped_without_sa().collect::<Vec<_>>(), [(tunnel, 1)]);
    a.assert_no_leak();
}

#[test]
fn a_packet_in_flight_is_not_taken_for_its_sas_successor() {
    let link = Link::default();
    let mut a = link.gateway(0);
    let in_flight = a.prepare(&[link.packet(false, 100)]);
    a.ipsec.remove(OUT);
    let successor = a.install(SaConfig { spi: 0x2001, ..link.sa(0, SaDirection::Outbound) });
    assert_eq!(successor, OUT, "the place is used again");
    assert!(a.seal(in_flight).is_empty());
    a.assert_no_leak();
}

#[test]
fn overlapping_spis_are_refused_and_both_sas_named() {
    let link = Link::default();
    let mut a = link.gateway(0);
    let mut second = link.sa(0, SaDirection::Inbound);
    second.remote = "198.51.100.7".parse().expect("an address");
    let error = a.ipsec.install(second.clone()).expect_err("the SPI is taken").to_string();
    assert!(error.contains("inbound ESP SA 0x00001002 (192.0.2.1 <- 198.51.100.7)"), "{error}");
    assert!(error.contains("inbound ESP SA 0x00001002 (192.0.2.1 <- 192.0.2.2)"), "{error}");
    let mut other_peer = link.sa(0, SaDirection::Outbound);
    other_peer.remote = "198.51.100.7".parse().expect("an address");
    assert!(a.ipsec.install(other_peer).is_ok(), "outbound SPIs are each peer's own");
    assert!(a.ipsec.install(link.sa(0, SaDirection::Outbound)).is_err());
    second.spi = 255;
    assert!(matches!(a.ipsec.install(second), Err(InstallError::Invalid(_))));
}

#[test]
fn new_policies_take_effect_at_once_and_those_that_stay_keep_their_counters() {
    let link = Link::default();
    let mut a = link.gateway(0);
    assert_eq!(a.send(&[link.packet(false, 100)]).len(), 1);
    let mut policies = link.policies(0);
    policies.push(policy("10.1.0.0/16", "10.3.0.0/16", Action::Bypass));
    a.ipsec.set_policies(policies);
    assert_eq!(a.ipsec.tables.policies().map(|view| view.packets).sum::<u64>(), 1);
    a.ipsec.set_policies(vec![policy("10.1.0.0/16", "10.2.0.0/16", Action::Discard)]);
    assert!(a.send(&[link.packet(false, 100)]).is_empty());
    assert_eq!(a.drops(DropReason::OutboundDiscard), 1);
    a.assert_no_leak();
}

/// What brings a daemon's policy.
fn comes(rank: u64, policy: Policy) -> PolicyChange {
    PolicyChange { gone: None, came: Some((PolicyRank::of_daemon(rank), policy)) }
}

fn place(rank: u64) -> PolicyPlace {
    PolicyPlace { priority: 10, rank: PolicyRank::of_daemon(rank) }
}

#[test]
fn a_daemons_policy_comes_and_goes_beside_all_others_and_what_it_admits_with_it() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    b.ipsec.set_policies(Vec::new());
    let packet = link.packet(false, 100);
    assert!(b.receive(&a.send(std::slice::from_ref(&packet))).is_empty(), "nothing admits it");
    b.ipsec.change_policies(&[comes(5, protect("10.2.0.0/16", "10.1.0.0/16"))]);
    b.ipsec.set_policies(vec![policy("10.9.0.0/16", "10.1.0.0/16", Action::Discard)]);
    assert_eq!(
        b.receive(&a.send(std::slice::from_ref(&packet))),
        std::slice::from_ref(&packet),
        "a reload leaves it"
    );
    b.ipsec.change_policies(&[PolicyChange { gone: Some(place(5)), came: None }]);
    assert!(b.receive(&a.send(&[packet])).is_empty(), "it went");
    assert_eq!(b.ipsec.tables.policies().count(), 1);
    b.assert_no_leak();
}

#[test]
fn a_daemons_policy_keeps_its_counters_where_its_rank_or_its_name_changes() {
    let link = Link::default();
    let mut a = link.gateway(0);
    a.ipsec.set_policies(Vec::new());
    let protect = || protect("10.1.0.0/16", "10.2.0.0/16");
    a.ipsec.change_policies(&[comes(9, protect())]);
    assert_eq!(a.send(&[link.packet(false, 100)]).len(), 1);
    let named = Policy { name: "site/net".to_owned(), ..protect() };
    a.ipsec.change_policies(&[PolicyChange { gone: Some(place(9)), ..comes(3, named.clone()) }]);
    assert_eq!(a.send(&[link.packet(false, 100)]).len(), 1);
    let views: Vec<_> = a.ipsec.tables.policies_behind(None).collect();
    assert_eq!((views.len(), views[0].0, views[0].1.packets), (1, place(3), 2));
    assert_eq!(views[0].1.policy, named);
    a.ipsec.change_policies(&[comes(3, policy("10.1.0.0/16", "10.2.0.0/16", Action::Discard))]);
    assert_eq!(a.ipsec.tables.policies().map(|view| view.packets).collect::<Vec<_>>(), [0], "another policy");
    assert!(a.send(&[link.packet(false, 100)]).is_empty());
    a.assert_no_leak();
}

#[test]
fn the_second_packet_of_a_flow_costs_no_search() {
    let link = Link::default();
    let mut a = link.gateway(0);
    a.send(&vec![link.packet(false, 100); 50]);
    let counters = a.ipsec.counters();
    assert_eq!((counters.flow_hits, counters.flow_misses), (49, 1));
}

#[test]
fn transport_mode_carries_its_own_endpoints_only() {
    let link = Link { mode: Mode::Transport, ..Link::default() };
    let mut a = link.gateway(0);
    a.ipsec.set_policies(vec![protect("192.0.2.0/24", "192.0.2.0/24")]);
    assert!(a.send(&[udp(addresses("192.0.2.1", "192.0.2.77"), 100)]).is_empty());
    assert_eq!(a.sa_drops(OUT, DropReason::TransportAddress), 1);
    a.assert_no_leak();
}
