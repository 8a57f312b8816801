//! Tests of the binary: exit status, output streams and messages.

mod held;
mod packets;

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use packets::{capture, packet};

/// 20 bytes of key and salt for each direction.
const KEYS: [&str; 2] =
    ["00112233445566778899aabbccddeeff00112233", "ffeeddccbbaa99887766554433221100ffeeddcc"];

fn convoy(arguments: &[&str]) -> Output {
    // An empty calibration cache, since convoy warns about one written by another build.
    static CACHE: LazyLock<PathBuf> = LazyLock::new(|| {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("commands-cache");
        let _ = std::fs::remove_dir_all(&cache);
        cache
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_convoy"));
    command.env("XDG_CACHE_HOME", &*CACHE).args(arguments).output().expect("the binary was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Ports with a local address that exists on every machine.
fn ports(local: &str, more: &str) -> String {
    format!(
        "[[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoytest0\"\n[[port]]\nname = \"outside\"\n\
         kind = \"udp\"\n{more}address = [\"127.0.0.{local}\"]\n"
    )
}

/// Appends lines to a file.
fn append(path: &Path, lines: &str) {
    let text = std::fs::read_to_string(path).expect("readable");
    std::fs::write(path, format!("{text}{lines}")).expect("writable");
}

/// Writes a site's configuration, readable only by its owner.
fn site(folder: &Path, name: &str, ends: [&str; 2], spis: [u32; 2], keys: [&str; 2]) -> PathBuf {
    let [local, remote] = ends;
    let path = folder.join(name);
    let config = format!(
        "[[tunnel]]\nname = \"{name}\"\nlocal = \"127.0.0.{local}\"\nremote = \"127.0.0.{remote}\"\n\
         local_ts = [\"10.{local}.0.0/16\"]\nremote_ts = [\"10.{remote}.0.0/16\"]\nesp_proposal = \"aes128gcm16\"\n\
         [tunnel.manual]\nspi_in = {}\nspi_out = {}\nkey_in = \"{}\"\nkey_out = \"{}\"\n",
        spis[0], spis[1], keys[0], keys[1]
    );
    std::fs::write(&path, config).expect("writable");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("ours");
    path
}

fn both_sites(folder: &Path) -> [PathBuf; 2] {
    let a = site(folder, "a.toml", ["1", "2"], [0x1001, 0x1002], KEYS);
    let b = site(folder, "b.toml", ["2", "1"], [0x1002, 0x1001], [KEYS[1], KEYS[0]]);
    [a, b]
}

fn as_str(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
}

#[test]
fn wrong_usage_is_2_and_help_is_0() {
    assert_eq!(convoy(&[]).status.code(), Some(2));
    let unknown = convoy(&["shwo"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("show"), "the nearest command is named");
    for filter in [&["engine", "--peer", "192.0.2.2"][..], &["sa", "site-b"], &["--tunnel", "site-b"]] {
        assert_eq!(convoy(&[&["show"], filter].concat()).status.code(), Some(2), "{filter:?}");
    }
    let help = convoy(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for command in ["engines", "run", "show", "check", "replay"] {
        assert!(text(&help.stdout).contains(command), "{command}");
    }
}

#[test]
fn a_log_in_json_has_no_line_that_is_not() {
    let log = ["--log-format", "json"];
    let run = ["run", "-c", "/nowhere/site.toml"];
    let helper = ["helper", "--config", "/nowhere/site.toml"];
    for (arguments, status) in [(&run[..], 2), (&["run"][..], 2), (&helper[..], 0)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_convoy"));
        // The helper has no socket to a gateway, and complains.
        let ended = command.args([arguments, &log[..]].concat()).stdin(std::process::Stdio::null()).output();
        let ended = ended.expect("the binary was built");
        let reported = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{arguments:?}: {reported}");
        assert!(!reported.is_empty(), "{arguments:?}");
        for line in reported.lines() {
            let line: serde_json::Value = serde_json::from_str(line).expect(line);
            assert!(line["level"] == "ERROR" || line["level"] == "WARN", "{line}");
            assert!(line["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
            assert!(line["message"].as_str().is_some_and(|what| !what.is_empty()), "{line}");
        }
    }
}

#[test]
fn each_error_of_a_configuration_is_a_line_of_json_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let [good, _] = both_sites(folder.path());
    append(&good, &ports("1", "speed = 9\n"));
    let wrong = std::fs::read_to_string(&good).expect("readable").replace("aes128gcm16", "aes128gcm17");
    std::fs::write(&good, wrong).expect("writable");
    let refused = convoy(&["run", "--log-format", "json", "-c", as_str(&good)]);
    assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(2), String::new()));
    let lines: Vec<serde_json::Value> =
        text(&refused.stderr).lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for (line, (key, place)) in lines.iter().zip([("tunnel.esp_proposal", 7), ("port.speed", 20)]) {
        assert_eq!((&line["file"], &line["key"]), (&as_str(&good).into(), &key.into()), "{line}");
        assert_eq!((&line["line"], &line["level"]), (&place.into(), &"ERROR".into()), "{line}");
        assert!(line["message"].as_str().is_some_and(|what| what.contains(key) && !what.contains('\n')));
    }
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn a_command_with_json_that_fails_says_why_on_stderr_alone() {
    let control = ["--control", "/nowhere/convoy.sock", "--json"];
    let explain = ["explain", "10.1.0.1", "10.2.0.1"];
    for arguments in [&["show"][..], &["show", "tunnel"], &["show", "events"], &explain, &["trace"]] {
        let failed = convoy(&[arguments, &control].concat());
        assert_eq!((failed.status.code(), text(&failed.stdout)), (Some(1), String::new()), "{arguments:?}");
        assert!(text(&failed.stderr).starts_with("convoy: no gateway answers at"), "{arguments:?}");
    }
}

#[test]
fn exit_status_reports_an_error_that_is_not_read() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let arguments = ["check", "-c", "/nowhere/site.toml"];
    let status = Command::new(env!("CARGO_BIN_EXE_convoy")).args(arguments).stderr(writer).status();
    assert_eq!(status.expect("the binary was built").code(), Some(2));
}

#[test]
fn a_wrong_configuration_is_2_with_file_line_and_key_on_stderr() {
    let folder = tempfile::tempdir().expect("a folder");
    let [good, _] = both_sites(folder.path());
    append(&good, &ports("1", ""));
    let checked = convoy(&["check", "-c", as_str(&good)]);
    assert_eq!((checked.status.code(), text(&checked.stderr)), (Some(0), String::new()));
    let wrong = std::fs::read_to_string(&good).expect("readable").replace("aes128gcm16", "aes128gcm17");
    std::fs::write(&good, wrong).expect("writable");
    for arguments in [&["check", "-c", as_str(&good)][..], &["run", "-c", as_str(&good)]] {
        let refused = convoy(arguments);
        assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(2), String::new()));
        assert!(
            text(&refused.stderr).contains("a.toml:7:16: error: tunnel.esp_proposal"),
            "{}",
            text(&refused.stderr)
        );
    }
    let missing = convoy(&["check", "-c", "/nowhere/site.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("/nowhere/site.toml"));
}

#[test]
fn what_this_machine_lacks_is_refused_by_check_and_run_and_not_by_replay() {
    let folder = tempfile::tempdir().expect("a folder");
    for (lines, reported) in [
        ("[[engine]]\nkind = \"software\"\ncore = 999\n", "engine.core: there is no core 999"),
        ("[gateway]\nuser = \"no-such-user\"\n", "gateway.user: there is no user \"no-such-user\""),
    ] {
        let [site, _] = both_sites(folder.path());
        append(&site, &format!("{}{lines}", ports("1", "")));
        for command in ["check", "run"] {
            let refused = convoy(&[command, "-c", as_str(&site)]);
            assert_eq!(refused.status.code(), Some(2), "{command}");
            let (place, said) = (format!("{}:", as_str(&site)), text(&refused.stderr));
            assert!(said.starts_with(&place) && said.contains(reported), "{said}");
        }
        let (input, output) = (folder.path().join("no.pcap"), folder.path().join("out.pcap"));
        let replay = ["replay", "-c", as_str(&site), "--direction", "out", "--in", as_str(&input)];
        let replayed = convoy(&[&replay[..], &["--out", as_str(&output)]].concat());
        assert!(text(&replayed.stderr).contains("no.pcap"), "{}", text(&replayed.stderr));
    }
}

#[test]
fn check_says_which_engines_there_will_be_and_what_they_cost() {
    let folder = tempfile::tempdir().expect("a folder");
    let [good, _] = both_sites(folder.path());
    append(&good, &ports("1", ""));
    let reported = text(&convoy(&["check", "-c", as_str(&good)]).stdout);
    let [first, engines, mtu, guard] = reported.lines().collect::<Vec<_>>()[..] else {
        panic!("four lines: {reported}")
    };
    assert!(
        guard.starts_with("the guard (nftables table convoy_4500) drops unprotected packets from "),
        "{guard}"
    );
    assert!(mtu.starts_with("the inside MTU is 1438 bytes ("), "{mtu}");
    assert!(first.ends_with("a.toml: OK: 2 ports, 1 tunnel, 0 warnings"), "{first}");
    assert!(engines.starts_with("engines: "), "{engines}");
    assert!(engines.contains("software (aes128gcm16: "), "{engines}");
    append(&good, "[[engine]]\nkind = \"software\"\nname = \"mine\"\n");
    let reported = text(&convoy(&["check", "-c", as_str(&good)]).stdout);
    assert!(reported.lines().any(|line| line.starts_with("engines: mine (aes128gcm16: ")), "{reported}");
}

#[test]
fn a_peers_name_is_asked_of_the_system() {
    let folder = tempfile::tempdir().expect("a folder");
    let [named, _] = both_sites(folder.path());
    let text_of = std::fs::read_to_string(&named).expect("readable");
    let at_home = |remote: &str| {
        std::fs::write(&named, text_of.replace("127.0.0.2", remote)).expect("writable");
        convoy(&["check", "-c", as_str(&named)])
    };
    let known = at_home("localhost");
    assert_eq!(known.status.code(), Some(0), "{}", text(&known.stderr));
    let wrong = at_home("..localhost");
    assert!(text(&wrong.stderr).contains("a.toml:4:10: error: tunnel.remote: "), "{}", text(&wrong.stderr));
}

#[test]
fn a_warning_is_reported_and_is_no_failure_but_without_ports_nothing_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let [portless, _] = both_sites(folder.path());
    let checked = convoy(&["check", "-c", as_str(&portless)]);
    assert_eq!(checked.status.code(), Some(0));
    assert!(
        text(&checked.stderr).contains("a.toml: warning: there is no [[port]]"),
        "{}",
        text(&checked.stderr)
    );
    let run = convoy(&["run", "-c", as_str(&portless)]);
    assert_eq!(run.status.code(), Some(2));
    assert!(text(&run.stderr).contains("there is no [[port]]; a gateway needs one inside and one outside"));
}

#[test]
fn check_prints_what_it_finds_as_json_and_fails_on_warnings_if_they_are_denied() {
    let folder = tempfile::tempdir().expect("a folder");
    let [site, _] = both_sites(folder.path());
    let check = |more: &[&str]| {
        let checked = convoy(&[&["check", "--json", "-c", as_str(&site)], more].concat());
        let json = serde_json::from_slice::<serde_json::Value>(&checked.stdout).expect("JSON");
        (checked.status.code(), json)
    };
    let (status, portless) = check(&[]);
    let warning = &portless["warnings"][0];
    assert_eq!((status, portless["tunnels"].as_u64(), warning["line"].as_u64()), (Some(0), Some(1), None));
    assert!(
        warning["message"].as_str().is_some_and(|text| text.contains("there is no [[port]]")),
        "{warning}"
    );
    assert_eq!(check(&["--deny-warnings"]).0, Some(1));
    append(&site, &ports("1", ""));
    let (status, good) = check(&["--deny-warnings"]);
    let none = serde_json::json!([]);
    assert_eq!((status, &good["warnings"], &good["errors"]), (Some(0), &none, &none), "{good}");
    assert!(good["inside_mtu"]["bytes"].as_u64().is_some_and(|bytes| bytes > 1_280), "{good}");
    let wrong = std::fs::read_to_string(&site).expect("readable").replace("aes128gcm16", "aes128gcm17");
    std::fs::write(&site, wrong).expect("writable");
    let (status, refused) = check(&[]);
    let error = &refused["errors"][0];
    assert_eq!((status, error["line"].as_u64(), error["column"].as_u64()), (Some(2), Some(7), Some(16)));
    assert_eq!(error["key"], "tunnel.esp_proposal", "{refused}");
}

#[test]
fn esp_in_udp_leaves_and_is_opened_on_a_port_of_ones_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let [a, b] = both_sites(folder.path());
    append(&a, &ports("1", "udp_port = 5501\n"));
    append(&b, &ports("2", "udp_port = 5502\n"));
    let remote_port = |path: &Path, port: u16| {
        let text = std::fs::read_to_string(path).expect("readable");
        let text = text.replace("[tunnel.manual]", &format!("remote_port = {port}\n[tunnel.manual]"));
        std::fs::write(path, text).expect("writable");
    };
    remote_port(&a, 5502);
    remote_port(&b, 5501);
    let at = |name: &str| folder.path().join(name);
    let (plain, sealed, opened) = (at("plain.pcap"), at("sealed.pcap"), at("opened.pcap"));
    let packets: Vec<Vec<u8>> = (0..20).map(packet).collect();
    std::fs::write(&plain, capture(&packets)).expect("writable");
    replay(&a, "out", &plain, &sealed);
    for packet in contents(&std::fs::read(&sealed).expect("written")) {
        assert_eq!(packet[20..24], [5501_u16.to_be_bytes(), 5502_u16.to_be_bytes()].concat());
    }
    replay(&b, "in", &sealed, &opened);
    assert_eq!(contents(&std::fs::read(&opened).expect("written")), packets);
}

#[test]
fn a_service_manager_hears_that_the_gateway_is_ready() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let [site, _] = both_sites(folder.path());
    std::fs::write(at("plain.pcap"), capture(&[packet(0)])).expect("writable");
    let ports = format!(
        "[gateway]\ncontrol = \"{0}/control.sock\"\nstate = \"\"\n\
         [[port]]\nname = \"in\"\nkind = \"pcap\"\nside = \"inside\"\nread = \"{0}/plain.pcap\"\n\
         [[port]]\nname = \"out\"\nkind = \"pcap\"\nside = \"outside\"\nwrite = \"{0}/out.pcap\"\n",
        as_str(folder.path())
    );
    let tunnel = std::fs::read_to_string(&site).expect("readable");
    std::fs::write(&site, ports + &tunnel).expect("writable");
    let manager = std::os::unix::net::UnixDatagram::bind(at("notify")).expect("a socket");
    // Like systemd's: accessible after the gateway has dropped root.
    for (path, mode) in [(folder.path().to_owned(), 0o755), (at("notify"), 0o777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
    }
    manager.set_read_timeout(Some(std::time::Duration::from_secs(10))).expect("set");
    let mut run = Command::new(env!("CARGO_BIN_EXE_convoy"));
    let done = run.args(["run", "-c", as_str(&site)]).env("NOTIFY_SOCKET", at("notify")).output();
    let done = done.expect("the binary was built");
    let mut words = [0; 64];
    let heard = manager.recv(&mut words).unwrap_or_else(|error| panic!("{error}: {}", text(&done.stderr)));
    assert_eq!(text(&words[..heard]), "READY=1\n");
}

#[test]
fn a_gateway_that_is_not_there_is_1_and_the_way_to_it_is_reported() {
    let shown = convoy(&["show", "sa", "--control", "/nowhere/control.sock"]);
    assert_eq!((shown.status.code(), text(&shown.stdout)), (Some(1), String::new()));
    assert!(text(&shown.stderr).contains("is `convoy run` running? --control sets its socket"));
}

#[test]
fn what_one_side_seals_the_other_opens_byte_for_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let [a, b] = both_sites(folder.path());
    let at = |name: &str| folder.path().join(name);
    let (plain, sealed, opened) = (at("plain.pcap"), at("sealed.pcap"), at("opened.pcap"));
    let packets: Vec<Vec<u8>> = (0..200).map(packet).collect();
    std::fs::write(&plain, capture(&packets)).expect("writable");
    for (config, way, from, to) in [(&a, "out", &plain, &sealed), (&b, "in", &sealed, &opened)] {
        let report = replay(config, way, from, to);
        assert_eq!((&report["read"], &report["written"]), (&200.into(), &200.into()));
    }
    assert_eq!(contents(&std::fs::read(&opened).expect("written")), packets);
    let sealed = contents(&std::fs::read(&sealed).expect("written"));
    assert!(sealed.iter().all(|packet| packet[9] == 50 || packet[9] == 17), "ESP, or ESP in UDP");
    let broken = at("broken.pcap");
    std::fs::write(&broken, b"no capture").expect("writable");
    let refused = convoy(&[
        "replay",
        "-c",
        as_str(&a),
        "--direction",
        "out",
        "--in",
        as_str(&broken),
        "--out",
        as_str(&at("x")),
    ]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("broken.pcap"));
}

#[test]
fn replayed_packets_without_a_policy_are_counted_once() {
    let folder = tempfile::tempdir().expect("a folder");
    // The packets are those of the other site's hosts.
    let [_, b] = both_sites(folder.path());
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("plain.pcap"), capture(&[packet(0), packet(1), packet(2)])).expect("writable");
    let report = replay(&b, "out", &at("plain.pcap"), &at("sealed.pcap"));
    assert_eq!((&report["unprotected"], &report["dropped"]), (&3.into(), &serde_json::json!([])));
}

/// Edits a capture with Wireshark's `editcap`.
fn edited(arguments: &[&str], from: &Path, to: &Path) {
    let output = Command::new("editcap").args(arguments).args([from, to]).output();
    let output = output.expect("editcap, which scripts/install.sh test installs");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_capture_with_a_snap_length_is_replayed_and_what_it_truncated_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let [a, _] = both_sites(folder.path());
    let at = |name: &str| folder.path().join(name);
    let packets: Vec<Vec<u8>> = (0..200).map(packet).collect();
    let short = packets.iter().filter(|packet| packet.len() <= 96).count();
    assert!(short > 5 && short < 195);
    std::fs::write(at("plain.pcap"), capture(&packets)).expect("writable");
    for format in ["pcap", "nsecpcap", "pcapng"] {
        edited(&["-s", "96", "-F", format], &at("plain.pcap"), &at("snapped"));
        let report = replay(&a, "out", &at("snapped"), &at("sealed.pcap"));
        assert_eq!((&report["read"], &report["written"]), (&short.into(), &short.into()), "{format}");
        assert_eq!(report["unreadable"], serde_json::json!({ "truncated": 200 - short }), "{format}");
    }
    let [config, from, to] = [&a, &at("snapped"), &at("sealed.pcap")].map(|path| as_str(path).to_owned());
    let reported = convoy(&["replay", "-c", &config, "--direction", "out", "--in", &from, "--out", &to]);
    let line = format!("{} left out: truncated in the capture, by a snap length", 200 - short);
    assert!(text(&reported.stdout).contains(&line), "{}", text(&reported.stdout));
}

#[test]
fn a_capture_that_is_cut_off_is_replayed_up_to_there_with_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let [a, _] = both_sites(folder.path());
    let at = |name: &str| folder.path().join(name);
    let mut file = capture(&(1..11).map(packet).collect::<Vec<_>>());
    let last_at = file.len() - 16 - packet(10).len();
    file.truncate(file.len() - 9);
    std::fs::write(at("cut.pcap"), &file).expect("writable");
    let [config, from, to] = [&a, &at("cut.pcap"), &at("sealed.pcap")].map(|path| as_str(path).to_owned());
    let reported = convoy(&["replay", "-c", &config, "--direction", "out", "--in", &from, "--out", &to]);
    assert_eq!(reported.status.code(), Some(0), "{}", text(&reported.stderr));
    assert!(text(&reported.stdout).starts_with("read 9, written 9\n"), "{}", text(&reported.stdout));
    let warning = format!(
        "cut.pcap: byte {last_at}: the file ends at byte {}, inside the record that begins here",
        file.len()
    );
    assert!(text(&reported.stderr).contains(&warning), "{}", text(&reported.stderr));
    let report = replay(&a, "out", &at("cut.pcap"), &at("sealed.pcap"));
    assert!(report["damage"].as_str().is_some_and(|damage| damage.contains("cut.pcap")), "{report}");
}

