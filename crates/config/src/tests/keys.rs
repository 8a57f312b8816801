//! Duplicate keys in several tunnels and directions, compared as bytes.

use super::{GOOD, changed, errors};
use crate::{Config, Problem, Severity};
use data_encoding::HEXLOWER;

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

fn reported(text: &str) -> Vec<Problem> {
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
    let problems = reported(&format!("{GOOD}{}", second("aes128gcm16", [&"0f".repeat(20), &salted])));
    let [problem] = &problems[..] else { panic!("one warning: {problems:#?}") };
    assert_eq!(problem.severity, Severity::Warning);
    assert!(
        problem.what.starts_with("tunnel \"site-c\" shares a key with key_out of tunnel \"site-b\""),
        "{problem}"
    );
    let cbc = format!("{}{}", &KEY_OUT[..32], "5a".repeat(32));
    let both = reported(&second("aes128-sha256", [&cbc, &cbc]));
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
    assert!(reported(GOOD).is_empty() && reported(&other).is_empty());
}

#[test]
fn a_tunnel_has_a_pair_of_sas_for_each_resource_with_keys_derived_by_the_spi() {
    let config = Config::parse("site-a.toml", &format!("{GOOD}resources = 2\n")).expect("good");
    let hex = |keys: &convoy_ipsec::KeyMaterial| HEXLOWER.encode(&[keys.cipher_key(), keys.salt()].concat());
    let pairs = config.tunnels[0].manual.iter();
    let found: Vec<_> =
        pairs.map(|pair| (pair.spi_in, hex(&pair.keys_in), pair.spi_out, hex(&pair.keys_out))).collect();
    // By `openssl kdf ... HKDF` and by Python's hmac.
    let expected = [
        (
            0x1001,
            "8585e4289e3eecc45b28392724a35fb5c5dba706",
            0x1002,
            "c3ae5848d7d5518566f5ff0a006904ee792f5ccf",
        ),
        (
            0x1002,
            "74680ed6010b0839d5c33a4b09d1cbd2486a68e6",
            0x1003,
            "ca960124983086d285ef3e005aa64df8eb773b53",
        ),
    ];
    let expected = expected
        .map(|(spi_in, key_in, spi_out, key_out)| (spi_in, key_in.to_owned(), spi_out, key_out.to_owned()));
    assert_eq!(found, expected);
}

#[test]
fn the_spis_of_resources_are_a_tunnels_own_and_do_not_exceed_the_last() {
    let good = format!("{GOOD}resources = 4\n");
    let other = "0f".repeat(20);
    let more =
        second("aes128gcm16", [&other, &"1e".repeat(20)]).replace("spi_in = 0x2001", "spi_in = 0x1004");
    let text = errors(&format!("{good}{more}"));
    assert!(text.contains("SPI 0x00001004 of tunnel \"site-c\" is also used by tunnel \"site-b\""), "{text}");
    let text = errors(&good.replace("0x00001001", "0xfffffffd"));
    let what = "tunnel.manual.spi_in: it is the first of 4 SPIs, of which the last would exceed 0xffffffff";
    assert!(text.contains(what), "{text}");
    for count in [0, 65] {
        let text = errors(&format!("{GOOD}resources = {count}\n"));
        assert!(text.contains("tunnel.manual.resources"), "{text}");
    }
}
