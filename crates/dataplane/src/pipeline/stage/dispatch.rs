//! From the window to the engines: the next train, who lays it out, and what is processed at once.

use convoy_engine::{Placement, Submission};
use convoy_ipsec::{CryptoPacket, CryptoStatus, DropReason};
use convoy_packet::FramePool;
use convoy_scheduler::{Dispatch, Input, TrainDispatch};

use super::{CryptoStage, StageContext};
use crate::pipeline::engine_set::EngineSet;
use crate::pipeline::in_flight::{Deadlines, SubmitContext, TrainRecords};
use crate::pipeline::train::{OrderPosition, Train, is_pending, stream_of};

/// One in this many trains processed here is timed: reading the clock twice costs as much as a
/// short packet's look-ups. A prime, so that engines used in turns are all timed.
const MEASURED_EVERY: u32 = 17;
/// Engines elsewhere are asked for completions whenever engines on this core have worked for this
/// long, in ns: they may have nothing left to do, and the choice depends on what they have.
const LOOKED_AT_EVERY_NS: u64 = 2_000;
/// So many packets are dispatched before ports are read again, where packets have classes: one of a
/// high class that arrives meanwhile waits for no more of lower ones.
const CLASSED_PACKETS: usize = 64;
/// How long a train waits for a frame while no engine holds any, in ns. By then ports have sent
/// what they hold; the remaining frames belong to packets that wait behind this train.
const STARVED_NS: u64 = 10_000_000;

impl CryptoStage {
    /// Dispatches what the window yields as far as engines have room, and releases what is
    /// finished. Returns whether anything moved.
    pub fn advance(&mut self, mut now_ns: u64, input: Input, context: &mut StageContext<'_>) -> bool {
        let mut moved = false;
        let mut look_at_ns = now_ns + LOOKED_AT_EVERY_NS;
        let mut left = if self.has_classes() { CLASSED_PACKETS } else { usize::MAX };
        loop {
            if left == 0 {
                return true;
            }
            self.admit_line(now_ns, context.released);
            // A full window is dispatched whatever the ports report.
            let input = if self.line.is_empty() { input } else { Input::More };
            match self.next_train(now_ns, input, context) {
                Some((train, given)) => {
                    left = left.saturating_sub(train.packets.len());
                    if self.carry_out(now_ns, train, given, context) {
                        moved = true;
                        if self.is_idle() {
                            return true;
                        }
                        if self.has_engine_elsewhere {
                            now_ns += given.predicted_processing;
                            if now_ns >= look_at_ns {
                                now_ns = self.look_elsewhere(context);
                                look_at_ns = now_ns + LOOKED_AT_EVERY_NS;
                            }
                        }
                        continue;
                    }
                    if self.held.is_none() && self.engines.has_gathered(given.engine) {
                        moved = true;
                        continue;
                    }
                    // Frames come back only from engines that have started.
                    if self.held.is_some() && !self.begin(now_ns, context.pool) {
                        return moved;
                    }
                }
                None if self.take_back() => continue,
                None => {
                    let waits = self.scheduler.room() == 0;
                    // While more input is at hand and there is room for it, engines continue to
                    // gather.
                    if input == Input::More && !waits || !self.begin(now_ns, context.pool) {
                        return moved;
                    }
                }
            }
            now_ns = self.clock.now_ns();
            self.apply_reports(context.released);
            moved = true;
        }
    }

    /// Takes in what engines elsewhere have completed while this core worked; returns the time.
    #[inline(never)]
    fn look_elsewhere(&mut self, context: &mut StageContext<'_>) -> u64 {
        let now_ns = self.clock.now_ns();
        if self.in_flight() == 0 {
            return now_ns;
        }
        self.with_engines(now_ns, context.pool, EngineSet::poll);
        self.apply_reports(context.released);
        self.clock.now_ns()
    }

    /// Whether nothing waits for an engine, and no engine waits for more.
    fn is_idle(&self) -> bool {
        self.inside == 0 && self.oldest_gathered().is_none()
    }

    /// Moves bursts that stand in the window as they came back into the line if no remaining engine
    /// takes trains; returns whether there were any.
    fn take_back(&mut self) -> bool {
        let bursts = self.scheduler.take_back();
        let are_any = !bursts.is_empty();
        bursts.into_iter().rev().for_each(|packet| self.line.push_front(packet));
        are_any
    }

