//! Replays at whose end packets wait for more: in IP-TFS, and in reassembly.

use std::path::Path;

use super::packets::{capture, packet, packet_of};
use super::{both_sites, contents, replay};

/// Has the tunnel of a configuration in mode `iptfs`, with these settings.
fn use_iptfs(config: &Path, settings: &str) {
    let text = std::fs::read_to_string(config).expect("readable");
    let text = text
        .replace("[tunnel.manual]", &format!("mode = \"iptfs\"\n[tunnel.iptfs]\n{settings}[tunnel.manual]"));
    std::fs::write(config, text).expect("writable");
}

/// Counts of a report's dropped packets.
fn dropped(report: &serde_json::Value) -> u64 {
    let all = report["dropped"].as_array().expect("a list");
    all.iter().map(|line| line[1].as_u64().expect("a count")).sum()
}

#[test]
fn packets_that_wait_in_a_payload_or_for_their_turn_are_written_at_the_end() {
    let packets: Vec<Vec<u8>> = (0..40).map(packet).collect();
    for settings in ["packet_rate = 1\n", "init_delay = 10_000_000\n"] {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let [a, b] = both_sites(folder.path());
        [&a, &b].into_iter().for_each(|config| use_iptfs(config, settings));
        std::fs::write(at("plain.pcap"), capture(&packets)).expect("writable");
        let sealed = replay(&a, "out", &at("plain.pcap"), &at("sealed.pcap"));
        assert_eq!((&sealed["read"], dropped(&sealed)), (&40.into(), 0), "{settings}: {sealed}");
        replay(&b, "in", &at("sealed.pcap"), &at("opened.pcap"));
        assert_eq!(contents(&std::fs::read(at("opened.pcap")).expect("written")), packets, "{settings}");
    }
}

#[test]
fn packets_behind_a_missing_one_are_written_at_the_end_and_parts_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let [a, b] = both_sites(folder.path());
    [&a, &b]
        .into_iter()
        .for_each(|config| use_iptfs(config, "drop_time = 60_000_000\nreorder_window = 256\n"));
    // Each stands in two or three outer packets.
    let packets: Vec<Vec<u8>> = (0..40).map(|at| packet_of(at, 2_900)).collect();
    std::fs::write(at("plain.pcap"), capture(&packets)).expect("writable");
    replay(&a, "out", &at("plain.pcap"), &at("sealed.pcap"));
    let mut sealed = contents(&std::fs::read(at("sealed.pcap")).expect("written"));
    let last = sealed.pop().expect("a packet");
    sealed.remove(2);
    std::fs::write(at("holed.pcap"), capture(&sealed)).expect("writable");
    let report = replay(&b, "in", &at("holed.pcap"), &at("opened.pcap"));
    let opened = contents(&std::fs::read(at("opened.pcap")).expect("written"));
    assert!(
        (30..40).contains(&opened.len()) && opened.iter().all(|one| packets.contains(one)),
        "{}",
        opened.len()
    );
    assert_eq!(report["written"], opened.len());
    assert!(dropped(&report) >= 2, "parts of split packets, at the gap and at the end: {report}");
    // With nothing missing at its end, the capture loses nothing there.
    sealed.push(last);
    std::fs::write(at("holed.pcap"), capture(&sealed)).expect("writable");
    replay(&b, "in", &at("holed.pcap"), &at("opened.pcap"));
    let opened = contents(&std::fs::read(at("opened.pcap")).expect("written"));
    assert_eq!(opened.last(), packets.last());
}

#[test]
fn a_fragment_without_the_rest_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let [a, b] = both_sites(folder.path());
    std::fs::write(at("plain.pcap"), capture(&[packet(0)])).expect("writable");
    replay(&a, "out", &at("plain.pcap"), &at("sealed.pcap"));
    let mut sealed = contents(&std::fs::read(at("sealed.pcap")).expect("written"));
    // More fragments follow.
    sealed[0][6] = 0x20;
    let header = &mut sealed[0][..20];
    header[10..12].fill(0);
    let sum: u32 = header.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&folded.to_be_bytes());
    std::fs::write(at("cut.pcap"), capture(&sealed)).expect("writable");
    let report = replay(&b, "in", &at("cut.pcap"), &at("opened.pcap"));
    assert_eq!(
        (&report["read"], &report["written"], dropped(&report)),
        (&1.into(), &0.into(), 1),
        "{report}"
    );
}
