//! How packets become multi-packets: the window decides which go together, and has entries without packets. Those lie with their SA, in order,
//! in the memory that becomes the multi-packet: a packet is moved once between its preparation and its engine.

use convoy_engine::MultiPacket;
use convoy_ipsec::{Prepared, SaIndex};
use convoy_packet::FramePool;
use convoy_scheduler::{Dispatch, Input, Item};

use super::CryptoStage;
use crate::pipeline::engine_set::Context;
use crate::pipeline::trains::Place;

/// Buffers of multi-packets that are kept for reuse.
const SPARE_BUFFERS: usize = 256;

/// A multi-packet on its way from the window to its engine.
pub(super) struct Bundle {
    pub(super) dispatch: Dispatch<()>,
    pub(super) packets: Vec<Prepared>,
}

impl CryptoStage {
    /// Puts a packet into the window behind those of its SA. `Err` where that has no room.
    pub(super) fn schedule(&mut self, now_ns: u64, prepared: Prepared) -> Result<(), Prepared> {
        let Some(Some(entry)) = self.sas.get_mut(prepared.sa.0 as usize) else { return Err(prepared) };
        let item = Item {
            sa: prepared.sa.0,
            algorithm: entry.algorithm,
            class: prepared.class,
            blocks: prepared.blocks(),
            bytes: prepared.frame.len() as u32,
            payload: (),
        };
        if self.scheduler.push(now_ns, item).is_err() {
            return Err(prepared);
        }
        if entry.waiting.capacity() == 0 {
            entry.waiting = self.spare.pop().unwrap_or_default();
        }
        entry.waiting.push(prepared);
        Ok(())
    }

    /// The next multi-packet of the window with its packets, which are the first of its SA.
    pub(super) fn dispatch(&mut self, now_ns: u64, input: Input) -> Option<Bundle> {
        let mut dispatch = self.scheduler.dispatch(now_ns, input)?;
        let count = dispatch.items.len();
        self.scheduler.recycle(std::mem::take(&mut dispatch.items));
        let waiting = self.sas.get_mut(dispatch.sa as usize)?.as_mut().map(|entry| &mut entry.waiting)?;
        let packets = if count == waiting.len() {
            std::mem::take(waiting)
        } else {
            let mut packets = self.spare.pop().unwrap_or_default();
            packets.extend(waiting.drain(..count));
            packets
        };
        Some(Bundle { dispatch, packets })
    }

    /// Whether there are frames for the copies of a multi-packet that its engine needs. Where nothing is under way, whose end would free more of
    /// them, it is cut to those for which there are, and the rest is scheduled again.
    pub(super) fn cut_to_frames(&mut self, bundle: &mut Bundle, pool: &FramePool) -> bool {
        let Bundle { dispatch, packets } = bundle;
        let fits = self.engines.can_submit(dispatch.engine, pool, packets);
        if fits == packets.len() {
            return true;
        }
        if fits == 0 || self.engines.in_flight() > 0 {
            return false;
        }
        for packet in packets.drain(fits..).rev() {
            self.retry.packets.push_front(packet);
        }
        true
    }

    pub(super) fn submit(&mut self, now_ns: u64, bundle: Bundle, pool: &mut FramePool) {
        let Bundle { dispatch, packets } = bundle;
        let Dispatch { engine, ticket, sa, predicted_wait, predicted_processing, .. } = dispatch;
        let Some(direction) = packets.first().map(|packet| packet.direction) else { return };
        self.note_given(engine, packets.len());
        let multi_packet = MultiPacket::new(ticket, SaIndex(sa), direction, packets);
        let deadlines = self.deadlines(now_ns, engine, predicted_wait + predicted_processing);
        let context = &mut Context { now_ns, pool, retry: &mut self.retry, reports: &mut self.reports };
        self.engines.submit(engine, multi_packet, Place::OfEach, deadlines, context);
        if !self.engines.has_gathered(engine) {
            self.engines.poll_one(engine, context);
        }
    }

    /// Keeps the memory of a multi-packet that is done for another.
    pub(super) fn keep_buffer(&mut self, packets: Vec<Prepared>) {
        if self.spare.len() < SPARE_BUFFERS {
            self.spare.push(packets);
        }
    }
}
