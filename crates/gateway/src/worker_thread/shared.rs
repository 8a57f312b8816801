//! The pairs of SAs of a worker whose numbers are kept: those with static keys, and in a cluster a
//! key daemon's. Each is found by its SAs and by its start, as there may be many thousands.

use std::collections::HashMap;

use convoy_assembly::assemble::InstalledTunnel;
use convoy_ipsec::{SaIndex, TunnelId};
use convoy_state::{NumberedPairs, Numbers, Pair, StartId, Started};

use super::WorkerThread;
use super::tunnels::InstalledTunnels;

/// Where a pair is.
#[derive(Clone, Copy, Debug)]
enum PairPlace {
    /// The tunnel, and the pair's place in it.
    Installed(TunnelId, u32),
    /// A key daemon's, by its SA.
    Shared(SaIndex),
}

/// Where all pairs are.
#[derive(Debug, Default)]
pub(super) struct Places {
    by_sa: HashMap<SaIndex, PairPlace>,
    by_start: HashMap<StartId, PairPlace>,
}

impl Places {
    /// Adds the pairs of a tunnel.
    pub(super) fn add_tunnel(&mut self, tunnel: &InstalledTunnel) {
        for (pair, within) in tunnel.pairs.iter().zip(0..) {
            self.add(pair, PairPlace::Installed(tunnel.id, within));
        }
    }

    /// Removes the pairs of a tunnel.
    pub(super) fn remove_tunnel(&mut self, tunnel: &InstalledTunnel) {
        tunnel.pairs.iter().for_each(|pair| self.remove(pair));
    }

    fn add(&mut self, pair: &Pair, place: PairPlace) {
        self.by_sa.extend(pair.sas.iter().map(|sa| (*sa, place)));
        self.by_start.extend(pair.numbers.iter().map(|numbers| (numbers.id(), place)));
    }

    fn remove(&mut self, pair: &Pair) {
        for sa in &pair.sas {
            self.by_sa.remove(sa);
        }
        if let Some(numbers) = &pair.numbers {
            self.by_start.remove(&numbers.id());
        }
    }
}

/// The pairs of a worker, to be found.
pub(super) struct PairsOfWorker<'a> {
    pub(super) installed: &'a mut InstalledTunnels,
    pub(super) shared: &'a mut HashMap<SaIndex, Pair>,
    pub(super) places: &'a Places,
}

impl NumberedPairs for PairsOfWorker<'_> {
    fn of_sa(&mut self, sa: SaIndex) -> Option<&mut Pair> {
        let place = *self.places.by_sa.get(&sa)?;
        self.at(place)
    }

    fn of_start(&mut self, id: StartId) -> Option<&mut Pair> {
        let place = *self.places.by_start.get(&id)?;
        self.at(place)
    }
}

impl PairsOfWorker<'_> {
    fn at(&mut self, place: PairPlace) -> Option<&mut Pair> {
        match place {
            PairPlace::Installed(tunnel, pair) => self.installed.pair_mut(tunnel, pair),
            PairPlace::Shared(sa) => self.shared.get_mut(&sa),
        }
    }
}

impl WorkerThread {
    /// All pairs.
    pub(super) fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.installed.iter().flat_map(|tunnel| &tunnel.pairs).chain(self.shared.values())
    }

    /// Reports an SA's numbers from now on.
    pub(super) fn share(&mut self, sa: SaIndex, started: &Started) {
        let pair = Pair { sas: vec![sa], numbers: Numbers::new(started) };
        self.places.add(&pair, PairPlace::Shared(sa));
        self.reporter.iter_mut().for_each(|reporter| reporter.begin([&pair]));
        self.shared.insert(sa, pair);
    }

    /// An SA is gone.
    pub(super) fn unshare(&mut self, sa: SaIndex) {
        if let Some(pair) = self.shared.remove(&sa) {
            self.places.remove(&pair);
        }
    }

    /// Reports no SA's numbers any more but those of the configuration's tunnels; returns the
    /// others' pairs.
    pub(super) fn unshare_all(&mut self) -> Vec<Pair> {
        let shared: Vec<Pair> = std::mem::take(&mut self.shared).into_values().collect();
        shared.iter().for_each(|pair| self.places.remove(pair));
        shared
    }
}
