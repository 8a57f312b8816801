//! The security association database (RFC 4301 section 4.4.2) of one worker.

pub(crate) mod cached_limits;
pub(crate) mod directory;
pub(crate) mod inbound_sa;
pub(crate) mod outbound_sa;
pub(crate) mod path_mtu;
pub(crate) mod replay;
pub(crate) mod spi_table;
pub(crate) mod table;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::drops::SaDrops;
use crate::sa::config::{SaConfig, SaEnds, UdpEncap};
use crate::sa::facts::{SaCommon, SaFacts, SaName};
use crate::sa::id::{InboundId, OutboundId, SaDirection, SaId, SaIndex, SaNumber, SaProtocol};
use crate::sa::lifetime::Usage;
use crate::sa::validate::{SaError, validate};
use crate::sad::directory::{Directory, DirectoryEntry};
use crate::sad::inbound_sa::{InboundCold, InboundSa};
use crate::sad::outbound_sa::{OutboundCold, OutboundSa};
use crate::sad::spi_table::SpiTable;
use crate::sad::table::SaTable;

/// Why an SA was not installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// Another SA has its SPI, of this worker or another.
    #[error("{new}: its SPI is used by {present}; give one of them another SPI")]
    OverlappingSpi {
        /// The SA to be installed.
        new: SaName,
        /// The existing one.
        present: SaName,
    },
    /// Its settings are contradictory.
    #[error(transparent)]
    Invalid(#[from] SaError),
}

/// The SAs that one worker serves. Others' are only in the directory.
pub(crate) struct Sad {
    worker: u16,
    directory: Arc<Directory>,
    pub(crate) outbound: SaTable<OutboundSa, OutboundCold>,
    pub(crate) inbound: SaTable<InboundSa, InboundCold>,
    inbound_spis: SpiTable,
    generations: u32,
}

/// Inbound SAs are identified by SPI and protocol (RFC 4301 section 4.1).
#[inline]
fn inbound_key(spi: u32, protocol: SaProtocol) -> u64 {
    u64::from(spi) | (protocol as u64) << 32
}

impl Sad {
    /// An empty SAD of a worker, whose SAs are entered in `directory`.
    pub(crate) fn new(worker: u16, directory: Arc<Directory>) -> Self {
        Self {
            worker,
            directory,
            outbound: SaTable::default(),
            inbound: SaTable::default(),
            inbound_spis: SpiTable::default(),
            generations: 0,
        }
    }

    /// The directory of all workers' SAs.
    #[inline]
    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Installs an SA at the index of its direction that has been free the longest.
    pub(crate) fn install(
        &mut self,
        config: &SaConfig,
        tunnel: u32,
        now_ns: u64,
    ) -> Result<SaIndex, InstallError> {
        validate(config)?;
        let facts = SaFacts::of(config);
        let index = match config.direction {
            SaDirection::Outbound => SaIndex::from(OutboundId(self.outbound.next_place())),
            SaDirection::Inbound => InboundId(self.inbound.next_place()).into(),
        };
        let generation = self.generations.wrapping_add(1);
        let number = SaNumber { owner: self.worker, index, generation };
        let entered = self.directory.enter(DirectoryEntry { number, name: facts.name });
        entered.map_err(|present| InstallError::OverlappingSpi { new: facts.name, present })?;
        self.generations = generation;
        let usage = Usage::new(config.lifetime, now_ns);
        let drops = SaDrops::default();
        let common = SaCommon { facts, tunnel, generation, usage, drops, is_withdrawn: false };
        match index.id() {
            SaId::Outbound(_) => {
                self.outbound.insert(OutboundSa::new(config, &common), OutboundCold::new(config, common));
            }
            SaId::Inbound(id) => {
                // The key is free, as every inbound SA in this table has its entry in the
                // directory.
                let _ = self.inbound_spis.insert(inbound_key(config.spi, config.protocol), id.0);
                self.inbound.insert(InboundSa::new(config, &common), InboundCold::new(config, common));
            }
        }
        Ok(index)
    }

    /// The number of an SA in the whole process.
    pub(crate) fn number(&self, index: SaIndex) -> Option<SaNumber> {
        let generation = self.common(index)?.generation;
        Some(SaNumber { owner: self.worker, index, generation })
    }

