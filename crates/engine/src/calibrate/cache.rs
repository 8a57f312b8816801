//! Calibrations kept in a file, so that a start costs nothing.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use convoy_ipsec::Transform;
use convoy_scheduler::CostModel;
use serde::{Deserialize, Serialize};

use super::{calibrate, fingerprint};
use crate::{Engine, EngineError};

/// Why a file was not used; its measurements are taken anew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheWarning {
    /// It cannot be read, or does not hold what we write.
    #[error("{}: not readable, so engines are calibrated again: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It is of another machine, or of other versions.
    #[error("{}: of another machine or version ({found}), so engines are calibrated again", path.display())]
    Stale {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        found: String,
    },
}

/// The file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be written: {source}", path.display())]
pub struct CacheError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: std::io::Error,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    fingerprint: String,
    #[serde(default)]
    cost: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    engine: String,
    placement: String,
    transform: String,
    t_init_ns: f64,
    t_block_ns: f64,
}

/// Kind of engine, placement, transform.
type Key = (String, String, String);

/// Cost models by kind of engine, where it works, and transform, in ns: on a core of its own an engine also fetches the
/// packets from the caller's caches. Models' are measured each time, as the configuration
/// gives each its own timing.
#[derive(Debug)]
pub struct CalibrationCache {
    path: Option<PathBuf>,
    fingerprint: String,
    costs: BTreeMap<Key, CostModel>,
    is_changed: bool,
}

impl CalibrationCache {
    /// `$XDG_CACHE_HOME/convoy/calibration.toml`, or under `~/.cache`; `None` without a home.
    pub fn default_path() -> Option<PathBuf> {
        let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = from("XDG_CACHE_HOME").or_else(|| from("HOME").map(|home| home.join(".cache")))?;
        Some(cache.join("convoy").join("calibration.toml"))
    }

    /// What `path` holds for this machine. A file that is not there is no warning; without a path, nothing is
    /// kept.
    pub fn open(path: Option<PathBuf>) -> (Self, Option<CacheWarning>) {
        Self::open_as(path, fingerprint())
    }

    fn open_as(path: Option<PathBuf>, fingerprint: String) -> (Self, Option<CacheWarning>) {
        let read = path.as_deref().map_or(Ok(BTreeMap::new()), |path| read(path, &fingerprint));
        let (costs, warning) = match read {
            Ok(costs) => (costs, None),
            Err(warning) => (BTreeMap::new(), Some(warning)),
        };
        (Self { path, fingerprint, costs, is_changed: false }, warning)
    }

    /// The cost model of an engine for a transform; measured now if it is not known. See [`calibrate`].
    ///
    /// # Errors
    /// Those of [`calibrate`].
    pub fn cost(&mut self, engine: &mut dyn Engine, transform: Transform) -> Result<CostModel, EngineError> {
        if engine.description().is_model {
            return calibrate(engine, transform);
        }
        let description = engine.description();
        let key = (description.kind.to_string(), description.placement.to_string(), transform.to_string());
        if let Some(known) = self.costs.get(&key) {
            return Ok(*known);
        }
        let measured = calibrate(engine, transform)?;
        self.costs.insert(key, measured);
        self.is_changed = true;
        Ok(measured)
    }

    /// Forgets all, so that it is measured again.
    pub fn forget(&mut self) {
        self.costs.clear();
        self.is_changed = true;
    }

    /// Writes what was measured since, whole or not at all: into a file beside it, which then takes its name.
    ///
    /// # Errors
    /// [`CacheError`] if it cannot be written; the old file stands then.
    pub fn save(&mut self) -> Result<(), CacheError> {
        let Some(path) = self.path.clone().filter(|_| self.is_changed) else { return Ok(()) };
        let cost = self.costs.iter().map(|((engine, placement, transform), model)| Entry {
            engine: engine.clone(),
            placement: placement.clone(),
            transform: transform.clone(),
            t_init_ns: model.t_init,
            t_block_ns: model.t_block,
        });
        let file = File { fingerprint: self.fingerprint.clone(), cost: cost.collect() };
        write_whole(&path, &file).map_err(|source| CacheError { path, source })?;
        self.is_changed = false;
        Ok(())
    }
}

fn read(path: &Path, fingerprint: &str) -> Result<BTreeMap<Key, CostModel>, CacheWarning> {
    let unreadable = |reason: String| CacheWarning::Unreadable { path: path.to_owned(), reason };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let file: File = toml::from_str(&text).map_err(|error| unreadable(error.message().to_owned()))?;
    if file.fingerprint != fingerprint {
        return Err(CacheWarning::Stale { path: path.to_owned(), found: file.fingerprint });
    }
    let is_time = |ns: f64| ns.is_finite() && ns >= 0.0;
    if let Some(bad) = file.cost.iter().find(|entry| !is_time(entry.t_init_ns) || !is_time(entry.t_block_ns))
    {
        return Err(unreadable(format!("{} {}: not a time", bad.engine, bad.transform)));
    }
    let costs = file.cost.into_iter().map(|entry| {
        let model = CostModel { t_init: entry.t_init_ns, t_block: entry.t_block_ns };
        ((entry.engine, entry.placement, entry.transform), model)
    });
    Ok(costs.collect())
}

