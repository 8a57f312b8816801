use super::*;
use crate::snapshot::{CharonRow, ClusterRow, GroupRow, PolicyRow};

fn sa(tunnel: &str, tunnel_id: u32, direction: &str, remote: &str) -> SaRow {
    SaRow {
        tunnel: tunnel.to_owned(),
        tunnel_id,
        direction: direction.to_owned(),
        mode: "tunnel".to_owned(),
        remote: remote.to_owned(),
        packets: 10,
        bytes: 1_000,
        last_used_s: Some(1.0),
        ..SaRow::default()
    }
}

/// A policy of charon's for a child of this name.
fn policy(name: &str, tunnel_id: u32, child: &str) -> PolicyRow {
    PolicyRow {
        name: name.to_owned(),
        tunnel_id: Some(tunnel_id),
        child: child.to_owned(),
        ..PolicyRow::default()
    }
}

fn configured(name: &str, has_static_keys: bool, remote_ts: &str) -> ConfiguredRow {
    ConfiguredRow {
        name: name.to_owned(),
        has_static_keys,
        remote: "192.0.2.9".to_owned(),
        remote_ts: vec![remote_ts.to_owned()],
        ..ConfiguredRow::default()
    }
}

fn total(tunnel: &str, direction: &str, packets: u64) -> TunnelRow {
    TunnelRow { tunnel: tunnel.to_owned(), direction: direction.to_owned(), packets, ..TunnelRow::default() }
}

/// Name, number, state, peer, packets out and in of each row.
fn shown(snapshot: &Snapshot) -> Vec<String> {
    let row = |row: PeerRow| {
        let PeerRow { tunnel, tunnel_id, state, remote, outbound, inbound, .. } = row;
        let number = tunnel_id.map_or_else(String::new, |number| format!("{number} "));
        format!("{tunnel} {number}{} {remote} {} {}", state.name(), outbound.packets, inbound.packets)
    };
    snapshot.peers().into_iter().map(row).collect()
}

#[test]
fn a_tunnel_is_one_row_with_the_totals_of_former_sas() {
    let newest = SaRow { age_s: 5.0, path_mtu: Some(1400), ..sa("z", 0, "outbound", "192.0.2.3") };
    let older = SaRow { age_s: 50.0, path_mtu: Some(1500), ..sa("z", 0, "outbound", "192.0.2.2") };
    let snapshot = Snapshot {
        configured: vec![configured("z", true, "10.2.0.0/24"), configured("a", true, "10.3.0.0/24")],
        sas: vec![older, newest, sa("z", 0, "inbound", "192.0.2.7")],
        tunnels: vec![total("z", "outbound", 77), total("z", "inbound", 66)],
        ..Snapshot::default()
    };
    assert_eq!(shown(&snapshot), ["z 0 up 192.0.2.3 77 66", "a down 192.0.2.9 0 0"]);
    let row = &snapshot.peers()[0];
    assert_eq!((row.path_mtu, row.outbound.sas, row.inbound.sas), (Some(1400), 2, 1));
    assert_eq!(snapshot.sas_of(row, "outbound")[0].age_s, 5.0);
}

#[test]
fn peers_that_share_a_name_have_a_row_each() {
    let sas = [(1 << 30, "198.51.100.1"), (1 << 30 | 1, "198.51.100.2")];
    let both = sas
        .iter()
        .flat_map(|(id, peer)| [sa("roam/net", *id, "outbound", peer), sa("roam/net", *id, "inbound", peer)]);
    let snapshot = Snapshot {
        sas: both.collect(),
        tunnels: vec![total("roam/net", "outbound", 99), total("roam/net", "inbound", 99)],
        ..Snapshot::default()
    };
    assert_eq!(
        shown(&snapshot),
        ["roam/net 1073741824 up 198.51.100.1 10 10", "roam/net 1073741825 up 198.51.100.2 10 10"]
    );
}

#[test]
fn tunnel_with_a_trap_of_charons_is_one_row_and_one_without_is_down_like_it() {
    let snapshot = Snapshot {
        configured: vec![configured("net", false, "10.2.0.0/16"), configured("other", false, "10.3.0.0/16")],
        policies: vec![policy("net", 1 << 30, "site/net")],
        tunnels: vec![total("old/net", "inbound", 5)],
        ..Snapshot::default()
    };
    assert_eq!(
        shown(&snapshot),
        ["net 1073741824 down 192.0.2.9 0 0", "other down 192.0.2.9 0 0", "old/net removed  0 5"]
    );
    assert_eq!(snapshot.peers()[0].child, "site/net");
}

