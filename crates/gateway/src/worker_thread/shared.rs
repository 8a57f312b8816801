//! The pairs of SAs of a worker whose numbers are kept: those with static keys, and in a cluster a
//! key daemon's. Each is found by its SAs and by its generation, as there may be many thousands.

use std::collections::HashMap;

use convoy_ipsec::SaIndex;

use super::WorkerThread;
use crate::assemble::{Installed, Pair};
use crate::state::{Beginning, Numbers};

/// Where a pair is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The tunnel's place, and the pair's in it.
    Installed(u32, u32),
    /// A key daemon's, by its SA.
    Shared(SaIndex),
}

/// Where all pairs are.
#[derive(Debug, Default)]
pub(super) struct Places {
    by_sa: HashMap<SaIndex, Place>,
    by_generation: HashMap<u64, Place>,
}

impl Places {
    /// Those of these pairs.
    pub(super) fn of(installed: &[Installed], shared: &HashMap<SaIndex, Pair>) -> Self {
        let mut places = Self::default();
        for (tunnel, at) in installed.iter().zip(0..) {
            for (pair, within) in tunnel.pairs.iter().zip(0..) {
                places.add(pair, Place::Installed(at, within));
            }
        }
        shared.iter().for_each(|(sa, pair)| places.add(pair, Place::Shared(*sa)));
        places
    }

    fn add(&mut self, pair: &Pair, place: Place) {
        self.by_sa.extend(pair.sas.iter().map(|sa| (*sa, place)));
        self.by_generation.extend(pair.numbers.iter().map(|numbers| (numbers.generation(), place)));
    }

    fn remove(&mut self, pair: &Pair) {
        for sa in &pair.sas {
            self.by_sa.remove(sa);
        }
        if let Some(numbers) = &pair.numbers {
            self.by_generation.remove(&numbers.generation());
        }
    }
}

/// The pairs of a worker, to be found.
pub(crate) struct NumberedPairs<'a> {
    pub(super) installed: &'a mut [Installed],
    pub(super) shared: &'a mut HashMap<SaIndex, Pair>,
    pub(super) places: &'a Places,
}

impl NumberedPairs<'_> {
    /// The pair of an SA.
    pub(crate) fn of_sa(&mut self, sa: SaIndex) -> Option<&mut Pair> {
        let place = *self.places.by_sa.get(&sa)?;
        self.at(place)
    }

    /// The pair of a generation.
    pub(crate) fn of_generation(&mut self, generation: u64) -> Option<&mut Pair> {
        let place = *self.places.by_generation.get(&generation)?;
        self.at(place)
    }

    fn at(&mut self, place: Place) -> Option<&mut Pair> {
        match place {
            Place::Installed(tunnel, pair) => {
                self.installed.get_mut(tunnel as usize)?.pairs.get_mut(pair as usize)
            }
            Place::Shared(sa) => self.shared.get_mut(&sa),
        }
    }
}

impl WorkerThread {
    /// All pairs.
    pub(super) fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.installed.iter().flat_map(|tunnel| &tunnel.pairs).chain(self.shared.values())
    }

    /// Reports an SA's numbers from now on.
    pub(super) fn share(&mut self, sa: SaIndex, beginning: &Beginning) {
        let pair = Pair { sas: vec![sa], numbers: Numbers::new(beginning) };
        self.places.add(&pair, Place::Shared(sa));
        self.shared.insert(sa, pair);
    }

    /// An SA is gone.
    pub(super) fn unshare(&mut self, sa: SaIndex) {
        if let Some(pair) = self.shared.remove(&sa) {
            self.places.remove(&pair);
        }
    }

    /// Finds all pairs again, after tunnels were installed or removed.
    pub(super) fn find_pairs(&mut self) {
        self.places = Places::of(&self.installed, &self.shared);
    }
}
