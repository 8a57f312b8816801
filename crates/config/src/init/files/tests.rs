//! The files of both sites are read as gateways do, and mirror each other.

use convoy_ipsec::NatKeepalive;

use super::*;
use crate::Config;

fn site(number: u8, reached: Reached) -> Site {
    let text = |text: String| text.parse().expect("a network");
    Site {
        name: if number == 1 { "site-a" } else { "site-b" }.to_owned(),
        outside: format!("192.0.2.{number}").parse().expect("an address"),
        reached,
        networks: vec![text(format!("10.{number}.0.0/24")), text(format!("fd00:{number}::/64"))],
        inside: [format!("10.{number}.0.1"), format!("fd00:{number}::1")]
            .map(|one| one.parse().expect("one"))
            .to_vec(),
    }
}

fn at(host: &str, port: Option<u16>) -> Reached {
    Reached::At { host: host.to_owned(), port }
}

fn plan(keys: KeySource, reached: [Reached; 2]) -> TwoSites {
    let [local, remote] = reached;
    let sites = [site(1, local), site(2, remote)];
    TwoSites { keys, proposal: "aes256gcm16-esn".to_owned(), udp_port: 4500, peer_roams: false, sites }
}

fn made(plan: &TwoSites) -> [Vec<SiteFile>; 2] {
    files(plan, &Secrets::random(plan).expect("random"))
}

fn read(file: &SiteFile) -> Config {
    Config::parse("convoy.toml", &file.text).expect("good")
}

#[test]
fn static_keys_and_spis_of_one_site_are_the_others_swapped() {
    let [a, b] = made(&plan(KeySource::Static, [at("192.0.2.1", None), at("192.0.2.2", None)]));
    assert_eq!((a.len(), a[0].path.to_str()), (1, Some("etc/convoy/convoy.toml")));
    let [a, b] = [&a[0], &b[0]].map(read);
    assert!(a.warnings.is_empty() && b.warnings.is_empty(), "{:?} {:?}", a.warnings, b.warnings);
    let [a, b] = [&a.tunnels[0], &b.tunnels[0]];
    assert_eq!(
        (a.local, a.remote, &a.local_ts, &a.remote_ts),
        (b.remote, b.local, &b.remote_ts, &b.local_ts)
    );
    let [ours, theirs] = [&a.manual[0], &b.manual[0]];
    assert_eq!((ours.spi_in, ours.spi_out), (theirs.spi_out, theirs.spi_in));
    assert_ne!(ours.spi_in, ours.spi_out);
    assert_eq!(ours.keys_in.cipher_key(), theirs.keys_out.cipher_key());
    assert_eq!(ours.keys_out.cipher_key(), theirs.keys_in.cipher_key());
    assert_ne!(ours.keys_in.cipher_key(), ours.keys_out.cipher_key());
    assert!(a.esn && a.is_encapsulated && a.remote_port == 4500 && a.nat_keepalive == NatKeepalive::Auto);
}

#[test]
fn behind_a_nat_keepalives_are_sent_and_the_other_site_has_its_address_and_port() {
    let mut plan = plan(KeySource::Static, [at("203.0.113.7", Some(40500)), at("192.0.2.2", None)]);
    plan.udp_port = 5500;
    let [a, b] = made(&plan);
    let [a, b] = [&a[0], &b[0]].map(read);
    assert_eq!((a.natt_port(), b.natt_port()), (5500, 5500));
    let [a, b] = [&a.tunnels[0], &b.tunnels[0]];
    assert_eq!((b.remote.to_string(), b.remote_port), ("203.0.113.7".to_owned(), 40500));
    assert_eq!(
        (a.remote_port, a.nat_keepalive, b.nat_keepalive),
        (5500, NatKeepalive::Always, NatKeepalive::Auto)
    );
}

#[test]
fn with_a_pre_shared_key_the_gateway_has_none_and_swanctl_has_the_same_at_both_ends() {
    let [a, b] = made(&plan(KeySource::Psk, [at("192.0.2.1", None), at("gw.example.org", None)]));
    for files in [&a, &b] {
        let config = read(&files[0]);
        assert!(config.charon.is_some() && !config.has_static_keys() && config.warnings.is_empty());
        assert_eq!(files[1].path.to_str(), Some("etc/swanctl/conf.d/convoy.conf"));
    }
    let line = |file: &SiteFile, key: &str| {
        let mut lines = file.text.lines().map(str::trim);
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = ").map(str::to_owned)).expect("there")
    };
    let [a, b] = [&a[1], &b[1]];
    assert_eq!(
        (line(a, "remote_addrs"), line(b, "remote_addrs")),
        ("gw.example.org".into(), "192.0.2.1".into())
    );
    assert_eq!(
        (line(a, "local_ts"), line(a, "esp_proposals")),
        (line(b, "remote_ts"), "aes256gcm16-esn".into())
    );
    assert_eq!((line(a, "id-own"), line(a, "id-peer")), (line(b, "id-peer"), line(b, "id-own")));
    let key = line(a, "secret");
    assert_eq!((key.len(), &key), (2 + 2 * PSK_BYTES, &line(b, "secret")));
}

#[test]
fn a_gateway_that_is_reached_nowhere_begins_and_the_other_waits() {
    let [a, b] = made(&plan(KeySource::Psk, [Reached::Nowhere, at("192.0.2.2", None)]));
    assert!(
        a[1].text.contains("remote_addrs = 192.0.2.2\n") && a[1].text.contains("start_action = trap|start\n")
    );
    assert!(b[1].text.contains("remote_addrs = %any\n") && b[1].text.contains("start_action = none\n"));
}

#[test]
fn gateway_that_roams_is_followed_by_the_other_one() {
    let mut fixed = plan(KeySource::Static, [at("192.0.2.1", None), Reached::Nowhere]);
    fixed.peer_roams = true;
    let [a, b] = made(&fixed);
    let [a, b] = [&a[0], &b[0]].map(read);
    assert!(a.warnings.is_empty() && b.warnings.is_empty(), "{:?} {:?}", a.warnings, b.warnings);
    assert!(a.tunnels[0].roams && a.tunnels[0].remote.is_unspecified());
    assert!(!b.tunnels[0].roams && b.tunnels[0].nat_keepalive == NatKeepalive::Always);
    let mut psk = plan(KeySource::Psk, [at("192.0.2.1", None), Reached::Nowhere]);
    psk.peer_roams = true;
    let [a, b] = made(&psk);
    assert!(a[1].text.contains("remote_addrs = %any\n") && b[1].text.contains("local_addrs = %any\n"));
    assert!(b[0].text.contains("address = [\"0.0.0.0\"]"), "{}", *b[0].text);
    assert!(read(&b[0]).warnings.is_empty());
}

#[test]
fn charon_has_an_anti_replay_window_of_1024_packets() {
    let [a, _] = made(&plan(KeySource::Psk, [at("192.0.2.1", None), at("192.0.2.2", None)]));
    assert!(a[1].text.contains("replay_window = 1024\n"));
}
