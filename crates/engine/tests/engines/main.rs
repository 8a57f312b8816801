//! One test suite for every engine: known answers, Wycheproof, agreement between engines, and the
//! trait's contract. A line in `roster.rs` adds an engine to all of it.

mod aead;
mod aead_vectors;
mod agreement;
#[cfg(feature = "card")]
mod card;
#[cfg(feature = "card")]
mod card_in_flight;
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
