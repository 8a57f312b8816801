//! The GRIP card, simulated by Verilator, and its drivers.
//!
//! [`command`] and [`sa`] implement the formats in docs/lab/card.md: command prefixes,
//! statuses and SAs. With the feature `verilated`, the RTL in card/rtl is compiled into models of
//! the card that run cycle by cycle on the caller's thread, with two drivers:
//!
//! - [`Driver`] uses the card as a lookaside accelerator: packets go from the host to the card and
//!   back.
//! - [`nic::Nic`] uses it as a network interface: packets are sealed and opened inline, between the
//!   host and a [`line::Line`]. [`nic::pair`] runs it on its own thread, as a [`nic::NicPort`] for
//!   packets and a [`nic::NicControl`] for SAs.
//!
//! A driver's card has the functions of the first model, or one function that is chosen when it is
//! made.
//!
//! The model shows what the card does and how many of its cycles that takes. The wall-clock time of
//! the simulation says nothing about the card.

mod checks;
mod clock;
pub mod command;
pub mod filter;
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
mod model;
#[cfg(feature = "verilated")]
pub mod nic;
#[cfg(feature = "verilated")]
mod rings;
pub mod sa;
pub mod signature;

pub use checks::Checks;
pub use clock::{LINE_MHZ, routed_mhz};
pub use command::{Code, CommandDirection, Pipeline, Route, Status};
#[cfg(feature = "verilated")]
pub use driver::{COPY_BYTES, CardVerdict, Driver, DriverPacket};
#[cfg(feature = "verilated")]
pub use error::CardError;
pub use functions::PROPOSALS;
pub use sa::{Algorithm, Cipher, Hash, Inbound, Sa};