#[test]
fn esp_in_udp_over_ipv6_has_a_checksum_that_others_find_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let [a, b] = both_sites(folder.path());
    let at = |name: &str| folder.path().join(name);
    for (config, ends) in [(&a, ["::1", "::2"]), (&b, ["::2", "::1"])] {
        let text = std::fs::read_to_string(config).expect("readable");
        let text: String = text
            .lines()
            .map(|line| match line.split_once(" = ") {
                Some(("local", _)) => format!("local = \"2001:db8{}\"\nencap = \"udp\"\n", ends[0]),
                Some(("remote", _)) => format!("remote = \"2001:db8{}\"\n", ends[1]),
                _ => format!("{line}\n"),
            })
            .collect();
        std::fs::write(config, text).expect("writable");
    }
    let packets: Vec<Vec<u8>> = (0..40).map(packet).collect();
    std::fs::write(at("plain.pcap"), capture(&packets)).expect("writable");
    replay(&a, "out", &at("plain.pcap"), &at("sealed.pcap"));
    let tshark = Command::new("tshark")
        .args(["-r", as_str(&at("sealed.pcap")), "-o", "udp.check_checksum:TRUE"])
        .args(["-Y", "udp.port == 4500 && udp.checksum.status == good"])
        .output()
        .expect("tshark, which scripts/install.sh test installs");
    assert_eq!(text(&tshark.stdout).lines().count(), 40, "{}", text(&tshark.stdout));
    replay(&b, "in", &at("sealed.pcap"), &at("opened.pcap"));
    assert_eq!(contents(&std::fs::read(at("opened.pcap")).expect("written")), packets);
}

