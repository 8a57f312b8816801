//! Tunnels whose selectors shadow each other.

use convoy_settings::Interface;

use super::{GOOD, changed, errors};
use crate::PRODUCT;
use crate::{Basis, Config, HostEnvironment};

fn tunnel(name: &str, remote_ts: &str, more: &str) -> String {
    format!(
        "[[tunnel]]\nname = \"{name}\"\n{more}\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.9\"\n\
         local_ts = [\"10.1.0.0/24\"]\nremote_ts = [{remote_ts}]\nesp_proposal = \"aes128gcm16\"\n"
    )
}

/// The warnings for these tunnels, without those about missing keys.
fn warnings(tunnels: &[String]) -> Vec<String> {
    let config = Config::parse("a.toml", &tunnels.concat()).expect("good but for warnings");
    let about_policies = config.warnings.into_iter().filter(|problem| problem.key == "tunnel.remote_ts");
    about_policies.map(|problem| problem.what).collect()
}

#[test]
fn the_same_selectors_with_one_priority_are_refused() {
    let text = errors(&[tunnel("a", "\"10.2.0.0/24\"", ""), tunnel("b", "\"10.2.0.0/24\"", "")].concat());
    let what = "site-a.toml:15:13: error: tunnel.remote_ts: tunnels \"a\" and \"b\" both have 10.1.0.0/24 === 10.2.0.0/24 \
                with priority 1000, so \"b\" never matches; change its selectors, or give one of them \
                another priority";
    assert!(text.contains(what), "{text}");
}

#[test]
fn a_tunnel_none_of_whose_pairs_can_match_is_warned_of() {
    let reported = "tunnel \"six\" matches no packets: no selector of local_ts has the family, protocol and ports of one of remote_ts";
    assert_eq!(warnings(&[tunnel("six", "\"fd00:2::/64\"", "")]), [reported]);
    assert_eq!(warnings(&[tunnel("both", "\"fd00:2::/64\", \"10.2.0.0/24\"", "")]), [""; 0]);
}

#[test]
fn pairs_that_cannot_match_are_no_policies() {
    let text = tunnel("a", "\"fd00:2::/64\", \"10.2.0.0/24[tcp/443]\", \"10.3.0.0/24[icmp]\"", "")
        .replace("\"10.1.0.0/24\"", "\"10.1.0.0/24[tcp]\", \"fd00:1::/64[udp/opaque]\"");
    let config = Config::parse("a.toml", &text).expect("good");
    let pairs: Vec<String> = config.tunnels[0].selectors().map(|pair| pair.to_string()).collect();
    assert_eq!(
        pairs,
        ["10.1.0.0/24[tcp] === 10.2.0.0/24[tcp/443]", "fd00:1::/64[udp/opaque] === fd00:2::/64"]
    );
}

#[test]
fn what_an_earlier_tunnel_has_whole_is_warned_of() {
    let wide = |more| tunnel("wide", "\"10.2.0.0/16\"", more);
    let narrow = |more| tunnel("narrow", "\"10.2.3.0/24\"", more);
    let reported = "tunnel \"narrow\" never matches 10.1.0.0/24 → 10.2.3.0/24: tunnel \"wide\"";
    assert_eq!(
        warnings(&[wide(""), narrow("")]),
        [format!("{reported} is earlier in the file and covers it")]
    );
    let before = warnings(&[narrow(""), wide("priority = 1")]);
    assert_eq!(before, [format!("{reported} has priority and covers it")]);
    assert!(warnings(&[narrow(""), wide("")]).is_empty(), "the narrow one comes first");
    assert!(warnings(&[wide(""), narrow("priority = 1")]).is_empty(), "by its priority");
}

#[test]
fn protocols_and_ports_are_part_of_what_is_selected() {
    let web = tunnel("web", "\"10.2.0.0/24[tcp/443]\"", "");
    let all = tunnel("all", "\"10.2.0.0/24\"", "");
    assert!(warnings(&[web.clone(), all.clone()]).is_empty());
    assert_eq!(warnings(&[all, web]).len(), 1);
}

#[test]
fn a_bypass_before_a_tunnel_is_reported() {
    let bypass = "[[bypass]]\nlocal_ts = \"10.0.0.0/8\"\nremote_ts = \"0.0.0.0/0\"\n".to_owned();
    let reported = warnings(&[tunnel("a", "\"10.2.0.0/24\"", ""), bypass]);
    assert!(
        reported.len() == 1 && reported[0].ends_with("a [[bypass]] has priority and covers it"),
        "{reported:?}"
    );
}

#[test]
fn a_peer_inside_its_own_tunnel_is_warned_of_unless_everything_is() {
    let config = |remote_ts: &str| Config::parse("a.toml", &changed("10.2.0.0/24", remote_ts)).expect("good");
    let [problem] = &config("192.0.2.0/24").warnings[..] else { panic!("one warning") };
    assert!(
        problem
            .to_string()
            .starts_with("a.toml:23:14: warning: tunnel.remote_ts: it contains the peer's own")
    );
    assert!(config("0.0.0.0/0").warnings.is_empty());
}

/// A machine with one interface.
struct Lan(&'static str, &'static str);

impl HostEnvironment for Lan {
    fn interfaces(&self) -> Option<Vec<Interface>> {
        let networks = vec![self.1.parse().expect("a network")];
        Some(vec![Interface { name: self.0.to_owned(), mtu: 1500, is_tun: self.0 == "convoy0", networks }])
    }
}

#[test]
fn an_address_inside_whose_prefix_an_interface_has_is_warned_of() {
    let warnings = |text: &str, lan| {
        let config = Config::parse_at("a.toml", text, &Basis { kinds: &PRODUCT, machine: &lan })
            .expect("good but for warnings");
        config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let [reported] = &warnings(GOOD, Lan("eth0", "10.1.0.254/24"))[..] else { panic!("one warning") };
    let what = "a.toml:11:12: warning: port.address: 10.1.0.1/24 assigns the network 10.1.0.0/24 to this port, \
                which overlaps 10.1.0.0/24 of interface eth0; write 10.1.0.1/32";
    assert!(reported.starts_with(what), "{reported}");
    assert!(warnings(GOOD, Lan("convoy0", "10.1.0.1/24")).is_empty(), "its own device at a reload");
    assert!(warnings(GOOD, Lan("eth0", "10.9.0.1/24")).is_empty());
    assert_eq!(warnings(GOOD, Lan("eth0", "10.0.0.0/8")).len(), 1);
    let host = changed("10.1.0.1/24", "10.1.0.1/32");
    assert!(warnings(&host, Lan("eth0", "10.1.0.254/24")).is_empty());
}
