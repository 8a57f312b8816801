//! A grid of runs over all cores, that goes on where it was interrupted.

mod file;
mod results;
mod table;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::parallel::for_each;
use crate::platform::Platform;
use crate::setting::Setting;
use results::Results;

/// A grid of settings on one platform, as a file says.
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
    /// All that results depend on; results of another identity are refused.
    identity: Value,
}

/// Why a sweep cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The sweep's file is wrong: file, line, key, and what was expected.
    #[error("{0}")]
    File(String),
    /// Results that are there are not this sweep's, or no results at all.
    #[error("{0}")]
    Results(String),
    /// A file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What happened.
        error: std::io::Error,
    },
}

/// What a sweep has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Points of the grid.
    pub points: usize,
    /// Those that were there from before.
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

    /// Its points, in order: the last key of the grid, by its name, varies first.
    pub fn points(&self) -> &[Setting] {
        &self.points
    }

    /// Where results go if nobody says: beside the sweep's file, with the ending `jsonl`.
    pub fn default_results(&self) -> PathBuf {
        self.file.with_extension("jsonl")
    }

    /// Runs the points that `results` lacks, and appends each as a line of JSON as soon as it is
    /// there; at the end writes all of them, in order, into a table beside it with the ending
    /// `csv`. `progress` hears how many points are done, and of how many.
    ///
    /// # Errors
    /// [`SweepError::Results`] if `results` holds another sweep's, or is no file of results.
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
