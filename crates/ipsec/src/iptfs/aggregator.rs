//! From plain packets to AGGFRAG payloads (RFC 9347 section 2.2).

use convoy_packet::aggfrag::{self, HEADER_BYTES};
use convoy_packet::ipv6::HEADER_BYTES as IPV6_HEADER;
use convoy_packet::protocol::AGGFRAG;
use convoy_packet::{Frame, FramePool};

use super::AggregationCounts;
use super::pacer::Pacer;
use super::payload::Payload;
use crate::drops::DropReason;
use crate::esp::batch_template::RAW_TAILROOM_BYTES;
use crate::esp::job::{CryptoPacket, Direction};
use crate::esp::outer_header::Inner;
use crate::esp::stage::{FinishContext, Form};
use crate::sa::config::IptfsConfig;
use crate::sa::id::SaIndex;

/// The least part of a packet that is put at the end of a payload, in bytes: its whole IP header,
/// so that every receiver knows the packet's length.
const LEAST_PART: usize = IPV6_HEADER;
/// A packet that fits a payload of its own is split if at least one in this many bytes of the open
/// one is still free: to copy long packets for less than that costs more than it saves.
const WORTH_SPLITTING: usize = 4;
/// The rest of a packet that is copied to the front of another frame, in bytes, at most: longer
/// ones stay where they are, even if there is little room behind them.
const CHEAP_TO_COPY: usize = 256;
/// A payload with less room than this is full: no packet is so short.
const LEAST_PACKET: usize = 20;

/// What a call of the aggregator works with and writes to.
pub(crate) struct Packing<'a> {
    /// Bytes of a payload, its header included, at most.
    pub(crate) capacity: usize,
    /// Bytes of headroom that a payload needs.
    pub(crate) front: usize,
    /// The SA, its generation and its traffic class.
    pub(crate) sa: SaIndex,
    pub(crate) generation: u32,
    pub(crate) class: u8,
    pub(crate) now_ns: u64,
    pub(crate) pool: &'a mut FramePool,
    /// What all SAs have packed.
    pub(crate) totals: &'a mut AggregationCounts,
    /// Receives payloads that are full.
    pub(crate) out: &'a mut Vec<CryptoPacket>,
}

impl Packing<'_> {
    /// Counts for the SA and for all.
    #[inline]
    fn note(&mut self, counts: &mut AggregationCounts, count: impl Fn(&mut AggregationCounts)) {
        count(counts);
        count(self.totals);
    }

    fn push(&mut self, payload: Payload) {
        let Payload { frame, traffic_class, .. } = payload;
        // The inner DF bit says nothing about the outer packet (section 2.2.5.1).
        let inner = Inner { next_header: AGGFRAG, traffic_class, dont_fragment: true };
        let generation = self.generation;
        let context = FinishContext { generation, form: Form::Raw, inner, ..FinishContext::default() };
        self.out.push(CryptoPacket::new(frame, self.sa, Direction::Seal, self.class, context));
    }
}

/// Packs the plain packets of one outbound SA into payloads.
#[derive(Debug)]
pub(crate) struct Aggregator {
    config: IptfsConfig,
    /// The payload that has room.
    open: Option<Payload>,
    /// Whether the SA is listed among those with an open payload.
    pub(crate) is_listed: bool,
    pacer: Option<Pacer>,
    counts: AggregationCounts,
}

impl Aggregator {
    pub(crate) fn new(config: IptfsConfig) -> Self {
        let pacer = (config.packet_rate > 0).then(|| Pacer::new(config.packet_rate, config.max_queue_size));
        Self { config, open: None, is_listed: false, pacer, counts: AggregationCounts::default() }
    }

    /// The settings.
    pub(crate) fn config(&self) -> &IptfsConfig {
        &self.config
    }

    /// What was packed.
    pub(crate) fn counts(&self) -> AggregationCounts {
        self.counts
    }

    /// Payloads that it has.
    pub(crate) fn held_frames(&self) -> usize {
        usize::from(self.open.is_some()) + self.pacer.as_ref().map_or(0, Pacer::len)
    }

    /// Whether a payload has room and waits for more.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Counts packets that were added.
    pub(crate) fn count(&mut self, packets: u64, bytes: u64) {
        self.counts.packets += packets;
        self.counts.bytes += bytes;
    }

