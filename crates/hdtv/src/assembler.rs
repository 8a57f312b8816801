//! From packets to frames: the receiver without its socket. It has no clock and no thread: time is
//! an argument, packets are bytes.

mod counts;
mod pending;
mod probation;

use std::net::SocketAddr;
use std::ops::Range;

use rtp_types::RtpPacket;

pub use counts::Counts;
use pending::{Pending, PendingFrame, frame_time, is_of};
use probation::Probation;

use crate::format::{CLOCK_HZ, Format};
use crate::layout::RTP_HEADER_BYTES;
use crate::payload::Payload;
use crate::playout::Playout;
use crate::reception::Reception;
use crate::shapes::{Shape, Shapes};

/// Another source is believed once the first one has been silent for so long.
const SILENCE_NS: u64 = 1_000_000_000;
/// A sender may be ahead of its own clock by so many frames.
const EARLY_FRAMES: u64 = 8;

/// A frame that is due.
#[derive(Debug)]
pub struct Finished {
    /// The frame in memory; what is in its holes is of no meaning.
    pub bytes: Vec<u8>,
    /// Its RTP timestamp.
    pub timestamp: u32,
    /// What did not arrive.
    pub holes: Vec<Range<usize>>,
    /// Frames between the one before and this one of which nothing arrived.
    pub missing_before: u32,
}

/// Where the next packets are expected: in which frame, and from which of its packets on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Aim {
    /// `None` for the frame after those that have begun.
    timestamp: Option<u32>,
    shape: usize,
}

/// Puts packets where they belong, in whichever order they come, and hands out frames when they are
/// due.
pub struct Assembler {
    format: Format,
    payload_type: u8,
    pending: Pending,
    /// The frame after those that have begun: the kernel may write the next packets there before
    /// its time is known.
    blank: Option<PendingFrame>,
    free: Vec<Vec<u8>>,
    aim: Aim,
    planned: Aim,
    shapes: Shapes,
    reception: Reception,
    playout: Playout,
    /// The SSRC, and where it sends from.
    source: Option<(u32, SocketAddr)>,
    probation: Probation,
    /// When the source began, and when it was heard last.
    begun_ns: u64,
    heard_ns: u64,
    /// Frames since it began that were handed out or counted as missing.
    accounted: u64,
    released: Option<u32>,
    counts: Counts,
}

impl Assembler {
    /// Assembles pictures of one format. At most `frames` frames are begun or handed out and not
    /// given back at a time; they are due `delay_ns` after the fastest possible arrival of their
    /// first packet.
    pub fn new(format: Format, payload_type: u8, frames: usize, delay_ns: u64) -> Self {
        let mut free: Vec<_> = (0..frames.max(2)).map(|_| vec![0; format.frame_bytes()]).collect();
        let aim = Aim { timestamp: None, shape: 0 };
        Self {
            format,
            payload_type,
            pending: Pending::new(format),
            blank: free.pop().map(PendingFrame::new),
            free,
            aim,
            planned: aim,
            shapes: Shapes::default(),
            reception: Reception::default(),
            playout: Playout::new(delay_ns),
            source: None,
            probation: Probation::default(),
            begun_ns: 0,
            heard_ns: 0,
            accounted: 0,
            released: None,
            counts: Counts::default(),
        }
    }

    /// Takes back a frame's memory.
    pub fn give_back(&mut self, bytes: Vec<u8>) {
        if self.blank.is_none() {
            self.blank = Some(PendingFrame::new(bytes));
        } else {
            self.free.push(bytes);
        }
    }

    /// Says where the next packets, `most` at most, are expected. Until [`settle`](Self::settle),
    /// [`slots`](Self::slots) is about these.
    pub fn plan(&mut self, most: usize) -> usize {
        self.planned = self.aim;
        let known = &self.shapes.known()[self.aim.shape.min(self.shapes.known().len())..];
        let Some(frame) = target(&mut self.pending, &mut self.blank, self.aim) else { return 0 };
        known.iter().take(most).take_while(|shape| frame.coverage.is_free(&shape.data)).count()
    }

