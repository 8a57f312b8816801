//! Calibrations cached in a file, so that a start costs nothing.

use std::collections::BTreeSet;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};

use convoy_ipsec::Transform;
use convoy_scheduler::{CostModel, Handover, TrainModel};
use serde::{Deserialize, Serialize};

use super::contention::Contention;
use super::known::{CostKey, key};
use super::{AlgorithmCost, IdleEngine, KnownCosts, fingerprint};
use crate::{EngineDescription, EngineError, Placement};

/// Why a file was not used; its measurements are repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheWarning {
    /// It cannot be read, or has invalid contents.
    #[error("{}: cannot be read, so engines are calibrated again: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// It is from another machine, or other versions.
    #[error("{}: it is from another machine or version ({found}), so engines are calibrated again", path.display())]
    Stale {
        /// The file.
        path: PathBuf,
        /// The fingerprint found.
        found: String,
    },
}

/// The file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be written: {source}", path.display())]
pub struct CacheError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub source: std::io::Error,
}

/// The file's format: raised whenever it changes, so that what an older file lacks is measured.
const FORMAT: u32 = 4;

/// The part common to all formats.
#[derive(Deserialize)]
struct CacheHead {
    /// The first format had no number.
    #[serde(default = "first_format")]
    format: u32,
}