fn write_whole(path: &Path, file: &File) -> std::io::Result<()> {
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
mod tests {
    use super::*;
    use crate::{
        Completion, EngineDescription, Fault, FaultPlan, Faulty, MultiPacket, Placement, Refused, Software,
    };
    use convoy_ipsec::{Aead, KeyBits, KeyMaterial, SaIndex};

    const GCM: Transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B128, icv: 16 });

    /// An engine that must not be asked to work.
    fn broken() -> Faulty {
        let plan = FaultPlan { probes: None, ..FaultPlan::once(Fault::Vanish, 0) };
        Faulty::new(Box::new(Software::new("software0")), plan)
    }

    /// An engine that says it works elsewhere.
    struct Elsewhere(EngineDescription, Software);

    impl Engine for Elsewhere {
        fn description(&self) -> &EngineDescription {
            &self.0
        }

        fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
            self.1.install_key(sa, keys)
        }

        fn remove_key(&mut self, sa: SaIndex) {
            self.1.remove_key(sa);
        }

        fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
            self.1.submit(multi_packet)
        }

        fn poll(&mut self, completions: &mut Vec<Completion>) {
            self.1.poll(completions);
        }

        fn in_flight(&self) -> usize {
            self.1.in_flight()
        }
    }

    fn kept(folder: &Path) -> PathBuf {
        let path = folder.join("deep").join("calibration.toml");
        let (mut cache, warning) = CalibrationCache::open(Some(path.clone()));
        assert_eq!(warning, None);
        let model = cache.cost(&mut Software::new("software0"), GCM).expect("software can do AES-GCM");
        assert!(model.t_block > 0.0 && model.t_init >= 0.0);
        cache.save().expect("the folder can be made");
        path
    }

    #[test]
    fn what_was_measured_is_not_measured_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = kept(folder.path());
        let (mut cache, warning) = CalibrationCache::open(Some(path.clone()));
        assert_eq!(warning, None);
        cache.cost(&mut broken(), GCM).expect("known");
        cache.forget();
        let error = cache.cost(&mut broken(), GCM).expect_err("cannot be measured");
        assert_eq!(error.to_string(), "engine software0: has vanished");
        let names: Vec<_> = std::fs::read_dir(path.parent().expect("a folder")).expect("readable").collect();
        assert_eq!(names.len(), 1, "nothing is left beside the file");
    }

    #[test]
    fn another_machines_file_is_stale_and_a_broken_one_unreadable() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = kept(folder.path());
        let (cache, warning) = CalibrationCache::open_as(Some(path.clone()), "another".to_owned());
        assert!(matches!(warning, Some(CacheWarning::Stale { .. })), "{warning:?}");
        assert!(cache.costs.is_empty());
        let text = std::fs::read_to_string(&path).expect("readable");
        for bad in ["not toml [", "fingerprint = 7", &text.replace("t_init_ns = ", "t_init_ns = -1"), "x = 1"]
        {
            std::fs::write(&path, bad).expect("writable");
            let (cache, warning) = CalibrationCache::open(Some(path.clone()));
            assert!(matches!(warning, Some(CacheWarning::Unreadable { .. })), "{bad}: {warning:?}");
            assert!(cache.costs.is_empty());
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let blocked = folder.path().join("file");
        std::fs::write(&blocked, "").expect("writable");
        let (mut cache, _) = CalibrationCache::open(None);
        cache.path = Some(blocked.join("calibration.toml"));
        cache.forget();
        let error = cache.save().expect_err("a file is no folder").to_string();
        assert!(error.contains("calibration.toml: cannot be written"), "{error}");
    }

    #[test]
    fn an_engine_on_another_core_is_measured_for_itself() {
        let (mut cache, _) = CalibrationCache::open(None);
        cache.cost(&mut Software::new("software0"), GCM).expect("software can do AES-GCM");
        let description = EngineDescription {
            placement: Placement::Lookaside,
            ..Software::new("there").description().clone()
        };
        cache.cost(&mut Elsewhere(description, Software::new("there")), GCM).expect("so can this");
        assert_eq!(cache.costs.len(), 2);
    }

    #[test]
    fn a_model_is_measured_each_time() {
        let mut engine = Software::new("software0");
        let description: &EngineDescription = engine.description();
        assert!(!description.is_model);
        let (mut cache, _) = CalibrationCache::open(None);
        cache.cost(&mut engine, GCM).expect("software can do AES-GCM");
        assert_eq!(cache.costs.len(), 1);
        let bus = crate::SharedBus::new(crate::BusTiming::FREE).expect("a thread");
        let timing = crate::ModelTiming { t_init_ns: 10.0, t_block_ns: 0.0, ..crate::ModelTiming::default() };
        cache.cost(&mut crate::Model::new("model0", timing, bus), GCM).expect("models do all");
        assert_eq!(cache.costs.len(), 1);
    }
}
