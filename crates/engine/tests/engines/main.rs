//! One test suite for every engine: known answers, Wycheproof, agreement between engines, and the
//! trait's contract. A line in `roster.rs` adds an engine to all of it; the simulated engines have
//! a roster of their own (lab/devices/tests/engines).

mod aead;
mod aead_vectors;
mod agreement;
mod case;
mod chained;
mod contract;
#[cfg(feature = "dpdk")]
mod cryptodev;
mod fault;
mod hmac;
mod in_place;
mod lab;
mod roster;
mod shared;
mod wycheproof;