    /// Whether payloads leave at a constant rate.
    pub(crate) fn is_paced(&self) -> bool {
        self.pacer.is_some()
    }

    /// Adds a packet, in part to the open payload and in part to the next, if need be; with
    /// `dont_frag` only one that is longer than any payload is split. The frame is used or returned
    /// to its pool. The caller [counts](Self::count) it.
    ///
    /// # Errors
    /// The reason to drop the packet, whose frame is back in its pool.
    #[inline]
    pub(crate) fn add(
        &mut self,
        frame: Frame,
        traffic_class: u8,
        with: &mut Packing<'_>,
    ) -> Result<(), DropReason> {
        let len = frame.len();
        if let Some(open) = &mut self.open
            && len <= open.room
            && let Ok(tail) = open.frame.append(len)
        {
            tail.copy_from_slice(&frame);
            open.room -= len;
            with.pool.give_back(frame);
        } else {
            self.add_behind(frame, traffic_class, with)?;
        }
        Ok(())
    }

    /// Adds a packet that the open payload has no room for.
    #[inline(never)]
    fn add_behind(
        &mut self,
        mut frame: Frame,
        traffic_class: u8,
        with: &mut Packing<'_>,
    ) -> Result<(), DropReason> {
        if self.pacer.as_ref().is_some_and(|pacer| !pacer.has_room(frame.len())) {
            with.pool.give_back(frame);
            return Err(DropReason::IptfsQueueFull);
        }
        let mut offset = 0;
        if let Some(mut open) = self.open.take() {
            if !self.config.dont_frag
                && open.room >= least_part(frame.len(), with.capacity)
                && let Ok(tail) = open.frame.append(open.room)
            {
                let part = tail.len();
                tail.copy_from_slice(&frame[..part]);
                let trimmed = frame.trim_front(part);
                debug_assert!(trimmed.is_ok(), "it is longer than the room");
                open.goes_on = true;
                offset = frame.len();
            }
            self.close(open, with);
        }
        self.begin(frame, offset, traffic_class, with)
    }

    /// Begins a payload with a packet, or with the rest of one that is `offset` bytes long. What
    /// exceeds a payload fills others before.
    fn begin(
        &mut self,
        mut frame: Frame,
        mut offset: usize,
        traffic_class: u8,
        with: &mut Packing<'_>,
    ) -> Result<(), DropReason> {
        let most = with.capacity.saturating_sub(HEADER_BYTES).max(1);
        let received_ns = frame.received_ns();
        while frame.len() > most {
            let Some(part) = filled(with.pool, offset, &frame[..most], with.capacity) else {
                with.pool.give_back(frame);
                return Err(DropReason::NoFrame);
            };
            with.note(&mut self.counts, |counts| counts.continued += u64::from(offset > 0));
            let part = Payload { goes_on: true, ..Payload::of(part, 0, traffic_class, with.now_ns) };
            self.close(part, with);
            let trimmed = frame.trim_front(most);
            debug_assert!(trimmed.is_ok(), "it is longer");
            offset = frame.len();
        }
        let mut room = most - frame.len();
        let behind = frame.tailroom().saturating_sub(RAW_TAILROOM_BYTES);
        let is_roomy = frame.tailroom() >= RAW_TAILROOM_BYTES
            && (behind >= room || self.pacer.is_none() && frame.len() > CHEAP_TO_COPY);
        let frame = if is_roomy && frame.headroom() >= with.front + HEADER_BYTES {
            room = room.min(behind);
            in_place(frame, offset)
        } else {
            let copy = filled(with.pool, offset, &frame, with.capacity);
            with.pool.give_back(frame);
            copy
        };
        let Some(mut frame) = frame else { return Err(DropReason::NoFrame) };
        frame.set_received_ns(received_ns);
        with.note(&mut self.counts, |counts| counts.continued += u64::from(offset > 0));
        let payload = Payload::of(frame, room, traffic_class, with.now_ns);
        if room < LEAST_PACKET {
            self.close(payload, with);
        } else {
            self.open = Some(payload);
        }
        Ok(())
    }

