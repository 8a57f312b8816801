//! `convoy-lab hdtv figure`: figure 1 of the GRIP paper on network security, from the results of
//! the MTU sweep.

use std::path::{Path, PathBuf};

use clap::Args;
use convoy_figures::{Drawing, DrawingForm};
use serde::Deserialize;

use super::failed;
use convoy_cli::Failure;

#[derive(Args)]
pub(crate) struct FigureArgs {
    /// What `demo/hdtv.sh CONVOY sweep` measured (JSON)
    sweep: PathBuf,
    /// The figure
    #[arg(long, value_name = "FILE")]
    svg: PathBuf,
}

/// Results of the sweep; other fields are ignored.
#[derive(Deserialize)]
struct HdtvSweep {
    points: Vec<SweepPoint>,
}

/// The highest rate without loss at one MTU.
#[derive(Deserialize)]
struct SweepPoint {
    mtu: u32,
    protection: String,
    /// The gateways' window in packets; `None` without gateways.
    window: Option<u32>,
    mbps: f64,
}

pub(crate) fn run(args: &FigureArgs) -> Result<(), Failure> {
    let of =
        |path: &Path, error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", path.display()));
    let text = std::fs::read(&args.sweep).map_err(|error| of(&args.sweep, &error))?;
    let sweep: HdtvSweep = serde_json::from_slice(&text).map_err(|error| of(&args.sweep, &error))?;
    let svg = drawing(&sweep).svg().map_err(failed)?;
    std::fs::write(&args.svg, svg).map_err(|error| of(&args.svg, &error))
}

fn drawing(sweep: &HdtvSweep) -> Drawing {
    let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for SweepPoint { mtu, protection, window, mbps } in &sweep.points {
        let window = window.map_or_else(String::new, |window| format!(", window {window}"));
        let name = format!("{protection}{window}");
        let point = (f64::from(*mtu), *mbps);
        match series.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => series.push((name, vec![point])),
        }
    }
    Drawing {
        number: Some(1),
        title: "Uncompressed HDTV without loss".to_owned(),
        x: "MTU / bytes",
        y: "video / Mbit/s",
        form: DrawingForm::Curves,
        series,
        whiskers: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_becomes_a_curve_for_each_protection_and_window() {
        let text = r#"{"seconds_a_trial": 1.0, "points": [
            {"mtu": 1500, "protection": "no tunnel", "window": null, "mbps": 900.0, "trials": 5},
            {"mtu": 1500, "protection": "AES-128-GCM", "window": 1, "mbps": 500.0, "trials": 4},
            {"mtu": 9000, "protection": "no tunnel", "window": null, "mbps": 2900.0, "trials": 5},
            {"mtu": 9000, "protection": "AES-128-GCM", "window": 32, "mbps": 1900.0, "trials": 6}]}"#;
        let sweep: HdtvSweep = serde_json::from_str(text).expect("as the sweep writes it");
        let drawing = drawing(&sweep);
        assert_eq!(
            drawing.series,
            [
                ("no tunnel".to_owned(), vec![(1500.0, 900.0), (9000.0, 2900.0)]),
                ("AES-128-GCM, window 1".to_owned(), vec![(1500.0, 500.0)]),
                ("AES-128-GCM, window 32".to_owned(), vec![(9000.0, 1900.0)]),
            ]
        );
        assert!(drawing.svg().expect("it is drawn").contains("AES-128-GCM, window 32"));
    }
}
