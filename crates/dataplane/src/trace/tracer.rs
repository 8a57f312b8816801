//! The packets that a worker follows.

use std::collections::{HashMap, HashSet};

use convoy_ipsec::{CryptoPacket, DropReason, FrameNote, SaIndex};
use convoy_packet::Frame;

use super::{
    KEPT_BYTES, MOST_ACTIVE, PacketTrace, TraceEvent, TraceFilter, TraceOutcome, TraceStep, TracedSa,
};
use crate::clock::Clock;
use crate::side::Side;

/// A reason for a drop, and the packet's SA if it was known.
pub(crate) type Loss = (Option<SaIndex>, DropReason);
/// Returns what a trace says of an SA.
pub(crate) type SaOf<'a> = dyn Fn(SaIndex) -> Option<TracedSa> + 'a;

/// Where a packet is, as far as the tracer must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketPlace {
    /// In the burst that is classified.
    Burst,
    /// In the pipeline, or waiting for an SA.
    Inside,
    /// Released in order, and being finished.
    Finishing,
    /// On its way to a port.
    Leaving,
}

/// A followed packet that is given to a port.
pub(crate) struct Departing {
    pub(crate) frame: u32,
    port: String,
    bytes: Vec<u8>,
    len: usize,
}

struct Active {
    trace: PacketTrace,
    place: PacketPlace,
}

/// Follows packets of one worker.
pub(crate) struct Tracer {
    filter: TraceFilter,
    clock: Clock,
    worker: u16,
    /// By frame.
    active: HashMap<u32, Active>,
    done: Vec<PacketTrace>,
    /// Traces still sought.
    sought: usize,
}

impl Tracer {
    pub(crate) fn new(filter: TraceFilter, clock: Clock, worker: u16) -> Self {
        let sought = filter.count;
        Self { filter, clock, worker, active: HashMap::new(), done: Vec::new(), sought }
    }

    /// Takes the complete traces since the last call.
    pub(crate) fn take_done(&mut self) -> Vec<PacketTrace> {
        std::mem::take(&mut self.done)
    }

    /// Whether it has found all packets that were sought.
    pub(crate) fn is_complete(&self) -> bool {
        self.sought == 0
    }

    /// Begins to follow packets that a port received, or that another worker handed over.
    pub(crate) fn arrived(&mut self, side: Side, port: Option<&str>, frames: &[Frame]) {
        let at_ns = self.clock.now_ns();
        let most = if self.filter.takes_all() { self.sought.min(MOST_ACTIVE) } else { MOST_ACTIVE };
        for frame in frames {
            // Whatever was in this frame before has left unnoticed.
            self.active.remove(&frame.id());
            if self.is_complete() || self.active.len() >= most {
                continue;
            }
            let event = match port {
                Some(port) => TraceEvent::Received { port: port.to_owned() },
                None => TraceEvent::TakenOver,
            };
            let trace = PacketTrace {
                worker: self.worker,
                side,
                first_frame: frame.id(),
                received: frame[..frame.len().min(KEPT_BYTES)].to_vec(),
                received_len: frame.len(),
                sent: Vec::new(),
                sent_len: 0,
                sa: None,
                steps: vec![TraceStep { at_ns, event }],
                outcome: None,
            };
            self.active.insert(frame.id(), Active { trace, place: PacketPlace::Burst });
        }
    }