/// Replays a capture through a gateway; returns the report.
fn replay(config: &Path, way: &str, from: &Path, to: &Path) -> serde_json::Value {
    let [config, from, to] = [config, from, to].map(as_str);
    let replayed = convoy(&["replay", "-c", config, "--direction", way, "--in", from, "--out", to, "--json"]);
    assert_eq!(replayed.status.code(), Some(0), "{}", text(&replayed.stderr));
    serde_json::from_slice(&replayed.stdout).expect("JSON and nothing else")
}

#[test]
fn keys_by_hand_that_are_used_again_see_no_nonce_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let [a, _] = both_sites(folder.path());
    let at = |name: &str| folder.path().join(name);
    let plain = at("plain.pcap");
    std::fs::write(&plain, capture(&(0..50).map(packet).collect::<Vec<_>>())).expect("writable");
    let mut ivs = HashSet::new();
    for name in ["first.pcap", "second.pcap"] {
        replay(&a, "out", &plain, &at(name));
        for packet in contents(&std::fs::read(at(name)).expect("written")) {
            let esp = if packet[9] == 17 { 28 } else { 20 };
            assert!(ivs.insert(packet[esp + 8..esp + 16].to_vec()), "an IV came twice under one key");
        }
    }
    assert_eq!(ivs.len(), 100);
}

