//! The figures and claims of the small-packets paper.

use std::path::PathBuf;

use convoy_figures::{FigureOptions, Paper, make_figures};
use pyo3::prelude::*;
use pythonize::pythonize;

use crate::{bad, check_signals};

/// Makes figures 3 to 15 of *Scheduling Small Packets in IPSec Multi-accelerator Based Systems* and
/// checks its claims, as `convoy-lab sim figures` does, and returns what its --json prints, as
/// dicts: claims has each claim with its verdict, files every file that was written.
///
/// out: the folder of the files, created if it does not exist. trace: a file that takes the place
/// of the synthetic trace, with the six columns of the Internet Traffic Archive (timestamp, source,
/// destination, both ports, bytes) or a capture. packets, range_packets: of each run behind a
/// figure, and over the range of what the paper leaves open. jobs: how many threads; all cores if
/// not given.
///
/// The interpreter's lock is free while it runs. Ctrl-C takes effect at its end. ValueError says
/// what is wrong, for a trace with its line.
#[pyfunction]
#[pyo3(signature = (out, *, trace=None, packets=500_000, range_packets=30_000, jobs=None))]
pub(crate) fn figures(
    py: Python<'_>,
    out: PathBuf,
    trace: Option<PathBuf>,
    packets: u64,
    range_packets: u64,
    jobs: Option<usize>,
) -> PyResult<Bound<'_, PyAny>> {
    let options = FigureOptions {
        paper: Paper::SmallPackets,
        out,
        trace,
        packets,
        range_packets: range_packets.min(packets),
        threads: jobs.unwrap_or_else(convoy_sim::parallel::cores),
    };
    let made = py.detach(|| make_figures(&options, &mut |_, _| {})).map_err(bad)?;
    check_signals()?;
    Ok(pythonize(py, &made)?)
}
