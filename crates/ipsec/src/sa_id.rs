//! Which SA is meant, and which way its packets go, in one number.

use crate::job::SaIndex;
use crate::sa_config::SaDirection;

/// An outbound SA's place among the outbound ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OutboundId(pub(crate) u32);

/// An inbound SA's place among the inbound ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct InboundId(pub(crate) u32);

/// An SA of either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaId {
    Outbound(OutboundId),
    Inbound(InboundId),
}

// Engines and the scheduler keep both directions in one array, so that even numbers are outbound and odd ones inbound.

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
    #[inline]
    pub(crate) const fn id(self) -> SaId {
        if self.0 & 1 == 0 {
            SaId::Outbound(OutboundId(self.0 >> 1))
        } else {
            SaId::Inbound(InboundId(self.0 >> 1))
        }
    }

    /// The SA, if it is an outbound one.
    #[inline]
    pub(crate) const fn outbound(self) -> Option<OutboundId> {
        match self.id() {
            SaId::Outbound(id) => Some(id),
            SaId::Inbound(_) => None,
        }
    }

    /// The SA, if it is an inbound one.
    #[inline]
    pub(crate) const fn inbound(self) -> Option<InboundId> {
        match self.id() {
            SaId::Inbound(id) => Some(id),
            SaId::Outbound(_) => None,
        }
    }

    /// Which way its packets go.
    pub const fn direction(self) -> SaDirection {
        match self.id() {
            SaId::Outbound(_) => SaDirection::Outbound,
            SaId::Inbound(_) => SaDirection::Inbound,
        }
    }
}
