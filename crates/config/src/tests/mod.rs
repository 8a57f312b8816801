use convoy_ipsec::AdmittedAlgorithms;
use std::io::Write;

use super::*;

mod documented;
mod ends;
mod host;
mod interfaces;
mod keys;
mod monitors;
mod overlap;
mod ports;
mod proposals;
mod refusals;

const GOOD: &str = r#"[gateway]
control = "/tmp/convoy.sock"

[[engine]]
kind = "software"

[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["10.1.0.1/24"]

[[port]]
name = "outside"
kind = "udp"
address = ["192.0.2.1"]

[[tunnel]]
name = "site-b"
local = "192.0.2.1"
remote = "192.0.2.2"
local_ts = ["10.1.0.0/24"]
remote_ts = ["10.2.0.0/24"]
esp_proposal = "aes128gcm16"
encap = "udp"
[tunnel.manual]
spi_in = 0x00001001
spi_out = 0x00001002
key_in = "00112233445566778899aabbccddeeff00112233"
key_out = "ffeeddccbbaa99887766554433221100ffeeddcc"
"#;

fn errors(text: &str) -> String {
    Config::parse("site-a.toml", text).expect_err("an error was expected").to_string()
}

/// The valid configuration with one change.
fn changed(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}

/// Expects this message as the first error of the valid configuration with one change.
fn refused(from: &str, to: &str, message: &str) {
    let text = errors(&changed(from, to));
    let (place, what) = message.split_once(": ").expect("a place");
    assert!(text.starts_with(&format!("site-a.toml:{place}: error: {what}")), "{text}");
}

/// Expects this message as the first error of the valid configuration with lines added at its end.
fn refused_with(lines: &str, message: &str) {
    let text = errors(&format!("{GOOD}{lines}"));
    assert!(text.contains(message), "{text}");
}

#[test]
fn a_dozen_lines_make_a_tunnel_and_the_rest_has_defaults() {
    let config = Config::parse("site-a.toml", GOOD).expect("a good configuration");
    assert_eq!((config.workers, config.mtu, config.scheduler.window, config.ordered), (1, 1500, 32, true));
    assert_eq!(config.engines[0].name, "software0");
    assert!(config.check_icmp && config.admitted == AdmittedAlgorithms::Strong);
    assert!(!config.ports[0].is_outside && config.ports[1].is_outside);
    let tunnel = &config.tunnels[0];
    assert_eq!((tunnel.replay_window, tunnel.is_encapsulated, tunnel.mode), (1024, true, Mode::Tunnel));
    assert_eq!(tunnel.manual.iter().map(|keys| keys.spi_in).collect::<Vec<_>>(), [0x1001]);
}

#[test]
fn the_segment_size_is_lowered_to_what_fits_unless_the_file_says_otherwise() {
    let with = |line: &str| changed("[gateway]\n", &format!("[gateway]\n{line}"));
    let limit =
        |line: &str| Config::parse("site-a.toml", &with(line)).expect("a good configuration").mss_clamp;
    assert_eq!([limit(""), limit("mss_clamp = \"auto\"\n")], [MssLimit::Auto; 2]);
    assert_eq!(limit("mss_clamp = \"off\"\n"), MssLimit::Off);
    assert_eq!(limit("mss_clamp = 1360\n"), MssLimit::To(1360));
    for (value, what) in [
        ("\"on\"", "\"on\" is none of \"auto\", \"off\" and a number of bytes from 88 to 65495"),
        ("87", "87 is out of range; it must be 88 to 65495, \"auto\" or \"off\""),
        ("70000", "70000 is out of range"),
        ("true", "expected a word in quotes or a number"),
    ] {
        let text = errors(&with(&format!("mss_clamp = {value}\n")));
        assert!(text.starts_with(&format!("site-a.toml:2:13: error: gateway.mss_clamp: {what}")), "{text}");
    }
}

#[test]
fn an_unknown_key_is_shown_at_its_place() {
    let text = errors(&changed("device = \"convoy0\"", "devise = \"convoy0\""));
    assert!(
        text.starts_with("site-a.toml:10:1: error: port.devise: unknown key; did you mean \"device\"?\n"),
        "{text}"
    );
    assert!(text.contains("   |\n10 | devise = \"convoy0\"\n   | ^^^^^^"), "{text}");
}

#[test]
fn a_value_of_the_wrong_type_is_shown_at_its_place() {
    let text = errors(&changed("spi_in = 0x00001001", "spi_in = \"1001\""));
    assert!(
        text.starts_with("site-a.toml:27:10: error: tunnel.manual.spi_in: invalid type: string"),
        "{text}"
    );
}

#[test]
fn a_key_of_the_wrong_length_says_how_many_bytes_are_for_what_and_shows_nothing_of_it() {
    let text = errors(&changed("ccddeeff00112233\"", "ccddeeff\""));
    assert_eq!(
        text,
        "site-a.toml:29:10: error: tunnel.manual.key_in: aes128gcm16: the key has 16 bytes, but 20 are needed: cipher key \
         16, salt 4, integrity key 0\n   |\n29 | key_in = \"********************************\"\n   |          \
         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    );
    let wrong = errors(&changed("key_in = \"00", "key_in = \"0g"));
    assert!(wrong.contains("not a hexadecimal number: character 2 is not a digit"), "{wrong}");
    let odd = errors(&changed("key_in = \"00", "key_in = \"0"));
    assert!(odd.contains("not a hexadecimal number: 39 digits, an odd number"), "{odd}");
}

#[test]
fn unknown_words_list_what_is_known() {
    let text = errors(&changed("kind = \"software\"", "kind = \"quantum\""));
    assert!(
        text.contains("engine.kind: unknown \"quantum\"; possible values: software, multibuffer, cryptodev"),
        "{text}"
    );
    let text = errors(&changed("kind = \"udp\"", "kind = \"infiniband\""));
    assert!(
        text.contains(
            "port.kind: unknown \"infiniband\"; possible values: tun, udp, raw, af_xdp, af_packet, dpdk, pcap"
        ),
        "{text}"
    );
    let text = errors(&changed("aes128gcm16", "aes128gcm15"));
    let reported = "tunnel.esp_proposal: unknown word \"aes128gcm15\"; did you mean \"aes128gcm16\"?";
    assert!(text.contains(reported), "{text}");
    let text = errors(&format!("{GOOD}[scheduler]\npolicy = \"fastest\"\n"));
    assert!(text.contains("unknown policy \"fastest\"; possible policies: finishing-time"), "{text}");
}

#[test]
fn weak_algorithms_need_leave() {
    let key = "5a".repeat(44);
    let text = changed("aes128gcm16", "3des-sha1")
        .replace("00112233445566778899aabbccddeeff00112233", &key)
        .replace("ffeeddccbbaa99887766554433221100ffeeddcc", &key);
    assert!(errors(&text).contains("3des-sha1 is weak"), "{}", errors(&text));
    let allowed = text.replace("[gateway]", "[gateway]\nallow_weak = true");
    assert!(Config::parse("site-a.toml", &allowed).is_ok());
}

#[test]
fn fips_refuses_what_is_not_approved() {
    let fips = |text: String| text.replace("[gateway]", "[gateway]\nfips = true");
    let good = Config::parse("site-a.toml", &fips(changed("", ""))).expect("AES-GCM is approved");
    assert_eq!(good.admitted, AdmittedAlgorithms::Approved);
    for (proposal, key_bytes) in [("chacha20poly1305", 36), ("aes128gcm8", 20)] {
        let text = fips(changed("aes128gcm16", proposal))
            .replace("00112233445566778899aabbccddeeff00112233", &"5a".repeat(key_bytes))
            .replace("ffeeddccbbaa99887766554433221100ffeeddcc", &"a5".repeat(key_bytes));
        let expected = format!("{proposal} is not approved by NIST, and fips is set; use aes128gcm16");
        assert!(errors(&text).contains(&expected), "{}", errors(&text));
    }
    let both = changed("[gateway]", "[gateway]\nfips = true\nallow_weak = true");
    assert!(errors(&both).contains("gateway.fips: it excludes allow_weak"), "{}", errors(&both));
}

#[test]
fn all_errors_are_reported_at_once() {
    let text = changed("192.0.2.2", "192.0.2.299").replace("10.2.0.0/24", "10.2.0.0/33");
    let text = format!("{text}[scheduler]\nwindow = 2000\n");
    let reported = Config::parse("site-a.toml", &text).expect_err("three errors").0;
    assert_eq!(reported.len(), 3, "{reported:#?}");
    let text = ConfigErrors(reported).to_string();
    assert!(text.contains("scheduler.window: 2000 is out of range; it must be 1 to 1024"), "{text}");
    assert!(text.contains("\"192.0.2.299\" is neither an IP address nor a name"), "{text}");
}

#[test]
fn names_must_differ_and_ends_be_of_one_family() {
    let text = errors(&changed("name = \"outside\"", "name = \"inside\""));
    assert!(text.contains("port.name: \"inside\" is used twice"), "{text}");
    let text = errors(&changed("192.0.2.2", "2001:db8::2"));
    assert!(text.contains("it is not of the same address family as local = 192.0.2.1"), "{text}");
}

#[test]
fn a_capture_port_must_say_its_side() {
    let text = errors(&changed("name = \"outside\"\nkind = \"udp\"", "name = \"wire\"\nkind = \"pcap\""));
    assert!(
        text.contains("it is missing; add side = \"inside\" (plaintext) or side = \"outside\" (protected)"),
        "{text}"
    );
}

#[test]
fn fifo_is_refused_as_configuration_without_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("site-a.toml");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("made");
    let text = Config::load(&path, &PRODUCT).expect_err("a FIFO").to_string();
    assert!(text.contains("the file is not a regular file"), "{text}");
}

#[test]
fn a_file_with_keys_that_others_may_read_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("site-a.toml");
    let mut file = std::fs::File::create(&path).expect("a file");
    file.write_all(GOOD.as_bytes()).expect("written");
    let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("changed");
    set(0o644);
    let text = Config::load(&path, &PRODUCT).expect_err("readable by all").to_string();
    assert!(
        text.contains("the file contains keys and is readable by others (mode 0644); run: chmod 600"),
        "{text}"
    );
    set(0o600);
    assert!(Config::load(&path, &PRODUCT).is_ok());
}

