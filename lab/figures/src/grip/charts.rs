//! Data of figures 1 (FPGAs) and 3 (HDTV).

use super::runs::{FUNCTIONS, JUMBO, MTUS, PROFILES, Runs};
use crate::chart::{Body, Chart, Curve, Plot, PlotForm};

/// Both figures.
pub(super) fn all(runs: &Runs) -> Vec<Chart> {
    vec![sweep(runs), profiles(runs)]
}

fn sweep(runs: &Runs) -> Chart {
    let curve = |name: &str, variant: &'static str| {
        Curve::new(name, MTUS.map(|mtu| (f64::from(mtu), runs.video_mbps(variant, mtu))))
    };
    let series = vec![
        curve("standard card, without IPsec", "standard-card"),
        curve("GRIP, without IPsec", "plain"),
        curve("GRIP, with IPsec", ""),
        Curve::papers([(f64::from(JUMBO), 890.0)]),
    ];
    let form = PlotForm::Curves(9500.0);
    let plot = Plot { x: "MTU / bytes", y: "video without loss / Mbit/s", form, series };
    let note = "Of the paper's curve only this is in its text: 890 Mbit/s with 9000 bytes, which the grabber's rate bounds, a linear increase, and that 1500 \
                bytes do not do. Fitted to it: what interrupts take with a standard card.";
    let title = "Video by MTU (network security with FPGAs)".to_owned();
    let reading =
        "the system before GRIP: a standard card, one packet at a time, no IPsec; beside it that with GRIP";
    Chart { number: 1, title, reading, note: note.to_owned(), body: Body::Plot(plot) }
}

fn profiles(runs: &Runs) -> Chart {
    let mut names = Vec::new();
    let mut rows = Vec::new();
    for profile in &PROFILES {
        let (name, _, _, papers) = profile;
        names.extend([(*name).to_owned(), format!("{name}, paper")]);
        rows.extend([runs.profile(profile), *papers]);
    }
    let series = FUNCTIONS.iter().enumerate().map(|(function, name)| {
        let name = if *name == "ipsec" { "IPsec" } else { name };
        Curve::new(name, rows.iter().enumerate().map(|(x, row)| (x as f64, row[function])))
    });
    let series = series.collect();
    let plot = Plot { x: "profile", y: "CPU time / %", form: PlotForm::Stacks(names), series };
    let note = "Fitted: all functions to HDTV-SMP; kernel, application and libc to iperf-SMP; with one CPU the factor between 18 % of two and 28 % of one. The paper's \"< 1 %\" are \
                drawn as 1.";
    let title = "Profile of the transmitter (HDTV), each beside the paper's".to_owned();
    let reading =
        "percent of the time of all CPUs, at 893 Mbit/s of video and at 989 Mbit/s of iperf; \"< 1 %\" as 1";
    Chart { number: 3, title, reading, note: note.to_owned(), body: Body::Plot(plot) }
}
