//! Peers given by name, and tunnels with keys that a daemon negotiates.

use std::io;
use std::net::IpAddr;

use convoy_ipsec::Mode;

use super::{changed, errors};
use crate::config::{Config, HostEnvironment};

/// A resolver that knows one name.
struct Names;

impl HostEnvironment for Names {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match name {
            "gateway.example.org" => {
                Ok(["2001:db8::2", "192.0.2.2"].map(|it| it.parse().expect("an address")).into())
            }
            "six.example.org" => Ok(vec!["2001:db8::6".parse().expect("an address")]),
            _ => Err(io::Error::other("Name or service not known")),
        }
    }
}

fn with_remote(name: &str) -> Result<Config, String> {
    let text = changed("192.0.2.2", name);
    Config::parse_at("site-a.toml", &text, &Names).map_err(|errors| errors.to_string())
}

#[test]
fn a_peers_name_is_resolved_to_the_family_of_our_address() {
    let config = with_remote("gateway.example.org").expect("it resolves");
    assert_eq!(config.tunnels[0].remote, "192.0.2.2".parse::<IpAddr>().expect("an address"));
}

#[test]
fn a_name_that_does_not_resolve_is_an_error_at_its_place() {
    let text = with_remote("nobody.example.org").expect_err("unknown");
    let what = "site-a.toml:21:10: error: tunnel.remote: \"nobody.example.org\" does not resolve: Name or service not known";
    assert!(text.starts_with(what), "{text}");
    let text = with_remote("six.example.org").expect_err("of the other family");
    let what = "\"six.example.org\" has no IPv4 address, as local = 192.0.2.1 is one; it has 2001:db8::6";
    assert!(text.contains(what), "{text}");
    assert!(
        errors(&changed("192.0.2.2", "gateway.example.org"))
            .contains("does not resolve: there is no resolver")
    );
}

#[test]
fn a_wrong_address_is_no_name() {
    for wrong in ["192.0.2.299", "192.0.2", "192.0.2.2/32", "2001:db8::g", "-a.example.org", "a..b", ""] {
        let text = with_remote(wrong).expect_err("no name");
        assert!(text.contains("is neither an IP address nor a name such as"), "{text}");
    }
}

const CHARON: &str = r#"[gateway]
charon = "/run/convoy/charon.sock"
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["10.1.0.1/32"]
[[port]]
name = "outside"
kind = "udp"
address = ["192.0.2.1"]
[[tunnel]]
name = "site-b"
remote_ts = ["10.2.0.0/24"]
"#;

#[test]
fn a_tunnel_of_charons_needs_its_name_and_what_is_behind_the_peer() {
    let config = Config::parse("a.toml", CHARON).expect("good");
    let tunnel = &config.tunnels[0];
    assert!(config.warnings.is_empty() && tunnel.manual.is_empty() && tunnel.mode == Mode::Tunnel);
    let route = crate::ports::route_plan(&config).expect("there is an interface inside").routes[0];
    assert_eq!((route.prefix.address.to_string(), route.prefix.bits), ("10.2.0.0".to_owned(), 24));
    assert_eq!(route.source, Some([10, 1, 0, 1].into()));
    let text = errors(&CHARON.replace("remote_ts = [\"10.2.0.0/24\"]\n", ""));
    assert!(
        text.contains("error: tunnel.remote_ts: it is missing; add remote_ts = [\"10.2.0.0/24\"]"),
        "{text}"
    );
}

#[test]
fn what_charon_negotiates_is_refused_there() {
    for setting in [
        "esn = true",
        "encap = \"udp\"",
        "nat_keepalive = \"always\"",
        "replay_window = 64",
        "priority = 7",
        "soft = { seconds = 1 }",
    ] {
        let text = errors(&format!("{CHARON}{setting}\n"));
        assert!(text.contains("it is only for tunnels with static keys ([tunnel.manual]); charon"), "{text}");
    }
    let all =
        format!("{CHARON}local = \"192.0.2.1\"\nremote = \"b.example.org\"\nlocal_ts = [\"10.1.0.0/24\"]\n");
    Config::parse("a.toml", &format!("{all}esp_proposal = \"aes128gcm16\"\n")).expect("these may be there");
}

#[test]
fn a_tunnel_that_nobody_gives_keys_is_warned_of() {
    let config = Config::parse("a.toml", &CHARON.replace("charon = ", "# ")).expect("good but for a warning");
    let told = config.warnings.iter().map(ToString::to_string).collect::<String>();
    assert!(told.starts_with(
        "a.toml:13:8: warning: tunnel.manual: it has no keys, so the packets that it selects are dropped"
    ));
}

#[test]
fn nat_keepalives_are_sent_as_told_and_only_in_udp() {
    use convoy_ipsec::NatKeepalive;
    let with =
        |value: &str| changed("encap = \"udp\"", &format!("encap = \"udp\"\nnat_keepalive = \"{value}\""));
    for (value, expected) in
        [("auto", NatKeepalive::Auto), ("always", NatKeepalive::Always), ("never", NatKeepalive::Never)]
    {
        let config = Config::parse("site-a.toml", &with(value)).expect("good");
        assert_eq!(config.tunnels[0].nat_keepalive, expected);
    }
    assert!(errors(&with("on")).contains("tunnel.nat_keepalive: unknown \"on\""));
    let native = with("always")
        .replace("encap = \"udp\"", "encap = \"none\"")
        .replace("kind = \"udp\"", "kind = \"raw\"");
    assert!(errors(&native).contains("tunnel.nat_keepalive: it is for encap = \"udp\""));
}
