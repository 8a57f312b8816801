//! The GRIP card as Verilator runs it, behind its own driver.
//!
//! [`command`] and [`sa`] have the formats of docs/internals/card.md: prefix and status, SAs. With
//! the feature `verilated` there is a card too: the RTL of card/rtl made into a program, stepped
//! cycle by cycle in the caller's thread, a [`Driver`] that has packets sealed and opened for the
//! host, and a [`nic::Nic`] that has it done in flight, between the host and a line. It shows what
//! the card does and in how many of its cycles. How long that takes here is no property of the
//! card.

mod clock;
pub mod command;
mod functions;

#[cfg(feature = "verilated")]
mod batch;
#[cfg(feature = "verilated")]
mod cache;
#[cfg(feature = "verilated")]
mod device;
#[cfg(feature = "verilated")]
mod driver;
#[cfg(feature = "verilated")]
mod error;
#[cfg(feature = "verilated")]
mod ffi;
#[cfg(feature = "verilated")]
pub mod line;
#[cfg(feature = "verilated")]
pub mod nic;
#[cfg(feature = "verilated")]
mod rings;
pub mod sa;

pub use clock::routed_mhz;
pub use command::{Code, Direction, Pipeline, Route, Status};
#[cfg(feature = "verilated")]
pub use driver::{Driver, Packet, Verdict};
#[cfg(feature = "verilated")]
pub use error::CardError;
pub use sa::{Algorithm, Cipher, Hash, Inbound, Sa};
