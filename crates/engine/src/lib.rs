//! One interface to every crypto engine, software included, and its backends.
//!
//! - [`Engine`] is one engine of one worker, in two traits: [`EngineControl`] installs keys, binds
//!   SAs to devices and probes; [`EngineQueue`] takes packets and gives them back. No call blocks.
//! - [`EngineDescription`] says what an engine supports, where it works ([`Placement`]), what it
//!   accepts in one submission ([`Takes`]), and how much may wait for it.
//! - [`Submission`] is a train as an engine gets it: packets of one SA, or of several for an engine
//!   that takes those. It comes back in a [`Completion`] with a result in each packet, or was
//!   [`Refused`].
//! - [`EngineSettings`] is an engine as configured. [`ENGINES`] lists the product's kinds, and a
//!   program may add rows to its [`EngineTable`]; everything else about a kind is in its
//!   [`EngineBackend`].
//!
//! A packet's way: the worker has chosen an engine and laid the packets out, each with a
//! [`CryptoJob`](convoy_ipsec::CryptoJob) that says where its parts are. An engine on the worker's
//! core processes them where they are, by [`EngineQueue::in_place`], or gathers some first. Any
//! other gets them by [`EngineQueue::submit`] and works elsewhere: on a thread of its own
//! ([`CryptoThread`]: a ring to the thread and one back), or at a device (`cryptodev`). It writes
//! each packet's [`CryptoStatus`](convoy_ipsec::CryptoStatus), and [`EngineQueue::poll`] returns
//! the submission. Packets stay in their frames throughout. A crypto thread may also get packets
//! raw, with a [`RunTemplate`] for each run of one SA, and lays them out on its core.
//!
//! | backend | what it is |
//! | --- | --- |
//! | `software` | one packet at a time with vetted libraries; the reference for all others |
//! | `multibuffer` | Intel's ipsec-mb, on the worker's core or on a thread of its own |
//! | `cryptodev` | a crypto device of DPDK's |
//!
//! [`CalibrationCache`] keeps what each transform costs on each engine, measured on an
//! [`IdleEngine`]; the scheduler predicts with it. [`Faulty`] makes any engine fail by a plan, for
//! tests and the demo.
//!
//! Nothing here knows sockets, the window or other engines.

mod backend;
mod calibrate;
mod cpu;
mod crypto_thread;
mod cryptodev;
mod fault;
mod interface;
mod known_answers;
mod multibuffer;
mod registry;
mod software;
mod stack;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use backend::{
    BusTiming, Cost, EngineBackend, EngineContext, EngineStart, FoundDevice, FoundEngine, Made, MakeIdle,
    MissingEngine,
};
pub use calibrate::{
    AlgorithmCost, CALIBRATION_SA, CacheError, CacheWarning, CalibrationCache, IdleEngine, KnownCosts, Rig,
    fingerprint, sample_packet,
};
pub use crypto_thread::{CryptoThread, Processor};
#[cfg(feature = "dpdk")]
pub use cryptodev::{Cryptodev, dpdk_arguments};
pub use cryptodev::{CryptodevSettings, in_thread_of_dpdk, start_dpdk};
pub use fault::{FaultPlan, Faulty, InjectedFault};
pub use interface::{
    AutoSelect, Binding, Completion, Engine, EngineControl, EngineDescription, EngineError, EngineKind,
    EngineQueue, EngineTraits, InPlace, Outcome, Placement, Refused, RunTemplate, Submission, Takes,
    keep_input, lay_out, open_up,
};
pub use known_answers::{EXAM_SA, Exam, ask_known};
pub use multibuffer::{Multibuffer, MultibufferSettings, MultibufferState as MultibufferCore};
pub use registry::{
    ENGINES, EngineFinding, EngineKeys, EngineKindRow, EngineSettings, EngineTable, available,
    engine_versions, selected,
};
pub use software::{KeyTable, SaKeys, Software, SoftwareSettings, transforms};
pub use stack::{far_below, wipe_stack};