#[test]
fn keys_are_not_shown_by_debug() {
    let config = Config::parse("site-a.toml", GOOD).expect("a good configuration");
    let shown = format!("{config:?}").to_lowercase();
    assert!(!shown.contains("00112233") && !shown.contains("ffeeddcc") && !shown.contains("17, 34, 51"));
}

#[test]
fn a_tunnel_is_the_same_as_long_as_nothing_of_it_changes() {
    let tunnel = |text: &str| Config::parse("a", text).expect("good").tunnels.remove(0);
    assert!(tunnel(GOOD) == tunnel(GOOD));
    assert!(tunnel(GOOD) != tunnel(&changed("key_in = \"0011", "key_in = \"0012")));
    assert!(tunnel(GOOD) != tunnel(&changed("10.2.0.0/24", "10.2.0.0/25")));
}

#[test]
fn the_examples_are_good_and_fit_each_other() {
    let a = Config::parse("site-a.toml", include_str!("../../../../examples/site-a.toml")).expect("good");
    let b = Config::parse("site-b.toml", include_str!("../../../../examples/site-b.toml")).expect("good");
    let keys = |config: &Config| config.tunnels[0].manual[0].clone();
    let (a, b) = (keys(&a), keys(&b));
    assert_eq!((a.spi_in, a.keys_in.cipher_key()), (b.spi_out, b.keys_out.cipher_key()));
    assert_eq!((a.spi_out, a.keys_out.cipher_key()), (b.spi_in, b.keys_in.cipher_key()));
}

#[test]
fn overlapping_spis_name_both_tunnels() {
    let tunnel = &GOOD[GOOD.find("[[tunnel]]").expect("a tunnel")..];
    let second = tunnel.replace("site-b", "site-c").replace("10.2.0.0", "10.3.0.0");
    let text = errors(&format!("{GOOD}{second}"));
    assert!(
        text.contains(
            "tunnel.manual.spi_in: SPI 0x00001001 of tunnel \"site-c\" is also used by tunnel \"site-b\""
        ),
        "{text}"
    );
}
