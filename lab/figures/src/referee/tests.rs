use std::path::Path;

use super::*;
use crate::Paper;

fn options(out: &Path) -> FigureOptions {
    FigureOptions {
        paper: Paper::Referee,
        out: out.to_owned(),
        trace: None,
        packets: 1_000,
        range_packets: 100,
        threads: 2,
    }
}

#[test]
fn each_scenario_has_a_bound_that_no_policy_exceeds() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = make(&options(folder.path()), &mut |_, _| {}).expect("made");
    assert_eq!(made.claims.len(), 3 * scenarios::SCENARIOS);
    let runs = std::fs::read_to_string(folder.path().join("runs.csv")).expect("it was made");
    let header: Vec<&str> = runs.lines().next().expect("a header").split(',').collect();
    let place = header.iter().position(|name| *name == "of_bound").expect("the column");
    let mut compared = 0;
    for line in runs.lines().skip(1) {
        // The scenario is quoted, and has commas.
        let after = line.rsplit('"').next().expect("a quoted name");
        let fraction = after.split(',').nth(place).expect("the column");
        if !fraction.is_empty() {
            let fraction: f64 = fraction.parse().expect("a number");
            // The antagonist's bound is for its losses on average, of which short runs meet none.
            let has_losses = line.contains("loses its core");
            assert!(fraction > 0.0 && (fraction <= 1.02 || has_losses), "{line}");
            compared += 1;
        }
    }
    assert_eq!(compared, scenarios::SCENARIOS * super::runs::policies().len());
}
