//! What the processes of convoy have in common.
//!
//! - [`companion`] starts a process beside a gateway, and joins the two by a pair of sockets.
//! - [`Framing`](framing::Framing) is the form of the messages between them.
//! - [`privileges`] are given up by a gateway and its companions.
//! - [`supervise`] starts threads whose panic ends the process, and has the channel of such faults.
//! - [`monotonic_ns`] is the clock whose times they exchange; [`wall_ns`] is the wall clock.
//!
//! This crate knows neither packets nor configurations. Each message is defined by the two that
//! exchange it.

mod clock;
pub mod companion;
pub mod framing;
pub mod panics;
pub mod privileges;
pub mod supervise;

use std::sync::Arc;

pub use clock::{monotonic_ns, wall_ns};

/// Receives messages for the operator.
pub type Notify = Arc<dyn Fn(String) + Send + Sync>;
