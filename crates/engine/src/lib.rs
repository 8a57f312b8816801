//! One interface to every crypto engine, software included, and its backends.

mod interface;
mod software;

pub use interface::{
    Completion, Engine, EngineDescription, EngineError, EngineKind, MultiPacket, Outcome, Placement, Refused,
};
pub use software::{Software, transforms};
