//! Results as lines of JSON: the first line identifies the sweep, and each of the others is one
//! point.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::SweepError;
use crate::report::Report;
use crate::setting::Setting;

/// The result of one point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    /// Its index in the grid.
    pub(super) point: usize,
    pub(super) setting: Setting,
    #[serde(flatten)]
    pub(super) report: Report,
}

/// A file of results, open for appending and locked. Two sweeps on one file would each repeat
/// points that the other is working on.
pub(super) struct Results {
    path: PathBuf,
    file: File,
    has: Vec<bool>,
}

impl Results {
    /// Opens existing results, or starts new ones. An incomplete last line is removed.
    pub(super) fn open(path: &Path, identity: &Value, points: usize) -> Result<Self, SweepError> {
        let io = |error| SweepError::Io { path: path.to_owned(), error };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(io)?;
        lock(path, &file)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut results = Self { path: path.to_owned(), file, has: vec![false; points] };
        if whole == 0 && !b"{\"sweep\":".starts_with(bytes.get(..9).unwrap_or(&bytes)) {
            return Err(
                results.wrong("it is not a file of results; move it away, or choose another file with --out")
            );
        }
        bytes.truncate(whole);
        if whole > 0 {
            results.check(&bytes, identity)?;
        }
        // The file is changed only after it is known to belong to this sweep.
        results.file.set_len(whole as u64).map_err(io)?;
        results.file.seek(SeekFrom::End(0)).map_err(io)?;
        if whole == 0 {
            results.write(&json!({ "sweep": identity }))?;
        }
        Ok(results)
    }

    fn check(&mut self, bytes: &[u8], identity: &Value) -> Result<(), SweepError> {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let first: Value =
            lines.next().and_then(|line| serde_json::from_slice(line).ok()).unwrap_or_default();
        match first.get("sweep").map(|theirs| difference("", theirs, identity)) {
            None => {
                Err(self
                    .wrong("it is not a file of results; move it away, or choose another file with --out"))
            }
            Some(Some(what)) => Err(self.wrong(&format!(
                "it holds results of another sweep: {what}; move it away, or choose another file with --out"
            ))),
            Some(None) => {
                for line in parse(&self.path, bytes)? {
                    match self.has.get_mut(line.point) {
                        Some(has) => *has = true,
                        None => return Err(self.wrong(&format!("there is no point {}", line.point))),
                    }
                }
                Ok(())
            }
        }
    }

    /// Whether the result of a point is present.
    pub(super) fn has(&self, point: usize) -> bool {
        self.has[point]
    }

    /// Appends the result of a point.
    pub(super) fn append(
        &mut self,
        point: usize,
        setting: &Setting,
        report: &Report,
    ) -> Result<(), SweepError> {
        self.write(&Line { point, setting: setting.clone(), report: report.clone() })
    }

    /// All results, in the order of the grid.
    pub(super) fn read(&self) -> Result<Vec<Line>, SweepError> {
        let bytes =
            std::fs::read(&self.path).map_err(|error| SweepError::Io { path: self.path.clone(), error })?;
        let mut lines = parse(&self.path, &bytes)?;
        lines.sort_by_key(|line| line.point);
        lines.dedup_by_key(|line| line.point);
        Ok(lines)
    }

    /// The line and its end are one write, so that an interruption leaves either whole lines or one
    /// line without an end.
    fn write(&mut self, line: &impl Serialize) -> Result<(), SweepError> {
        let mut bytes = serde_json::to_vec(line).map_err(|error| self.wrong(&error.to_string()))?;
        bytes.push(b'\n');
        self.file.write_all(&bytes).map_err(|error| SweepError::Io { path: self.path.clone(), error })
    }

    fn wrong(&self, what: &str) -> SweepError {
        SweepError::Results(format!("{}: {what}", self.path.display()))
    }
}

/// Locks a file until it is closed. File systems without locks are accepted.
fn lock(path: &Path, file: &File) -> Result<(), SweepError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(SweepError::Io { path: path.to_owned(), error }),
        Err(TryLockError::WouldBlock) => Err(SweepError::Results(format!(
            "{}: another sweep is writing its results to this file; wait until it is done, or choose another \
             file with --out",
            path.display()
        ))),
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Line>, SweepError> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate().skip(1).filter(|(_, line)| !line.is_empty());
    lines
        .map(|(number, line)| {
            let place = format!("{}:{}", path.display(), number + 1);
            serde_json::from_slice(line)
                .map_err(|error| SweepError::Results(format!("{place}: no result: {error}")))
        })
        .collect()
}

/// The first difference between two sweeps.
fn difference(name: &str, theirs: &Value, ours: &Value) -> Option<String> {
    let (Some(of), Some(is)) = (theirs.as_object(), ours.as_object()) else {
        return (theirs != ours).then(|| format!("there {name} is {theirs}, here {ours}"));
    };
    let mut keys: Vec<&String> = of.keys().chain(is.keys()).collect();
    keys.sort();
    keys.into_iter().find_map(|key| {
        let inner = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
        let absent = Value::String("absent".to_owned());
        difference(&inner, of.get(key).unwrap_or(&absent), is.get(key).unwrap_or(&absent))
    })
}
