//! The outbound path in AGGFRAG mode (RFC 9347): plain packets are packed into payloads, which then
//! go the way of packets in tunnel mode.

use std::vec::Drain;

use convoy_packet::aggfrag::HEADER_BYTES;
use convoy_packet::{Frame, FramePool, Layout};

use super::Tables;
use super::classify::OutboundRun;
use super::outbound::Outbound;
use super::protect::OutboundPass;
use crate::drops::DropReason;
use crate::esp::job::CryptoPacket;
use crate::iptfs::{Aggregator, Packing};
use crate::sa::id::OutboundId;
use crate::sad::path_mtu::LEAST_V6;

/// SAs that may have an open payload at the end of a burst: each has a frame of the worker's.
const MOST_OPEN: usize = 256;

/// The SAs in AGGFRAG mode that have to be asked again.
#[derive(Debug)]
pub(super) struct Aggregating {
    /// SAs that have an open payload.
    open: Vec<OutboundId>,
    /// SAs whose payloads leave at a constant rate.
    paced: Vec<OutboundId>,
    /// When the next payload is due, in ns; too early is possible.
    due_ns: u64,
}

impl Default for Aggregating {
    fn default() -> Self {
        Self { open: Vec::new(), paced: Vec::new(), due_ns: u64::MAX }
    }
}

impl Aggregating {
    /// Notes that an SA was installed.
    pub(super) fn add(&mut self, tables: &Tables, id: OutboundId) {
        let cold = tables.sad.outbound.cold(id.0);
        if cold.and_then(|cold| cold.aggregator.as_ref()).is_some_and(|aggregator| aggregator.is_paced()) {
            self.paced.push(id);
            self.due_ns = 0;
        }
    }

    /// Notes that an SA sends no more.
    pub(super) fn remove(&mut self, id: OutboundId) {
        self.open.retain(|open| *open != id);
        self.paced.retain(|paced| *paced != id);
    }

    /// Lists an SA that has an open payload, or closes it if too many have one.
    fn list(&mut self, id: OutboundId, aggregator: &mut Aggregator, with: &mut Packing<'_>) {
        if !aggregator.is_open() || aggregator.is_paced() {
            return;
        }
        if !aggregator.is_listed && self.open.len() >= MOST_OPEN {
            return aggregator.close_now(with);
        }
        if !std::mem::replace(&mut aggregator.is_listed, true) {
            self.open.push(id);
        }
        self.due_ns = self.due_ns.min(aggregator.due_ns());
    }
}

impl OutboundPass<'_> {
    /// Packs the next frames, which are the run's.
    #[inline(never)]
    pub(super) fn aggregate_run(
        &mut self,
        frames: &mut Drain<'_, Frame>,
        run: &OutboundRun,
        slot: u32,
        id: OutboundId,
    ) {
        let (mut packets, mut bytes) = (0, 0);
        let traffic_class = run.inner.traffic_class;
        let frames = frames.take(run.packets as usize);
        let mut lost = Vec::new();
        self.with_aggregator(id, |aggregator, with| {
            for frame in frames {
                let len = frame.len() as u64;
                match aggregator.add(frame, traffic_class, with) {
                    Ok(()) => (packets, bytes) = (packets + 1, bytes + len),
                    Err(reason) => lost.push((reason, len)),
                }
            }
            aggregator.count(packets, bytes);
        });
        self.tables.note_packed(packets, bytes);
        for (reason, len) in lost {
            (packets, bytes) = (packets + 1, bytes + len);
            self.tables.count_drop(Some(id.into()), reason);
        }
        self.tables.note_uses(slot, packets, bytes);
    }

    /// Packs any packet.
    pub(super) fn aggregate(&mut self, frame: Frame, layout: &Layout, id: OutboundId) {
        let found = self.tables.sad.outbound.hot_and_cold(id.0);
        let dont_frag = found.and_then(|(sa, cold)| {
            let aggregator = cold.aggregator.as_ref()?;
            aggregator.config().dont_frag.then(|| sa.payload_capacity().saturating_sub(HEADER_BYTES))
        });
        match dont_frag {
            // IPv6 has no MTU below 1280: on a smaller path the packet is cut nevertheless.
            Some(largest) if frame.len() > largest && !(layout.is_v6 && frame.len() <= LEAST_V6.into()) => {
                self.fit(frame, layout, id, largest);
            }
            _ => self.add_to_payload(frame, layout.traffic_class, id),
        }
    }

    pub(super) fn add_to_payload(&mut self, frame: Frame, traffic_class: u8, id: OutboundId) {
        let len = frame.len() as u64;
        let added = self.with_aggregator(id, |aggregator, with| {
            let added = aggregator.add(frame, traffic_class, with);
            if added.is_ok() {
                aggregator.count(1, len);
            }
            added
        });
        match added {
            Some(Ok(())) => self.tables.note_packed(1, len),
            Some(Err(reason)) => self.tables.count_drop(Some(id.into()), reason),
            None => {}
        }
    }

    /// Lends an SA's aggregator to `work`, and lists the SA if a payload stays open.
    fn with_aggregator<T>(
        &mut self,
        id: OutboundId,
        work: impl FnOnce(&mut Aggregator, &mut Packing<'_>) -> T,
    ) -> Option<T> {
        let Self { tables, pool, out, aggregating, .. } = self;
        lend(tables, id, pool, &mut out.protect, |aggregator, with| {
            let result = work(aggregator, with);
            aggregating.list(id, aggregator, with);
            result
        })
    }
}

