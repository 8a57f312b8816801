//! The test suite of every engine, run on the simulated ones, and what is the card's alone.

#[path = "../../../../crates/engine/tests/engines/aead.rs"]
mod aead;
#[path = "../../../../crates/engine/tests/engines/aead_vectors.rs"]
mod aead_vectors;
#[path = "../../../../crates/engine/tests/engines/agreement.rs"]
mod agreement;
#[cfg(feature = "card")]
mod card;
#[cfg(feature = "card")]
mod card_in_flight;
#[path = "../../../../crates/engine/tests/engines/case.rs"]
mod case;
#[path = "../../../../crates/engine/tests/engines/chained.rs"]
mod chained;
#[path = "../../../../crates/engine/tests/engines/contract.rs"]
mod contract;
#[path = "../../../../crates/engine/tests/engines/hmac.rs"]
mod hmac;
#[path = "../../../../crates/engine/tests/engines/in_place.rs"]
mod in_place;
#[path = "../../../../crates/engine/tests/engines/lab.rs"]
mod lab;
mod roster;
#[path = "../../../../crates/engine/tests/engines/wycheproof.rs"]
mod wycheproof;
