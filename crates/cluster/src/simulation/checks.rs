//! The invariants of `docs/internals/cluster.md`, by what the whole world knows.

use std::collections::{BTreeMap, BTreeSet};

use super::etcd::Etcd;
use super::gateway::Burst;
use crate::fingerprint::SaFingerprint;
use crate::keys::Keys;
use convoy_reservation::Reservation;

/// What a run has done, so that a test sees that it did something.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) sent: u64,
    pub(super) accepted: u64,
    pub(super) terms: u64,
    pub(super) handovers: u64,
    pub(super) lost: u64,
    pub(super) late: u64,
    pub(super) restored: u64,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.accepted += other.accepted;
        self.terms += other.terms;
        self.handovers += other.handovers;
        self.lost += other.lost;
        self.late += other.late;
        self.restored += other.restored;
    }
}

/// Everything that was sent and accepted.
pub(super) struct Checks {
    /// Whether clocks may stand still, so that two members may send for a while.
    pub(super) is_lenient: bool,
    pub(super) is_strict: bool,
    pub(super) first: Reservation,
    /// Whether the store has gone back, so that what it says is no measure any more.
    pub(super) is_restored: bool,
    /// Whether it has gone back, and a member cannot know it.
    pub(super) is_forgotten: bool,
    sent: BTreeMap<SaFingerprint, Numbers>,
    ivs: BTreeMap<SaFingerprint, BTreeSet<u64>>,
    /// In checkpoint mode, by term.
    accepted: BTreeMap<(SaFingerprint, u64), Numbers>,
    stored: BTreeSet<SaFingerprint>,
    /// Packets of each SA that were sent and accepted since this was cleared.
    pub(super) flow: BTreeMap<SaFingerprint, (usize, usize)>,
    pub(super) figures: Figures,
}

impl Checks {
    pub(super) fn new(is_lenient: bool, is_strict: bool, first: Reservation) -> Self {
        Self {
            is_lenient,
            is_strict,
            first,
            is_restored: false,
            is_forgotten: false,
            sent: BTreeMap::new(),
            ivs: BTreeMap::new(),
            accepted: BTreeMap::new(),
            stored: BTreeSet::new(),
            flow: BTreeMap::new(),
            figures: Figures::default(),
        }
    }

    pub(super) fn sent(&mut self, burst: &Burst, etcd: &Etcd, keys: &Keys) -> Result<(), String> {
        self.alone(burst, etcd, keys)?;
        let ivs = self.ivs.entry(burst.sa).or_default();
        if !burst.numbers.iter().all(|number| ivs.insert(burst.iv_start.wrapping_add(*number))) {
            let why = if self.is_forgotten { ", as a member cannot know" } else { "" };
            return Err(format!("invariant 6: an IV twice{why}: {burst:?}"));
        }
        let used = self.sent.entry(burst.sa).or_default();
        if burst.numbers.iter().filter(|number| !used.insert(**number)).count() > 0 && !self.is_forgotten {
            return Err(format!("invariant 2: sent twice: {burst:?}"));
        }
        let bound = self.bound(burst, etcd, keys);
        if bound.is_some_and(|bound| burst.numbers.iter().any(|number| *number > bound.send_until)) {
            return Err(format!("invariant 4: sent above the reservation: {burst:?}"));
        }
        self.figures.sent += burst.numbers.len() as u64;
        self.flow.entry(burst.sa).or_default().0 += burst.numbers.len();
        Ok(())
    }

    pub(super) fn accepted(&mut self, burst: &Burst, etcd: &Etcd, keys: &Keys) -> Result<(), String> {
        self.alone(burst, etcd, keys)?;
        let term = if self.is_strict { 0 } else { burst.term };
        let used = self.accepted.entry((burst.sa, term)).or_default();
        if burst.numbers.iter().filter(|number| !used.insert(**number)).count() > 0 && !self.is_forgotten {
            return Err(format!("invariant 3: accepted twice: {burst:?}"));
        }
        let bound = self.bound(burst, etcd, keys).filter(|_| self.is_strict);
        if bound.is_some_and(|bound| burst.numbers.iter().any(|number| *number > bound.accept_until)) {
            return Err(format!("invariant 5: accepted above the reservation: {burst:?}"));
        }
        self.figures.accepted += burst.numbers.len() as u64;
        self.flow.entry(burst.sa).or_default().1 += burst.numbers.len();
        Ok(())
    }

    fn alone(&self, burst: &Burst, etcd: &Etcd, keys: &Keys) -> Result<(), String> {
        let term = etcd.get(&keys.leader(&burst.group)).map(|entry| entry.created);
        if self.is_lenient || self.is_restored || term == Some(burst.term) {
            return Ok(());
        }
        Err(format!("invariant 1: the store has the term {term:?}, but {burst:?} passes"))
    }

    /// The reservation that bounds an SA: that of the store, or the first one if it does not have
    /// it yet. Once the store has no SA any more, only a leader that was paused can use it.
    fn bound(&mut self, burst: &Burst, etcd: &Etcd, keys: &Keys) -> Option<Reservation> {
        if self.is_restored {
            return None;
        }
        match etcd.get(&keys.reservation(&burst.group, burst.sa)) {
            Some(entry) => {
                self.stored.insert(burst.sa);
                Some(Reservation::decode(&entry.value).expect("a reservation"))
            }
            None if !self.stored.contains(&burst.sa) => Some(self.first),
            None if self.is_lenient => None,
            None => Some(Reservation::default()),
        }
    }
}

/// A set of small numbers.
#[derive(Default)]
struct Numbers(Vec<u64>);

impl Numbers {
    /// Whether it did not have it.
    fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}
