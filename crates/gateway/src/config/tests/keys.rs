//! Duplicate keys in several tunnels and directions, compared as bytes.

use super::{GOOD, changed, errors};
use crate::config::{Config, Problem, Severity};

const KEY_IN: &str = "00112233445566778899aabbccddeeff00112233";
const KEY_OUT: &str = "ffeeddccbbaa99887766554433221100ffeeddcc";

/// A second tunnel with other keys.
fn second(proposal: &str, keys: [&str; 2]) -> String {
    format!(
        "[[tunnel]]\nname = \"site-c\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.3\"\nlocal_ts = [\"10.1.0.0/24\"]\n\
         remote_ts = [\"10.3.0.0/24\"]\nesp_proposal = \"{proposal}\"\n[tunnel.manual]\nspi_in = 0x2001\n\
         spi_out = 0x2002\nkey_in = \"{}\"\nkey_out = \"{}\"\n",
        keys[0], keys[1]
    )
}

fn told(text: &str) -> Vec<Problem> {
    Config::parse("site-a.toml", text).map_or_else(|errors| errors.0, |config| config.warnings)
}

#[test]
fn one_key_for_both_directions_is_refused_whatever_its_case() {
    for key in [KEY_IN.to_owned(), KEY_IN.to_uppercase()] {
        let text = errors(&changed(KEY_OUT, &key));
        let what = "site-a.toml:30:11: error: tunnel.manual.key_out: tunnel \"site-b\" has the same key as key_in of \
                    tunnel \"site-b\": both would use the same nonces, which breaks aes128gcm16; make a key for each \
                    tunnel and direction";
        assert!(text.starts_with(what), "{text}");
        assert!(!text.to_lowercase().contains("00112233"), "{text}");
    }
}

#[test]
fn one_key_in_two_tunnels_is_refused_in_every_direction() {
    let other = "0f".repeat(20);
    let upper = KEY_OUT.to_uppercase();
    for (keys, message) in [
        (
            [&*other, KEY_OUT],
            "manual.key_out: tunnel \"site-c\" has the same key as key_out of tunnel \"site-b\"",
        ),
        (
            [&*other, &*upper],
            "manual.key_out: tunnel \"site-c\" has the same key as key_out of tunnel \"site-b\"",
        ),
        (
            [&*other, KEY_IN],
            "manual.key_out: tunnel \"site-c\" has the same key as key_in of tunnel \"site-b\"",
        ),
        (
            [KEY_IN, &*other],
            "manual.key_in: tunnel \"site-c\" has the same key as key_in of tunnel \"site-b\"",
        ),
        (
            [KEY_OUT, &*other],
            "manual.key_in: tunnel \"site-c\" has the same key as key_out of tunnel \"site-b\"",
        ),
    ] {
        for proposal in ["aes128gcm16", "aes128gcm8"] {
            let text = errors(&format!("{GOOD}{}", second(proposal, keys)));
            assert!(text.contains(message), "{text}");
        }
    }
}

#[test]
fn counters_under_one_key_meet_across_algorithms() {
    let integrity = "5a".repeat(32);
    let ctr = format!("{KEY_OUT}{integrity}");
    let text = errors(&format!("{GOOD}{}", second("aes128ctr-sha256", [&"0f".repeat(52), &ctr])));
    assert!(text.contains("both would use the same nonces, which breaks aes128ctr-sha256"), "{text}");
}

#[test]
fn another_salt_or_a_cipher_without_counter_makes_a_shared_key_a_warning() {
    let salted = format!("{}0a0b0c0d", &KEY_OUT[..32]);
    let problems = told(&format!("{GOOD}{}", second("aes128gcm16", [&"0f".repeat(20), &salted])));
    let [problem] = &problems[..] else { panic!("one warning: {problems:#?}") };
    assert_eq!(problem.severity, Severity::Warning);
    assert!(
        problem.what.starts_with("tunnel \"site-c\" shares a key with key_out of tunnel \"site-b\""),
        "{problem}"
    );
    let cbc = format!("{}{}", &KEY_OUT[..32], "5a".repeat(32));
    let both = told(&second("aes128-sha256", [&cbc, &cbc]));
    let warnings: Vec<_> = both.iter().filter(|it| it.what.contains("shares a key with key_in")).collect();
    assert!(warnings.len() == 1 && warnings[0].severity == Severity::Warning, "{both:#?}");
}

#[test]
fn one_key_and_one_spi_are_refused_as_packets_could_be_sent_back() {
    let cbc = "5a".repeat(48);
    let text = errors(&second("aes128-sha256", [&cbc, &cbc]).replace("0x2002", "0x2001"));
    assert!(
        text.contains("the SPI 0x00002001 is the same: each SA accepts the packets of the other"),
        "{text}"
    );
}

#[test]
fn the_same_keys_at_both_ends_are_what_they_are_for() {
    let other = GOOD.replace(KEY_IN, "KEY").replace(KEY_OUT, KEY_IN).replace("KEY", KEY_OUT);
    assert!(told(GOOD).is_empty() && told(&other).is_empty());
}
