//! One interface to every crypto engine, software included, and its backends.

mod fault;
mod interface;
mod model;
mod software;

pub use fault::{Fault, FaultPlan, Faulty};
pub use interface::{
    Completion, Engine, EngineDescription, EngineError, EngineKind, MultiPacket, Outcome, Placement, Refused,
};
pub use model::{BusStatistics, BusTiming, Model, ModelTiming, SharedBus};
pub use software::{Software, transforms};
