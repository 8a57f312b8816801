//! Turns packets into frames: the receiver without its sockets. It has no clock and no thread: time
//! is an argument and packets are byte slices.

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
use crate::shapes::{Shapes, TrafficShape};

/// Another source is accepted once the current one has been silent for this long.
const SILENCE_NS: u64 = 1_000_000_000;
/// A sender's clock may run ahead of the arrival times by this many frames.
const EARLY_FRAMES: u64 = 8;
/// A frame is released if at least this part of it arrived (one in so many bytes). Less is no
/// picture, but what concealment would make of the frame before it, at the cost of a whole frame in
/// the file.
const LEAST_PART: usize = 10;

/// A frame that is due for display.
#[derive(Debug)]
pub struct Finished {
    /// The frame in memory; the bytes within `holes` are undefined.
    pub bytes: Vec<u8>,
    /// Its RTP timestamp.
    pub timestamp: u32,
    /// Byte ranges that did not arrive.
    pub holes: Vec<Range<usize>>,
    /// Frames directly before this one that were not released, since nothing or too little of them
    /// arrived.
    pub missing_before: u32,
}

/// Where the next packet is expected: in which frame, and which packet of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected {
    /// The frame's RTP timestamp; `None` for the frame that follows all started ones.
    timestamp: Option<u32>,
    shape: usize,
}

/// Writes packets to their places in whichever order they arrive, and releases frames when they are
/// due.
pub struct Assembler {
    format: Format,
    payload_type: u8,
    pending: Pending,
    /// Memory of the frame that follows all started ones: the kernel may write packets into it
    /// before its timestamp is known.
    blank: Option<PendingFrame>,
    free: Vec<Vec<u8>>,
    expected: Expected,
    planned: Expected,
    shapes: Shapes,
    reception: Reception,
    playout: Playout,
    /// The SSRC of the accepted source, and the address that it sends from.
    source: Option<(u32, SocketAddr)>,
    probation: Probation,
    /// When the source started, and when its last packet arrived.
    begun_ns: u64,
    heard_ns: u64,
    /// Frames since the source started that were released or counted as missing.
    accounted: u64,
    /// Timestamp of the last frame that was released.
    released: Option<u32>,
    /// Timestamp of the last frame that ended, released or not: later packets of it are late.
    ended: Option<u32>,
    counts: Counts,
}

impl Assembler {
    /// Assembles frames of one format. Up to `frames` frames may be in progress, or released and
    /// not yet given back, at a time. A frame is due `delay_ns` after the earliest possible arrival
    /// of its first packet.
    pub fn new(format: Format, payload_type: u8, frames: usize, delay_ns: u64) -> Self {
        let mut free: Vec<_> = (0..frames.max(2)).map(|_| vec![0; format.frame_bytes()]).collect();
        let expected = Expected { timestamp: None, shape: 0 };
        Self {
            format,
            payload_type,
            pending: Pending::new(format),
            blank: free.pop().map(PendingFrame::new),
            free,
            expected,
            planned: expected,
            shapes: Shapes::default(),
            reception: Reception::default(),
            playout: Playout::new(delay_ns),
            source: None,
            probation: Probation::default(),
            begun_ns: 0,
            heard_ns: 0,
            accounted: 0,
            released: None,
            ended: None,
            counts: Counts::default(),
        }
    }

    /// Takes back the memory of a released frame.
    pub fn give_back(&mut self, bytes: Vec<u8>) {
        if self.blank.is_none() {
            self.blank = Some(PendingFrame::new(bytes));
        } else {
            self.free.push(bytes);
        }
    }

    /// Determines where the next packets, at most `most`, are expected, and returns how many places
    /// are known. Until [`settle`](Self::settle) is called, [`slots`](Self::slots) refers to these
    /// places.
    pub fn plan(&mut self, most: usize) -> usize {
        self.planned = self.expected;
        let known = &self.shapes.known()[self.expected.shape.min(self.shapes.known().len())..];
        let Some(frame) = target(&mut self.pending, &mut self.blank, self.expected) else { return 0 };
        known.iter().take(most).take_while(|shape| frame.coverage.is_free(&shape.data)).count()
    }

