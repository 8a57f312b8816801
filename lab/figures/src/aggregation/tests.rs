use std::path::Path;

use convoy_sim::Pattern;

use super::runs::{Board, Key};
use super::*;
use crate::Paper;

fn options(out: &Path) -> FigureOptions {
    let (packets, range_packets) = (2_000, 200);
    FigureOptions {
        paper: Paper::Aggregation,
        out: out.to_owned(),
        trace: None,
        packets,
        range_packets,
        threads: 2,
    }
}

#[test]
fn all_figures_are_there_for_both_platforms() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = make(&options(folder.path()), &mut |_, _| {}).expect("made");
    for number in 1..=10 {
        let path = |end: &str| folder.path().join(format!("figure-{number:02}.{end}"));
        assert!(["svg", "png", "csv"].iter().all(|end| made.files.contains(&path(end))), "figure {number}");
        assert!(std::fs::metadata(path("png")).expect("it was made").len() > 10_000);
    }
    let html = std::fs::read_to_string(folder.path().join("index.html")).expect("it was made");
    crate::page::tests::check(&html, &(1..=10).collect::<Vec<u32>>(), &made.claims);
    assert!(made.claims.iter().all(|claim| claim.noise.contains("of 2 other seeds agree")));
    let runs = std::fs::read_to_string(folder.path().join("runs.csv")).expect("it was made");
    assert_eq!(runs.lines().count(), 1 + keys().len());
}

#[test]
fn without_aggregation_the_papers_platform_is_that_of_its_own_figures() {
    let cases = cases::all().expect("good platforms");
    let key = Key::one(Board::Pci, Pattern::Fixed(24), 30, false);
    let here = run(&cases[0].platforms, &key, 20_000).expect("in range");
    let platform = convoy_sim::Platform::open("pci-accelerators").expect("it comes with the program");
    let setting = convoy_sim::Setting {
        pattern: Some("24".to_owned()),
        packets: Some(20_000),
        ..convoy_sim::Setting::default()
    };
    assert_eq!(here.report, setting.run(&platform).expect("in range"));
    assert!((here.mbps - here.report.throughput_mbps).abs() < 1e-9);
    // 64 bytes and a trailer of 2 are padded to 68, with 52 around them and 38 of Ethernet.
    assert!((here.line_bytes - (68.0 + 52.0 + 38.0)).abs() < 1e-9);
}
