//! SAD, SPD, ESP and AH as pure state machines.
//!
//! A packet's way is prepare → [`CryptoJob`] → finish; the job is done elsewhere, by an engine. Pure: no
//! socket, thread, clock or random source; time and randomness are arguments.

mod algorithm;
mod job;

pub use algorithm::{Aead, Cipher, Integrity, KeyBits, KeyLengthError, KeyMaterial, Transform};
pub use job::{AAD_BYTES, CryptoJob, CryptoStatus, Direction, NONCE_BYTES, Prepared, SaIndex};

/// What `finish` needs to know of a prepared packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct FinishContext {
    /// The 64-bit sequence number.
    pub(crate) sequence: u64,
}