    /// The frame that is planned for, and its packets from the planned one on.
    pub fn slots(&mut self) -> Option<(&mut [u8], &[Shape])> {
        let known = self.shapes.known().get(self.planned.shape..)?;
        let frame = target(&mut self.pending, &mut self.blank, self.planned)?;
        Some((&mut frame.bytes, known))
    }

    /// Takes a packet whose pixels are already at the place of the planned packet `slot`, if it is
    /// that one: `header` are as many bytes of it as its headers have, and `padding_end` its last
    /// byte if it has padding. `false` if it is another packet.
    pub fn accept(&mut self, slot: usize, header: &[u8], padding_end: Option<u8>, now_ns: u64) -> bool {
        let index = self.planned.shape + slot;
        let Some(shape) = self.shapes.known().get(index) else { return false };
        if !shape.is_of(header)
            || padding_end.is_some_and(|end| end != shape.padding)
            || self.source.is_none()
        {
            return false;
        }
        let timestamp = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let data = shape.data.clone();
        let field = usize::from(data.start >= self.format.line_start(1, 0));
        let is_elsewhere = self.pending.find(timestamp, field).is_some() || self.is_released(timestamp);
        let Some(frame) = target(&mut self.pending, &mut self.blank, self.planned) else { return false };
        let begins = frame.timestamp.is_none();
        let is_of_frame =
            frame.timestamp.map_or(!is_elsewhere, |of| is_of(&self.format, of, timestamp, field));
        if !is_of_frame {
            return false;
        }
        frame.timestamp.get_or_insert(frame_time(&self.format, timestamp, field));
        frame.coverage.add(data.clone());
        self.note(header, now_ns);
        if begins {
            self.begin(timestamp, now_ns);
        }
        self.counts.in_place_bytes += data.len() as u64;
        self.aim = self.behind(data.end, self.planned.timestamp, index + 1);
        true
    }

    /// Ends what [`plan`](Self::plan) began: from here on, other packets may be taken and frames be
    /// handed out.
    pub fn settle(&mut self) {
        let Some(timestamp) = self.blank.as_ref().and_then(|frame| frame.timestamp) else { return };
        if let Some(frame) = self.blank.take() {
            self.pending.insert(frame);
        }
        self.blank = self.free.pop().map(PendingFrame::new);
        // Unless the frame has ended, or another packet came.
        if self.aim.timestamp.is_none() && self.aim.shape != 0 {
            self.aim.timestamp = Some(timestamp);
        }
    }

    /// Takes a packet that lies elsewhere and copies its pixels to their places.
    pub fn take(&mut self, packet: &[u8], from: SocketAddr, now_ns: u64) {
        let Some(rtp) = self.parsed(packet) else { return };
        if self.source == Some((rtp.ssrc(), from)) || self.prove(&rtp, packet, from, now_ns) {
            self.take_own(&rtp, packet, now_ns);
        }
    }

    /// Takes a packet of this stream.
    fn take_own(&mut self, rtp: &RtpPacket<'_>, packet: &[u8], now_ns: u64) {
        let Ok(payload) = Payload::parse(&self.format, rtp.payload()) else {
            self.counts.malformed += 1;
            return;
        };
        let padding = rtp.padding().unwrap_or(0);
        let header_bytes = rtp.payload_offset() + payload.header_bytes();
        let is_newest = self.note(packet, now_ns);
        let field = payload.runs().next().map_or(0, |run| usize::from(run.field));
        let Some((timestamp, bytes)) = self.place(rtp, &payload, field, now_ns) else { return };
        self.counts.copied_bytes += bytes as u64;
        if let Some(range) = payload.one_range() {
            self.shapes.note(&packet[..header_bytes], range.clone(), padding);
            if range.end == self.format.frame_bytes() {
                self.shapes.learn(range.end);
            }
            if is_newest {
                let next = self.shapes.index_at(range.end).unwrap_or(usize::MAX);
                self.aim = self.behind(range.end, Some(timestamp), next);
            }
        }
    }

