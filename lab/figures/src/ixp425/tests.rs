use std::path::Path;

use super::runs::{Key, System, What};
use super::*;
use crate::Paper;
use crate::finding::Evidence;

fn options(out: &Path) -> FigureOptions {
    FigureOptions {
        paper: Paper::Ixp425,
        out: out.to_owned(),
        trace: None,
        packets: 150,
        range_packets: 20,
        threads: 2,
    }
}

#[test]
fn every_figure_is_there_as_svg_png_and_csv_and_the_page_holds_them_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut heard = Vec::new();
    let made = make(&options(folder.path()), &mut |done, of| heard.push((done, of))).expect("made");
    for number in [6, 8, 9, 10, 11, 12, 13, 14, 15] {
        let path = |end: &str| folder.path().join(format!("figure-{number:02}.{end}"));
        assert!(["svg", "png", "csv"].iter().all(|end| made.files.contains(&path(end))), "figure {number}");
        let svg = std::fs::read_to_string(path("svg")).expect("it was made");
        assert!(svg.contains(&format!("Figure {number}.")), "a heading that is text");
        assert!(std::fs::read_to_string(path("csv")).expect("it was made").lines().count() > 3);
        assert!(std::fs::metadata(path("png")).expect("it was made").len() > 10_000);
    }
    let html = std::fs::read_to_string(folder.path().join("index.html")).expect("it was made");
    crate::page::tests::check(&html, &[6, 8, 9, 10, 11, 12, 13, 14, 15], &made.claims);
    assert!(heard.last().is_some_and(|(done, of)| done == of));
}

#[test]
fn a_verdict_follows_from_the_runs() {
    let cases = cases::all().expect("good platforms");
    let lengths = [512, 1024, 1430];
    let keys = keys().into_iter().filter(|key| key.what == What::Idle && lengths.contains(&key.length));
    let outcome =
        |key: Key| run(&cases[0].platforms, &key, 10).map(|outcome| (key, outcome)).expect("in range");
    let mut runs = Runs(keys.map(outcome).collect());
    let claims = claims::all();
    let of_1052 = claims.iter().find(|claim| claim.text.contains("1052 bytes 97 us")).expect("the paper's");
    assert_eq!((of_1052.check)(&runs).evidence, Evidence::For);
    let key = Key { system: System::Ixp425, variant: "des", length: 1024, what: What::Idle };
    runs.0.get_mut(&key).expect("it was run").report.latency_ms += 0.005;
    let refuted = (of_1052.check)(&runs);
    assert_eq!((refuted.evidence, refuted.measured.as_str()), (Evidence::Against, "100.9 us"));
}

#[test]
fn run_with_another_seed_is_the_same() {
    let cases = cases::all().expect("good platforms");
    for (system, variant) in [(System::Ixp425, ""), (System::Ixp425, "forwarding"), (System::Pentium3, "des")]
    {
        let key = Key { system, variant, length: 512, what: What::Idle };
        let platform = runs::platform_of(&cases[0].platforms, &key).expect("in range");
        let of = |seed| {
            let setting = convoy_sim::Setting {
                pattern: Some("512".to_owned()),
                packets: Some(2_000),
                seed: Some(seed),
                ..convoy_sim::Setting::default()
            };
            runs::paced(&platform, &setting, 5e3).expect("in range").report
        };
        assert_eq!(of(1), of(2), "{system:?} {variant}");
    }
}
