use std::path::Path;

use super::published::{BLUEFIELD, FLOWER, XDP};
use super::*;
use crate::Paper;

fn options(out: &Path) -> FigureOptions {
    let (packets, range_packets) = (5_000, 500);
    FigureOptions {
        paper: Paper::Accelerators,
        out: out.to_owned(),
        trace: None,
        packets,
        range_packets,
        threads: 2,
    }
}

#[test]
fn all_figures_are_there_with_what_was_published_beside() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = make(&options(folder.path()), &mut |_, _| {}).expect("made");
    for number in 1..=5 {
        let path = |end: &str| folder.path().join(format!("figure-{number:02}.{end}"));
        assert!(["svg", "png", "csv"].iter().all(|end| made.files.contains(&path(end))), "figure {number}");
        assert!(std::fs::metadata(path("png")).expect("it was made").len() > 10_000);
    }
    let html = std::fs::read_to_string(folder.path().join("index.html")).expect("it was made");
    crate::page::tests::check(&html, &[1, 2, 3, 4, 5], &made.claims);
    let csv = |number: u32| {
        let path = folder.path().join(format!("figure-{number:02}.csv"));
        std::fs::read_to_string(path).expect("it was made")
    };
    for (number, points) in [(1, &FLOWER[..]), (3, &XDP[..]), (4, &BLUEFIELD[..])] {
        for point in points {
            assert!(csv(number).contains(&format!("published,{},{}", point.tunnels, point.gbps)), "{number}");
        }
    }
}
