//! The packet memory, frames from pools in it, header views and checksums.
//!
//! - [`Region`] is the packet memory of the process: one mapping, in huge pages where possible.
//! - [`FramePool`] has the free frames of one worker, in three sizes ([`FrameSize`]), cut from the
//!   region.
//! - [`Frame`] is one packet with headroom before and tailroom behind it, as an index into the
//!   region. Headers are added and removed in place. A frame freed on another thread returns to its
//!   pool through a queue (`return_queue.rs`).
//! - [`Layout`] is one walk over a packet's IP headers; a view ([`Ipv4`], [`Udp`], [`Esp`], ...)
//!   reads one header.
//!
//! A packet's way: a port takes a frame from its worker's pool and fills it, or lends it to a
//! device ([`Loans`]) that does. Anyone who classifies it parses a view or a [`Layout`]; nearly all
//! packets are covered by a few words ([`Plain`]). Outer headers are written from templates
//! ([`IpTemplate`]) into the headroom, and the port that sends the frame returns it to a pool.
//!
//! Each header has a file of the same form: a view whose `parse` checks everything that the
//! accessors rely on, accessors named after the RFC's fields, a writer, tests. A view borrows the
//! bytes and copies nothing. [`ip`] reads and writes either family's. No other crate knows the
//! offset of a field.
//!
//! Pure: no socket, thread, clock or random source. Knows nothing of IPsec policy, engines or
//! ports.

pub mod aggfrag;
pub mod ah;
pub mod arp;
pub mod checksum;
pub mod esp;
pub mod esp_echo;
pub mod ethernet;
mod field;
mod fragment;
mod frame;
mod header_error;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
mod layout;
mod loan;
mod mutable;
pub mod ndp;
mod offload;
mod plain;
mod pool;
mod prefetch;
pub mod protocol;
mod region;
mod return_queue;
pub mod tcp;
mod template;
pub mod udp;

pub use aggfrag::{Aggfrag, DataBlock};
pub use ah::Ah;
pub use arp::Arp;
pub use esp::Esp;
pub use esp_echo::EspEcho;
pub use ethernet::{Ethernet, MacAddress};
pub use fragment::Fragment;
pub use frame::{Frame, FrameSize, HEADROOM_BYTES, HUGE_FRAME_BYTES, JUMBO_FRAME_BYTES, SMALL_FRAME_BYTES};
pub use header_error::HeaderError;
pub use icmp::Icmp;
pub use ip::IpHeader;
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use layout::Layout;
pub use loan::Loans;
pub use mutable::zero_mutable;
pub use ndp::{Ndp, NdpKind};
pub use offload::Offload;
pub use plain::{Plain, PlainFamily, PlainV4, PlainV6};
pub use pool::FramePool;
pub use prefetch::prefetch;
pub use region::{CHUNK_BYTES, Pages, Region, RegionError};
pub use template::{IpTemplate, IpVariables};
pub use udp::Udp;

/// Why a frame could not be changed as asked. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// More room before the packet was asked for than there is.
    #[error("{need} bytes of headroom are needed, {have} are free")]
    NoHeadroom {
        /// Asked for.
        need: usize,
        /// Free.
        have: usize,
    },
    /// More room behind the packet was asked for than there is.
    #[error("{need} bytes of tailroom are needed, {have} are free")]
    NoTailroom {
        /// Asked for.
        need: usize,
        /// Free.
        have: usize,
    },
    /// More bytes were to be cut off than there are.
    #[error("{need} bytes to be cut off, the packet has {have}")]
    TooShort {
        /// Asked for.
        need: usize,
        /// There.
        have: usize,
    },
}
