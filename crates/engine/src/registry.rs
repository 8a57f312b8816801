//! Kinds of engine. A program passes in a table of those that it has; everything else about a kind
//! is in the file of its [`EngineBackend`].

use std::any::Any;
use std::fmt;

use convoy_ipsec::Transform;
use convoy_settings::{At, Checker, Entries, Kind, KindTable, Table, Text};

use crate::backend::{Cost, EngineBackend, EngineContext, EngineStart, FoundEngine, MissingEngine};
use crate::calibrate::IdleEngine;
use crate::cryptodev::CryptodevSettings;
use crate::interface::{AutoSelect, EngineKind, Placement};
use crate::multibuffer::MultibufferSettings;
use crate::software::SoftwareSettings;

/// A kind of engine that a program has: a row of its [`EngineTable`].
#[derive(Clone, Copy, Debug)]
pub struct EngineKindRow {
    kind: EngineKind,
    keys: &'static [&'static str],
    notes: &'static [(&'static str, &'static str)],
    take: fn(&mut Entries<'_, '_, '_>) -> EngineKeys,
    default: fn() -> EngineSettings,
    on_core: fn(usize) -> Option<EngineSettings>,
    version: fn() -> Option<String>,
    search: fn() -> Result<FoundEngine, MissingEngine>,
}

/// The kinds of engine of a program.
pub type EngineTable = KindTable<EngineKindRow>;

impl EngineKindRow {
    /// The kind with these settings.
    pub const fn of<S: EngineBackend>() -> Self {
        Self {
            kind: EngineKind::of::<S>(),
            keys: S::Keys::KEYS,
            notes: S::Keys::NOTES,
            take: |entries| EngineKeys(Box::new(EngineKeysOf::<S>(S::Keys::take(entries)))),
            default: || S::default().into(),
            on_core: |core| S::on_core(core).map(Into::into),
            version: S::version,
            search: S::find,
        }
    }

    /// The kind.
    pub const fn kind(&self) -> EngineKind {
        self.kind
    }

    /// Its default settings.
    pub fn default_settings(&self) -> EngineSettings {
        (self.default)()
    }

    /// The version of the library or device behind it, if available.
    fn version(&self) -> Option<String> {
        (self.version)()
    }

    /// An engine of this kind with default settings, to be measured; `None` if its timing is a
    /// model's.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    pub fn idle(&self) -> Result<Option<IdleEngine>, String> {
        if self.kind.traits().is_model {
            return Ok(None);
        }
        let made = self.default_settings().open(self.kind.word())?(&mut EngineContext::default(), 1)?;
        match made.cost {
            Cost::Stated(..) => Ok(None),
            Cost::Measured(_) => Ok(made.engines.into_iter().next().map(IdleEngine::from)),
        }
    }

    /// An engine as [`idle`](Self::idle) has it, with `core` in the configuration, on a thread that
    /// runs on any free core; `None` for a kind that has no `core`.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    pub fn idle_on_core(&self) -> Result<Option<IdleEngine>, String> {
        let Some(settings) = (self.on_core)(0) else { return Ok(None) };
        match settings.open(self.kind.word())?(&mut EngineContext::default(), 1)?.cost {
            Cost::Stated(..) => Ok(None),
            Cost::Measured(make) => make().map(Some).map_err(|error| error.to_string()),
        }
    }
}

impl Kind for EngineKindRow {
    type Keys = EngineKeys;

    fn word(self) -> &'static str {
        self.kind.word()
    }

    fn keys(self) -> &'static [&'static str] {
        self.keys
    }

    fn notes(self) -> &'static [(&'static str, &'static str)] {
        self.notes
    }

    fn take(self, entries: &mut Entries<'_, '_, '_>) -> EngineKeys {
        (self.take)(entries)
    }

    fn set_at(keys: &mut EngineKeys, at: At) {
        keys.0.set_at(at);
    }
}

/// The keys of an engine as configured, of some kind.
pub struct EngineKeys(Box<dyn AnyEngineKeys>);

impl EngineKeys {
    /// The settings; problems are reported to `c`.
    pub fn check(&self, c: &mut Checker<'_>) -> EngineSettings {
        self.0.check(c)
    }

    /// The `[[bus]]` that it names.
    pub fn bus(&self) -> Option<&Text> {
        self.0.bus()
    }
}

/// Keys of a kind that is known only to its table.
trait AnyEngineKeys {
    fn check(&self, c: &mut Checker<'_>) -> EngineSettings;
    fn bus(&self) -> Option<&Text>;
    fn set_at(&mut self, at: At);
}

struct EngineKeysOf<S: EngineBackend>(S::Keys);

impl<S: EngineBackend> AnyEngineKeys for EngineKeysOf<S> {
    fn check(&self, c: &mut Checker<'_>) -> EngineSettings {
        S::check(&self.0, c).into()
    }

