//! Tests of `convoy-lab sim`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_convoy-lab"))
        .arg("sim")
        .args(arguments)
        .output()
        .expect("the binary was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn as_str(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
}

/// The report of a run that must succeed.
fn report(arguments: &[&str]) -> serde_json::Value {
    let output = sim(&[&["run", "pci-accelerators", "--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON and nothing else")
}

/// Exit status and standard error of a command that must fail without output.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = sim(arguments);
    assert_eq!(text(&output.stdout), "");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_reader_that_leaves_early_ends_nothing() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_convoy-lab"))
        .args(["sim", "run", "pci-accelerators", "--packets", "1000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn the_json_has_the_fields_that_others_rely_on() {
    let reported =
        report(&["--pattern", "uniform", "--packets", "20000", "--accelerators", "2", "--window", "30"]);
    assert_eq!(reported["packets"], 20_000);
    for list in ["share", "average_length"] {
        assert_eq!(reported[list].as_array().expect("a list").len(), 3, "{list}: CPU and two accelerators");
    }
    let sum: f64 =
        reported["share"].as_array().expect("a list").iter().filter_map(serde_json::Value::as_f64).sum();
    assert!((sum - 1.0).abs() < 1e-9);
    for number in
        ["average_length_scheduled", "packets_per_multipacket", "throughput_mbps", "latency_ms", "sojourn_ms"]
    {
        assert!(reported[number].as_f64().expect(number) > 0.0, "{number}");
    }
    let conflicts = reported["bus_conflicts"].as_f64().expect("a fraction");
    assert!((0.0..=1.0).contains(&conflicts));
    for measure in ["latency_percentiles_ms", "sojourn_percentiles_ms"] {
        assert!(reported[measure]["p50"].as_f64() <= reported[measure]["p999"].as_f64(), "{measure}");
    }
    assert_eq!(reported["setting"]["pattern"], "uniform");
}

#[test]
fn every_option_reaches_the_simulator_and_a_run_is_a_function_of_its_seed() {
    let plain = ["--pattern", "exponential", "--packets", "20000"];
    let with = |more: &[&str]| {
        let mut reported = report(&[&plain, more].concat());
        reported.as_object_mut().expect("an object").remove("setting");
        reported
    };
    let base = with(&[]);
    assert_eq!(base, with(&["--seed", "1"]));
    for option in [
        &["--seed", "2"][..],
        &["--window", "1"],
        &["--accelerators", "2"],
        &["--init-ratio", "9"],
        &["--enc-ratio", "7"],
        &["--depth", "2"],
        &["--t-init-us", "9"],
        &["--policy", "round-robin"],
        &["--byte-limit", "600"],
        &["--aggregation", "1500"],
        &["--max-wait-us", "5"],
        &["--prefetch"],
        &["--write-buffer"],
        &["--sas", "3"],
        &["--popularity", "1"],
        &["--locality", "0.7"],
        &["--rate-mbps", "100"],
        &["--rate-pps", "20000"],
        &["--rate-pps", "20000", "--poisson"],
    ] {
        assert_ne!(base, with(option), "{option:?} changes something");
    }
}

#[test]
fn people_get_a_table() {
    let output = sim(&["run", "pci-accelerators", "--packets", "2000"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for word in ["cpu", "accelerator", "bus pci", "throughput", "latency", "bus conflicts", "Mbit/s", "ms"] {
        assert!(text(&output.stdout).contains(word), "{word}");
    }
}

#[test]
fn a_wrong_platform_is_2_with_file_line_and_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.toml");
    let good = include_str!("../../../../platforms/pci-accelerators.toml");
    std::fs::write(&file, good.replace("width_bytes = 4", "width_bits = 32")).expect("writable");
    let line = good.lines().position(|line| line.starts_with("width_bytes")).expect("it has one") + 1;
    let (status, reported) = refused(&["run", as_str(&file)]);
    assert_eq!(status, Some(2));
    assert!(
        reported.contains(&format!("mine.toml:{line}:1: error: bus[0].width_bits: unknown key")),
        "{reported}"
    );
    assert!(reported.contains("width_bytes"), "what was expected: {reported}");
    let (status, reported) = refused(&["run", "pci-accelerator"]);
    assert_eq!(status, Some(2));
    assert!(reported.contains("pci-accelerators"), "what there is: {reported}");
}

#[test]
fn wrong_usage_is_2_and_says_what_is_right() {
    for (arguments, what) in [
        (&["--pattern", "pareto"][..], "exponential, uniform, trace, imix"),
        (&["--policy", "fastest"], "finishing-time"),
        (&["--window", "0"], "window"),
        (&["--locality", "1.5"], "locality"),
        (&["--trace", "x.pcap", "--sa-by", "policies"], "--config"),
        (&["--as-captured"], "--trace"),
        (&["--rate-pps", "0"], "above 0"),
    ] {
        let (status, reported) = refused(&[&["run", "pci-accelerators"], arguments].concat());
        assert_eq!(status, Some(2), "{arguments:?}: {reported}");
        assert!(reported.contains(what), "{arguments:?}: {reported}");
    }
}

#[test]
fn a_trace_that_is_not_there_or_is_none_is_1() {
    let folder = tempfile::tempdir().expect("a folder");
    let (status, reported) = refused(&["run", "pci-accelerators", "--trace", "/nowhere/lbl.tcp"]);
    assert_eq!(status, Some(1));
    assert!(reported.contains("/nowhere/lbl.tcp"), "{reported}");
    let wrong = folder.path().join("wrong.tcp");
    std::fs::write(&wrong, "0.1 1 2 3 4 5\n0.2 1 2 3 4\n").expect("writable");
    let (status, reported) = refused(&["run", "pci-accelerators", "--trace", as_str(&wrong)]);
    assert_eq!(status, Some(1));
    assert!(reported.contains("wrong.tcp:2") && reported.contains("six columns"), "{reported}");
}

#[test]
fn traces_are_distinguished_by_content() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let lines: String = (0..300).map(|n| format!("{}.5 1 {} 1000 80 {}\n", n, n % 7, n * 4)).collect();
    std::fs::write(at("a.trace"), lines).expect("writable");
    std::fs::write(at("b.trace"), capture()).expect("writable");
    let text_trace = report(&["--trace", as_str(&at("a.trace"))]);
    assert_eq!(text_trace["packets"], 300);
    assert_eq!(report(&["--trace", as_str(&at("a.trace")), "--packets", "50"])["packets"], 50);
    // Packets that are half a second apart find all queues empty.
    let captured = report(&["--trace", as_str(&at("a.trace")), "--as-captured", "--window", "1"]);
    assert!(captured["end_ms"].as_f64() > Some(299_000.0));
    assert_eq!(report(&["--trace", as_str(&at("b.trace"))])["packets"], 90);
}

#[test]
fn policies_of_a_gateway_say_which_sa_and_leave_the_rest_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let (trace, config) = (folder.path().join("a.pcap"), folder.path().join("a.toml"));
    std::fs::write(&trace, capture()).expect("writable");
    let tunnel = "[[tunnel]]\nname = \"b\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
                  local_ts = [\"10.0.0.0/16\"]\nremote_ts = [\"10.1.0.0/16\"]\nesp_proposal = \"aes128gcm16\"\n";
    std::fs::write(&config, tunnel).expect("writable");
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o600)).expect("ours");
    let arguments = ["--trace", as_str(&trace), "--sa-by", "policies", "--config", as_str(&config)];
    let reported = report(&arguments);
    assert_eq!((&reported["packets"], &reported["skipped"]), (&30.into(), &60.into()));
    std::fs::write(&config, tunnel.replace("10.1.0.0", "10.77.0.0")).expect("writable");
    let (status, reported) = refused(&[&["run", "pci-accelerators"], &arguments[..]].concat());
    assert_eq!(status, Some(1));
    assert!(reported.contains("90 were left out: 90 no SA protects them"), "{reported}");
}

#[test]
fn a_trace_with_a_snap_length_counts_as_a_whole_one_does_and_one_that_is_cut_off_up_to_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let whole = capture();
    std::fs::write(at("whole.pcap"), &whole).expect("writable");
    let editcap = |arguments: &[&str]| {
        let output = Command::new("editcap").args(arguments).current_dir(folder.path()).output();
        let output = output.expect("editcap, which scripts/install.sh test installs");
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    editcap(&["-s", "40", "-F", "pcap", "whole.pcap", "snapped.pcap"]);
    editcap(&["-s", "40", "-F", "pcapng", "whole.pcap", "snapped.pcapng"]);
    let of = |name: &str| {
        let mut reported = report(&["--trace", as_str(&at(name)), "--as-captured"]);
        reported["trace"].take();
        reported
    };
    assert_eq!(of("snapped.pcap"), of("whole.pcap"));
    assert_eq!(of("snapped.pcapng"), of("whole.pcap"));
    std::fs::write(at("cut.pcap"), &whole[..whole.len() - 50]).expect("writable");
    let reported = sim(&["run", "pci-accelerators", "--trace", as_str(&at("cut.pcap"))]);
    assert_eq!(reported.status.code(), Some(0), "{}", text(&reported.stderr));
    assert!(text(&reported.stdout).contains(": 89 packets"), "{}", text(&reported.stdout));
    let warning = format!("warning: {}: byte {}: ", as_str(&at("cut.pcap")), whole.len() - 116);
    assert!(text(&reported.stderr).contains(&warning), "{}", text(&reported.stderr));
}

/// 90 packets of 100 bytes of raw IP, from 10.0.0.1 to 10.0.0.2, 10.1.0.2 and 10.2.0.2 in turn.
fn capture() -> Vec<u8> {
    let mut file: Vec<u8> =
        [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101].into_iter().flat_map(u32::to_le_bytes).collect();
    for number in 0..90u32 {
        let mut packet =
            vec![0x45, 0, 0, 100, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, (number % 3) as u8, 0, 2];
        packet.extend([4, 0, 8, 0, 0, 80, 0, 0]);
        packet.resize(100, 0);
        file.extend([number, 0, 100, 100].into_iter().flat_map(u32::to_le_bytes));
        file.extend(packet);
    }
    file
}

#[test]
fn a_sweep_resumes_and_a_changed_one_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("grid.toml");
    let grid = "platform = \"pci-accelerators\"\n[setting]\npackets = 1000\n[grid]\nwindow = [1, 30]\nenc_ratio = [1, 3]\n";
    std::fs::write(&file, grid).expect("writable");
    let swept = || {
        let output = sim(&["sweep", as_str(&file)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert!(swept().starts_with("4 points: "));
    let results = folder.path().join("grid.jsonl");
    let lines = std::fs::read_to_string(&results).expect("written");
    assert_eq!(lines.lines().count(), 5, "whose they are, and four points");
    // Interrupted in the middle of the third point.
    let cut = lines.match_indices('\n').nth(2).expect("five lines").0 + 40;
    std::fs::write(&results, &lines[..cut]).expect("writable");
    assert!(swept().starts_with("4 points, 2 of them from an earlier run: "));
    assert_eq!(std::fs::read_to_string(folder.path().join("grid.csv")).expect("written").lines().count(), 5);
    std::fs::write(&file, grid.replace("packets = 1000", "packets = 2000")).expect("writable");
    let (status, reported) = refused(&["sweep", as_str(&file)]);
    assert_eq!(status, Some(2));
    assert!(
        reported.contains("setting.packets is 1000, here 2000") && reported.contains("--out"),
        "{reported}"
    );
    std::fs::write(&file, grid.replace("window", "windows")).expect("writable");
    let (status, reported) = refused(&["sweep", as_str(&file)]);
    assert_eq!(status, Some(2));
    assert!(reported.contains("grid.toml:5: grid.windows"), "{reported}");
}

#[test]
fn the_example_of_a_sweep_is_good() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sweep.toml");
    let example = include_str!("../../../../examples/sweep.toml");
    std::fs::write(&file, example.replace("100_000", "50")).expect("writable");
    let output = sim(&["sweep", as_str(&file), "--jobs", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("448 points"));
}

#[test]
fn a_plan_says_what_a_window_and_an_engine_bring() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("gateway.toml");
    let model = "[[engine]]\nkind = \"model\"\nname = \"card-model\"\nt_init_us = 50.0\n";
    let tunnel = "[[tunnel]]\nname = \"t\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
                  local_ts = [\"10.1.0.0/16\"]\nremote_ts = [\"10.2.0.0/16\"]\nesp_proposal = \"aes128gcm16\"\n";
    std::fs::write(&config, format!("{model}{tunnel}")).expect("writable");
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traffic.pcap");
    let plan = ["plan", "-c", as_str(&config), "--trace", capture];
    let cards = ["--card", "connectx-7", "--card", "qat-gen4"];
    let reported = sim(&[&plan[..], &cards, &["--measure", "1", "--json"]].concat());
    assert_eq!(reported.status.code(), Some(0), "{}", text(&reported.stderr));
    let reported: serde_json::Value =
        serde_json::from_slice(&reported.stdout).expect("JSON and nothing else");
    assert!(reported["best_window"].as_u64() > Some(4), "a card that takes so long to set up wants bundles");
    let gain = |change: &str| {
        let changes = reported["changes"].as_array().expect("a list");
        changes
            .iter()
            .find(|outcome| outcome["change"] == change)
            .and_then(|outcome| outcome["gain"].as_f64())
    };
    assert!(gain("with another card-model") > Some(1.3), "{reported}");
    assert!(gain("with connectx-7") > Some(1.3) && gain("with qat-gen4") > Some(1.3), "{reported}");
    assert_eq!(reported["card_engines"][0]["cache"]["sas"], 2102);
    assert_eq!(reported["measured"]["packets"], reported["packets"][0]);
    // A plan needs only lengths and addresses, which a snap length preserves.
    let snapped = folder.path().join("snapped.pcapng");
    let edited = Command::new("editcap").args(["-s", "60", capture, as_str(&snapped)]).status();
    assert!(edited.expect("editcap, which scripts/install.sh test installs").success());
    let of_snapped = sim(&["plan", "-c", as_str(&config), "--trace", as_str(&snapped), "--json"]);
    let of_snapped: serde_json::Value =
        serde_json::from_slice(&of_snapped.stdout).unwrap_or_else(|_| panic!("{}", text(&of_snapped.stderr)));
    assert_eq!(of_snapped["packets"], reported["packets"]);
    assert_eq!(
        of_snapped["as_configured"]["packets_per_multipacket"].as_f64().map(|it| it > 1.0),
        Some(true)
    );
    let (status, error) = refused(&["plan", "-c", as_str(&config), "--trace", "/nowhere.pcap"]);
    assert!(status == Some(1) && error.contains("/nowhere.pcap"), "{error}");
    let (status, error) = refused(&[&plan[..], &["--card", "pentium3"]].concat());
    assert!(status == Some(2) && error.contains("pentium3 has no [[processor]] of kind"), "{error}");
}

#[test]
fn figures_are_made_and_claims_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("deep/figures");
    let output =
        sim(&["figures", "--out", as_str(&out), "--packets", "300", "--range-packets", "50", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let reported: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    for claim in reported["claims"].as_array().expect("a list") {
        let verdict = claim["verdict"].as_str().expect("a word");
        let verdicts = ["shown", "not shown", "undecided", "by construction"];
        assert!(verdicts.contains(&verdict) && claim["measured"].is_string(), "{claim}");
        assert!(claim["range_shown"].as_u64() <= claim["range_of"].as_u64());
    }
    for number in 3..=15 {
        for end in ["svg", "png", "csv"] {
            assert!(out.join(format!("figure-{number:02}.{end}")).is_file(), "figure {number}, {end}");
        }
    }
    assert!(out.join("index.html").is_file() && out.join("claims.csv").is_file());
    let trace = |paper| refused(&["figures", "--out", as_str(&out), "--paper", paper, "--trace", "/nowhere"]);
    let (status, reported) = trace("grip");
    assert!(
        status == Some(2) && reported.contains("only take the place of that of small-packets"),
        "{reported}"
    );
    let (status, reported) = trace("small-packets");
    assert!(status == Some(1) && reported.contains("/nowhere"), "{reported}");
    let (status, reported) = refused(&["figures", "--out", "/dev/null/figures", "--packets", "10"]);
    assert_eq!(status, Some(1));
    assert!(reported.contains("/dev/null/figures"), "{reported}");
}
