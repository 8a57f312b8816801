//! The registry's interface to an engine.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::Debug;

use convoy_ipsec::Transform;
use convoy_scheduler::CostModel;
use convoy_settings::{Checker, Table, Text};

use crate::calibrate::IdleEngine;
use crate::crypto_thread::CryptoThread;
use crate::interface::{Engine, EngineError, EngineKind, EngineTraits, Placement};

impl EngineKind {
    /// The kind with these settings.
    pub const fn of<S: EngineBackend>() -> Self {
        Self::new(S::WORD, &S::TRAITS)
    }
}

/// A kind of engine as found on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundEngine {
    /// The version of the library or device behind it.
    pub version: String,
    /// What its library has but it leaves to other engines, and why.
    pub left_out: Option<&'static str>,
    /// The transforms it supports.
    pub transforms: Vec<Transform>,
    /// The devices to choose from in a configuration; empty if there is no choice.
    pub devices: Vec<FoundDevice>,
}

/// A device of a kind of engine that has several.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundDevice {
    /// Its name in the configuration.
    pub name: String,
    /// A description in one line.
    pub summary: String,
    /// The transforms it claims to support.
    pub transforms: Vec<Transform>,
    /// Why it cannot be an engine, if it cannot.
    pub why_not: Option<String>,
}

/// Why a kind of engine is unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingEngine {
    /// The reason.
    pub reason: String,
    /// How to get it.
    pub remedy: String,
}

/// A bus between a host and its devices: one transfer at a time, in order of request. `l` bytes
/// hold it for `t_cycle * (c_address + ceil(l / width))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusTiming {
    /// One cycle, in ns; 0 is a bus that costs nothing.
    pub t_cycle_ns: f64,
    /// Cycles for the address.
    pub c_address: u32,
    /// Bytes moved in one cycle; 0 counts as 1.
    pub width_bytes: u32,
    /// Bytes that are transferred with each packet of a multi-packet, each way, and not processed.
    pub packet_bytes: u32,
}

impl BusTiming {
    /// PCI at 66 MHz, 32 bits wide.
    pub const PCI: Self = Self { t_cycle_ns: 1_000.0 / 66.0, c_address: 1, width_bytes: 4, packet_bytes: 0 };
    /// A bus that costs nothing: for a device in memory.
    pub const FREE: Self = Self { t_cycle_ns: 0.0, c_address: 0, width_bytes: 1, packet_bytes: 0 };
}

/// State shared by the engines of one gateway, created before them.
#[derive(Default)]
pub struct EngineContext {
    /// The configured buses, by name.
    pub buses: HashMap<String, BusTiming>,
    /// What engines of one kind share, such as a bus's thread, by a name that the kind chooses.
    pub shared: HashMap<String, Box<dyn Any + Send>>,
}

/// The cost of an engine.
pub enum Cost {
    /// Stated, whatever the transform: a modelled device's timing. The cost of handing packets over
    /// depends on the machine, and is measured.
    Stated(CostModel, MakeIdle),
    /// Measured.
    Measured(MakeIdle),
}

/// Creates idle instances to be measured.
pub type MakeIdle = Box<dyn Fn() -> Result<IdleEngine, EngineError> + Send>;

/// The engines created for one `[[engine]]`: one for each worker that it serves.
pub struct Made {
    /// The engines, equal except for their workers.
    pub engines: Vec<Box<dyn Engine>>,
    /// Their cost.
    pub cost: Cost,
}

fn boxed(engine: impl Engine + 'static) -> Box<dyn Engine> {
    Box::new(engine)
}

impl Made {
    /// Engines on their workers' cores, or all on one thread pinned to `core` if that is given. The
    /// instance that is measured for such a thread runs on whatever core the system chooses.
    ///
    /// # Errors
    /// [`EngineError`] if there is none.
    pub fn here_or_on<E: Engine + 'static>(
        core: Option<usize>,
        workers: usize,
        here: impl Fn() -> Result<E, EngineError> + Send + 'static,
        on_thread: impl Fn(Option<usize>, usize) -> Result<Vec<CryptoThread>, EngineError> + Send + 'static,
    ) -> Result<Self, EngineError> {
        let engines: Result<Vec<_>, _> = match core {
            None => (0..workers).map(|_| here().map(boxed)).collect(),
            Some(_) => on_thread(core, workers).map(|engines| engines.into_iter().map(boxed).collect()),
        };
        let measured = move || match core {
            None => here().map(IdleEngine::new),
            Some(_) => on_thread(None, 1)
                .map(|mut engines| IdleEngine::new(engines.pop().expect("as many as workers"))),
        };
        Ok(Self { engines: engines?, cost: Cost::Measured(Box::new(measured)) })
    }
}

/// Creates an engine for each of this many workers, after privileges are given up; threads start
/// here, as they inherit their creator's privileges.
pub type EngineStart = Box<dyn FnOnce(&mut EngineContext, usize) -> Result<Made, String> + Send>;

/// The settings of one kind of engine, through which the rest of convoy knows the kind.
pub trait EngineBackend: Default + Clone + PartialEq + Debug + Send + Sync + 'static {
    /// Its keys in `[[engine]]`, beside those common to all engines.
    type Keys: Table;

    /// Its word in the configuration.
    const WORD: &'static str;

    /// The properties of its kind.
    const TRAITS: EngineTraits;

    /// Checks the configuration.
    fn check(keys: &Self::Keys, c: &mut Checker<'_>) -> Self;

    /// The `[[bus]]` that the keys name.
    fn bus(_keys: &Self::Keys) -> Option<&Text> {
        None
    }

    /// DPDK's name of the device that it uses, if it uses one.
    fn dpdk_device(&self) -> Option<&str> {
        None
    }

    /// The default settings on a core of its own; `None` if the kind has no choice of core.
    fn on_core(_core: usize) -> Option<Self> {
        None
    }

    /// Where an engine with these settings works.
    fn placement(&self) -> Placement;

    /// Whether an engine with these settings, which works elsewhere, can serve several workers.
    fn is_shareable(&self) -> bool {
        false
    }

    /// What is available of it in this build, on this machine.
    ///
    /// # Errors
    /// [`MissingEngine`] says why there is none, and how to get it.
    fn find() -> Result<FoundEngine, MissingEngine>;

    /// The version of the library or device behind it, if available without starting anything.
    fn version() -> Option<String> {
        Self::find().ok().map(|found| found.version)
    }

    /// Opens what needs privileges, such as a device, and returns how to create engines of this
    /// name over it: one for each worker. It is called for more than one worker only if it works on
    /// its caller's core or [is shareable](Self::is_shareable).
    ///
    /// # Errors
    /// Why there is none, and what to do.
    fn open(&self, name: &str) -> Result<EngineStart, String>;
}
