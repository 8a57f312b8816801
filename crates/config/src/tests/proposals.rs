//! `esp_proposal`, in the notation of swanctl.conf.

use super::{GOOD, changed, errors};
use crate::Config;
use crate::inner_mtu::inner_mtu;

/// The configuration with these proposals, and its warnings.
fn with(proposals: &str) -> (Config, Vec<String>) {
    let config = Config::parse("a.toml", &changed("aes128gcm16", proposals)).expect(proposals);
    let reported = config.warnings.iter().map(|warning| warning.in_one_line()).collect();
    (config, reported)
}

/// The configuration of a tunnel without keys, which charon negotiates.
fn negotiated(proposals: &str) -> Config {
    let text = changed("aes128gcm16", proposals).replace("encap = \"udp\"\n", "");
    let text = &text[..text.find("[tunnel.manual]").expect("keys")];
    let text = text.replace("[gateway]\n", "[gateway]\ncharon = \"/run/charon.sock\"\n");
    Config::parse("a.toml", &text).unwrap_or_else(|errors| panic!("{proposals}: {errors}"))
}

#[test]
fn a_key_exchange_group_is_ignored_with_static_keys_and_that_is_reported() {
    let (config, reported) = with("aes128gcm16-x25519");
    assert_eq!(config.tunnels[0].proposal.to_string(), "aes128gcm16");
    let what = "a.toml:24:16: tunnel.esp_proposal: x25519 is for the key exchange of IKE, and is ignored with static \
                keys; write aes128gcm16";
    assert_eq!(reported, [what]);
    assert!(negotiated("aes128gcm16-x25519").warnings.is_empty());
}

#[test]
fn the_first_of_a_list_is_used_with_static_keys_and_that_is_reported() {
    let (config, reported) = with("aes128gcm16, aes256gcm16");
    assert_eq!(config.tunnels[0].proposal.to_string(), "aes128gcm16");
    let what = "a.toml:24:16: tunnel.esp_proposal: static keys are for one proposal: aes128gcm16 is used, and the \
                others are ignored";
    assert_eq!(reported, [what]);
    let (config, reported) = with("default");
    assert_eq!((config.tunnels[0].proposal.to_string().as_str(), reported.len()), ("aes128gcm16", 0));
}

#[test]
fn of_what_charon_may_choose_the_longest_makes_the_mtu() {
    let mtu = |proposals: &str| inner_mtu(&negotiated(proposals)).bytes;
    assert_eq!(mtu("aes128gcm16"), 1438);
    assert_eq!(mtu("aes128-sha512"), mtu("aes128gcm16,aes128-sha512"));
    assert!(mtu("aes128gcm16,aes128-sha512") < 1438);
    let of_default = negotiated("default");
    assert!(of_default.tunnels[0].is_assumed && negotiated("aes128gcm16, default").tunnels[0].is_assumed);
    assert!(inner_mtu(&of_default).reason.contains("the longest of strongSwan's defaults"));
    // The proposal of docs/guide/strongswan.md.
    let page = include_str!("../../../../docs/guide/strongswan.md");
    let shown = page.lines().find_map(|line| line.trim().strip_prefix("esp_proposals = ")).expect("shown");
    assert_eq!(negotiated(shown).tunnels[0].proposal.to_string(), "aes128ctr-sha256-esn");
}

#[test]
fn another_notation_is_answered_with_swanctls() {
    for (written, meant) in [
        ("AES-128-GCM", "aes128gcm16"),
        ("aes-256-gcm", "aes256gcm16"),
        ("aes128gcm17", "aes128gcm16"),
        ("aes256-sha256x", "sha256"),
    ] {
        let text = errors(&GOOD.replace("aes128gcm16", written));
        assert!(text.starts_with("site-a.toml:24:16: error: tunnel.esp_proposal: unknown word"), "{text}");
        assert!(text.contains(&format!("; did you mean {meant:?}?")), "{text}");
    }
}
