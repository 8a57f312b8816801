//! From opened AGGFRAG payloads to inner packets, in the order of the payloads' sequence numbers
//! (RFC 9347 section 2.2.3).

mod partial;

use std::cmp::Ordering;

use convoy_packet::{Aggfrag, DataBlock, Frame, FramePool, ip};

use super::ReassemblyCounts;
use crate::drops::DropReason;
use crate::esp::stage::LONGEST_BYTES;
use crate::ip::tos::Ecn;
use crate::sa::config::IptfsConfig;
use partial::{Joined, LostRest, Partial};

/// What a call of the reassembler works with and writes to.
pub(crate) struct Unpacking<'a> {
    pub(crate) now_ns: u64,
    pub(crate) pool: &'a mut FramePool,
    /// Frames that all SAs together may still hold back or have in reassembly; below 0 for a moment
    /// while one more is held than may be.
    pub(crate) room: &'a mut isize,
    pub(crate) unpacked: &'a mut Unpacked,
}

/// The result of unpacking.
#[derive(Debug, Default)]
pub(crate) struct Unpacked {
    /// Inner packets, each as long as its header says.
    pub(crate) packets: Vec<Frame>,
    /// The reason of each packet or payload that was lost.
    pub(crate) lost: Vec<DropReason>,
}

/// An opened payload.
#[derive(Debug)]
struct OpenedPayload {
    frame: Frame,
    /// Whether the outer packet met congestion.
    is_ce: bool,
    arrived_ns: u64,
}

/// Where the blocks of a payload are: behind its header, and of these the `first` bytes continue
/// the last payload's packet.
#[derive(Clone, Copy)]
struct BlocksAt {
    header_len: usize,
    first: usize,
}

/// Unpacks the payloads of one inbound SA.
#[derive(Debug)]
pub(crate) struct Reassembler {
    config: IptfsConfig,
    /// The number of the next payload; `None` before the first.
    expected: Option<u64>,
    /// Payloads behind a missing one, by number.
    held: Vec<(u64, OpenedPayload)>,
    /// The packet that the last payload began and did not end.
    partial: Option<Partial>,
    /// What may still come of a packet that was lost and counted.
    lost_rest: LostRest,
    /// When the last payload was taken that was next, in ns.
    moved_ns: u64,
    /// Whether the SA is listed among those that wait for a payload.
    pub(crate) is_listed: bool,
    counts: ReassemblyCounts,
}

impl Reassembler {
    pub(crate) fn new(config: IptfsConfig) -> Self {
        Self {
            config,
            expected: None,
            held: Vec::new(),
            partial: None,
            lost_rest: LostRest::None,
            moved_ns: 0,
            is_listed: false,
            counts: ReassemblyCounts::default(),
        }
    }

    /// What was unpacked.
    pub(crate) fn counts(&self) -> ReassemblyCounts {
        self.counts
    }

    /// Frames that it holds.
    pub(crate) fn held_frames(&self) -> usize {
        self.held.len() + usize::from(self.partial.is_some())
    }

    /// When the missing payload is given up, in ns; `u64::MAX` if none is missing.
    pub(crate) fn give_up_ns(&self) -> u64 {
        let gap_ns = self.held.iter().map(|(_, payload)| payload.arrived_ns).min();
        let since_ns = gap_ns.or_else(|| self.partial.as_ref().map(|_| self.moved_ns));
        since_ns.map_or(u64::MAX, |since_ns| since_ns.saturating_add(self.config.drop_time_ns))
    }

    /// Whether the payload with this number is the next, and nothing waits for it or for others.
    #[inline]
    pub(crate) fn expects(&self, sequence: u64) -> bool {
        self.expected == Some(sequence)
            && self.held.is_empty()
            && self.partial.is_none()
            && self.lost_rest == LostRest::None
    }

    /// Counts the next payload, which had one whole packet and was taken apart elsewhere.
    #[inline]
    pub(crate) fn note_alone(&mut self, now_ns: u64) {
        self.expected = self.expected.and_then(|number| number.checked_add(1));
        self.moved_ns = now_ns;
        self.counts.payloads += 1;
        self.counts.packets += 1;
    }

