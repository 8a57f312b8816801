//! The security association database (RFC 4301 section 4.4.2) of one worker.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::algorithm::Transform;
use crate::drops::DropCounters;
use crate::flow::address_number;
use crate::inbound::InboundSa;
use crate::job::SaIndex;
use crate::outbound::OutboundSa;
use crate::path_mtu::{PathMtu, SentLately};
use crate::sa::SaError;
use crate::sa_config::{Mode, OuterDf, SaConfig, SaDirection, SaEnds, SaProtocol, UdpEncap};
use crate::spi_table::SpiTable;

/// Why an SA was not installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// Another SA has its SPI.
    #[error("{new}: its SPI is taken by {present} ({index:?}); give one of them another SPI")]
    OverlappingSpi {
        /// The one that was to be installed.
        new: SaName,
        /// The one that is.
        present: SaName,
        /// Where that one stands.
        index: SaIndex,
    },
    /// Its settings do not go together.
    #[error(transparent)]
    Invalid(#[from] SaError),
}

/// What tells an SA from others, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaName {
    /// Its SPI.
    pub spi: u32,
    /// Which way.
    pub direction: SaDirection,
    /// ESP or AH.
    pub protocol: SaProtocol,
    /// Our outer address.
    pub local: IpAddr,
    /// The peer's outer address.
    pub remote: IpAddr,
}

impl SaName {
    /// The name of the SA that `config` describes.
    pub fn of(config: &SaConfig) -> Self {
        let SaConfig { spi, direction, protocol, local, remote, .. } = *config;
        Self { spi, direction, protocol, local, remote }
    }
}

impl fmt::Display for SaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            SaProtocol::Esp => "ESP",
            SaProtocol::Ah => "AH",
        };
        let (direction, arrow) = match self.direction {
            SaDirection::Outbound => ("outbound", "->"),
            SaDirection::Inbound => ("inbound", "<-"),
        };
        write!(f, "{direction} {protocol} SA {:#010x} ({} {arrow} {})", self.spi, self.local, self.remote)
    }
}

/// One direction's state.
pub(crate) enum Sa {
    Outbound(OutboundSa),
    Inbound(InboundSa),
}

/// What the processor knows of an SA beside its state; nothing secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SaFacts {
    pub(crate) name: SaName,
    pub(crate) mode: Mode,
    pub(crate) encap: Option<UdpEncap>,
    pub(crate) transform: Transform,
    pub(crate) esn: bool,
    pub(crate) df: OuterDf,
    pub(crate) tfc_bytes: u16,
    pub(crate) owner: u16,
}

impl SaFacts {
    fn of(config: &SaConfig) -> Self {
        let SaConfig { mode, encap, esn, df, tfc_bytes, owner, .. } = *config;
        let (name, transform) = (SaName::of(config), config.keys.transform());
        Self { name, mode, encap, transform, esn, df, tfc_bytes, owner }
    }

    /// The peer's end; port 0 where nothing is encapsulated.
    pub(crate) fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.name.remote, self.encap.map_or(0, |encap| encap.remote_port))
    }
}

/// One SA and what the processor keeps beside it.
pub(crate) struct Slot {
    pub(crate) sa: Sa,
    pub(crate) facts: SaFacts,
    /// Told to every packet in flight, so that one which outlives its SA is not taken for its successor's.
    pub(crate) generation: u32,
    /// The tunnel's number.
    pub(crate) tunnel: u32,
    /// Of the path to the peer; outbound.
    pub(crate) path: PathMtu,
    /// Which packets the path can tell of; outbound.
    pub(crate) sent_lately: SentLately,
    pub(crate) drops: DropCounters,
    /// When a packet last left; outbound.
    pub(crate) last_sent_ns: u64,
    /// When a packet last left or came in, if one did; keep-alives do not count.
    pub(crate) last_used_ns: Option<u64>,
    /// Where the peer was and where it has moved, until that is told; inbound.
    pub(crate) moved: Option<(SocketAddr, SocketAddr)>,
    /// Whether only packets in flight know it any more: its SPI is free for another.
    pub(crate) is_withdrawn: bool,
}

/// All SAs of one worker, its own and the others'.
#[derive(Default)]
pub(crate) struct Sad {
    slots: Vec<Option<Slot>>,
    /// Indices to be used again, the longest free first.
    free: VecDeque<u32>,
    inbound: SpiTable,
    outbound: SpiTable,
    generations: u32,
}

/// Inbound SAs are told apart by SPI and protocol (RFC 4301 section 4.1).
fn inbound_key(spi: u32, protocol: SaProtocol) -> u64 {
    u64::from(spi) | (protocol as u64) << 32
}

/// Outbound SPIs are the peers' choice, so the peer is part of the key.
fn outbound_key(spi: u32, protocol: SaProtocol, remote: IpAddr) -> u64 {
    let remote = address_number(remote);
    let mixed = (remote as u64 ^ (remote >> 64) as u64).wrapping_mul(0x94d0_49bb_1331_11eb);
    inbound_key(spi, protocol) ^ mixed.rotate_left(31)
}

fn key_of(name: &SaName) -> u64 {
    match name.direction {
        SaDirection::Inbound => inbound_key(name.spi, name.protocol),
        SaDirection::Outbound => outbound_key(name.spi, name.protocol, name.remote),
    }
}