/// Lends an SA's aggregator, and what it works with, to `work`.
fn lend<T>(
    tables: &mut Tables,
    id: OutboundId,
    pool: &mut FramePool,
    out: &mut Vec<CryptoPacket>,
    work: impl FnOnce(&mut Aggregator, &mut Packing<'_>) -> T,
) -> Option<T> {
    let (now_ns, mtu) = (tables.now_ns, tables.config.mtu);
    let Tables { sad, totals, config, .. } = tables;
    let (sa, cold) = sad.outbound.hot_and_cold_mut(id.0)?;
    if sa.is_due(now_ns) {
        sa.renew(cold, now_ns, mtu);
    }
    let mut with = Packing {
        capacity: sa.payload_capacity(),
        front: sa.front(),
        sa: id.into(),
        generation: sa.generation(),
        // All payloads of an SA are of one class: they carry parts of one packet in order.
        class: config.classes.class_of(sa.outer_class()),
        now_ns,
        pool,
        totals: &mut totals.aggregation,
        out,
    };
    let aggregator = cold.aggregator.as_deref_mut()?;
    Some(work(aggregator, &mut with))
}

impl Tables {
    fn note_packed(&mut self, packets: u64, bytes: u64) {
        self.totals.aggregation.packets += packets;
        self.totals.aggregation.bytes += bytes;
    }

    /// Counts the payloads of an SA that is removed while it has some.
    pub(super) fn drop_payloads(&mut self, id: OutboundId) {
        let cold = self.sad.outbound.cold(id.0);
        let Some(aggregator) = cold.and_then(|cold| cold.aggregator.as_ref()) else { return };
        self.totals.aggregation.payloads += u64::from(aggregator.is_open());
        self.drops.add(DropReason::OutboundNoSa, aggregator.held_frames() as u64);
    }
}

impl Outbound {
    /// Whether packets stand in open payloads.
    pub fn has_open_payloads(&self) -> bool {
        !self.aggregating.open.is_empty()
    }

    /// When [`close_payloads`](Self::close_payloads) has to be called again, in ns; 0 is as soon as
    /// no more input is at hand, `u64::MAX` is never. It may be too early.
    #[inline]
    pub fn payloads_due_ns(&self) -> u64 {
        self.aggregating.due_ns
    }

    /// Appends the payloads of AGGFRAG mode that are due to `out`: those that have waited for more
    /// packets as long as their SA allows, or if `has_more` is false until now, and those whose
    /// time has come at a constant rate.
    pub fn close_payloads(
        &mut self,
        tables: &mut Tables,
        now_ns: u64,
        has_more: bool,
        pool: &mut FramePool,
        out: &mut Vec<CryptoPacket>,
    ) {
        tables.now_ns = tables.now_ns.max(now_ns);
        let Aggregating { open, paced, due_ns } = &mut self.aggregating;
        let mut next_ns = u64::MAX;
        open.retain(|id| {
            let stays = lend(tables, *id, pool, out, |aggregator, with| {
                aggregator.is_listed = aggregator.close_if_due(has_more, with);
                next_ns = next_ns.min(aggregator.due_ns());
                aggregator.is_listed
            });
            stays == Some(true)
        });
        for id in paced {
            lend(tables, *id, pool, out, |aggregator, with| {
                aggregator.pace(with);
                next_ns = next_ns.min(aggregator.paced_ns());
            });
        }
        *due_ns = next_ns;
    }

    /// Appends the payloads of all SAs to `out`, whether they are due or not: no input will follow.
    pub fn close_all_payloads(
        &mut self,
        tables: &mut Tables,
        pool: &mut FramePool,
        out: &mut Vec<CryptoPacket>,
    ) {
        let Aggregating { open, paced, .. } = std::mem::take(&mut self.aggregating);
        for id in open.into_iter().chain(paced) {
            self.close_payloads_of(tables, id, pool, out);
        }
    }

    /// Appends all payloads of an SA to `out`: it will send no more.
    pub fn close_payloads_of(
        &mut self,
        tables: &mut Tables,
        id: OutboundId,
        pool: &mut FramePool,
        out: &mut Vec<CryptoPacket>,
    ) {
        self.aggregating.remove(id);
        lend(tables, id, pool, out, |aggregator, with| {
            aggregator.close_now(with);
            aggregator.is_listed = false;
        });
    }
}
