//! Data of the figures: for each platform the paper's figures 6, 7 and 12, and the gain by SAs.

use convoy_sim::Pattern;

use super::runs::{Board, Key, Outcome, Runs, SAS, WINDOWS};
use crate::chart::{Body, Chart, Curve, Plot, PlotForm};
use crate::plots::name;
use crate::runs::ENC_RATIOS;

/// All figures: five for each platform.
pub(super) fn all(runs: &Runs) -> Vec<Chart> {
    let of = |(first, board)| {
        let titled =
            |place: u32, title: &str, note: &str, plot| chart(first + place, board, title, note, plot);
        [
            titled(
                0,
                "throughput, relative to W = 1",
                "The paper's figure 6.",
                bars(runs, board, "throughput, % of that at W = 1", Runs::throughput),
            ),
            titled(
                1,
                "average latency, relative to W = 1",
                "The paper's figure 7.",
                bars(runs, board, "latency, % of that at W = 1", Runs::latency),
            ),
            titled(
                2,
                "throughput without aggregation, two accelerators",
                "The paper's figure 12, system.",
                lines(runs, board, false),
            ),
            titled(
                3,
                "throughput with aggregation, two accelerators",
                "The paper's figure 12, system.",
                lines(runs, board, true),
            ),
            titled(4, "gain of aggregation by SAs", "One accelerator, W = 30.", gains(runs, board)),
        ]
    };
    (1..).step_by(5).zip(Board::ALL).flat_map(of).collect()
}

fn chart(number: u32, board: Board, title: &str, note: &str, plot: Plot) -> Chart {
    let title = format!("On {}: {title}", board.name());
    let note = format!("{note} Throughput counts inner IP packets; T_enc ratio 3 unless it is the axis.");
    let reading = "queues of 10 multi-packets, two transfers, t_init 2 us on the paper's platform; latency from scheduling";
    Chart { number, title, reading, note, body: Body::Plot(plot) }
}

fn bars(runs: &Runs, board: Board, y: &'static str, of: fn(&Runs, Key) -> f64) -> Plot {
    let kinds = [false, true].into_iter().flat_map(|on| WINDOWS.map(|window| (window, on)));
    let curve = |(window, is_aggregated)| {
        let value = |pattern| 100.0 * of(runs, Key::one(board, pattern, window, is_aggregated));
        let values = Pattern::PAPER.into_iter().map(value);
        let end = if is_aggregated { ", aggregated" } else { "" };
        Curve::new(format!("W = {window}{end}"), (0..).map(f64::from).zip(values))
    };
    let form = PlotForm::Groups(Pattern::PAPER.map(name).to_vec());
    Plot { x: "pattern (sizes: payload)", y, form, series: kinds.map(curve).collect() }
}

fn lines(runs: &Runs, board: Board, is_aggregated: bool) -> Plot {
    let curve = |pattern| {
        let mbps = |ratio| runs.of(Key::two(board, pattern, ratio, is_aggregated)).mbps;
        Curve::new(name(pattern), ENC_RATIOS.map(|ratio| (f64::from(ratio), mbps(ratio))))
    };
    let form = PlotForm::Curves(8.0);
    Plot { x: "T_enc ratio", y: "throughput / Mbit/s", form, series: Pattern::PAPER.map(curve).to_vec() }
}

fn gains(runs: &Runs, board: Board) -> Plot {
    let throughput: fn(&Outcome) -> f64 = |outcome| outcome.mbps;
    let curve = |pattern| {
        let gain = |sas| runs.gain(Key { sas, ..Key::one(board, pattern, 30, true) }, throughput);
        Curve::new(name(pattern), SAS.map(|sas| (f64::from(sas), gain(sas))))
    };
    let form = PlotForm::Curves(105.0);
    Plot { x: "SAs", y: "throughput / that without", form, series: Pattern::PAPER.map(curve).to_vec() }
}