#[test]
fn engines_are_reported_for_machines_too() {
    let reported = convoy(&["engines", "--json"]);
    assert_eq!(reported.status.code(), Some(0));
    let engines: serde_json::Value = serde_json::from_slice(&reported.stdout).expect("JSON and nothing else");
    let software = engines.as_array().and_then(|all| all.iter().find(|engine| engine["kind"] == "software"));
    assert_eq!(software.expect("it is everywhere")["present"], true);
    let absent = engines.as_array().expect("a list").iter().filter(|engine| engine["present"] == false);
    for engine in absent {
        assert!(engine["reason"].is_string() && engine["remedy"].is_string(), "{engine}");
    }
}

/// The packets of such a capture.
fn contents(mut file: &[u8]) -> Vec<Vec<u8>> {
    let is_little = file[0] == 0xd4 || file[0] == 0x4d;
    let mut packets = Vec::new();
    file = &file[24..];
    while let Some((header, rest)) = file.split_at_checked(16) {
        let len = [header[8], header[9], header[10], header[11]];
        let len = if is_little { u32::from_le_bytes(len) } else { u32::from_be_bytes(len) } as usize;
        packets.push(rest[..len].to_vec());
        file = &rest[len..];
    }
    packets
}

#[test]
fn laboratory_commands_name_the_package_where_the_laboratory_is_absent() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let alone = folder.path().join("convoy");
    // A copy cannot be run while another test's child still has it open for writing.
    std::fs::hard_link(env!("CARGO_BIN_EXE_convoy"), &alone).expect("the same file system");
    for command in ["demo", "sim", "bench", "hdtv", "nic"] {
        let run = Command::new(&alone).args([command, "--help"]).env("PATH", folder.path()).output();
        let run = run.expect("the copy runs");
        assert_eq!(run.status.code(), Some(1), "{command}");
        assert!(text(&run.stderr).contains("install the package convoy-lab"), "{}", text(&run.stderr));
    }
}

#[test]
fn laboratory_commands_run_the_program_beside_this_one() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let alone = folder.path().join("convoy");
    // A copy cannot be run while another test's child still has it open for writing.
    std::fs::hard_link(env!("CARGO_BIN_EXE_convoy"), &alone).expect("the same file system");
    let laboratory = folder.path().join("convoy-lab");
    std::fs::write(&laboratory, "#!/bin/sh\necho \"$@\"\nexit 3\n").expect("written");
    std::fs::set_permissions(&laboratory, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let run = Command::new(&alone).args(["sim", "run", "grip", "--json"]).output().expect("the copy runs");
    assert_eq!((run.status.code(), text(&run.stdout)), (Some(3), "sim run grip --json\n".to_owned()));
}
