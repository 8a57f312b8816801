//! What a member has seen of the store, which it keeps over restarts of itself and of the store.
//!
//! A store that was restored from a snapshot, or emptied, has forgotten numbers that were used: a
//! member that went on from there would send them a second time and accept packets again. So a
//! member remembers which store it had, and how far that had come, and leads by no other and by
//! none that is behind.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::store::{Revision, StoreId};

/// The latest that a member has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// The store, once it was reached.
    pub store: Option<StoreId>,
    /// Its highest revision.
    pub revision: Revision,
    /// The first IV that no SA of this member can have used.
    pub next_iv: u64,
    /// That it was found to be another one or behind, which no later revision makes good.
    pub fault: Option<StoreFault>,
}

/// Why a store is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum StoreFault {
    /// It is at a lower revision than it was.
    WentBack {
        /// The revision that was seen before.
        from: Revision,
        /// The revision that was found.
        to: Revision,
    },
    /// It is another one: it was created again.
    Another {
        /// The store before.
        before: StoreId,
        /// The one that was found.
        now: StoreId,
    },
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WentBack { from, to } => write!(f, "the store went back from revision {from} to {to}"),
            Self::Another { before, now } => {
                write!(
                    f,
                    "the store is another one: it was created again (cluster ID {now:x} instead of {before:x})"
                )
            }
        }
    }
}

impl Seen {
    /// A session with a store has begun.
    pub(crate) fn connected(&mut self, store: StoreId) {
        match self.store {
            Some(before) if before != store => {
                self.fault.get_or_insert(StoreFault::Another { before, now: store });
            }
            _ => self.store = Some(store),
        }
    }

    /// The store was at `revision` when it executed a request that was made after `known` had been
    /// seen.
    pub(crate) fn executed(&mut self, known: Revision, revision: Revision) {
        if revision < known {
            self.fault.get_or_insert(StoreFault::WentBack { from: known, to: revision });
        } else if self.fault.is_none() {
            self.revision = self.revision.max(revision);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_goes_back_is_not_trusted_again_however_far_it_comes() {
        let mut seen = Seen::default();
        seen.connected(7);
        seen.executed(0, 50);
        seen.executed(40, 45);
        assert_eq!((seen.fault, seen.revision), (None, 50), "an answer that was overtaken");
        seen.executed(50, 7);
        seen.executed(50, 90);
        assert_eq!(seen.fault, Some(StoreFault::WentBack { from: 50, to: 7 }));
        assert_eq!(seen.revision, 50);
    }

    #[test]
    fn a_store_that_was_created_again_is_another_one() {
        let mut seen = Seen { store: Some(0xabc), revision: 50, ..Seen::default() };
        seen.connected(0xabc);
        assert_eq!(seen.fault, None);
        seen.connected(0xdef);
        let fault = seen.fault.expect("another store");
        assert!(fault.to_string().contains("cluster ID def instead of abc"), "{fault}");
    }
}