    /// Takes the payload of an authentic packet, which has not come before.
    pub(crate) fn take(&mut self, sequence: u64, frame: Frame, is_ce: bool, with: &mut Unpacking<'_>) {
        let payload = OpenedPayload { frame, is_ce, arrived_ns: with.now_ns };
        self.counts.payloads += 1;
        let expected = *self.expected.get_or_insert(sequence);
        match sequence.cmp(&expected) {
            Ordering::Equal => {
                self.take_next(payload, with);
                self.release(with);
            }
            // Its whole packets are as good as before; what it continues or begins was given up.
            Ordering::Less => {
                self.counts.reordered += 1;
                self.unpack(payload, false, with);
            }
            Ordering::Greater => self.hold(sequence, payload, with),
        }
    }

    /// Gives up the payloads that are missing for too long.
    pub(crate) fn expire(&mut self, with: &mut Unpacking<'_>) {
        while self.held_frames() > 0 && with.now_ns >= self.give_up_ns() {
            if self.held.is_empty() {
                self.lose_partial(DropReason::IptfsIncomplete, with);
            } else {
                self.skip_missing(with);
            }
        }
    }

    fn lose(&mut self, with: &mut Unpacking<'_>, reason: DropReason) {
        self.counts.lost += 1;
        with.unpacked.lost.push(reason);
    }

    /// Holds a payload back until those before it are there.
    fn hold(&mut self, sequence: u64, payload: OpenedPayload, with: &mut Unpacking<'_>) {
        let at = self.held.partition_point(|(number, _)| *number < sequence);
        // The replay window lets each number through once; with none, it may repeat.
        if self.held.get(at).is_some_and(|(number, _)| *number == sequence) {
            with.pool.give_back(payload.frame);
            return self.lose(with, DropReason::Replayed);
        }
        self.counts.reordered += u64::from(at < self.held.len());
        self.held.insert(at, (sequence, payload));
        *with.room -= 1;
        if *with.room < 0 || self.held.len() > self.config.reorder_window.into() {
            self.skip_missing(with);
        }
    }

    /// Gives up the payloads before the first that is held back.
    fn skip_missing(&mut self, with: &mut Unpacking<'_>) {
        let (Some((first, _)), Some(expected)) = (self.held.first(), self.expected) else { return };
        self.counts.missing += first - expected;
        self.expected = Some(*first);
        self.lose_partial(DropReason::IptfsIncomplete, with);
        self.release(with);
    }

    /// Takes the payloads that are next among those held back.
    fn release(&mut self, with: &mut Unpacking<'_>) {
        while !self.held.is_empty() && self.held.first().map(|(number, _)| *number) == self.expected {
            let (_, payload) = self.held.remove(0);
            *with.room += 1;
            self.take_next(payload, with);
        }
    }

    fn take_next(&mut self, payload: OpenedPayload, with: &mut Unpacking<'_>) {
        self.expected = self.expected.and_then(|number| number.checked_add(1));
        self.moved_ns = with.now_ns;
        self.unpack(payload, true, with);
    }

    /// Takes a payload apart. One that is `in_order` continues the packet that the last one began,
    /// and may begin another.
    fn unpack(&mut self, payload: OpenedPayload, in_order: bool, with: &mut Unpacking<'_>) {
        let Ok(view) = Aggfrag::parse(&payload.frame) else {
            if in_order {
                self.lose_partial(DropReason::IptfsIncomplete, with);
            }
            self.lose(with, DropReason::IptfsMalformed);
            return with.pool.give_back(payload.frame);
        };
        let (data, header_len, offset) = (view.data(), view.header_len(), view.block_offset());
        let is_padding = data.is_empty() || DataBlock::of(data) == Ok(DataBlock::Padding);
        // Between the parts of a packet there may be payloads of nothing but padding.
        if offset == 0 && is_padding {
            return with.pool.give_back(payload.frame);
        }
        let first = offset.min(data.len());
        if in_order {
            self.continue_partial(&data[..first], offset, payload.is_ce, with);
        } else if offset > 0 {
            self.lose(with, DropReason::IptfsIncomplete);
        }
        let last = self.walk(&payload, BlocksAt { header_len, first }, in_order, with);
        let OpenedPayload { mut frame, is_ce, .. } = payload;
        match last {
            // The last whole packet leaves in the payload's own frame.
            Some((start, len)) if frame.trim_front(header_len + start).is_ok() => {
                frame.truncate(len);
                self.deliver(frame, is_ce, with);
            }
            _ => with.pool.give_back(frame),
        }
    }