const fn first_format() -> u32 {
    1
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheFile {
    format: u32,
    fingerprint: String,
    #[serde(default)]
    cost: Vec<CacheEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheEntry {
    engine: String,
    placement: String,
    transform: String,
    t_init_ns: f64,
    t_block_ns: f64,
    handover_init_ns: f64,
    handover_packet_ns: f64,
    handover_block_ns: f64,
    t_key_ns: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    train_ns: Option<[f64; 4]>,
}

impl CacheEntry {
    fn times_ns(&self) -> impl Iterator<Item = f64> {
        let Self {
            t_init_ns,
            t_block_ns,
            handover_init_ns,
            handover_packet_ns,
            handover_block_ns,
            t_key_ns,
            train_ns,
            ..
        } = *self;
        [t_init_ns, t_block_ns, handover_init_ns, handover_packet_ns, handover_block_ns, t_key_ns]
            .into_iter()
            .chain(train_ns.into_iter().flatten())
    }

    fn cost(&self) -> AlgorithmCost {
        AlgorithmCost {
            model: CostModel { t_init: self.t_init_ns, t_block: self.t_block_ns },
            handover: Handover {
                t_init: self.handover_init_ns,
                t_packet: self.handover_packet_ns,
                t_block: self.handover_block_ns,
            },
            t_key: self.t_key_ns,
            train: self.train_ns.map(|[t_init, t_packet, t_block, t_longest]| TrainModel {
                t_init,
                t_packet,
                t_block,
                t_longest,
            }),
        }
    }
}

/// Known costs, cached in a file. Models are measured each time, as the configuration determines
/// their timing.
#[derive(Debug)]
pub struct CalibrationCache {
    path: Option<PathBuf>,
    fingerprint: String,
    known: KnownCosts,
    /// What is known and not written, because other threads disturbed its measurement.
    disturbed: BTreeSet<CostKey>,
    is_changed: bool,
    /// The file, opened for writing.
    held: Option<std::fs::File>,
}

impl CalibrationCache {
    /// `$XDG_CACHE_HOME/convoy/calibration.toml`, or under `~/.cache`; `None` without a home. An
    /// unoptimised build uses a file of its own, since its `software` engine takes more than twice
    /// as long.
    pub fn default_path() -> Option<PathBuf> {
        let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = from("XDG_CACHE_HOME").or_else(|| from("HOME").map(|home| home.join(".cache")))?;
        Some(cache.join("convoy").join(if cfg!(debug_assertions) {
            "calibration-debug.toml"
        } else {
            "calibration.toml"
        }))
    }

    /// Reads `path` for this machine with these [versions](crate::engine_versions) of engines. A
    /// missing file is no warning; without a path, nothing is cached.
    pub fn open(path: Option<PathBuf>, engine_versions: &str) -> (Self, Option<CacheWarning>) {
        Self::open_as(path, fingerprint(engine_versions))
    }

    fn open_as(path: Option<PathBuf>, fingerprint: String) -> (Self, Option<CacheWarning>) {
        let read = path.as_deref().map_or(Ok(KnownCosts::default()), |path| read(path, &fingerprint));
        let (known, warning) = match read {
            Ok(known) => (known, None),
            Err(warning) => (KnownCosts::default(), Some(warning)),
        };
        (
            Self { path, fingerprint, known, disturbed: BTreeSet::new(), is_changed: false, held: None },
            warning,
        )
    }

    /// All measurements so far.
    pub fn known(&self) -> &KnownCosts {
        &self.known
    }

    /// The cost of a transform on an engine; measured now if unknown. See
    /// [`IdleEngine::calibrate`]. That of an engine elsewhere is not written if other threads had
    /// the caller's core meanwhile: its handover would be too high for good, and the engine would
    /// get no packets. The next start measures it again.
    ///
    /// # Errors
    /// Those of [`IdleEngine::calibrate`].
    pub fn cost(
        &mut self,
        engine: &mut IdleEngine,
        transform: Transform,
    ) -> Result<AlgorithmCost, EngineError> {
        if engine.description().is_model {
            return engine.calibrate(transform);
        }
        if let Some(known) = self.known.of(engine.description(), transform) {
            return Ok(known);
        }
        let contention = Contention::begin();
        let measured = engine.calibrate(transform)?;
        let is_elsewhere = engine.description().placement == Placement::Lookaside;
        self.learn(engine.description(), transform, measured, is_elsewhere && contention.is_high());
        Ok(measured)
    }

    fn learn(
        &mut self,
        engine: &EngineDescription,
        transform: Transform,
        cost: AlgorithmCost,
        is_disturbed: bool,
    ) {
        self.known.set(engine, transform, cost);
        if is_disturbed {
            self.disturbed.insert(key(engine, transform));
        } else {
            self.disturbed.remove(&key(engine, transform));
            self.is_changed = true;
        }
    }

    /// Clears the cache, so that everything is measured again.
    pub fn forget(&mut self) {
        self.known = KnownCosts::default();
        self.is_changed = true;
    }

    /// Opens the file for writing, so that [`save`](Self::save) needs no permission to open or
    /// create one. It is then written in place: the remains of an interrupted write are not read.
    ///
    /// # Errors
    /// [`CacheError`] if it cannot be opened.
    pub fn hold(&mut self) -> Result<(), CacheError> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let file = made.and_then(|()| options.open(path));
        self.held = Some(file.map_err(|source| CacheError { path: path.clone(), source })?);
        Ok(())
    }

    /// Writes new measurements atomically: into a file beside it, which is then renamed; or into
    /// the file that is [held](Self::hold).
    ///
    /// # Errors
    /// [`CacheError`] if it cannot be written; the old file then remains.
    pub fn save(&mut self) -> Result<(), CacheError> {
        let Some(path) = self.path.clone().filter(|_| self.is_changed) else { return Ok(()) };
        let reliable = self.known.0.iter().filter(|(key, _)| !self.disturbed.contains(*key));
        let cost = reliable.map(|((engine, placement, transform), cost)| {
            let AlgorithmCost { model, handover, t_key, train } = cost;
            CacheEntry {
                engine: engine.clone(),
                placement: placement.clone(),
                transform: transform.clone(),
                t_init_ns: model.t_init,
                t_block_ns: model.t_block,
                handover_init_ns: handover.t_init,
                handover_packet_ns: handover.t_packet,
                handover_block_ns: handover.t_block,
                t_key_ns: *t_key,
                train_ns: train.map(|train| [train.t_init, train.t_packet, train.t_block, train.t_longest]),
            }
        });
        let file = CacheFile { format: FORMAT, fingerprint: self.fingerprint.clone(), cost: cost.collect() };
        let written = match &self.held {
            Some(held) => write_over(held, &file),
            None => write_whole(&path, &file),
        };
        written.map_err(|source| CacheError { path, source })?;
        self.is_changed = false;
        Ok(())
    }
}

fn read(path: &Path, fingerprint: &str) -> Result<KnownCosts, CacheWarning> {
    let unreadable = |reason: String| CacheWarning::Unreadable { path: path.to_owned(), reason };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(KnownCosts::default()),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    if text.is_empty() {
        // It was held, and nothing was measured.
        return Ok(KnownCosts::default());
    }
    let syntax = |error: toml::de::Error| unreadable(error.message().to_owned());
    let CacheHead { format } = toml::from_str(&text).map_err(syntax)?;
    if format != FORMAT {
        let found = format!("format {format}, not {FORMAT}");
        return Err(CacheWarning::Stale { path: path.to_owned(), found });
    }
    let file: CacheFile = toml::from_str(&text).map_err(syntax)?;
    if file.fingerprint != fingerprint {
        return Err(CacheWarning::Stale { path: path.to_owned(), found: file.fingerprint });
    }
    let is_time = |ns: f64| ns.is_finite() && ns >= 0.0;
    if let Some(bad) = file.cost.iter().find(|entry| !entry.times_ns().all(is_time)) {
        return Err(unreadable(format!("{} {}: not a time", bad.engine, bad.transform)));
    }
    let costs = file.cost.into_iter().map(|entry| {
        let cost = entry.cost();
        ((entry.engine, entry.placement, entry.transform), cost)
    });
    Ok(KnownCosts(costs.collect()))
}

fn write_over(mut held: &std::fs::File, file: &CacheFile) -> std::io::Result<()> {
    let text = toml::to_string(file).map_err(std::io::Error::other)?;
    held.set_len(0)?;
    held.rewind()?;
    held.write_all(text.as_bytes())
}

fn write_whole(path: &Path, file: &CacheFile) -> std::io::Result<()> {
    let text = toml::to_string(file).map_err(std::io::Error::other)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let beside = path.with_extension(format!("toml.{}", std::process::id()));
    let written = std::fs::File::create(&beside).and_then(|mut out| {
        out.write_all(text.as_bytes())?;
        out.sync_all()
    });
    let renamed = written.and_then(|()| std::fs::rename(&beside, path));
    if renamed.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    renamed
}

#[cfg(test)]
mod tests;
