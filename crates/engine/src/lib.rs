//! One interface to every crypto engine, software included, and its backends.

mod backend;
mod calibrate;
mod card;
mod cpu;
mod crypto_thread;
mod cryptodev;
mod fault;
mod interface;
mod model;
mod multibuffer;
mod registry;
mod software;
mod stack;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use backend::{
    AutoSelect, Cost, EngineContext, EngineStart, EngineTraits, Found, FoundDevice, Made, MakeIdle, Missing,
};
pub use calibrate::{
    AlgorithmCost, CALIBRATION_SA, CacheError, CacheWarning, CalibrationCache, IdleEngine, KnownCosts, Rig,
    fingerprint, sample_packet,
};
pub use card::CardEngineSettings;
#[cfg(feature = "card")]
pub use card::{Card, CardInFlight};
pub use crypto_thread::CryptoThread;
#[cfg(feature = "dpdk")]
pub use cryptodev::{Cryptodev, dpdk_arguments};
pub use cryptodev::{CryptodevSettings, in_thread_of_dpdk, start_dpdk};
pub use fault::{Fault, FaultPlan, Faulty};
pub use interface::{
    Binding, Completion, Engine, EngineControl, EngineDescription, EngineError, EngineQueue, InPlace,
    MultiPacket, Outcome, Placement, Refused, RunTemplate, Takes, keep_input, lay_out, open_up,
};
pub use model::{BusStatistics, BusTiming, Buses, Model, ModelSettings, ModelTiming, SharedBus, SteppedBus};
pub use multibuffer::{Multibuffer, MultibufferSettings};
pub use registry::{EngineFinding, EngineKeys, EngineKind, EngineSettings, available};
pub use software::{Software, SoftwareSettings, transforms};
pub use stack::wipe_stack;
