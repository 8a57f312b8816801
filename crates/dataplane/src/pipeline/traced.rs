//! What the stages of a pipeline tell a [`Tracer`], while there is one.

use convoy_ipsec::{CryptoPacket, CryptoStatus, SaIndex, Tables, TunnelId};
use convoy_packet::{Frame, FramePool};
use convoy_scheduler::TrainDispatch;

use super::{CryptoStage, Departures, Pipeline, Released};
use crate::trace::{PacketPlace, PacketTrace, TraceEvent, TraceFilter, TraceOutcome, TracedSa, Tracer};

/// What a trace says of an SA.
fn traced_sa(tables: &Tables, index: SaIndex) -> Option<TracedSa> {
    tables.sa(index).map(|view| TracedSa { spi: view.name.spi, tunnel: view.tunnel })
}

impl Pipeline {
    /// Traces packets from now on, and forgets an earlier trace.
    pub fn begin_trace(&mut self, filter: TraceFilter) {
        let tables = &mut self.ipsec.tables;
        tables.keep_frame_notes(true);
        self.stage.tracer = Some(Box::new(Tracer::new(filter, self.clock.clone(), tables.worker())));
    }

    /// Ends a trace, if there is one.
    pub fn end_trace(&mut self) {
        self.ipsec.tables.keep_frame_notes(false);
        self.stage.tracer = None;
    }

    /// Takes the traces that were completed since the last call, and whether all that were sought
    /// are; without a trace there are none.
    pub fn take_traces(&mut self) -> (Vec<PacketTrace>, bool) {
        match &mut self.stage.tracer {
            Some(tracer) => (tracer.take_done(), tracer.is_complete()),
            None => (Vec::new(), true),
        }
    }

    /// Whether packets are traced.
    #[inline]
    pub(crate) fn is_tracing(&self) -> bool {
        self.stage.tracer.is_some()
    }

    pub(crate) fn tracer(&mut self) -> Option<&mut Tracer> {
        self.stage.tracer.as_deref_mut()
    }

    /// The frames, the packets ready to leave, and the tracer, for ports that send.
    pub(crate) fn leaving_parts(&mut self) -> (&mut FramePool, &mut Departures, Option<&mut Tracer>) {
        (&mut self.pool, &mut self.departures, self.stage.tracer.as_deref_mut())
    }

    #[cold]
    pub(super) fn trace_outbound(&mut self, packets: &[CryptoPacket]) {
        let Self { stage, ipsec, outbound, .. } = self;
        let Some(tracer) = &mut stage.tracer else { return };
        let loss = classified(tracer, &mut ipsec.tables, packets);
        tracer.passed(&outbound.bypass, PacketPlace::Leaving, || Some(TraceEvent::Bypassed));
        for waiting in &outbound.without_sa {
            let of_tunnel = |tunnel: TunnelId| TracedSa { spi: 0, tunnel };
            tracer.belongs(&waiting.frame, || Some(of_tunnel(waiting.tunnel)));
            tracer.passed([&waiting.frame], PacketPlace::Inside, || Some(TraceEvent::WaitsForSa));
        }
        end_burst(tracer, &ipsec.tables, &outbound.for_others, loss);
    }

    #[cold]
    pub(super) fn trace_inbound(&mut self, packets: &[CryptoPacket]) {
        let Self { stage, ipsec, inbound, .. } = self;
        let Some(tracer) = &mut stage.tracer else { return };
        let loss = classified(tracer, &mut ipsec.tables, packets);
        tracer.passed(&inbound.bypass, PacketPlace::Leaving, || Some(TraceEvent::Bypassed));
        inbound.ike.iter().for_each(|frame| tracer.end(frame.id(), TraceOutcome::ToDaemon));
        end_burst(tracer, &ipsec.tables, &inbound.for_others, loss);
    }

