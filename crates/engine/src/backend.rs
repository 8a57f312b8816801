//! What an engine says of itself to the registry.

use convoy_ipsec::Transform;
use convoy_scheduler::CostModel;
use convoy_settings::{Checker, Table};

use crate::model::Buses;
use crate::{CryptoThread, Engine, EngineError, IdleEngine, Placement};

/// What holds for all engines of a kind.
#[derive(Clone, Copy, Debug)]
pub struct EngineTraits {
    /// What it is, in one line.
    pub summary: &'static str,
    /// Whether its timing is a model's.
    pub is_model: bool,
    /// Whether a gateway whose configuration names no engines has one.
    pub auto_select: AutoSelect,
    /// Its system calls beside those that every gateway makes, once privileges are given up.
    pub system_calls: &'static [i64],
}

/// Whether a gateway has an engine that its configuration does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoSelect {
    /// Always.
    Always,
    /// If it is there and faster than the others for something that the tunnels need.
    IfFaster,
    /// Only if the configuration names it.
    Never,
}

/// What was found of a kind of engine on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The version of what does the work.
    pub version: String,
    /// What it leaves to others although its library has it, and why.
    pub left_out: Option<&'static str>,
    /// What it can do.
    pub transforms: Vec<Transform>,
    /// The devices among which a configuration chooses; none where there is no choice.
    pub devices: Vec<FoundDevice>,
}

/// A device of a kind of engine that has several.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundDevice {
    /// As the configuration names it.
    pub name: String,
    /// What it is, in one line.
    pub summary: String,
    /// What it says that it can do.
    pub transforms: Vec<Transform>,
    /// Why it cannot be an engine, if it cannot.
    pub why_not: Option<String>,
}

/// Why a kind of engine is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Why.
    pub reason: String,
    /// What to do to get it.
    pub remedy: String,
}

/// What the engines of one gateway share. One is made for each gateway, before its engines.
#[derive(Default)]
pub struct EngineContext {
    /// Modelled buses.
    pub buses: Buses,
}

/// What an engine costs.
pub enum Cost {
    /// As stated, whatever the transform: a modelled device's timing. What it costs to hand packets
    /// over is the machine's, and is measured.
    Stated(CostModel, MakeIdle),
    /// As measured.
    Measured(MakeIdle),
}

/// Makes instances to be measured, which do nothing else.
pub type MakeIdle = Box<dyn Fn() -> Result<IdleEngine, EngineError> + Send>;

/// The engines of one `[[engine]]` that were made: one for each worker that it serves.
pub struct Made {
    /// The engines, which differ in nothing but their workers.
    pub engines: Vec<Box<dyn Engine>>,
    /// What it costs.
    pub cost: Cost,
}

fn boxed(engine: impl Engine + 'static) -> Box<dyn Engine> {
    Box::new(engine)
}

impl Made {
    /// Engines on their workers' cores, or all on one thread pinned to `core` if that is named. One
    /// that is measured for such a thread works on whatever core the system finds, beside it.
    pub(crate) fn here_or_on<E: Engine + 'static>(
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

/// Makes an engine for each of so many workers, once privileges are given up; threads are started
/// here, as they inherit what their maker has.
pub type EngineStart = Box<dyn FnOnce(&mut EngineContext, usize) -> Result<Made, String> + Send>;

/// The settings of one kind of engine, which are all that the rest of convoy knows of the kind.
pub trait EngineBackend: Default {
    /// Its keys in `[[engine]]`, beside those that all engines have.
    type Keys: Table;

    /// What holds for all of its kind.
    const TRAITS: EngineTraits;

    /// Checks what the file says.
    fn check(keys: &Self::Keys, c: &mut Checker<'_>) -> Self;

    /// The settings of one on a core of its own where the configuration says nothing else; `None`
    /// where it says nothing of cores.
    fn on_core(_core: usize) -> Option<Self> {
        None
    }

    /// Where an engine with these settings works.
    fn placement(&self) -> Placement;

    /// Whether one with these settings, which works elsewhere, can serve several workers.
    fn is_shareable(&self) -> bool {
        false
    }

    /// What there is of it in this build, on this machine.
    ///
    /// # Errors
    /// [`Missing`] says why there is none, and how to get it.
    fn find() -> Result<Found, Missing>;

    /// The version of what does the work, where it is there; without starting anything for it.
    fn version() -> Option<String> {
        Self::find().ok().map(|found| found.version)
    }

    /// Opens what needs privileges, such as a device, and returns how to make engines of this name
    /// over it: one for each worker. For more than one worker it is asked only if it works on its
    /// caller's core or [is shareable](Self::is_shareable).
    ///
    /// # Errors
    /// Why there is none, and what to do.
    fn open(&self, name: &str) -> Result<EngineStart, String>;
}
