//! `convoy-lab sim sweep`.

use convoy_sim::{Sweep, SweepError, parallel};

use super::args::SweepArgs;
use crate::progress::LabProgress;
use convoy_cli::Failure;

pub(super) fn run(args: &SweepArgs) -> Result<(), Failure> {
    let sweep = Sweep::load(&args.file).map_err(failure)?;
    let results = args.out.clone().unwrap_or_else(|| sweep.default_results());
    let bar = LabProgress::new(Some(sweep.points().len() as u64), "points");
    let threads = args.jobs.unwrap_or_else(parallel::cores);
    let swept = sweep.run(&results, threads, &mut |done, _| bar.set(done as u64)).map_err(failure)?;
    drop(bar);
    let resumed = match swept.resumed {
        0 => String::new(),
        there => format!(", {there} of them from an earlier run"),
    };
    println!(
        "{} points{resumed}: {}, {}",
        swept.points,
        results.display(),
        results.with_extension("csv").display()
    );
    Ok(())
}

/// Errors in the sweep's file, and results of another sweep, are usage errors.
fn failure(error: SweepError) -> Failure {
    match error {
        SweepError::Io { .. } => Failure::Failed(error.to_string()),
        other => Failure::Config(other.to_string()),
    }
}
