//! The stage of a packet between `prepare` and `finish`, and what the latter needs to know of it.

use convoy_packet::FrameError;

use crate::drops::DropReason;
use crate::esp::outer_header::Inner;

/// The longest packet that is protected or opened, in bytes: positions in a
/// [`CryptoJob`](crate::CryptoJob) have 16 bits. IPv6's length field, which excludes its header,
/// would allow 40 bytes more.
pub(crate) const LONGEST_BYTES: usize = u16::MAX as usize;

/// The stage of a packet between `prepare` and `finish`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// Its job is laid out.
    #[default]
    LaidOut,
    /// It is unmodified and valid so far; it has no job yet, nor a number unless its context has
    /// one.
    Raw,
    /// It was opened and stripped, or is to be dropped although it is authentic.
    Stripped(Result<(), DropReason>),
}

/// What `finish` needs to know of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct FinishContext {
    /// The 64-bit sequence number; 0 is none yet.
    pub(crate) sequence: u64,
    /// The generation of the SA: counts the SAs that had its index one after another.
    pub(crate) generation: u32,
    /// Position of the ESP or AH header, in bytes from the packet's start (without what AH saved).
    pub(crate) header: u16,
    /// Bytes that AH saved before the packet.
    pub(crate) saved: u16,
    /// IPv4's identification of the outer header.
    pub(crate) identification: u16,
    /// Whether the packet exceeds its path and will be cut.
    pub(crate) is_cut: bool,
    pub(crate) form: Form,
    /// Of a raw outbound packet: what its outer header takes over. Of an inbound one: the outer
    /// traffic class.
    pub(crate) inner: Inner,
}

/// Converts a frame error to a drop reason: the frame was too small for what the SA adds.
pub(crate) fn no_room(_: FrameError) -> DropReason {
    DropReason::NoRoom
}
