//! Peers given by name, and tunnels with keys that a daemon negotiates.

use std::net::IpAddr;

use convoy_engine::EngineTable;
use convoy_ipsec::Mode;
use convoy_port::PortTable;

use super::{changed, errors};
use crate::{Basis, Config, Kinds, PRODUCT};

fn with_remote(name: &str) -> Result<Config, String> {
    let text = changed("192.0.2.2", name);
    Config::parse("site-a.toml", &text).map_err(|errors| errors.to_string())
}

#[test]
fn a_peers_name_is_kept_and_its_address_is_of_our_family_and_unknown() {
    let config = with_remote("gateway.example.org").expect("a name");
    let tunnel = &config.tunnels[0];
    assert_eq!(tunnel.remote_name.as_deref(), Some("gateway.example.org"));
    assert_eq!(tunnel.remote, "0.0.0.0".parse::<IpAddr>().expect("an address"));
    let known = with_remote("192.0.2.9").expect("an address");
    assert_eq!(known.tunnels[0].remote_name, None);
    let charons = CHARON.to_owned() + "local = \"2001:db8::1\"\nremote = \"b.example.org\"\n";
    let charons = Config::parse("a.toml", &charons.replace("\"192.0.2.1\"", "\"2001:db8::1\""));
    let tunnel = &charons.expect("a name").tunnels[0];
    assert_eq!((tunnel.remote_name.as_deref(), tunnel.remote.is_ipv6()), (Some("b.example.org"), true));
    assert!(errors(&(CHARON.to_owned() + "remote = \"192.0.2.299\"\n")).contains("is neither an IP address"));
}

#[test]
fn a_peer_that_may_roam_needs_no_address_but_a_window_and_tunnel_mode() {
    let roams = |text: &str| text.replace("encap = \"udp\"", "encap = \"udp\"\nroaming = true");
    let site = changed("remote = \"192.0.2.2\"\n", "");
    let tunnel = &Config::parse("site-a.toml", &roams(&site)).expect("it comes to us").tunnels[0];
    assert!(tunnel.roams && tunnel.remote.is_unspecified() && tunnel.remote.is_ipv4());
    assert!(errors(&site).contains("tunnel.remote: it is missing"));
    for (setting, reported) in [
        ("replay_window = 0", "it needs the anti-replay window"),
        ("mode = \"transport\"", "in transport mode the peer is an endpoint"),
    ] {
        let text = roams(&site).replace("roaming = true", &format!("roaming = true\n{setting}"));
        assert!(errors(&text).contains(reported), "{}", errors(&text));
    }
    assert!(
        errors(&(CHARON.to_owned() + "roaming = true\n")).contains("it is only for tunnels with static keys")
    );
}

#[test]
fn nat_that_a_private_address_at_one_end_suggests_is_warned_of() {
    let warned = |local: &str, remote: &str, is_native: bool| {
        let text = changed("192.0.2.2", remote).replace("192.0.2.1", local);
        let native = text.replace("kind = \"udp\"", "kind = \"raw\"").replace("\"udp\"", "\"none\"");
        let config = Config::parse("a.toml", if is_native { &native } else { &text }).expect("good");
        let all = config.warnings.iter().map(ToString::to_string);
        all.filter(|line| line.contains("is a private address")).collect::<Vec<_>>()
    };
    let [native] = &warned("10.0.0.5", "198.51.100.2", true)[..] else { panic!("one warning") };
    assert!(native.contains("tunnel.local: 10.0.0.5 is a private address"), "{native}");
    let [behind] = &warned("192.0.2.1", "172.16.0.2", false)[..] else { panic!("one warning") };
    assert!(behind.contains("tunnel.remote: 172.16.0.2 is a private address"), "{behind}");
    assert!(warned("192.0.2.1", "172.32.0.2", true).is_empty(), "none is");
    assert!(warned("10.0.0.5", "10.9.0.5", true).is_empty(), "a private network joins them");
    assert!(warned("100.64.0.5", "198.51.100.2", false).is_empty(), "ESP in UDP passes a NAT");
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
fn a_tunnel_of_charons_needs_its_name_and_may_take_what_is_behind_the_peer_from_charon() {
    let config = Config::parse("a.toml", CHARON).expect("good");
    let tunnel = &config.tunnels[0];
    assert!(config.warnings.is_empty() && tunnel.manual.is_empty() && tunnel.mode == Mode::Tunnel);
    let open = CHARON.replace("remote_ts = [\"10.2.0.0/24\"]\n", "");
    let config = Config::parse("a.toml", &open).expect("charon has the networks");
    assert!(config.tunnels[0].remote_ts.is_empty());
    let missing = "error: tunnel.remote_ts: it is missing; add remote_ts = [\"10.2.0.0/24\"]";
    let text = errors(&format!("{open}mode = \"transport\"\n"));
    assert!(text.contains(missing), "{text}");
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
fn former_key_is_accepted_with_a_warning() {
    for (key, value) in [
        ("overtake", "true"),
        ("full_queue", "\"skip\""),
        ("depth_unit", "\"bytes\""),
        ("packet_size_threshold", "9"),
    ] {
        let text = format!("{CHARON}\n[scheduler]\n{key} = {value}\n");
        let config = Config::parse("a.toml", &text).expect("good but for a warning");
        let reported = config.warnings.iter().map(ToString::to_string).collect::<String>();
        assert!(
            reported.contains(&format!("scheduler.{key}: this key no longer has an effect")),
            "{reported}"
        );
    }
}

#[test]
fn rival_is_accepted_by_a_program_that_has_it_alone() {
    use convoy_scheduler::{Heuristic, HeuristicFactory, Pick, SchedulingPolicy, View};
    struct Never;
    impl Heuristic for Never {
        fn choose(&mut self, _view: &View<'_>) -> Option<Pick> {
            None
        }
    }
    static LABORATORY: Kinds = Kinds {
        engines: EngineTable { ..PRODUCT.engines },
        ports: PortTable { ..PRODUCT.ports },
        port_engine: PRODUCT.port_engine,
        rivals: &[HeuristicFactory { name: "never", make: || Box::new(Never) }],
    };
    let chosen = |name: &str| {
        let text = format!("{CHARON}\n[scheduler]\npolicy = \"{name}\"\n");
        let parsed = Config::parse_at("a.toml", &text, &Basis::of(&LABORATORY));
        parsed.map(|config| {
            (config.scheduler.policy, config.scheduler.research.heuristic.map(|rival| rival.name))
        })
    };
    assert_eq!(chosen("never").expect("a rival"), (SchedulingPolicy::FinishingTime, Some("never")));
    assert!(chosen("fastest").expect_err("unknown").to_string().contains("sufferage, never"));
    let text = errors(&format!("{CHARON}\n[scheduler]\npolicy = \"round-robin\"\n"));
    assert!(text.contains("which only the laboratory makes"), "{text}");
}

#[test]
fn tunnel_without_keys_or_charon_is_warned_of() {
    let config = Config::parse("a.toml", &CHARON.replace("charon = ", "# ")).expect("good but for a warning");
    let reported = config.warnings.iter().map(ToString::to_string).collect::<String>();
    assert!(reported.starts_with(
        "a.toml:13:8: warning: tunnel.manual: the tunnel has no keys, so its packets are dropped"
    ));
}

#[test]
fn nat_keepalives_are_sent_as_configured_and_only_in_udp() {
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
    assert!(errors(&native).contains("tunnel.nat_keepalive: it is only for encap = \"udp\""));
}
