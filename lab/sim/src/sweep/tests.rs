use std::path::Path;

use super::*;

const SWEEP: &str = "platform = \"pci-accelerators\"\n[setting]\npackets = 500\n[grid]\nwindow = [1, 30]\n\
                     pattern = [\"trace\", 24]\nenc_ratio = [1, 3.5]\n";

fn sweep(folder: &Path, text: &str) -> Result<Sweep, SweepError> {
    let path = folder.join("grid.toml");
    std::fs::write(&path, text).expect("writable");
    Sweep::load(&path)
}

fn run(sweep: &Sweep) -> Result<Swept, SweepError> {
    sweep.run(&sweep.default_results(), 2, &mut |_, _| {})
}

#[test]
fn a_grid_is_every_combination() {
    let folder = tempfile::tempdir().expect("a folder");
    let sweep = sweep(folder.path(), SWEEP).expect("good");
    let of = |point: &Setting| (point.enc_ratio, point.pattern.clone(), point.window, point.packets);
    assert_eq!(sweep.points().len(), 8);
    assert_eq!(of(&sweep.points()[0]), (Some(1.0), Some("trace".to_owned()), Some(1), Some(500)));
    assert_eq!(of(&sweep.points()[3]), (Some(1.0), Some("24".to_owned()), Some(30), Some(500)));
    assert_eq!(run(&sweep).expect("runs"), Swept { points: 8, resumed: 0 });
    let table = std::fs::read_to_string(folder.path().join("grid.csv")).expect("written");
    assert_eq!(table.lines().count(), 9);
    assert!(table.starts_with("point,enc_ratio,packets,pattern,window,share_0,share_1,average_length_0"));
}

#[test]
fn an_interrupted_sweep_goes_on_and_ends_as_if_nothing_had_happened() {
    let folder = tempfile::tempdir().expect("a folder");
    let sweep = sweep(folder.path(), SWEEP).expect("good");
    run(&sweep).expect("runs");
    let whole = std::fs::read_to_string(folder.path().join("grid.csv")).expect("written");
    let file = sweep.default_results();
    let lines = std::fs::read_to_string(&file).expect("written");
    // The file may be cut at any byte.
    for cut in (0..lines.len()).step_by(97).chain([1, 8, 9, 10, lines.len()]) {
        std::fs::write(&file, &lines[..cut]).expect("writable");
        let done = lines[..cut].matches('\n').count().saturating_sub(1);
        assert_eq!(run(&sweep).expect("goes on"), Swept { points: 8, resumed: done }, "cut at {cut}");
        assert_eq!(std::fs::read_to_string(folder.path().join("grid.csv")).expect("written"), whole);
    }
}

#[test]
fn results_of_another_sweep_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    run(&sweep(folder.path(), SWEEP).expect("good")).expect("runs");
    let file = folder.path().join("grid.jsonl");
    let before = std::fs::read(&file).expect("written");
    let changed = sweep(folder.path(), &SWEEP.replace("[1, 30]", "[1, 10, 30]")).expect("good");
    let error = run(&changed).expect_err("another sweep").to_string();
    assert!(
        error.contains("grid.jsonl") && error.contains("there grid.window is [1,30], here [1,10,30]"),
        "{error}"
    );
    assert_eq!(std::fs::read(&file).expect("still there"), before);
    for other in [&b"my thesis\n"[..], b"my thesis", b"{\"sweep\":{}}\n"] {
        std::fs::write(&file, other).expect("writable");
        assert!(run(&changed).is_err());
        assert_eq!(std::fs::read(&file).expect("still there"), other);
    }
}

#[test]
fn two_sweeps_do_not_write_into_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let sweep = sweep(folder.path(), SWEEP).expect("good");
    let file = sweep.default_results();
    let first = Results::open(&file, &sweep.identity, sweep.points.len()).expect("free");
    let before = std::fs::read(&file).expect("there");
    let error = run(&sweep).expect_err("taken").to_string();
    assert!(error.contains("grid.jsonl: another sweep is writing"), "{error}");
    assert_eq!(std::fs::read(&file).expect("still there"), before);
    drop(first);
    assert_eq!(run(&sweep).expect("free again"), Swept { points: 8, resumed: 0 });
}

#[test]
fn a_wrong_file_is_named_with_line_and_key() {
    let folder = tempfile::tempdir().expect("a folder");
    for (from, to, what) in [
        ("[grid]", "[grille]", "grid.toml:4"),
        ("window = [1, 30]", "windows = [1, 30]", "grid.toml:5: grid.windows: unknown field"),
        ("window = [1, 30]", "window = [1, \"30\"]", "grid.toml:5: grid.window: invalid type"),
        ("window = [1, 30]", "window = []", "grid.toml:5: grid.window: give at least one"),
        ("window = [1, 30]", "packets = [1, 30]", "grid.toml:5: grid.packets: it is in [setting]"),
        ("packets = 500", "packets = -1", "grid.toml:3: setting.packets"),
        ("\"pci-accelerators\"", "\"pci\"", "grid.toml:1: platform"),
        ("window = [1, 30]", "window = [1, 3000]", "point 1"),
        ("\"trace\"", "\"pareto\"", "exponential"),
    ] {
        let error = sweep(folder.path(), &SWEEP.replace(from, to)).expect_err("wrong").to_string();
        assert!(error.contains(what), "{to}: {error}");
    }
}