impl Sad {
    /// Puts an SA into the slot that has been free the longest.
    pub(crate) fn install(
        &mut self,
        config: &SaConfig,
        tunnel: u32,
        now_ns: u64,
    ) -> Result<SaIndex, InstallError> {
        let sa = match config.direction {
            SaDirection::Outbound => Sa::Outbound(OutboundSa::new(config, now_ns)?),
            SaDirection::Inbound => Sa::Inbound(InboundSa::new(config, now_ns)?),
        };
        let facts = SaFacts::of(config);
        let index = SaIndex(self.free.front().copied().unwrap_or(self.slots.len() as u32));
        if let Err(taken) = self.table(config.direction).insert(key_of(&facts.name), index) {
            let present = self.get(taken).map_or(facts.name, |slot| slot.facts.name);
            return Err(InstallError::OverlappingSpi { new: facts.name, present, index: taken });
        }
        self.generations = self.generations.wrapping_add(1);
        let slot = Slot {
            sa,
            facts,
            generation: self.generations,
            tunnel,
            path: PathMtu::default(),
            sent_lately: SentLately::default(),
            drops: DropCounters::default(),
            last_sent_ns: now_ns,
            last_used_ns: None,
            moved: None,
            is_withdrawn: false,
        };
        if self.free.pop_front().is_none() {
            self.slots.push(None);
        }
        self.slots[index.0 as usize] = Some(slot);
        Ok(index)
    }

    fn table(&mut self, direction: SaDirection) -> &mut SpiTable {
        match direction {
            SaDirection::Inbound => &mut self.inbound,
            SaDirection::Outbound => &mut self.outbound,
        }
    }

    /// Lets nothing more find an SA by its SPI; it stays for its packets in flight. Returns its tunnel's number.
    pub(crate) fn withdraw(&mut self, index: SaIndex) -> Option<u32> {
        let slot = self.get_mut(index)?;
        let (name, tunnel) = (slot.facts.name, slot.tunnel);
        if !std::mem::replace(&mut slot.is_withdrawn, true) {
            self.table(name.direction).remove(key_of(&name));
        }
        Some(tunnel)
    }

    /// Takes an SA out.
    pub(crate) fn remove(&mut self, index: SaIndex) -> Option<Slot> {
        self.withdraw(index)?;
        let slot = self.slots[index.0 as usize].take();
        self.free.push_back(index.0);
        slot
    }

    /// Notes that an SA's peer is elsewhere. Nothing happens if that is of another family, or if another SA
    /// has the SPI there.
    pub(crate) fn move_peer(&mut self, index: SaIndex, peer: SocketAddr) {
        let Some(facts) = self.get(index).map(|slot| slot.facts) else { return };
        if peer.is_ipv6() == facts.name.remote.is_ipv6() {
            let encap = facts.encap.map(|encap| UdpEncap { remote_port: peer.port(), ..encap });
            self.move_sa(index, &SaEnds { local: facts.name.local, remote: peer.ip(), encap });
        }
    }

    /// Gives an SA other ends; `false` if it is unknown or withdrawn, if another has its SPI there, or if it cannot
    /// travel so.
    pub(crate) fn move_sa(&mut self, index: SaIndex, ends: &SaEnds) -> bool {
        let Some(&Slot { facts, is_withdrawn, .. }) = self.get(index) else { return false };
        let moved = SaName { local: ends.local, remote: ends.remote, ..facts.name };
        let is_possible = !is_withdrawn
            && ends.local.is_ipv6() == ends.remote.is_ipv6()
            && (ends.encap.is_none() || moved.protocol == SaProtocol::Esp);
        if !is_possible {
            return false;
        }
        let (old, new) = (key_of(&facts.name), key_of(&moved));
        if old != new {
            let table = self.table(moved.direction);
            if table.insert(new, index).is_err() {
                return false;
            }
            table.remove(old);
        }
        if let Some(slot) = self.get_mut(index) {
            (slot.facts.name, slot.facts.encap) = (moved, ends.encap);
            if let Sa::Outbound(sa) = &mut slot.sa {
                sa.set_ends(ends);
            }
        }
        true
    }

    /// The inbound SA under an SPI.
    pub(crate) fn find_inbound(&self, spi: u32, protocol: SaProtocol) -> Option<SaIndex> {
        self.inbound.get(inbound_key(spi, protocol))
    }

    /// The outbound SA to a peer under an SPI.
    pub(crate) fn find_outbound(&self, spi: u32, protocol: SaProtocol, remote: IpAddr) -> Option<SaIndex> {
        self.outbound.get(outbound_key(spi, protocol, remote))
    }

    /// What stands at an index.
    pub(crate) fn get(&self, index: SaIndex) -> Option<&Slot> {
        self.slots.get(index.0 as usize)?.as_ref()
    }

    /// What stands at an index.
    pub(crate) fn get_mut(&mut self, index: SaIndex) -> Option<&mut Slot> {
        self.slots.get_mut(index.0 as usize)?.as_mut()
    }

    /// All SAs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SaIndex, &Slot)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(place, slot)| slot.as_ref().map(|slot| (SaIndex(place as u32), slot)))
    }

    /// All SAs.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (SaIndex, &mut Slot)> {
        let numbered = self.slots.iter_mut().enumerate();
        numbered.filter_map(|(place, slot)| slot.as_mut().map(|slot| (SaIndex(place as u32), slot)))
    }
}