    fn bus(&self) -> Option<&Text> {
        S::bus(&self.0)
    }

    fn set_at(&mut self, at: At) {
        self.0.set_at(at);
    }
}

/// The settings of an engine, of some kind.
pub struct EngineSettings {
    kind: EngineKind,
    of_kind: Box<dyn AnyEngineSettings>,
}

impl<S: EngineBackend> From<S> for EngineSettings {
    fn from(settings: S) -> Self {
        Self { kind: EngineKind::of::<S>(), of_kind: Box::new(settings) }
    }
}

impl EngineSettings {
    /// The kind.
    pub const fn kind(&self) -> EngineKind {
        self.kind
    }

    /// The settings of their own type; `None` if they are of another kind.
    pub fn of<S: EngineBackend>(&self) -> Option<&S> {
        self.of_kind.as_any().downcast_ref()
    }

    /// Where such an engine works.
    pub fn placement(&self) -> Placement {
        self.of_kind.placement()
    }

    /// Whether such an engine works on its caller's core.
    pub fn is_inline(&self) -> bool {
        self.placement() == Placement::Inline
    }

    /// Whether one such engine, which works elsewhere, can serve several workers.
    pub fn is_shareable(&self) -> bool {
        self.of_kind.is_shareable()
    }

    /// DPDK's name of the device that it uses, if it uses one.
    pub fn dpdk_device(&self) -> Option<&str> {
        self.of_kind.dpdk_device()
    }

    /// Opens what needs privileges, such as a device, and returns how to create engines of
    /// this name, one for each worker.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    pub fn open(&self, name: &str) -> Result<EngineStart, String> {
        self.of_kind.open(name)
    }
}

impl Clone for EngineSettings {
    fn clone(&self) -> Self {
        Self { kind: self.kind, of_kind: self.of_kind.copied() }
    }
}

impl PartialEq for EngineSettings {
    fn eq(&self, other: &Self) -> bool {
        self.of_kind.is_same(other.of_kind.as_any())
    }
}

impl fmt::Debug for EngineSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.of_kind.fmt(f)
    }
}

/// Settings of a kind that is known only to its table.
trait AnyEngineSettings: fmt::Debug + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn copied(&self) -> Box<dyn AnyEngineSettings>;
    fn is_same(&self, other: &dyn Any) -> bool;
    fn placement(&self) -> Placement;
    fn is_shareable(&self) -> bool;
    fn dpdk_device(&self) -> Option<&str>;
    fn open(&self, name: &str) -> Result<EngineStart, String>;
}

impl<S: EngineBackend> AnyEngineSettings for S {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn copied(&self) -> Box<dyn AnyEngineSettings> {
        Box::new(self.clone())
    }

    fn is_same(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn placement(&self) -> Placement {
        EngineBackend::placement(self)
    }

    fn is_shareable(&self) -> bool {
        EngineBackend::is_shareable(self)
    }

    fn dpdk_device(&self) -> Option<&str> {
        EngineBackend::dpdk_device(self)
    }

    fn open(&self, name: &str) -> Result<EngineStart, String> {
        EngineBackend::open(self, name)
    }
}

/// The kinds that the product has.
pub const ENGINES: &[EngineKindRow] = &[
    EngineKindRow::of::<SoftwareSettings>(),
    EngineKindRow::of::<MultibufferSettings>(),
    EngineKindRow::of::<CryptodevSettings>(),
];

/// The product's kinds that this machine has, each with the version of its library or device: what
/// a calibration depends on beside the processor.
pub fn engine_versions() -> String {
    let versions = ENGINES.iter().filter_map(|row| Some((row.kind(), row.version()?)));
    versions.map(|(kind, version)| format!("; {kind} {version}")).collect()
}

/// What was found of one kind of engine.
#[derive(Clone, Debug)]
pub struct EngineFinding {
    /// The row of its kind.
    pub row: EngineKindRow,
    /// What is available of it here.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    pub found: Result<FoundEngine, MissingEngine>,
}

impl EngineFinding {
    /// The transforms it supports; empty if it is unavailable.
    pub fn transforms(&self) -> &[Transform] {
        self.found.as_ref().map_or(&[], |found| &found.transforms)
    }
}

/// What this build and this machine have of each kind of a table, or why not.
pub fn available(kinds: &EngineTable) -> Vec<EngineFinding> {
    kinds.rows.iter().map(|row| EngineFinding { row: *row, found: (row.search)() }).collect()
}

/// The kinds of a table that a gateway uses by default, by when it does.
pub fn selected(kinds: &EngineTable, when: AutoSelect) -> impl Iterator<Item = &'static EngineKindRow> {
    kinds.rows.iter().filter(move |row| row.kind.traits().auto_select == when)
}
