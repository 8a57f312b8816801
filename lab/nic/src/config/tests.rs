//! The configuration of `convoy-lab nic`.

use convoy_ipsec::{Action, Mode};
use convoy_settings::{Nowhere, Table as _};

use super::*;

const PAGE: &str = include_str!("../../../../docs/lab/devices.md");

fn documented() -> &'static str {
    let (_, rest) = PAGE.split_once("```toml\n[nic]\n").expect("a block");
    let block = rest.split("```").next().expect("its end");
    let start = PAGE.len() - rest.len() - "[nic]\n".len();
    &PAGE[start..start + "[nic]\n".len() + block.len()]
}

fn parse(text: &str) -> Result<NicConfig, String> {
    NicConfig::parse_at("nic.toml", text, &Nowhere).map_err(|errors| errors.to_string())
}

#[test]
fn what_is_documented_is_read_with_every_key() {
    let text = documented();
    let config = parse(text).expect("good");
    assert_eq!((config.interface.as_str(), config.device.as_str()), ("eth1", "grip0"));
    assert_eq!((config.tunnels.len(), config.tunnels[0].mode), (1, Mode::Transport));
    for key in NicKeys::KEYS {
        assert!(text.lines().any(|line| line.starts_with(&format!("{key} = "))), "{key} is not documented");
    }
    let policies = config.policies();
    let actions: Vec<Action> = policies.iter().map(|policy| policy.action).collect();
    assert!(matches!(actions[..], [Action::Bypass, Action::Protect(_), Action::Bypass, Action::Bypass]));
}

#[test]
fn the_least_file_is_a_plain_interface() {
    let config = parse("[nic]\ninterface = \"eth1\"\n").expect("good");
    assert_eq!((config.device.as_str(), config.tunnels.len(), config.policies().len()), ("grip0", 0, 2));
}

#[test]
fn what_needs_a_gateway_is_refused_at_its_place() {
    let text = documented();
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        parse(&text.replace(from, to)).expect_err("it cannot be")
    };
    let keys = &text[text.find("[tunnel.manual]").expect("keys")..];
    for (from, to, key) in [
        (keys, "", "tunnel.manual"),
        ("encap = \"none\"", "encap = \"none\"\nprotocol = \"ah\"", "tunnel.protocol"),
        ("mode = \"transport\"", "mode = \"iptfs\"", "tunnel.mode"),
        ("interface = \"eth1\"", "", "nic.interface"),
        ("function = \"aes128gcm16\"", "function = \"aes\"", "nic.function"),
        ("192.0.2.1/24", "192.0.2.1/33", "nic.address"),
        ("[nic]", "[gateway]\n[nic]", "gateway"),
    ] {
        let reported = refused(from, to);
        assert!(reported.contains("nic.toml:") && reported.contains(key), "{key}: {reported}");
    }
}
