//! A grid of runs on all cores that can resume after an interruption.

mod file;
mod results;
mod table;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::parallel::for_each;
use crate::platform::Platform;
use crate::setting::Setting;
use results::Results;

/// A grid of settings on one platform, as read from a file.
///
/// ```toml
/// platform = "pci-accelerators"     # a file beside this one, or a platform that comes with the program
/// [setting]                         # the same at every point
/// packets = 100000
/// [grid]                            # every combination of these
/// window = [1, 10, 30]
/// pattern = ["exponential", "trace", 24]
/// ```
#[derive(Clone, Debug)]
pub struct Sweep {
    file: PathBuf,
    platform: Platform,
    points: Vec<Setting>,
    /// Everything on which the results depend; results with another identity are refused.
    identity: Value,
}

/// Why a sweep cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The sweep's file is invalid: file, line, key, and what was expected.
    #[error("{0}")]
    File(String),
    /// The existing file of results belongs to another sweep, or is not a file of results.
    #[error("{0}")]
    Results(String),
    /// A file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
}

/// Summary of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Number of points of the grid.
    pub points: usize,
    /// Number of points that were already present.
    pub resumed: usize,
}

impl Sweep {
    /// Reads a sweep's file, and checks every point of its grid.
    ///
    /// # Errors
    /// [`SweepError::File`], or [`SweepError::Io`] if it cannot be read.
    pub fn load(path: &Path) -> Result<Self, SweepError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| SweepError::Io { path: path.to_owned(), error })?;
        file::read(path, &text).map_err(SweepError::File)
    }

    /// The points in order; the alphabetically last key of the grid varies fastest.
    pub fn points(&self) -> &[Setting] {
        &self.points
    }

    /// The default file of results: that of the sweep with the ending `jsonl`.
    pub fn default_results(&self) -> PathBuf {
        self.file.with_extension("jsonl")
    }

    /// Runs the points that are missing in `results`, and appends each as a line of JSON as soon as
    /// it is complete. At the end it writes all points, in order, into a table of the same name
    /// with the ending `csv`. `progress` is called with the number of completed points and of all
    /// points.
    ///
    /// # Errors
    /// [`SweepError::Results`] if `results` belongs to another sweep or is not a file of results.
    pub fn run(
        &self,
        results: &Path,
        threads: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Swept, SweepError> {
        let mut kept = Results::open(results, &self.identity, self.points.len())?;
        let missing: Vec<usize> = (0..self.points.len()).filter(|point| !kept.has(*point)).collect();
        let swept = Swept { points: self.points.len(), resumed: self.points.len() - missing.len() };
        let mut done = swept.resumed;
        progress(done, swept.points);
        let run = |point: &usize| self.points[*point].run(&self.platform);
        for_each(&missing, threads, run, |place, report| {
            let report = report.map_err(|error| SweepError::File(error.to_string()))?;
            kept.append(missing[place], &self.points[missing[place]], &report)?;
            done += 1;
            progress(done, swept.points);
            Ok(())
        })?;
        table::write(&kept.read()?, &results.with_extension("csv"))?;
        Ok(swept)
    }
}

#[cfg(test)]
mod tests;
