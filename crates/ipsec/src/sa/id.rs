//! Identification of SAs: at their worker, and in the whole process.

/// An SA's index in its worker's SAD. Engines cache keys under it, and the scheduler groups by it.
/// It is reused only after every engine has removed the previous key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SaIndex(pub u32);

/// The direction of an SA's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SaDirection {
    /// From the inside to the peer.
    Outbound,
    /// From the peer to the inside.
    Inbound,
}

/// The protocol of an SA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SaProtocol {
    /// Encapsulating Security Payload (RFC 4303).
    #[default]
    Esp,
    /// Authentication Header (RFC 4302).
    Ah,
}

/// What policies refer to instead of an SA, so that they outlive it: all SAs of one tunnel (in
/// IKE's terms, of one CHILD_SA and its successors) carry the same id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TunnelId(pub u32);

impl TunnelId {
    /// The worker among `workers` that serves it: tunnels are assigned to workers in turn, by their
    /// numbers, so that everyone can compute the owner.
    #[inline]
    pub const fn owner(self, workers: u16) -> u16 {
        (self.0 % workers as u32) as u16
    }
}

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
