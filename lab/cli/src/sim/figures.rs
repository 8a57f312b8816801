//! `convoy-lab sim figures`.

use convoy_figures::{
    ClaimVerdict, FigureError, FigureOptions, FiguresMade, Paper, count_verdicts, make_figures,
};
use convoy_sim::parallel;

use super::args::{FiguresArgs, PaperName};
use crate::progress::LabProgress;
use convoy_cli::Failure;
use convoy_cli::table::new_table;

pub(super) fn run(args: &FiguresArgs) -> Result<(), Failure> {
    let (paper, packets, range_packets) = match args.paper {
        PaperName::SmallPackets => (Paper::SmallPackets, convoy_sim::PAPER_PACKETS, 30_000),
        PaperName::Aggregation => (Paper::Aggregation, convoy_sim::PAPER_PACKETS, 30_000),
        PaperName::Ixp425 => (Paper::Ixp425, TRIAL_PACKETS, RANGE_TRIAL_PACKETS),
        PaperName::Grip => (Paper::Grip, TRIAL_PACKETS, RANGE_TRIAL_PACKETS),
        PaperName::Referee => (Paper::Referee, 4_000, 500),
        PaperName::Accelerators => (Paper::Accelerators, 100_000, 20_000),
    };
    let packets = args.packets.unwrap_or(packets);
    let options = FigureOptions {
        paper,
        out: args.out.clone(),
        trace: args.trace.clone(),
        packets,
        range_packets: args.range_packets.unwrap_or(range_packets.min(packets)),
        threads: args.jobs.unwrap_or_else(parallel::cores),
    };
    let mut bar = None;
    let made = make_figures(&options, &mut |done, total| {
        bar.get_or_insert_with(|| LabProgress::new(Some(total), "packets")).set(done);
    });
    drop(bar);
    let made = made.map_err(|error| match error {
        FigureError::NoTrace => Failure::Config(format!("--trace: {error}")),
        error => Failure::Failed(error.to_string()),
    })?;
    if args.json {
        let text = serde_json::to_string_pretty(&made).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{text}");
    } else {
        print(&made, args);
    }
    Ok(())
}

/// Packets per trial of a search for the highest rate without loss.
const TRIAL_PACKETS: u64 = 20_000;
/// Packets per trial of runs over the parameters that a paper leaves open, which are more numerous.
const RANGE_TRIAL_PACKETS: u64 = 3_000;

/// The verdict, with what it rests on if that is not the model alone.
fn verdict(claim: &ClaimVerdict) -> String {
    if claim.basis == "follows" {
        claim.verdict.to_string()
    } else {
        format!("{} ({})", claim.verdict, claim.basis)
    }
}

fn print(made: &FiguresMade, args: &FiguresArgs) {
    let mut table = new_table(&["claim", "verdict", "measured", "noise", "over the range"]);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    if table.width().is_none() {
        table.set_width(150);
    }
    for claim in &made.claims {
        table.add_row([
            format!("{} ({})", claim.claim, claim.source),
            verdict(claim),
            claim.measured.clone(),
            claim.noise.clone(),
            claim.over_range(),
        ]);
    }
    println!("{table}");
    println!("{}", count_verdicts(&made.claims));
    println!("{}", made.noise);
    let repetitions = match made.repetitions {
        (0, _) => String::new(),
        (runs, packets) => format!("{runs} of {packets} with other seeds, "),
    };
    println!(
        "{} runs of {} packets, {repetitions}{} of {} over the open parameters, in {:.1} s",
        made.runs.0, made.packets.0, made.runs.1, made.packets.1, made.seconds
    );
    println!("{}", args.out.join("index.html").display());
}
