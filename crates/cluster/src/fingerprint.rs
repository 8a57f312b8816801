//! The name of an SA in the store.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An SA, or a pair of them, by a hash of its SPIs and keys, which no other of its group has: all
/// members know it by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SaFingerprint(pub u64);

impl fmt::Display for SaFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