    /// The next train for which an engine has room, with that engine: a held train, one to be
    /// processed again, or what the window yields.
    fn next_train(
        &mut self,
        now_ns: u64,
        input: Input,
        context: &mut StageContext<'_>,
    ) -> Option<(Train, TrainDispatch)> {
        if let Some((train, given)) = self.held.take() {
            if self.scheduler.is_available(given.engine) {
                return Some((train, given));
            }
            self.scheduler.forget(now_ns, given.engine, given.ticket);
            self.again.push_front(train);
        }
        if !self.again.is_empty() {
            let again = self.next_again(now_ns, context.released);
            // A train with a position but without numbers must get them before any later packet
            // does.
            if again.is_some() || self.again.iter().any(Train::is_without_numbers) {
                return again;
            }
        }
        self.scheduler.set_before_window(self.line.len());
        let dispatch = self.scheduler.dispatch(now_ns, input)?;
        Some(self.place(dispatch))
    }

    /// Makes a train of a dispatch.
    fn place(&mut self, dispatch: Dispatch<CryptoPacket>) -> (Train, TrainDispatch) {
        let given = dispatch.train_dispatch();
        let Dispatch { is_of_many, items, .. } = dispatch;
        let stream = items.first().map_or(0, |first| match is_of_many {
            true => first.direction as u32,
            false => stream_of(first.sa),
        });
        (self.train(stream, items), given)
    }

    /// A train of these packets at the end of its stream.
    fn train(&mut self, stream: u32, packets: Vec<CryptoPacket>) -> Train {
        let place = self.place_behind(stream, packets.len());
        Train { place, packets, templates: Vec::new() }
    }

    /// The next position of a stream, for this many packets.
    pub(super) fn place_behind(&mut self, stream: u32, packets: usize) -> OrderPosition {
        OrderPosition { stream, first: self.order.admit(stream, packets) }
    }

    /// Has a train laid out and processed. Returns whether it is finished; otherwise it comes back
    /// through the engine's queue.
    fn carry_out(
        &mut self,
        now_ns: u64,
        mut train: Train,
        given: TrainDispatch,
        context: &mut StageContext<'_>,
    ) -> bool {
        if self.tracer.is_some() {
            self.trace_train(&train.packets, given);
        }
        if !self.does_here(given.engine, train.place) {
            self.hand_over(now_ns, train, given, context);
            return false;
        }
        let is_done = self.do_here(now_ns, given, &mut train.packets, context);
        if is_done {
            self.put_in_order(train, context.released);
        } else {
            self.again.push_front(train);
        }
        is_done
    }

    /// Whether an engine processes a train at this position on this core at once.
    #[inline]
    pub(super) fn does_here(&mut self, engine: usize, place: OrderPosition) -> bool {
        // An engine that gathers trains processes many of them together.
        let gathers = self.engines.description(engine).gathers > 1 && place.is_of_sa();
        !gathers && self.engines.in_place(engine).is_some()
    }

    /// Lays packets out and has an engine on this core process those that are pending; returns
    /// whether it did. An engine that leaves some unprocessed has failed.
    pub(super) fn do_here(
        &mut self,
        now_ns: u64,
        given: TrainDispatch,
        packets: &mut [CryptoPacket],
        context: &mut StageContext<'_>,
    ) -> bool {
        context.tables.lay_out(now_ns, packets, &mut |iv| self.ivs.fill(iv));
        if self.verification.is_some() {
            return self.process_verified(now_ns, given, packets, context.pool);
        }
        self.process_here(now_ns, given, packets)
    }

    /// Has an engine on this core process those of these packets that are pending.
    #[inline]
    pub(super) fn process_here(
        &mut self,
        now_ns: u64,
        given: TrainDispatch,
        packets: &mut [CryptoPacket],
    ) -> bool {
        let TrainDispatch { engine, predicted_processing, .. } = given;
        let is_measured = self.unmeasured == 0;
        let began_ns = if is_measured { self.clock.now_ns() } else { 0 };
        let pending = packets.iter().filter(|packet| is_pending(packet)).count();
        if let Some(in_place) = self.engines.in_place(engine) {
            if pending == packets.len() {
                in_place.process(packets);
            } else {
                let runs = packets.chunk_by_mut(|one, other| is_pending(one) == is_pending(other));
                runs.filter(|run| is_pending(&run[0])).for_each(|run| in_place.process(run));
            }
        }
        let measured = is_measured.then(|| self.clock.now_ns().saturating_sub(began_ns));
        if packets.iter().any(is_pending) {
            let records = &mut TrainRecords { now_ns, trains: &mut self.scheduler, again: &mut self.again };
            self.engines.fail_in_place(engine, packets, records);
            return false;
        }
        self.unmeasured = if is_measured { MEASURED_EVERY - 1 } else { self.unmeasured - 1 };
        self.scheduler.complete_at_once(now_ns, &given, measured);
        let service_ns = measured.unwrap_or(predicted_processing);
        self.engines.note_in_place(engine, pending as u64, service_ns);
        true
    }