    /// The frame that [`plan`](Self::plan) chose, and its packets from the first expected one on.
    pub fn slots(&mut self) -> Option<(&mut [u8], &[TrafficShape])> {
        let known = self.shapes.known().get(self.planned.shape..)?;
        let frame = target(&mut self.pending, &mut self.blank, self.planned)?;
        Some((&mut frame.bytes, known))
    }

    /// Accepts a packet whose pixels have been written to the place of the planned packet `slot`,
    /// if it is that packet, and returns whether it is. `header` holds its headers; `padding_end`
    /// is its last byte if it has padding.
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
        let is_elsewhere = self.pending.find(timestamp, field).is_some() || self.has_ended(timestamp);
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
        self.expected = self.behind(data.end, self.planned.timestamp, index + 1);
        true
    }

    /// Ends what [`plan`](Self::plan) started: from here on, other packets may be taken and frames
    /// may be released.
    pub fn settle(&mut self) {
        let Some(timestamp) = self.blank.as_ref().and_then(|frame| frame.timestamp) else { return };
        if let Some(frame) = self.blank.take() {
            self.pending.insert(frame);
        }
        self.blank = self.free.pop().map(PendingFrame::new);
        // Not if the frame is complete or the next packet was not the expected one.
        if self.expected.timestamp.is_none() && self.expected.shape != 0 {
            self.expected.timestamp = Some(timestamp);
        }
    }

    /// Takes a packet from another buffer and copies its pixels to their places.
    pub fn take(&mut self, packet: &[u8], from: SocketAddr, now_ns: u64) {
        let Some(rtp) = self.parsed(packet) else { return };
        if self.source == Some((rtp.ssrc(), from)) || self.try_new_source(&rtp, packet, from, now_ns) {
            self.take_own(&rtp, packet, now_ns);
        }
    }

    /// Takes a packet that belongs to the accepted stream.
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
                self.expected = self.behind(range.end, Some(timestamp), next);
            }
        }
    }

    /// Releases the next frame if it is due.
    pub fn poll(&mut self, now_ns: u64) -> Option<Finished> {
        while self.next_due_ns()? <= now_ns {
            let released = self.release();
            if released.is_some() {
                return released;
            }
        }
        None
    }

    /// Releases the next frame whether it is due or not, for the end of the stream.
    pub fn flush(&mut self) -> Option<Finished> {
        while self.pending.first().is_some() {
            let released = self.release();
            if released.is_some() {
                return released;
            }
        }
        None
    }

    /// When the next frame is due, in nanoseconds.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.pending.first().map(|first| self.playout.due_ns(first))
    }

    /// The counters so far.
    pub fn counts(&self) -> Counts {
        let lost = self.reception.expected() as i64 - self.reception.received() as i64
            + self.counts.duplicates as i64;
        Counts { packets: self.reception.received(), lost: lost.max(0) as u64, ..self.counts }
    }

    /// Sequence numbers, loss and jitter of the stream, for RTCP reports.
    pub fn reception(&mut self) -> &mut Reception {
        &mut self.reception
    }

    /// The SSRC of the accepted source.
    pub fn source(&self) -> Option<u32> {
        self.source.map(|(source, _)| source)
    }

    /// Whether the accepted source sends from this address.
    pub(crate) fn is_from(&self, address: SocketAddr) -> bool {
        self.source.is_some_and(|(_, from)| from == address)
    }

    /// Upper limit on missing frames, from the time since the source started. A timestamp may jump
    /// further than that by error or on purpose, and must not fill a file with more frames than a
    /// camera could have made.
    fn could_be_missing(&self) -> u64 {
        let interval_ns = self.format.frame_start_ns(1).max(1);
        let made = self.heard_ns.saturating_sub(self.begun_ns) / interval_ns;
        (made + EARLY_FRAMES).saturating_sub(self.accounted)
    }

    /// Ends the next frame, and releases it if enough of it arrived.
    fn release(&mut self) -> Option<Finished> {
        let frame = self.pending.pop()?;
        let timestamp = frame.timestamp?;
        if self.expected.timestamp == Some(timestamp) {
            self.expected = Expected { timestamp: None, shape: 0 };
        }
        self.ended = Some(timestamp);
        let holes = frame.coverage.holes(self.format.frame_bytes());
        let missing_bytes = holes.iter().map(Range::len).sum::<usize>();
        if (self.format.frame_bytes() - missing_bytes) * LEAST_PART < self.format.frame_bytes() {
            self.counts.scrap_frames += 1;
            self.give_back(frame.bytes);
            return None;
        }
        let ticks = self.format.ticks(1, 0).max(1);
        let missing_before = self.released.map_or(0, |before| {
            let since = u64::from(timestamp.wrapping_sub(before));
            ((since + ticks / 2) / ticks).saturating_sub(1)
        });
        let missing_before = missing_before.min(self.could_be_missing()) as u32;
        self.accounted += u64::from(missing_before) + 1;
        self.released = Some(timestamp);
        self.counts.frames += 1;
        self.counts.whole_frames += u64::from(holes.is_empty());
        self.counts.missing_frames += u64::from(missing_before);
        self.counts.missing_bytes += missing_bytes as u64;
        Some(Finished { bytes: frame.bytes, timestamp, holes, missing_before })
    }

    /// The packet, if it is RTP and may belong to this stream.
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

    /// Decides whether a packet from another source starts a new stream: only when there is no
    /// source or the current one is silent, and when the new source has passed its probation.
    /// Returns whether the packet belongs to the accepted stream afterwards.
    fn try_new_source(&mut self, rtp: &RtpPacket<'_>, packet: &[u8], from: SocketAddr, now_ns: u64) -> bool {
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
        self.expected = Expected { timestamp: None, shape: 0 };
        (self.planned, self.released, self.ended) = (self.expected, None, None);
        self.playout = self.playout.for_new_stream();
    }

    /// Counts a packet; returns whether its number is higher than all before it.
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

    /// Copies a packet's pixels to their places; returns the frame's timestamp and how many bytes
    /// were new.
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

    /// Starts a frame; fails if it has ended or no memory is free.
    fn begin_frame(&mut self, timestamp: u32, field: usize, now_ns: u64) -> bool {
        if self.has_ended(timestamp) {
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

    /// Records the arrival of a frame's first packet for the playout time and the jitter.
    fn begin(&mut self, timestamp: u32, now_ns: u64) {
        self.playout.note(now_ns, timestamp);
        let ticks = u128::from(now_ns) * u128::from(CLOCK_HZ) / 1_000_000_000;
        self.reception.note_arrival(ticks as u32, timestamp);
    }

    fn has_ended(&self, timestamp: u32) -> bool {
        let last_field = self.format.ticks(0, self.format.fields() - 1) as u32;
        let is_until = |ended: u32| timestamp.wrapping_sub(ended.wrapping_add(last_field)).cast_signed() <= 0;
        self.ended.is_some_and(is_until)
    }

    /// The packet that is expected after one whose data ends at `end`.
    fn behind(&self, end: usize, timestamp: Option<u32>, shape: usize) -> Expected {
        if end == self.format.frame_bytes() {
            Expected { timestamp: None, shape: 0 }
        } else {
            Expected { timestamp, shape }
        }
    }
}

fn target<'a>(
    pending: &'a mut Pending,
    blank: &'a mut Option<PendingFrame>,
    expected: Expected,
) -> Option<&'a mut PendingFrame> {
    match expected.timestamp {
        Some(timestamp) => pending.exactly(timestamp),
        None => blank.as_mut(),
    }
}

#[cfg(test)]
mod tests;