    #[cold]
    pub(super) fn trace_released(&mut self) {
        let Self { stage, released: Released { outbound, inbound }, .. } = self;
        let Some(tracer) = &mut stage.tracer else { return };
        let frames = outbound.iter().chain(inbound.iter()).map(|packet| &packet.frame);
        tracer.passed(frames, PacketPlace::Finishing, || Some(TraceEvent::InOrder));
    }

    #[cold]
    pub(super) fn trace_finished(&mut self) {
        let Self { stage, ipsec, departures, .. } = self;
        let Some(tracer) = &mut stage.tracer else { return };
        let notes = ipsec.tables.take_frame_notes();
        let sa_of = |index| traced_sa(&ipsec.tables, index);
        let loss = tracer.apply(&notes, &sa_of);
        let leaving = || departures.to_outside.iter().chain(&departures.to_inside);
        tracer.passed(leaving(), PacketPlace::Leaving, || None);
        tracer.end_missing(PacketPlace::Finishing, [], loss, &sa_of);
    }

    /// Notes packets that were dropped while they waited.
    #[cold]
    pub(super) fn trace_given_up(&mut self) {
        let Self { stage, ipsec, .. } = self;
        let Some(tracer) = &mut stage.tracer else { return };
        let notes = ipsec.tables.take_frame_notes();
        tracer.apply(&notes, &|index| traced_sa(&ipsec.tables, index));
    }
}

/// Notes the packets of a burst that an SA protects or opens, and those that were dropped.
fn classified(
    tracer: &mut Tracer,
    tables: &mut Tables,
    packets: &[CryptoPacket],
) -> Option<crate::trace::Loss> {
    let notes = tables.take_frame_notes();
    let loss = tracer.apply(&notes, &|index| traced_sa(tables, index));
    for packet in packets {
        tracer.belongs(&packet.frame, || traced_sa(tables, packet.sa));
    }
    tracer.passed(frames_of(packets), PacketPlace::Inside, || Some(TraceEvent::Classified));
    loss
}

/// Ends the traces of what is left of a burst: packets that went to other workers, that were lost
/// or that other packets carry on.
fn end_burst(
    tracer: &mut Tracer,
    tables: &Tables,
    for_others: &[(u16, Frame)],
    loss: Option<crate::trace::Loss>,
) {
    for (worker, frame) in for_others {
        tracer.end(frame.id(), TraceOutcome::HandedOver { worker: *worker, frame: frame.id() });
    }
    tracer.end_missing(PacketPlace::Burst, [], loss, &|index| traced_sa(tables, index));
}

fn frames_of(packets: &[CryptoPacket]) -> impl Iterator<Item = &Frame> {
    packets.iter().map(|packet| &packet.frame)
}

impl CryptoStage {
    #[cold]
    pub(super) fn trace_entering(&mut self, packets: &[CryptoPacket]) {
        let (waiting, in_line) = (self.scheduler.waiting(), self.in_line());
        let Some(tracer) = &mut self.tracer else { return };
        tracer.passed(frames_of(packets), PacketPlace::Inside, || {
            Some(TraceEvent::Window { waiting, in_line })
        });
    }

    #[cold]
    pub(super) fn trace_train(&mut self, packets: &[CryptoPacket], given: TrainDispatch) {
        let engine = self.engines.description(given.engine).name.clone();
        let Some(tracer) = &mut self.tracer else { return };
        let mut sas: Vec<SaIndex> = packets.iter().map(|packet| packet.sa).collect();
        sas.sort_unstable();
        sas.dedup();
        tracer.passed(frames_of(packets), PacketPlace::Inside, || {
            Some(TraceEvent::Train {
                engine: engine.clone(),
                packets: packets.len(),
                sas: sas.len(),
                wait_ns: given.predicted_wait,
                processing_ns: given.predicted_processing,
            })
        });
    }

    #[cold]
    pub(super) fn trace_done(&mut self, packets: &[CryptoPacket]) {
        let Some(tracer) = &mut self.tracer else { return };
        tracer.done(packets, |packet| packet.status == CryptoStatus::Done);
    }
}
