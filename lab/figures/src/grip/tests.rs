use std::path::Path;

use super::runs::PROFILES;
use super::*;
use crate::Paper;

fn options(out: &Path) -> FigureOptions {
    FigureOptions {
        paper: Paper::Grip,
        out: out.to_owned(),
        trace: None,
        packets: 200,
        range_packets: 50,
        threads: 2,
    }
}

#[test]
fn both_figures_are_there_with_the_papers_values_beside() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = make(&options(folder.path()), &mut |_, _| {}).expect("made");
    for number in [1, 3] {
        let path = |end: &str| folder.path().join(format!("figure-{number:02}.{end}"));
        assert!(["svg", "png", "csv"].iter().all(|end| made.files.contains(&path(end))), "figure {number}");
        assert!(std::fs::metadata(path("png")).expect("it was made").len() > 10_000);
    }
    let csv = |number: u32| {
        let path = folder.path().join(format!("figure-{number:02}.csv"));
        std::fs::read_to_string(path).expect("it was made")
    };
    assert!(csv(1).contains("in the paper,9000,890"));
    for (name, _, _, [_, kernel, ..]) in PROFILES {
        assert!(csv(3).contains(&format!("kernel,{name}; paper,{kernel}")), "{name}");
    }
    let html = std::fs::read_to_string(folder.path().join("index.html")).expect("it was made");
    crate::page::tests::check(&html, &[1, 3], &made.claims);
}

#[test]
fn run_with_another_seed_is_the_same() {
    let cases = cases::all().expect("a good platform");
    let of = |seed| {
        let setting = convoy_sim::Setting {
            pattern: Some("8964".to_owned()),
            packets: Some(500),
            sas: Some(1),
            seed: Some(seed),
            ..convoy_sim::Setting::default()
        };
        let mut simulation = setting.simulation(&cases[0].platforms).expect("in range");
        simulation.arrivals = convoy_sim::Arrivals::Paced(20_000.0);
        simulation.run(setting.traffic().expect("in range")).expect("in range")
    };
    assert!(of(1).dropped.packets > 0, "an overload");
    assert_eq!(of(1), of(2));
}
