//! Super-packets of the kernel: the segments of one TCP connection, or the datagrams of one UDP
//! flow, as one packet of up to 64 KiB with a header that says how to segment it
//! (`struct virtio_net_hdr`).
//!
//! Received ones are cut into packets that fit the MTU ([`Cut`]); outgoing packets are grouped such
//! that the kernel would segment each group into the same packets ([`Coalescer`]). TUN devices and
//! packet sockets use the same header.

mod coalesce;
mod flow;
mod offload;
mod split;

pub(crate) use coalesce::{CoalescedGroup, Coalescer, HEADERS_BYTES, Joins, MOST_PACKETS};
pub(crate) use offload::{HEADER_BYTES, OffloadHeader};
pub(crate) use split::{Cut, NextSegment};

/// Tailroom of frames that are handed out, in bytes: what ESP may add behind a packet.
pub(crate) const TAILROOM: usize = 320;

#[cfg(test)]
mod tests;
