//! Identification of SAs: at their worker, and in the whole process.

use crate::job::SaIndex;
use crate::sa_config::SaDirection;

/// An outbound SA, by its index among the outbound ones of its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutboundId(pub(crate) u32);

/// An inbound SA, by its index among the inbound ones of its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InboundId(pub(crate) u32);

/// An SA of either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaId {
    /// One that protects.
    Outbound(OutboundId),
    /// One that checks and decrypts.
    Inbound(InboundId),
}

/// An SA in the whole process. No two SAs ever have the same number: a reused index has another
/// generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SaNumber {
    /// The worker that owns it.
    pub owner: u16,
    /// Its index there.
    pub index: SaIndex,
    /// The generation: counts the SAs that had this index one after another.
    pub generation: u32,
}

// Engines and the scheduler keep both directions in one array: even numbers are outbound, odd ones
// inbound.

impl From<OutboundId> for SaIndex {
    #[inline]
    fn from(id: OutboundId) -> Self {
        Self(id.0 << 1)
    }
}

impl From<InboundId> for SaIndex {
    #[inline]
    fn from(id: InboundId) -> Self {
        Self(id.0 << 1 | 1)
    }
}

impl SaIndex {
    /// The SA's index among those of its direction.
    #[inline]
    pub const fn id(self) -> SaId {
        if self.0 & 1 == 0 {
            SaId::Outbound(OutboundId(self.0 >> 1))
        } else {
            SaId::Inbound(InboundId(self.0 >> 1))
        }
    }

    /// The SA, if it is an outbound one.
    #[inline]
    pub const fn outbound(self) -> Option<OutboundId> {
        match self.id() {
            SaId::Outbound(id) => Some(id),
            SaId::Inbound(_) => None,
        }
    }

    /// The SA, if it is an inbound one.
    #[inline]
    pub const fn inbound(self) -> Option<InboundId> {
        match self.id() {
            SaId::Inbound(id) => Some(id),
            SaId::Outbound(_) => None,
        }
    }

    /// Its direction.
    pub const fn direction(self) -> SaDirection {
        match self.id() {
            SaId::Outbound(_) => SaDirection::Outbound,
            SaId::Inbound(_) => SaDirection::Inbound,
        }
    }
}
