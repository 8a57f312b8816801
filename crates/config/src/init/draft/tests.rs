//! What is taken, what is refused, and what holds by default.

use std::io;

use convoy_settings::Interface;

use super::*;

/// One name is known.
fn resolve(name: &str) -> io::Result<Vec<IpAddr>> {
    let known = ["2001:db8::9", "198.51.100.9"].map(|text| text.parse().expect(text)).to_vec();
    if name == "gw.example.org" { Ok(known) } else { Err(io::Error::other("no such name")) }
}

/// A host with one LAN.
struct Host;

impl HostEnvironment for Host {
    fn interfaces(&self) -> Option<Vec<Interface>> {
        let networks = vec!["10.1.0.254/24".parse().expect("a network")];
        Some(vec![Interface { name: "lan0".to_owned(), mtu: 1500, is_tun: false, networks }])
    }

    fn has_address(&self, address: IpAddr) -> Option<bool> {
        Some(address.to_string() == "192.0.2.1")
    }

    fn source_to(&self, remote: IpAddr) -> Option<IpAddr> {
        remote.is_ipv4().then(|| "192.0.2.1".parse().expect("an address"))
    }
}

const NEEDED: [(Field, &str); 3] = [
    (Field::Outside(Remote), "198.51.100.1"),
    (Field::Networks(Local), "10.1.0.0/24, fd00:1::/64"),
    (Field::Networks(Remote), "10.2.0.0/24, fd00:2::/64"),
];

fn draft(said: &[(Field, &str)]) -> Draft<'static> {
    let mut draft = Draft::new(&Host, &resolve);
    for (field, text) in said {
        draft.set(*field, text).expect(text);
    }
    draft
}

fn refused(said: &[(Field, &str)], field: Field, text: &str) -> String {
    draft(said).set(field, text).expect_err(text).to_string()
}

#[test]
fn three_answers_are_a_plan() {
    let plan = draft(&NEEDED).finish().expect("defaults that fit").expect("complete");
    let [local, remote] = &plan.sites;
    assert_eq!((plan.keys, &*plan.proposal, plan.udp_port), (KeySource::Static, "aes128gcm16-esn", 4500));
    assert_eq!((&*local.name, &*remote.name), ("site-a", "site-b"));
    assert_eq!(
        (local.outside.to_string(), remote.outside.to_string()),
        ("192.0.2.1".into(), "198.51.100.1".into())
    );
    let inside = |site: &Site| site.inside.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(inside(local), ["10.1.0.254", "fd00:1::1"], "its address in the LAN, or the first");
    assert_eq!(inside(remote), ["10.2.0.1", "fd00:2::1"]);
    assert!(!local.is_behind_nat() && !remote.is_behind_nat());
}

#[test]
fn what_is_missing_is_named_with_its_option() {
    let Incomplete(missing) = draft(&NEEDED[..1]).finish().expect("nothing wrong").expect_err("incomplete");
    assert_eq!(missing, [Field::Networks(Local), Field::Networks(Remote)]);
    assert!(draft(&NEEDED[..1]).needs_more() && !draft(&NEEDED).needs_more());
    let reported = Incomplete(missing).to_string();
    assert!(
        reported.contains("\n  --local-ts <VALUE>: networks behind this gateway, such as 10.1.0.0/24"),
        "{reported}"
    );
}

#[test]
fn a_name_stands_for_its_address_and_is_what_the_other_gateway_gets() {
    let said = [
        (Field::Outside(Local), "192.0.2.1"),
        (Field::Outside(Remote), "gw.example.org"),
        NEEDED[1],
        NEEDED[2],
    ];
    let plan = draft(&said).finish().expect("defaults that fit").expect("complete");
    assert_eq!(plan.sites[1].outside.to_string(), "198.51.100.9", "of the family of the local end");
    assert_eq!(plan.sites[1].reached, Reached::At { host: "gw.example.org".to_owned(), port: None });
    assert!(!plan.sites[1].is_behind_nat());
    let reported = refused(&[], Field::Outside(Remote), "gw.example.com");
    assert!(
        reported.starts_with("--remote: gw.example.com does not resolve")
            && reported.contains("--remote-public"),
        "{reported}"
    );
}

#[test]
fn a_nat_has_an_address_and_a_port_of_its_own() {
    let mut said = NEEDED.to_vec();
    said.extend([(Field::Reached(Local), "203.0.113.7:40500"), (Field::UdpPort, "5500")]);
    let plan = draft(&said).finish().expect("defaults that fit").expect("complete");
    assert!(plan.sites[0].is_behind_nat() && !plan.sites[1].is_behind_nat());
    assert_eq!((plan.reached_port(Local), plan.reached_port(Remote)), (40500, 5500));
}

