//! IP-TFS: aggregation and fragmentation of inner packets in ESP (RFC 9347).
//!
//! An outbound SA has an [`Aggregator`], which packs plain packets into AGGFRAG payloads; each
//! payload is then sealed like any packet of tunnel mode. An inbound SA has a [`Reassembler`],
//! which takes opened payloads apart, in the order of their sequence numbers.

mod aggregator;
mod pacer;
mod payload;
mod reassembler;

pub(crate) use aggregator::{Aggregator, Packing};
pub(crate) use reassembler::{Reassembler, Unpacked, Unpacking};

/// What outbound SAs in AGGFRAG mode have packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AggregationCounts {
    /// Inner packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Payloads, each of which left in one outer packet.
    pub payloads: u64,
    /// Payloads that begin with the rest of a packet.
    pub continued: u64,
    /// Bytes of padding, at a constant rate.
    pub padding: u64,
    /// Payloads of nothing but padding, at a constant rate.
    pub all_padding: u64,
    /// Payloads that should have left at a constant rate while the worker was busy or asleep, and
    /// did not.
    pub missed: u64,
}

/// What inbound SAs in AGGFRAG mode have unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReassemblyCounts {
    /// Inner packets.
    pub packets: u64,
    /// Payloads.
    pub payloads: u64,
    /// Inner packets that came in several payloads.
    pub joined: u64,
    /// Payloads that came after one with a higher number.
    pub reordered: u64,
    /// Numbers of payloads that did not come in time.
    pub missing: u64,
    /// Payloads and inner packets that were dropped, for reasons counted elsewhere.
    pub lost: u64,
}

impl std::ops::AddAssign for ReassemblyCounts {
    fn add_assign(&mut self, other: Self) {
        let Self { packets, payloads, joined, reordered, missing, lost } = other;
        self.packets += packets;
        self.payloads += payloads;
        self.joined += joined;
        self.reordered += reordered;
        self.missing += missing;
        self.lost += lost;
    }
}

impl std::ops::Sub for ReassemblyCounts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            packets: self.packets - before.packets,
            payloads: self.payloads - before.payloads,
            joined: self.joined - before.joined,
            reordered: self.reordered - before.reordered,
            missing: self.missing - before.missing,
            lost: self.lost - before.lost,
        }
    }
}