    /// Lays a train out, or leaves that to its engine, and submits it to the engine's queue as far
    /// as there are frames for it.
    pub(super) fn hand_over(
        &mut self,
        now_ns: u64,
        train: Train,
        given: TrainDispatch,
        context: &mut StageContext<'_>,
    ) {
        let Some(mut train) = self.cut_to_frames(now_ns, train, given, context) else { return };
        // What is laid out by an engine itself cannot be compared: its IVs may be random.
        let is_verified =
            self.verification.as_mut().is_some_and(|verification| verification.is_due(train.packets.len()));
        if self.engines.lays_out(given.engine) && !is_verified {
            train.templates = self.spare_templates.pop().unwrap_or_default();
            context.tables.begin(now_ns, &mut train.packets, &mut train.templates);
        } else {
            context.tables.lay_out(now_ns, &mut train.packets, &mut |iv| self.ivs.fill(iv));
        }
        if train.packets.iter().all(is_pending) {
            if is_verified {
                self.keep_to_verify(&train, given.engine, context.pool);
            }
            return self.submit(now_ns, train, given, context.pool);
        }
        // It is dispatched again without the packets that need no engine.
        self.scheduler.complete_at_once(now_ns, &given, None);
        self.again.push_front(train);
    }

    fn submit(&mut self, now_ns: u64, train: Train, given: TrainDispatch, pool: &mut FramePool) {
        let TrainDispatch { engine, ticket, predicted_wait, predicted_processing, .. } = given;
        let Train { place, packets, templates } = train;
        let Some(first) = packets.first() else { return };
        let (sa, direction) = (first.sa, first.direction);
        let submission = Submission { ticket, sa, direction, packets, templates };
        let deadlines = self.deadlines(now_ns, engine, predicted_wait + predicted_processing);
        let Self { engines, scheduler, done, again, clock, .. } = self;
        let records = TrainRecords { now_ns, trains: scheduler, again };
        let context = &mut SubmitContext { records, pool, done };
        engines.submit(engine, submission, place, deadlines, context);
        // An engine elsewhere has just started.
        if engines.description(engine).placement == Placement::Inline && !engines.has_gathered(engine) {
            context.records.now_ns = clock.now_ns();
            engines.poll_one(engine, context);
        }
    }

    /// The deadlines of a train that an engine is predicted to complete within `predicted_ns` from
    /// now.
    fn deadlines(&self, now_ns: u64, engine: usize, predicted_ns: u64) -> Deadlines {
        let slack_ns = self.engines.description(engine).slack_ns;
        self.config.timeouts.deadlines(now_ns, predicted_ns, slack_ns)
    }

    /// The part of a train for which there are frames to copy the input that its engine may lose.
    /// While work in flight will free frames, a train without any is held; otherwise it is cut. If
    /// there is no frame for long, its first packet is dropped, which frees a frame: the others
    /// would wait forever.
    fn cut_to_frames(
        &mut self,
        now_ns: u64,
        mut train: Train,
        given: TrainDispatch,
        context: &mut StageContext<'_>,
    ) -> Option<Train> {
        let fits = self.engines.can_submit(given.engine, context.pool, &train.packets);
        if fits == train.packets.len() {
            self.starved_since_ns = None;
            return Some(train);
        }
        if self.in_flight() > 0 {
            self.starved_since_ns = None;
            self.held = Some((train, given));
            return None;
        }
        if fits > 0 {
            let rest = train.split_off(fits);
            self.again.push_front(rest);
            return Some(train);
        }
        let since_ns = *self.starved_since_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(since_ns) < STARVED_NS {
            self.held = Some((train, given));
            return None;
        }
        let rest = train.split_off(1);
        train.packets[0].status = CryptoStatus::Refused(DropReason::NoFrame);
        if rest.packets.is_empty() {
            self.scheduler.complete_at_once(now_ns, &given, None);
        } else {
            self.held = Some((rest, given));
        }
        self.put_in_order(train, context.released);
        None
    }
}
