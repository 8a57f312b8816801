//! The inbound path in AGGFRAG mode (RFC 9347): opened payloads are taken apart, and each inner
//! packet is checked against the policies and delivered.

use convoy_packet::aggfrag::HEADER_BYTES;
use convoy_packet::{Frame, FramePool, Layout, Plain};

use super::delivery::{InnerArrival, deliver};
use super::inbound::Inbound;
use super::plain_inner::InnerFamily;
use super::tables::Tables;
use crate::drops::DropReason;
use crate::ip::tos::Ecn;
use crate::iptfs::{Reassembler, Unpacked, Unpacking};
use crate::sa::config::Mode;
use crate::sa::id::InboundId;

/// Frames that all SAs of a worker may hold back or have in reassembly.
const MOST_HELD: isize = 512;

/// What the SAs in AGGFRAG mode share.
#[derive(Debug)]
pub(super) struct Reassembling {
    /// SAs that wait for a payload.
    waiting: Vec<InboundId>,
    /// Frames that may still be held.
    room: isize,
    /// When the next missing payload is given up, in ns; too early is possible.
    due_ns: u64,
    /// The result of a call; empty between calls.
    unpacked: Unpacked,
}

impl Default for Reassembling {
    fn default() -> Self {
        Self { waiting: Vec::new(), room: MOST_HELD, due_ns: u64::MAX, unpacked: Unpacked::default() }
    }
}

impl Reassembling {
    /// Notes that an SA ends: the packets that it holds are lost.
    pub(super) fn remove(&mut self, tables: &mut Tables, id: InboundId) {
        self.waiting.retain(|waiting| *waiting != id);
        let reassembler = tables.sad.inbound.cold(id.0).and_then(|cold| cold.reassembler.as_ref());
        let held = reassembler.map_or(0, |reassembler| reassembler.held_frames());
        self.room += held as isize;
        tables.totals.unpacking.lost += held as u64;
        tables.drops.add(DropReason::IptfsIncomplete, held as u64);
    }
}

/// An opened payload's SA, sequence number and outer traffic class.
#[derive(Clone, Copy)]
pub(super) struct PayloadHead {
    pub(super) id: InboundId,
    pub(super) sequence: u64,
    pub(super) outer_class: u8,
}

impl Tables {
    /// What unpacks the payloads of an SA in AGGFRAG mode.
    #[inline]
    pub(super) fn reassembler(&self, id: InboundId) -> Option<&Reassembler> {
        self.sad.inbound.cold(id.0)?.reassembler.as_deref()
    }

    /// Counts the next payload of an SA, which had one packet that was delivered.
    #[inline]
    pub(super) fn note_alone(&mut self, id: InboundId, now_ns: u64) {
        let cold = self.sad.inbound.cold_mut(id.0);
        if let Some(reassembler) = cold.and_then(|cold| cold.reassembler.as_deref_mut()) {
            reassembler.note_alone(now_ns);
            self.totals.unpacking.payloads += 1;
            self.totals.unpacking.packets += 1;
        }
    }
}

impl Inbound {
    /// Unpacks an opened payload, and delivers what is whole.
    pub(super) fn unpack(
        &mut self,
        tables: &mut Tables,
        head: PayloadHead,
        payload: Frame,
        pool: &mut FramePool,
        out: &mut Vec<Frame>,
    ) {
        let (PayloadHead { id, sequence, outer_class }, now_ns) = (head, tables.now_ns);
        let Reassembling { waiting, room, due_ns, unpacked } = &mut self.reassembling;
        let cold = tables.sad.inbound.cold_mut(id.0);
        let Some(reassembler) = cold.and_then(|cold| cold.reassembler.as_deref_mut()) else {
            return tables.drop_frame(pool, payload, Some(id.into()), DropReason::UnknownSpi);
        };
        let is_ce = Ecn::of(outer_class) == Ecn::Ce;
        let before = reassembler.counts();
        reassembler.take(sequence, payload, is_ce, &mut Unpacking { now_ns, pool, room, unpacked });
        tables.totals.unpacking += reassembler.counts() - before;
        let give_up_ns = reassembler.give_up_ns();
        if give_up_ns < u64::MAX {
            *due_ns = (*due_ns).min(give_up_ns);
            if !std::mem::replace(&mut reassembler.is_listed, true) {
                waiting.push(id);
            }
        }
        self.deliver_unpacked(tables, id, pool, out);
    }