    /// Makes an SA unreachable by its SPI; it stays for its packets in flight. Returns its tunnel's
    /// number.
    pub(crate) fn withdraw(&mut self, index: SaIndex) -> Option<u32> {
        let number = self.number(index)?;
        let common = self.common_mut(index)?;
        let (name, tunnel) = (common.facts.name, common.tunnel);
        if !std::mem::replace(&mut common.is_withdrawn, true) {
            self.directory.delete(&DirectoryEntry { number, name });
            if let SaId::Inbound(_) = index.id() {
                self.inbound_spis.remove(inbound_key(name.spi, name.protocol));
            }
        }
        Some(tunnel)
    }

    /// Removes an SA.
    pub(crate) fn remove(&mut self, index: SaIndex) -> Option<SaCommon> {
        self.withdraw(index)?;
        match index.id() {
            SaId::Outbound(id) => self.outbound.remove(id.0).map(|cold| cold.common),
            SaId::Inbound(id) => self.inbound.remove(id.0).map(|cold| cold.common),
        }
    }

    /// Changes the peer's end of an inbound SA. Nothing happens if it is of another family, or if
    /// another SA has the SPI there.
    pub(crate) fn move_peer(&mut self, id: InboundId, peer: SocketAddr) {
        let index = id.into();
        let Some(facts) = self.common(index).map(|common| common.facts) else { return };
        if peer.is_ipv6() == facts.name.remote.is_ipv6() {
            let encap = facts.encap.map(|encap| UdpEncap { remote_port: peer.port(), ..encap });
            self.move_sa(index, &SaEnds { local: facts.name.local, remote: peer.ip(), encap });
        }
    }

    /// Gives an SA other ends; `false` if it is unknown or withdrawn, if another has its SPI there,
    /// or if the ends are invalid for it.
    pub(crate) fn move_sa(&mut self, index: SaIndex, ends: &SaEnds) -> bool {
        let Some(&SaCommon { facts, is_withdrawn, .. }) = self.common(index) else { return false };
        let moved = SaName { local: ends.local, remote: ends.remote, ..facts.name };
        let is_possible = !is_withdrawn
            && ends.local.is_ipv6() == ends.remote.is_ipv6()
            && (ends.encap.is_none() || moved.protocol == SaProtocol::Esp);
        if !is_possible {
            return false;
        }
        let Some(number) = self.number(index) else { return false };
        if self.directory.rename(&DirectoryEntry { number, name: facts.name }, moved).is_err() {
            return false;
        }
        if let Some(common) = self.common_mut(index) {
            (common.facts.name, common.facts.encap) = (moved, ends.encap);
        }
        match index.id() {
            SaId::Outbound(id) => {
                if let Some((sa, cold)) = self.outbound.hot_and_cold_mut(id.0) {
                    sa.set_ends(cold, ends);
                }
            }
            SaId::Inbound(id) => {
                if let Some(sa) = self.inbound.hot_mut(id.0) {
                    sa.set_ends(ends);
                }
            }
        }
        true
    }

    /// The inbound SA under an SPI.
    #[inline]
    pub(crate) fn find_inbound(&self, spi: u32, protocol: SaProtocol) -> Option<InboundId> {
        self.inbound_spis.get(inbound_key(spi, protocol)).map(InboundId)
    }

    /// Prefetches what [`find_inbound`](Self::find_inbound) reads.
    #[inline]
    pub(crate) fn prefetch_spi(&self, spi: u32, protocol: SaProtocol) {
        self.inbound_spis.prefetch(inbound_key(spi, protocol));
    }

    /// The shared state of an SA of either direction.
    pub(crate) fn common(&self, index: SaIndex) -> Option<&SaCommon> {
        match index.id() {
            SaId::Outbound(id) => self.outbound.cold(id.0).map(|cold| &cold.common),
            SaId::Inbound(id) => self.inbound.cold(id.0).map(|cold| &cold.common),
        }
    }

    /// The shared state of an SA of either direction.
    pub(crate) fn common_mut(&mut self, index: SaIndex) -> Option<&mut SaCommon> {
        match index.id() {
            SaId::Outbound(id) => self.outbound.cold_mut(id.0).map(|cold| &mut cold.common),
            SaId::Inbound(id) => self.inbound.cold_mut(id.0).map(|cold| &mut cold.common),
        }
    }

    /// All SAs, one direction after the other.
    pub(crate) fn indices(&self) -> impl Iterator<Item = SaIndex> + '_ {
        let outbound = self.outbound.places().map(|place| OutboundId(place).into());
        outbound.chain(self.inbound.places().map(|place| InboundId(place).into()))
    }
}
