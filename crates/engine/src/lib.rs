//! One interface to every crypto engine, software included, and its backends.

mod calibrate;
#[cfg(feature = "card")]
mod card;
pub mod catalogue;
mod fault;
mod interface;
mod model;
mod multibuffer;
mod remote;
mod software;

pub use calibrate::{
    CALIBRATION_SA, CacheError, CacheWarning, CalibrationCache, IdleEngine, KnownCosts, Rig, fingerprint,
    sample_packet,
};
#[cfg(feature = "card")]
pub use card::{Card, CardInFlight};
pub use catalogue::EngineFinding;
pub use fault::{Fault, FaultPlan, Faulty};
pub use interface::{
    Binding, Completion, Engine, EngineDescription, EngineError, EngineKind, InPlace, MultiPacket, Outcome,
    Placement, Refused,
};
pub use model::{BusStatistics, BusTiming, Model, ModelTiming, SharedBus};
pub use multibuffer::Multibuffer;
pub use software::{Software, transforms};