    /// Takes a number that a packet without inner packets had, so that none waits for its payload.
    pub(super) fn skip_payload(
        &mut self,
        tables: &mut Tables,
        id: InboundId,
        sequence: u64,
        pool: &mut FramePool,
        out: &mut Vec<Frame>,
    ) {
        // Without a free frame the number is given up like a lost payload's.
        if let Some(padding) = pool.take_filled(&[0; HEADER_BYTES], 0) {
            self.unpack(tables, PayloadHead { id, sequence, outer_class: 0 }, padding, pool, out);
        }
    }

    /// When [`give_up_payloads`](Self::give_up_payloads) has to be called again, in ns; it may be
    /// too early.
    #[inline]
    pub fn payloads_due_ns(&self) -> u64 {
        self.reassembling.due_ns.min(self.held.due_ns())
    }

    /// Gives up payloads of AGGFRAG mode that have not come in time (`drop_time`), and delivers
    /// what waited for them. Does the same for packets that wait for more sequence numbers to be
    /// reserved.
    pub fn give_up_payloads(
        &mut self,
        tables: &mut Tables,
        now_ns: u64,
        pool: &mut FramePool,
        out: &mut Vec<Frame>,
    ) {
        tables.now_ns = tables.now_ns.max(now_ns);
        if self.held.due_ns() <= now_ns {
            self.try_held(tables, now_ns, pool, out);
        }
        self.expire_payloads(tables, now_ns, pool, out);
    }

    /// Gives up all that waits for a packet of which no more will come: fragments, packets behind a
    /// missing payload, of which those that are whole are delivered, and packets that wait for
    /// sequence numbers to be reserved.
    pub fn end_input(&mut self, tables: &mut Tables, pool: &mut FramePool, out: &mut Vec<Frame>) {
        self.expire_fragments(tables, u64::MAX, pool);
        self.give_up_held(tables, pool);
        self.expire_payloads(tables, u64::MAX, pool, out);
    }

    /// Gives up the payloads of AGGFRAG mode that are missing at `now_ns` for too long.
    fn expire_payloads(
        &mut self,
        tables: &mut Tables,
        now_ns: u64,
        pool: &mut FramePool,
        out: &mut Vec<Frame>,
    ) {
        let waiting = std::mem::take(&mut self.reassembling.waiting);
        self.reassembling.due_ns = u64::MAX;
        for id in waiting {
            let Reassembling { waiting, room, due_ns, unpacked } = &mut self.reassembling;
            let cold = tables.sad.inbound.cold_mut(id.0);
            let Some(reassembler) = cold.and_then(|cold| cold.reassembler.as_deref_mut()) else { continue };
            let before = reassembler.counts();
            reassembler.expire(&mut Unpacking { now_ns, pool, room, unpacked });
            tables.totals.unpacking += reassembler.counts() - before;
            let give_up_ns = reassembler.give_up_ns();
            reassembler.is_listed = give_up_ns < u64::MAX;
            if reassembler.is_listed {
                waiting.push(id);
                *due_ns = (*due_ns).min(give_up_ns);
            }
            self.deliver_unpacked(tables, id, pool, out);
        }
    }

    fn deliver_unpacked(
        &mut self,
        tables: &mut Tables,
        id: InboundId,
        pool: &mut FramePool,
        out: &mut Vec<Frame>,
    ) {
        let Unpacked { packets, lost } = &mut self.reassembling.unpacked;
        lost.drain(..).for_each(|reason| tables.count_drop(Some(id.into()), reason));
        let tunnel = tables.sad.inbound.hot(id.0).map_or(0, |sa| sa.tunnel);
        for mut frame in packets.drain(..) {
            let plain = plain_way::<u64>(tables, &frame, tunnel);
            if let Some(interface) = plain.or_else(|| plain_way::<[u128; 2]>(tables, &frame, tunnel)) {
                tables.totals.opened += 1;
                frame.set_interface(interface);
                out.push(frame);
                continue;
            }
            match Layout::parse(&frame) {
                Ok(layout) => {
                    let arrival = InnerArrival { sa: id.into(), tunnel, mode: Mode::Iptfs };
                    deliver(tables, frame, &layout, arrival, pool, out);
                }
                Err(_) => {
                    tables.drop_frame(pool, frame, Some(id.into()), DropReason::MalformedDecrypted);
                }
            }
        }
    }
}

/// The inside interface by which a packet leaves, if it is plain, of this family, admitted by the
/// fast check, and delivered unchanged.
#[inline]
fn plain_way<A: InnerFamily>(tables: &Tables, packet: &[u8], tunnel: u32) -> Option<u16> {
    let plain = Plain::<A>::parse(packet).filter(|plain| !tables.config.may_change(plain, packet))?;
    A::admitted(&plain, &tables.tunnels, tunnel)
}
