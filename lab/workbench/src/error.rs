//! Why the demo failed.

use convoy_assembly::assemble::AssembleError;
use convoy_capture::CaptureError;
use convoy_port::PortError;

/// Why the demo failed.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A gateway could not be set up.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The capture could not be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The engine that is to fail does not exist.
    #[error("there is no engine {wanted:?} to fail; the demo has {known}")]
    NoSuchEngine {
        /// The requested name.
        wanted: String,
        /// The available names.
        known: String,
    },
    /// The engine that was to fail got too little work for that.
    #[error(
        "the engine {engine} did not fail: it fails after {after} multi-packets, and got {given:.0} in {seconds:.1} s; use a \
         longer --seconds, or another engine"
    )]
    DidNotFail {
        /// Name of the engine.
        engine: String,
        /// Multi-packets after which it would have failed.
        after: u32,
        /// Multi-packets that it got.
        given: f64,
        /// Duration, in seconds.
        seconds: f64,
    },
    /// The platform's engines are not available.
    #[error("{0}")]
    Platform(String),
}
