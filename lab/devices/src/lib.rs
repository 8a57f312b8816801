//! Simulated devices for a gateway: engines and a port that no production program has.
//!
//! | kind | what it is |
//! | --- | --- |
//! | engine `model` | real ciphers with the timing of an accelerator on a shared bus ([`model`]) |
//! | engine `card` | the GRIP card, verilated, behind its driver, lookaside ([`card_engine`]) |
//! | port `card` | the card as the protected side's network interface, inline ([`card_port`]) |
//!
//! [`KINDS`] is the product's table of kinds with these rows. Each says "model" or "simulated"
//! where an operator sees it. Without the feature `card`, the settings of the card are there, and
//! opening one says how to get it.

pub mod card_engine;
pub mod card_port;
mod kinds;
pub mod model;

pub use kinds::KINDS;