#[test]
fn answers_that_contradict_each_other_are_refused_with_the_option() {
    let [remote, ours, theirs] = NEEDED;
    let psk = (Field::Ike, "psk");
    let cases = [
        (
            vec![],
            Field::Outside(Remote),
            "192.0.2.1",
            "--remote: 192.0.2.1 is this host's own; run init at one site only",
        ),
        (vec![remote], Field::Outside(Local), "2001:db8::1", "of different families"),
        (vec![remote], Field::Outside(Local), "198.51.100.1", "both gateways would have"),
        (
            vec![ours],
            Field::Networks(Remote),
            "10.1.0.128/25, fd00:2::/64",
            "10.1.0.128/25 and 10.1.0.0/24 of the other site overlap",
        ),
        (
            vec![ours],
            Field::Networks(Remote),
            "10.2.0.0/24",
            "only one site has an IPv6 network, fd00:1::/64",
        ),
        (
            vec![ours, theirs],
            Field::Inside(Remote),
            "10.1.0.1",
            "--remote-inside: 10.1.0.1 is in none of the site's networks (10.2.0.0/24",
        ),
        (vec![], Field::Name(Remote), "../b", "letters, digits and hyphens"),
        (vec![(Field::Name(Local), "a")], Field::Name(Remote), "a", "both sites would be called a"),
        (vec![], Field::Reached(Local), "any", "needs --ike psk"),
        (vec![psk, (Field::Reached(Remote), "any")], Field::Reached(Local), "any", "must be reachable"),
        (vec![psk], Field::Reached(Local), "203.0.113.7:4501", "a port is for static keys"),
        (vec![psk], Field::UdpPort, "5500", "--udp-port: it is for static keys"),
        (vec![], Field::Ike, "ikev1", "--ike: \"ikev1\": no (static keys"),
    ];
    for (said, field, text, expected) in cases {
        let reported = refused(&said, field, text);
        assert!(reported.contains(expected), "{reported}");
    }
}

#[test]
fn everything_may_be_behind_one_gateway_whose_inside_address_is_then_to_be_said() {
    let said = [NEEDED[0], (Field::Networks(Local), "10.1.0.0/24"), (Field::Networks(Remote), "0.0.0.0/0")];
    let Incomplete(missing) = draft(&said).finish().expect("nothing wrong").expect_err("incomplete");
    assert_eq!(missing, [Field::Inside(Remote)]);
}

#[test]
fn with_ike_the_usual_proposal_has_a_key_exchange_of_its_own() {
    let mut said = NEEDED.to_vec();
    said.push((Field::Ike, "psk"));
    let plan = draft(&said).finish().expect("defaults that fit").expect("complete");
    assert_eq!(plan.proposal, "aes256gcm16-x25519-esn");
}

#[test]
fn gateway_that_roams_needs_no_address_by_which_it_is_reached() {
    for (keys, expected) in [("no", "198.51.100.1"), ("psk", "any")] {
        let mut draft = draft(&NEEDED);
        draft.set_roaming();
        draft.set(Field::Ike, keys).expect(keys);
        assert_eq!(draft.default_of(Field::Reached(Remote)).as_deref(), Some(expected));
        draft.set(Field::Reached(Remote), "any").expect("it is learned");
        assert!(draft.finish().expect("fits").expect("complete").peer_roams);
    }
}

#[test]
fn private_address_of_a_peer_of_charon_s_is_warned_of_unless_a_nat_is_named() {
    let said = |more: &[(Field, &'static str)]| {
        let mut said = vec![
            (Field::Ike, "psk"),
            (Field::Outside(Local), "203.0.113.1"),
            (Field::Outside(Remote), "10.9.0.2"),
        ];
        said.extend(&NEEDED[1..]);
        said.extend(more);
        draft(&said)
    };
    let warnings = |draft: Draft<'_>| draft.finish().expect("fits").expect("complete").warnings();
    let found = warnings(said(&[]));
    assert!(found.len() == 1 && found[0].contains("--remote-public, or --roaming"), "{found:?}");
    assert!(warnings(said(&[(Field::Reached(Remote), "198.51.100.7")])).is_empty());
    let mut roaming = said(&[]);
    roaming.set_roaming();
    assert!(warnings(roaming).is_empty());
}