    /// Delivers the whole packets of these blocks but the last, whose place is returned, and begins
    /// the one that goes on in the next payload.
    fn walk(
        &mut self,
        payload: &OpenedPayload,
        blocks: BlocksAt,
        in_order: bool,
        with: &mut Unpacking<'_>,
    ) -> Option<(usize, usize)> {
        let (data, mut at) = (&payload.frame[blocks.header_len..], blocks.first);
        let mut last: Option<(usize, usize)> = None;
        while at < data.len() {
            match DataBlock::of(&data[at..]) {
                Ok(DataBlock::Padding) => break,
                Ok(DataBlock::Packet(len)) if len <= data.len() - at => {
                    if let Some((start, len)) = last.replace((at, len)) {
                        self.copy_out(&data[start..start + len], payload.is_ce, with);
                    }
                    at += len;
                }
                Ok(DataBlock::Packet(len)) if len > LONGEST_BYTES => {
                    self.lose(with, DropReason::IptfsMalformed);
                    break;
                }
                Ok(block) => {
                    if in_order {
                        self.begin_partial(&data[at..], block, payload.is_ce, with);
                    } else {
                        self.lose(with, DropReason::IptfsIncomplete);
                    }
                    break;
                }
                Err(_) => {
                    self.lose(with, DropReason::IptfsMalformed);
                    break;
                }
            }
        }
        last
    }

    fn copy_out(&mut self, packet: &[u8], is_ce: bool, with: &mut Unpacking<'_>) {
        match with.pool.take_filled(packet, 0) {
            Some(frame) => self.deliver(frame, is_ce, with),
            None => self.lose(with, DropReason::NoFrame),
        }
    }

    fn deliver(&mut self, mut frame: Frame, is_ce: bool, with: &mut Unpacking<'_>) {
        if is_ce {
            mark_congestion(&mut frame);
        }
        self.counts.packets += 1;
        with.unpacked.packets.push(frame);
    }

    fn begin_partial(&mut self, start: &[u8], block: DataBlock, is_ce: bool, with: &mut Unpacking<'_>) {
        let begun = if *with.room > 0 {
            Partial::begin(start, block, is_ce, with.pool).ok_or(DropReason::NoFrame)
        } else {
            Err(DropReason::IptfsLimit)
        };
        match begun {
            Ok(partial) => {
                *with.room -= 1;
                self.partial = Some(partial);
            }
            Err(reason) => {
                self.lose(with, reason);
                self.lost_rest = LostRest::Unknown;
            }
        }
    }

    /// Adds to the packet that the last payload began; `offset` is what the header says is missing
    /// of it.
    fn continue_partial(&mut self, part: &[u8], offset: usize, is_ce: bool, with: &mut Unpacking<'_>) {
        let lost_rest = std::mem::replace(&mut self.lost_rest, LostRest::None);
        let Some(partial) = self.partial.take() else {
            if offset > 0 && !lost_rest.may_be(offset) {
                self.lose(with, DropReason::IptfsIncomplete);
            }
            self.lost_rest = LostRest::behind(part, offset);
            return;
        };
        match partial.join(part, offset, is_ce, with.pool) {
            Joined::Whole(frame, is_ce) => {
                *with.room += 1;
                self.counts.joined += 1;
                self.deliver(frame, is_ce, with);
            }
            Joined::Part(partial) => self.partial = Some(partial),
            Joined::Lost(frame, reason) => {
                *with.room += 1;
                with.pool.give_back(frame);
                self.lose(with, reason);
                self.lost_rest = LostRest::behind(part, offset);
            }
        }
    }

    fn lose_partial(&mut self, reason: DropReason, with: &mut Unpacking<'_>) {
        if let Some(partial) = self.partial.take() {
            *with.room += 1;
            with.pool.give_back(partial.into_frame());
            self.lose(with, reason);
            self.lost_rest = LostRest::Unknown;
        }
    }
}

/// Tells a packet whose transport understands ECN that its outer packet met congestion. Others stay
/// as they are: the outer header has nothing of the inner ones (RFC 9347 section 2.2.5.2), so that
/// none was marked in their place.
fn mark_congestion(packet: &mut [u8]) {
    let class = ip::traffic_class(packet);
    if matches!(Ecn::of(class), Ecn::Ect0 | Ecn::Ect1) {
        ip::set_traffic_class(packet, class | Ecn::Ce as u8);
    }
}
