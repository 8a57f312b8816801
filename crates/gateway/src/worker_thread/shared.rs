//! The numbers of a key daemon's SAs in a cluster.

use std::collections::HashMap;

use convoy_ipsec::SaIndex;

use super::WorkerThread;
use crate::assemble::{Installed, Pair};
use crate::state::{Beginning, Numbers};

/// All SAs whose numbers are kept: those of the configuration, and the key daemon's.
pub(super) fn all<'a>(
    installed: &'a mut [Installed],
    shared: &'a mut HashMap<SaIndex, Pair>,
) -> impl Iterator<Item = &'a mut Pair> {
    installed.iter_mut().flat_map(|tunnel| &mut tunnel.pairs).chain(shared.values_mut())
}

impl WorkerThread {
    /// The same, to be read.
    pub(super) fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.installed.iter().flat_map(|tunnel| &tunnel.pairs).chain(self.shared.values())
    }

    /// Reports an SA's numbers from now on.
    pub(super) fn share(&mut self, sa: SaIndex, beginning: &Beginning) {
        self.shared.insert(sa, Pair { sas: vec![sa], numbers: Numbers::new(beginning) });
    }
}
