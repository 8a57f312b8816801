//! Tests of `convoy-lab demo`.

use std::process::Command;

use crate::packets::{capture, packet};

#[test]
fn demo_reports_packets_of_a_capture_that_it_cannot_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let packets: Vec<Vec<u8>> = (0..200).map(packet).collect();
    let short = packets.iter().filter(|packet| packet.len() <= 96).count();
    std::fs::write(at("plain.pcap"), capture(&packets)).expect("writable");
    let snapped =
        Command::new("editcap").args(["-s", "96"]).args([at("plain.pcap"), at("snapped.pcapng")]).status();
    assert!(snapped.expect("editcap, which scripts/install.sh test installs").success());
    let reported = Command::new(env!("CARGO_BIN_EXE_convoy-lab"))
        .args(["demo", "--seconds", "1", "--json", "--capture"])
        .arg(at("snapped.pcapng"))
        .output()
        .expect("the binary was built");
    assert_eq!(reported.status.code(), Some(0), "{}", String::from_utf8_lossy(&reported.stderr));
    let report: serde_json::Value = serde_json::from_slice(&reported.stdout).expect("JSON and nothing else");
    assert_eq!(report["capture_packets"], short);
    assert_eq!(report["capture_unreadable"], serde_json::json!({ "truncated": 200 - short }));
}