#[test]
fn state_of_a_tunnel_says_what_is_known_of_its_sas_and_its_peer() {
    let (outbound, inbound) = (sa("a", 0, "outbound", ""), sa("a", 0, "inbound", ""));
    let ended = SaRow { has_ended: true, ..inbound.clone() };
    let unheard = |last_used_s| SaRow { last_used_s, age_s: 300.0, ..inbound.clone() };
    let negotiated = |age_s| SaRow { child: "site/net".to_owned(), age_s, ..unheard(None) };
    let no_peer = SaRow { remote: "unknown".to_owned(), ..outbound.clone() };
    let cases = [
        (vec![outbound.clone(), inbound.clone()], PeerState::Up),
        (vec![outbound.clone()], PeerState::OneWay),
        (vec![outbound.clone(), ended.clone()], PeerState::Expired),
        (vec![outbound.clone(), ended, inbound.clone()], PeerState::Up),
        (vec![outbound.clone(), unheard(Some(61.0))], PeerState::Silent),
        (vec![outbound.clone(), unheard(None)], PeerState::Silent),
        (vec![outbound.clone(), unheard(None), unheard(Some(59.0))], PeerState::Up),
        (vec![outbound.clone(), negotiated(59.0)], PeerState::Up),
        (vec![outbound, negotiated(61.0)], PeerState::Silent),
        (vec![no_peer, inbound], PeerState::NoPeer),
    ];
    for (sas, state) in cases {
        assert_eq!(Snapshot { sas: sas.clone(), ..Snapshot::default() }.peers()[0].state, state, "{sas:?}");
    }
}

#[test]
fn tunnel_of_the_configuration_is_usable_while_it_has_sas_both_ways() {
    let pair = |name: &str, number| [sa(name, number, "outbound", ""), sa(name, number, "inbound", "")];
    let snapshot = Snapshot {
        configured: vec![
            configured("static", true, "10.1.0.0/24"),
            configured("bare", true, "10.2.0.0/24"),
            configured("served", false, "10.3.0.0/16"),
            configured("trap", false, "10.4.0.0/16"),
        ],
        policies: vec![policy("served", 7, "site/net"), policy("trap", 8, "site/other")],
        sas: [pair("static", 0), pair("served", 7)].concat(),
        ..Snapshot::default()
    };
    let usable = |snapshot: &Snapshot| {
        let rows = snapshot.usable().into_iter().map(|(row, is_usable)| (row.name.clone(), is_usable));
        rows.map(|(name, is_usable)| format!("{name} {is_usable}")).collect::<Vec<_>>()
    };
    assert_eq!(usable(&snapshot), ["static true", "bare false", "served true", "trap false"]);
    let mut both = snapshot.clone();
    both.policies[0].others.push("trap".to_owned());
    assert_eq!(usable(&both)[3], "trap true", "its networks have the same child");
    assert!(both.peers().iter().filter(|row| row.tunnel == "trap").all(|row| row.tunnel_id.is_some()));
    let group = |name: &str, is_led| GroupRow { name: name.to_owned(), is_led, ..GroupRow::default() };
    let cluster = ClusterRow { groups: vec![group("", false), group("b", true)], ..ClusterRow::default() };
    let mut standby = Snapshot { cluster: Some(cluster), ..snapshot };
    standby.configured[1].group = "b".to_owned();
    assert_eq!(usable(&standby), ["bare false"], "the others are another member's");
}

#[test]
fn tunnel_without_sas_has_the_latest_failure_of_its_connection_or_of_its_peer() {
    let failure = |connection: &str, peer: &str, age_s| NegotiationRow {
        connection: connection.to_owned(),
        peer: peer.to_owned(),
        reason: format!("{connection} {age_s}"),
        age_s,
    };
    let negotiations = vec![
        failure("si", "198.51.100.1", 0.5),
        failure("site", "192.0.2.9", 3.0),
        failure("configured", "192.0.2.9", 9.0),
        failure("served", "192.0.2.8", 1.0),
    ];
    let snapshot = Snapshot {
        configured: vec![configured("configured", false, "10.3.0.0/16")],
        policies: vec![policy("trap", 7, "site/net"), policy("served", 8, "served/net")],
        sas: vec![
            sa("served", 8, "outbound", "192.0.2.8"),
            sa("served", 8, "inbound", "192.0.2.8"),
            sa("site/other", 9, "outbound", "192.0.2.7"),
            sa("site/other", 9, "inbound", "192.0.2.7"),
        ],
        charon: Some(CharonRow { negotiations, ..CharonRow::default() }),
        ..Snapshot::default()
    };
    let row = |row: PeerRow| (row.tunnel, row.state.name(), row.negotiation.map(|last| last.reason));
    let rows: Vec<_> = snapshot.peers().into_iter().map(row).collect();
    let expected = |tunnel: &str, state, reason: &str| (tunnel.to_owned(), state, Some(reason.to_owned()));
    assert_eq!(
        rows,
        [
            expected("configured", "negotiating", "site 3"),
            expected("served", "up", "served 1"),
            ("site/other".to_owned(), "up", None),
            expected("trap", "negotiating", "site 3"),
        ]
    );
}

#[test]
fn peer_that_was_heard_before_a_rekeying_is_not_one_that_never_spoke() {
    let fresh = |direction| SaRow { last_used_s: None, age_s: 300.0, ..sa("z", 0, direction, "192.0.2.2") };
    let heard = |ago_s| TunnelRow { last_used_s: Some(ago_s), ..total("z", "inbound", 7) };
    let of = |ago_s| {
        let sas = vec![fresh("outbound"), fresh("inbound")];
        let snapshot = Snapshot { sas, tunnels: vec![heard(ago_s)], ..Snapshot::default() };
        let row = snapshot.peers().remove(0);
        (row.state, row.inbound.last_used_s)
    };
    assert_eq!(of(20.0), (PeerState::Up, Some(20.0)));
    assert_eq!(of(900.0), (PeerState::Silent, Some(900.0)));
}