    /// The next frame that is due.
    pub fn poll(&mut self, now_ns: u64) -> Option<Finished> {
        let first = self.pending.first()?;
        (self.playout.due_ns(first) <= now_ns).then(|| self.release())?
    }

    /// The next frame, due or not: the stream has ended.
    pub fn flush(&mut self) -> Option<Finished> {
        self.release()
    }

    /// When the next frame is due.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.pending.first().map(|first| self.playout.due_ns(first))
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        let lost = self.reception.expected() as i64 - self.reception.received() as i64
            + self.counts.duplicates as i64;
        Counts { packets: self.reception.received(), lost: lost.max(0) as u64, ..self.counts }
    }

    /// What was received of the stream's packets, for reports.
    pub fn reception(&mut self) -> &mut Reception {
        &mut self.reception
    }

    /// The stream's source.
    pub fn source(&self) -> Option<u32> {
        self.source.map(|(source, _)| source)
    }

    /// Whether the stream comes from this address.
    pub(crate) fn is_from(&self, address: SocketAddr) -> bool {
        self.source.is_some_and(|(_, from)| from == address)
    }

    /// Frames that can be missing at most, by the time since the source began: a timestamp that
    /// jumps further says nothing of pictures, and nobody is to have a file filled with more of
    /// them than a camera makes.
    fn could_be_missing(&self) -> u64 {
        let interval_ns = self.format.frame_start_ns(1).max(1);
        let made = self.heard_ns.saturating_sub(self.begun_ns) / interval_ns;
        (made + EARLY_FRAMES).saturating_sub(self.accounted)
    }

    fn release(&mut self) -> Option<Finished> {
        let frame = self.pending.pop()?;
        let timestamp = frame.timestamp?;
        if self.aim.timestamp == Some(timestamp) {
            self.aim = Aim { timestamp: None, shape: 0 };
        }
        let ticks = self.format.ticks(1, 0).max(1);
        let missing_before = self.released.map_or(0, |before| {
            let since = u64::from(timestamp.wrapping_sub(before));
            ((since + ticks / 2) / ticks).saturating_sub(1)
        });
        let missing_before = missing_before.min(self.could_be_missing()) as u32;
        self.accounted += u64::from(missing_before) + 1;
        self.released = Some(timestamp);
        let holes = frame.coverage.holes(self.format.frame_bytes());
        self.counts.frames += 1;
        self.counts.whole_frames += u64::from(holes.is_empty());
        self.counts.missing_frames += u64::from(missing_before);
        self.counts.missing_bytes += holes.iter().map(|hole| hole.len() as u64).sum::<u64>();
        Some(Finished { bytes: frame.bytes, timestamp, holes, missing_before })
    }

    /// The packet, if it may be one of this stream.
    fn parsed<'a>(&mut self, packet: &'a [u8]) -> Option<RtpPacket<'a>> {
        let Ok(rtp) = RtpPacket::parse(packet) else {
            self.counts.malformed += 1;
            return None;
        };
        if rtp.payload_type() != self.payload_type {
            self.counts.foreign += 1;
            return None;
        }
        Some(rtp)
    }

    /// Begins another source if there is none, or none any more, and this packet is a reason to
    /// believe it; whether the packet belongs to the stream then.
    fn prove(&mut self, rtp: &RtpPacket<'_>, packet: &[u8], from: SocketAddr, now_ns: u64) -> bool {
        let is_silent = now_ns.saturating_sub(self.heard_ns) > SILENCE_NS;
        let kept = if self.source.is_none() || is_silent {
            self.probation.note(rtp.ssrc(), from, rtp.sequence_number(), packet)
        } else {
            None
        };
        let Some(kept) = kept else {
            self.counts.foreign += 1;
            return false;
        };
        self.begin_source(rtp.ssrc(), from, now_ns);
        for before in kept {
            self.counts.foreign = self.counts.foreign.saturating_sub(1);
            if let Ok(rtp) = RtpPacket::parse(&before) {
                self.take_own(&rtp, &before, now_ns);
            }
        }
        true
    }

    fn begin_source(&mut self, source: u32, from: SocketAddr, now_ns: u64) {
        self.source = Some((source, from));
        (self.begun_ns, self.heard_ns, self.accounted) = (now_ns, now_ns, 0);
        self.reception = Reception::default();
        self.shapes.forget();
        while let Some(frame) = self.pending.pop() {
            self.give_back(frame.bytes);
        }
        self.aim = Aim { timestamp: None, shape: 0 };
        (self.planned, self.released) = (self.aim, None);
        self.playout = self.playout.anew();
    }

    /// Counts a packet; returns whether none has come with a higher number.
    fn note(&mut self, header: &[u8], now_ns: u64) -> bool {
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let sources = usize::from(header[0] & 0xf);
        let extension = if sources == 0 && header[0] & 0x10 == 0 { word(RTP_HEADER_BYTES) } else { 0 };
        let before = self.reception.highest();
        let is_newest = self.reception.note(word(2), extension) > before;
        self.heard_ns = now_ns;
        self.counts.reordered += u64::from(!is_newest);
        is_newest
    }

    /// Copies the pixels of a packet to their places; returns the time of the frame and how many
    /// bytes were new.
    fn place(
        &mut self,
        rtp: &RtpPacket<'_>,
        payload: &Payload<'_>,
        field: usize,
        now_ns: u64,
    ) -> Option<(u32, usize)> {
        let timestamp = rtp.timestamp();
        if self.pending.find(timestamp, field).is_none() && !self.begin_frame(timestamp, field, now_ns) {
            return None;
        }
        let frame = self.pending.find(timestamp, field)?;
        let mut new = 0;
        for run in payload.runs() {
            let (to, from) = (run.frame..run.frame + run.bytes, run.payload..run.payload + run.bytes);
            frame.bytes[to.clone()].copy_from_slice(&rtp.payload()[from]);
            new += frame.coverage.add(to);
        }
        self.counts.duplicates += u64::from(new == 0);
        Some((frame.timestamp?, new))
    }

    /// Begins a frame, unless its time has passed or there is no memory.
    fn begin_frame(&mut self, timestamp: u32, field: usize, now_ns: u64) -> bool {
        if self.is_released(timestamp) {
            self.counts.late += 1;
            return false;
        }
        let Some(bytes) = self.free.pop().or_else(|| self.blank.take().map(|frame| frame.bytes)) else {
            self.counts.no_memory += 1;
            return false;
        };
        let mut frame = PendingFrame::new(bytes);
        frame.timestamp = Some(frame_time(&self.format, timestamp, field));
        self.pending.insert(frame);
        self.begin(timestamp, now_ns);
        true
    }

    /// Takes note of a frame's first packet.
    fn begin(&mut self, timestamp: u32, now_ns: u64) {
        self.playout.note(now_ns, timestamp);
        let ticks = u128::from(now_ns) * u128::from(CLOCK_HZ) / 1_000_000_000;
        self.reception.note_arrival(ticks as u32, timestamp);
    }

    fn is_released(&self, timestamp: u32) -> bool {
        let last_field = self.format.ticks(0, self.format.fields() - 1) as u32;
        self.released.is_some_and(|released| timestamp.wrapping_sub(released + last_field).cast_signed() <= 0)
    }

    /// What comes behind a packet that ends at `end`.
    fn behind(&self, end: usize, timestamp: Option<u32>, shape: usize) -> Aim {
        if end == self.format.frame_bytes() {
            Aim { timestamp: None, shape: 0 }
        } else {
            Aim { timestamp, shape }
        }
    }
}

fn target<'a>(
    pending: &'a mut Pending,
    blank: &'a mut Option<PendingFrame>,
    aim: Aim,
) -> Option<&'a mut PendingFrame> {
    match aim.timestamp {
        Some(timestamp) => pending.exactly(timestamp),
        None => blank.as_mut(),
    }
}

#[cfg(test)]
mod tests;