    /// Lets a payload go.
    fn close(&mut self, payload: Payload, with: &mut Packing<'_>) {
        with.note(&mut self.counts, |counts| counts.payloads += 1);
        match &mut self.pacer {
            Some(pacer) => pacer.queue(payload),
            None => with.push(payload),
        }
    }

    /// Lets the open payload go if it is due: after its delay, or without one if no more input is
    /// at hand, or if it was kept before. Returns whether it stays open.
    pub(crate) fn close_if_due(&mut self, has_more: bool, with: &mut Packing<'_>) -> bool {
        let Some(open) = &mut self.open else { return false };
        let stays = match self.config.init_delay_ns {
            0 => has_more && !std::mem::replace(&mut open.is_kept, true),
            delay_ns => with.now_ns.saturating_sub(open.opened_ns) < delay_ns,
        };
        if !stays && self.pacer.is_none() {
            self.close_now(with);
        }
        stays
    }

    /// Lets the open payload go, and all that wait for their turn.
    pub(crate) fn close_now(&mut self, with: &mut Packing<'_>) {
        let Self { pacer, open, counts, .. } = self;
        with.note(counts, |counts| counts.payloads += u64::from(open.is_some()));
        let Some(pacer) = pacer else { return open.take().into_iter().for_each(|open| with.push(open)) };
        for mut payload in pacer.take_all().chain(open.take()) {
            let padding = payload.pad_to(with.capacity);
            with.note(counts, |counts| counts.padding += padding);
            with.push(payload);
        }
    }

    /// When the open payload is due, in ns; 0 is as soon as no more input is at hand.
    pub(crate) fn due_ns(&self) -> u64 {
        match (&self.open, self.config.init_delay_ns) {
            (None, _) => u64::MAX,
            (Some(_), 0) => 0,
            (Some(open), delay_ns) => open.opened_ns.saturating_add(delay_ns),
        }
    }

    /// When the next payload leaves at a constant rate, in ns.
    pub(crate) fn paced_ns(&self) -> u64 {
        self.pacer.as_ref().map_or(u64::MAX, Pacer::next_ns)
    }

    /// Lets the payloads go whose time has come at a constant rate: what is queued, or padding.
    /// Each has the same size.
    pub(crate) fn pace(&mut self, with: &mut Packing<'_>) {
        let Self { pacer: Some(pacer), open, counts, .. } = self else { return };
        let due = pacer.due(with.now_ns);
        with.note(counts, |counts| counts.missed += due.missed);
        for _ in 0..due.payloads {
            let waiting = pacer.take().or_else(|| {
                let open = open.take();
                with.note(counts, |counts| counts.payloads += u64::from(open.is_some()));
                open
            });
            let is_padding = waiting.is_none();
            let padding = || {
                let frame = filled(with.pool, 0, &[], with.capacity)?;
                Some(Payload::of(frame, 0, 0, with.now_ns))
            };
            let Some(mut payload) = waiting.or_else(padding) else { return };
            with.note(counts, |counts| counts.all_padding += u64::from(is_padding));
            let padding = payload.pad_to(with.capacity);
            with.note(counts, |counts| counts.padding += padding);
            with.push(payload);
        }
    }
}

/// The least room of an open payload that takes a part of a packet of `len` bytes.
fn least_part(len: usize, capacity: usize) -> usize {
    let fits_alone = len + HEADER_BYTES <= capacity;
    if fits_alone { (capacity / WORTH_SPLITTING).max(LEAST_PART) } else { LEAST_PART }
}

/// Puts a header before a packet, in its own frame.
fn in_place(mut frame: Frame, offset: usize) -> Option<Frame> {
    let header = frame.prepend(HEADER_BYTES).ok()?;
    aggfrag::write(header, offset as u16);
    Some(frame)
}

/// A payload of `data` in a frame that has room for `capacity` bytes.
fn filled(pool: &mut FramePool, offset: usize, data: &[u8], capacity: usize) -> Option<Frame> {
    let mut frame = pool.take(pool.size_for(capacity, RAW_TAILROOM_BYTES)?)?;
    let bytes = frame.append(HEADER_BYTES + data.len()).ok()?;
    aggfrag::write(bytes, offset as u16);
    bytes[HEADER_BYTES..].copy_from_slice(data);
    Some(frame)
}