    /// Notes that these frames are at a place now; `event` returns what happened there.
    pub(crate) fn passed<'a>(
        &mut self,
        frames: impl IntoIterator<Item = &'a Frame>,
        place: PacketPlace,
        event: impl Fn() -> Option<TraceEvent>,
    ) {
        let at_ns = self.clock.now_ns();
        for frame in frames {
            if let Some(active) = self.active.get_mut(&frame.id()) {
                active.place = place;
                active.trace.steps.extend(event().map(|event| TraceStep { at_ns, event }));
            }
        }
    }

    /// Notes the SA of a packet, or the tunnel that has none yet.
    pub(crate) fn belongs(&mut self, frame: &Frame, sa: impl FnOnce() -> Option<TracedSa>) {
        if let Some(active) = self.active.get_mut(&frame.id()) {
            active.trace.sa = sa();
        }
    }

    /// Notes what engines made of packets.
    pub(crate) fn done(&mut self, packets: &[CryptoPacket], is_good: impl Fn(&CryptoPacket) -> bool) {
        let at_ns = self.clock.now_ns();
        for packet in packets {
            if let Some(active) = self.active.get_mut(&packet.frame.id()) {
                let event = TraceEvent::Done { is_good: is_good(packet) };
                active.trace.steps.push(TraceStep { at_ns, event });
            }
        }
    }

    /// The packets among these that are followed, as they are about to leave.
    pub(crate) fn departing(&self, frames: &[Frame], port: &str) -> Vec<Departing> {
        let followed = frames.iter().filter(|frame| self.active.contains_key(&frame.id()));
        let departing = |frame: &Frame| Departing {
            frame: frame.id(),
            port: port.to_owned(),
            bytes: frame[..frame.len().min(KEPT_BYTES)].to_vec(),
            len: frame.len(),
        };
        followed.map(departing).collect()
    }

    /// Ends the trace of a packet.
    pub(crate) fn end(&mut self, frame: u32, outcome: TraceOutcome) {
        self.end_with(frame, outcome, |_| ());
    }

    /// Ends the trace of a packet that a port took, unless the system refused to send it.
    pub(crate) fn left(&mut self, departing: Departing, mut refused: impl FnMut(u32) -> Option<DropReason>) {
        let Departing { frame, port, bytes, len } = departing;
        let spi = self.active.get(&frame).and_then(|active| active.trace.sa).map_or(0, |sa| sa.spi);
        let outcome = refused(spi).map_or(TraceOutcome::Sent { port }, TraceOutcome::Dropped);
        self.end_with(frame, outcome, |trace| (trace.sent, trace.sent_len) = (bytes, len));
    }

    fn end_with(&mut self, frame: u32, outcome: TraceOutcome, complete: impl FnOnce(&mut PacketTrace)) {
        let Some(Active { mut trace, .. }) = self.active.remove(&frame) else { return };
        let at_ns = self.clock.now_ns();
        complete(&mut trace);
        trace.steps.push(TraceStep { at_ns, event: TraceEvent::Ended });
        trace.outcome = Some(outcome);
        if self.sought > 0 && self.filter.takes(&trace) {
            self.sought -= 1;
            self.done.push(trace);
        }
        if self.is_complete() {
            self.active.clear();
        }
    }

    /// Applies what became of frames; returns the last reason that was counted without a frame,
    /// with its SA.
    pub(crate) fn apply(&mut self, notes: &[FrameNote], sa_of: &SaOf<'_>) -> Option<Loss> {
        let mut without_frame = None;
        for note in notes {
            match *note {
                FrameNote::Moved { from, to } => {
                    if let Some(moved) = self.active.remove(&from) {
                        self.active.insert(to, moved);
                    }
                }
                FrameNote::Dropped { frame: Some(frame), sa, reason } => {
                    self.drop(frame, (sa, reason), sa_of);
                }
                FrameNote::Dropped { frame: None, sa, reason } => without_frame = Some((sa, reason)),
            }
        }
        without_frame
    }

    /// Ends the traces of packets at `place` that are not among `present`: they were lost as
    /// `loss` says, or their bytes are in other packets now.
    pub(crate) fn end_missing<'a>(
        &mut self,
        place: PacketPlace,
        present: impl IntoIterator<Item = &'a Frame>,
        loss: Option<Loss>,
        sa_of: &SaOf<'_>,
    ) {
        let is_there = |(frame, active): (&u32, &Active)| (active.place == place).then_some(*frame);
        let mut missing: HashSet<u32> = self.active.iter().filter_map(is_there).collect();
        if missing.is_empty() {
            return;
        }
        for frame in present {
            missing.remove(&frame.id());
        }
        for frame in missing {
            match loss {
                Some(loss) => self.drop(frame, loss, sa_of),
                None => self.end(frame, TraceOutcome::TakenUp),
            }
        }
    }

    fn drop(&mut self, frame: u32, (sa, reason): Loss, sa_of: &SaOf<'_>) {
        if let Some(active) = self.active.get_mut(&frame) {
            active.trace.sa = active.trace.sa.or_else(|| sa.and_then(sa_of));
            self.end(frame, TraceOutcome::Dropped(reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use convoy_packet::FramePool;

    use super::*;
    use crate::clock::VirtualTime;

    fn tracer(filter: TraceFilter) -> (Tracer, VirtualTime) {
        let time = VirtualTime::new();
        (Tracer::new(filter, time.clock(), 3), time)
    }

    fn frames(pool: &mut FramePool, count: usize) -> Vec<Frame> {
        (0..count).map(|_| pool.take_filled(b"packet", 0).expect("a frame")).collect()
    }

    fn first(count: usize) -> TraceFilter {
        TraceFilter { count, ..TraceFilter::default() }
    }

    fn unknown(_: SaIndex) -> Option<TracedSa> {
        None
    }

    #[test]
    fn the_first_packets_are_followed_with_their_times_until_a_port_has_them() {
        let mut pool = FramePool::new(4, 0);
        let frames = frames(&mut pool, 3);
        let (mut tracer, time) = tracer(first(2));
        tracer.arrived(Side::Inside, Some("tun"), &frames);
        time.advance_to(5);
        tracer.passed(&frames, PacketPlace::Inside, || Some(TraceEvent::Classified));
        time.advance_to(7);
        let departing = tracer.departing(&frames, "udp");
        assert_eq!(departing.len(), 2, "only so many were sought");
        for departing in departing {
            tracer.left(departing, |_| None);
        }
        assert!(tracer.is_complete());
        let done = tracer.take_done();
        let expected = [
            TraceStep { at_ns: 0, event: TraceEvent::Received { port: "tun".to_owned() } },
            TraceStep { at_ns: 5, event: TraceEvent::Classified },
            TraceStep { at_ns: 7, event: TraceEvent::Ended },
        ];
        for trace in &done {
            assert_eq!((&trace.steps[..], &trace.sent[..], trace.worker), (&expected[..], &b"packet"[..], 3));
            assert_eq!(trace.outcome, Some(TraceOutcome::Sent { port: "udp".to_owned() }));
        }
        assert_eq!(done.len(), 2);
        pool.give_back_burst(&mut { frames });
    }

    #[test]
    fn what_is_dropped_has_its_reason_and_what_has_moved_is_followed_on() {
        let mut pool = FramePool::new(4, 0);
        let frames = frames(&mut pool, 4);
        let [dropped, moved, uncounted, taken] = [0, 1, 2, 3].map(|at: usize| frames[at].id());
        let (mut tracer, _) = tracer(first(3));
        tracer.arrived(Side::Inside, Some("tun"), &frames[..3]);
        let reason = DropReason::Replayed;
        let notes = [
            FrameNote::Moved { from: moved, to: taken },
            FrameNote::Dropped { frame: Some(dropped), sa: None, reason },
            FrameNote::Dropped { frame: None, sa: None, reason: DropReason::NoFrame },
        ];
        let loss = tracer.apply(&notes, &unknown);
        // The packet that was copied is still there, the third one is not.
        tracer.end_missing(PacketPlace::Burst, &frames[3..], loss, &unknown);
        let outcomes: Vec<_> =
            tracer.take_done().into_iter().map(|trace| (trace.first_frame, trace.outcome)).collect();
        let lost = |frame, reason| (frame, Some(TraceOutcome::Dropped(reason)));
        assert_eq!(outcomes, [lost(dropped, reason), lost(uncounted, DropReason::NoFrame)]);
        tracer.end_missing(PacketPlace::Burst, [], None, &unknown);
        assert_eq!(tracer.take_done()[0].outcome, Some(TraceOutcome::TakenUp));
        pool.give_back_burst(&mut { frames });
    }

    #[test]
    fn a_filter_keeps_what_ends_as_sought() {
        let mut pool = FramePool::new(2, 0);
        let frames = frames(&mut pool, 2);
        let (mut tracer, _) = tracer(TraceFilter { only_dropped: true, ..first(1) });
        tracer.arrived(Side::Outside, Some("udp"), &frames);
        tracer.end(frames[0].id(), TraceOutcome::ToDaemon);
        assert!(tracer.take_done().is_empty() && !tracer.is_complete());
        tracer.end(frames[1].id(), TraceOutcome::Dropped(DropReason::UnknownSpi));
        assert_eq!((tracer.take_done().len(), tracer.is_complete()), (1, true));
        pool.give_back_burst(&mut { frames });
    }
}
