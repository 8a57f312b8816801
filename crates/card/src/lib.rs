//! The GRIP card as Verilator runs it, behind its own driver.
//!
//! [`command`] has the formats of docs/card.md: prefix, SA, status. With the feature `verilated` there is a card too: the RTL of
//! card/rtl made into a program, stepped cycle by cycle in the caller's thread, and a [`Driver`] with rings, SA cache and
//! functions to exchange. It shows what the card does and in how many of its cycles. How long that takes here is no
//! property of the card.

pub mod command;

#[cfg(feature = "verilated")]
mod cache;
#[cfg(feature = "verilated")]
mod device;
#[cfg(feature = "verilated")]
mod driver;
#[cfg(feature = "verilated")]
mod ffi;
#[cfg(feature = "verilated")]
mod rings;

pub use command::{Algorithm, Cipher, Code, Direction, Hash, Sa, Status};
#[cfg(feature = "verilated")]
pub use driver::{CardError, Driver, Packet, Verdict};
