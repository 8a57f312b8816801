//! The way of a packet: source, window, queue, core, exit.

use convoy_scheduler::{Dispatch, Input, Item};

use super::processor::{Job, Step, TransferMode};
use super::stage::Single;
use super::{Carried, Machine, NEVER, Observer, Served};
use crate::traffic::{Traffic, TrafficError};

impl<T: Traffic, O: Observer> Machine<'_, T, O> {
    /// Lets packets arrive before the next event, at `until`, up to the first one that concerns the
    /// scheduler.
    #[inline]
    pub(super) fn arrive(&mut self, until: u64) -> Result<(), TrafficError> {
        while self.arrival < until {
            self.now = self.arrival;
            let Some(packet) = self.source.next() else { break };
            let carried =
                Carried { arrived_ticks: self.now, bytes: packet.payload_bytes, class: packet.class };
            let single = Single { sa: packet.sa, carried };
            self.source.advance()?;
            self.enter(single);
            // While the window is not full there is nothing to schedule, so most packets do not
            // need to ask the scheduler.
            let goes_on = self.only_full_windows_go && self.scheduler.room() > 0;
            let Some(next) = self.source.next().filter(|_| goes_on) else {
                self.arrival = NEVER;
                self.source.stands_since = self.now;
                break;
            };
            self.arrival = self.now + next.gap_ticks;
        }
        Ok(())
    }

    /// Restarts the source's clock if it is stopped and there is room for the next packet. The time
    /// for which the clock was stopped delays all later arrivals (docs/lab/simulator.md:
    /// arrival).
    #[inline]
    pub(super) fn resume_source(&mut self) {
        if self.arrival != NEVER {
            return;
        }
        let Some(packet) = self.source.next() else { return };
        let has_room =
            if self.only_full_windows_go { self.scheduler.room() > 0 } else { self.has_room(packet.class) };
        if has_room {
            self.arrival = self.now + packet.gap_ticks;
            self.source.waited_ticks += self.now - self.source.stands_since;
        }
    }

    /// Whether there is room for a packet of this class.
    pub(super) fn has_room(&self, class: u8) -> bool {
        let finds_window = !self.before.is_empty() || self.scheduler.room_for(class) > 0;
        finds_window && self.inside < self.frames
    }

    /// Admits a packet, for which there is room.
    #[inline]
    pub(super) fn enter(&mut self, single: Single) {
        if self.has_stages {
            self.inside += 1;
            self.enter_platform(single);
        } else {
            self.enter_window(single);
        }
    }

    /// Puts a packet into the window, which has room for it.
    #[inline]
    pub(super) fn enter_window(&mut self, single: Single) {
        let Single { sa, carried } = single;
        let (bytes, class) = (carried.bytes, carried.class);
        let algorithm = self.algorithms.of(sa) << self.known_caches.len() | self.missing_from(sa);
        let blocks = match &mut self.aggregate {
            Some(aggregate) => aggregate.enter(sa, bytes),
            None => bytes.div_ceil(16),
        };
        let item = Item { sa, algorithm, class, blocks, bytes, payload: carried };
        let entered = self.scheduler.push(self.now, item);
        debug_assert!(entered.is_ok(), "the window has room");
    }

    /// The low bits of the algorithm under which the scheduler sees a packet: the set of known
    /// caches that do not hold its SA now. Changes of the caches while the packet is in the window
    /// are not taken into account.
    #[inline]
    fn missing_from(&self, sa: u32) -> u16 {
        let bit = |(bit, at): (usize, &usize)| {
            let holds = self.processors[*at].cache.as_ref().is_none_or(|cache| cache.holds(sa));
            u16::from(!holds) << bit
        };
        self.known_caches.iter().enumerate().map(bit).sum()
    }

    /// Dispatches multi-packets until the scheduler has none to dispatch
    /// (docs/lab/simulator.md: rules 1 to 3).
    #[inline]
    pub(super) fn schedule(&mut self) {
        if !self.only_full_windows_go || self.source.next().is_none() {
            return self.schedule_all();
        }
        if self.scheduler.room() > 0 {
            return;
        }
        // One dispatch frees at least one place, after which the window is no longer full.
        if let Some(dispatch) = self.next_dispatch(Input::More) {
            self.send(dispatch);
        }
    }

    /// As `schedule`, for any condition under which multi-packets are dispatched.
    #[inline(never)]
    fn schedule_all(&mut self) {
        match self.worker {
            Some(worker) => self.work(worker),
            None => self.schedule_freely(),
        }
        if let Some(slot) = self.timeout_slot {
            self.events.set(slot, self.scheduler.next_deadline(self.now).unwrap_or(NEVER));
        }
    }

    fn schedule_freely(&mut self) {
        loop {
            let input = self.input();
            while let Some(dispatch) = self.next_dispatch(input) {
                self.send(dispatch);
            }
            if self.door.is_empty() || !self.pass_door() {
                break;
            }
        }
    }

    /// What the scheduler may expect: more packets, a pause, or the end of the traffic.
    #[inline]
    pub(super) fn input(&self) -> Input {
        let waits = self.ingress.as_ref().is_some_and(|ingress| !ingress.is_empty());
        let has_ended = self.source.next().is_none() && self.inside_before() == 0 && !waits;
        if has_ended {
            Input::Ended
        } else if self.is_work_conserving && !waits && self.door.is_empty() && !self.has_input_at_hand() {
            Input::Paused
        } else {
            Input::More
        }
    }

    /// The scheduler's next multi-packet, if the pool has room.
    #[inline]
    pub(super) fn next_dispatch(&mut self, input: Input) -> Option<Dispatch<Carried>> {
        if self.at_processors >= self.pool {
            return None;
        }
        self.scheduler.dispatch(self.now, input)
    }

    /// Queues a multi-packet at its processor.
    #[inline]
    pub(super) fn send(&mut self, dispatch: Dispatch<Carried>) {
        self.at_processors += dispatch.items.len();
        let processor = &mut self.processors[dispatch.engine];
        let (mut packets, mut bytes) = (dispatch.items.len(), dispatch.bytes);
        let mut blocks = dispatch.blocks;
        if let Some(aggregate) = &mut self.aggregate {
            let outer = aggregate.leave(dispatch.sa, packets, bytes);
            (packets, bytes, blocks) = (outer.packets as usize, outer.bytes, outer.blocks);
        }
        let transfer = processor.way.bus().map_or(0, |bus| self.buses[bus].multi_packet(bytes, packets));
        let at = dispatch.engine;
        let processing = processor.processing(self.now, &dispatch, blocks);
        processor.enqueue(Job { scheduled: self.now, transfer, processing, dispatch });
        self.advance(at);
    }

    /// Starts whatever a processor can start now (docs/lab/simulator.md: rules 4 and 5).
    #[inline]
    pub(super) fn advance(&mut self, at: usize) {
        if self.has_stages && (self.worker == Some(at) || self.serve_stage_first(at)) {
            return;
        }
        let (processor, slots) = (&mut self.processors[at], &self.slots[at]);
        if let TransferMode::Buffered(bus) = processor.way {
            return self.advance_buffered(at, bus);
        }
        let Some((processing, transfer)) = processor.start() else { return };
        match processor.way {
            TransferMode::Bus(bus) => {
                let is_in = self.buses[bus].request(self.now, transfer);
                self.events.set(slots.core, processor.end(is_in, processing));
            }
            TransferMode::OwnBus(bus) => {
                let is_in = self.buses[bus].request(self.now, transfer);
                let is_done = processor.end(is_in, processing);
                let is_out = self.buses[bus].request(is_done, transfer);
                self.events.set(slots.output, is_out);
            }
            TransferMode::Direct | TransferMode::Buffered(_) => {
                self.events.set(slots.core, processor.end(self.now, processing));
            }
        }
    }

    #[inline(never)]
    fn advance_buffered(&mut self, at: usize, bus: usize) {
        let slots = self.slots[at];
        while let Some(step) = self.processors[at].step() {
            let (slot, end) = match step {
                Step::Compute(ticks) => (slots.core, self.now + ticks),
                Step::MoveIn(ticks) => (slots.input, self.buses[bus].request(self.now, ticks)),
                Step::MoveOut(ticks) => (slots.output, self.buses[bus].request(self.now, ticks)),
            };
            self.events.set(slot, end);
        }
    }

    /// Handles the end of an input transfer, at a processor with buffers.
    #[inline(never)]
    pub(super) fn moved_in(&mut self, at: usize) {
        self.processors[at].loaded();
        self.advance(at);
    }

    /// Handles the end of an output transfer.
    #[inline]
    pub(super) fn moved_out(&mut self, at: usize) {
        let processor = &mut self.processors[at];
        processor.written();
        self.complete(at);
    }

    /// Handles a core that has finished, and returns whether a multi-packet is completed.
    #[inline]
    pub(super) fn computed(&mut self, at: usize) -> bool {
        let processor = &mut self.processors[at];
        if let Some(stage) = processor.stage_done() {
            self.stage_computed(stage, at);
            return false;
        }
        match processor.way {
            TransferMode::Bus(bus) | TransferMode::OwnBus(bus) if processor.writes() => {
                let end = self.buses[bus].request(self.now, processor.transfer_out());
                self.events.set(self.slots[at].output, end);
                false
            }
            TransferMode::Buffered(_) if processor.writes() => {
                processor.computed();
                self.advance(at);
                false
            }
            _ => {
                processor.finished();
                self.complete(at);
                true
            }
        }
    }

    /// Completes the first multi-packet of a processor: it is measured, and the processor starts
    /// its next step.
    #[inline]
    fn complete(&mut self, at: usize) {
        let Some(measured) = self.processors[at].measured_of_first() else { return };
        let Some(Job { scheduled, processing, dispatch, .. }) = self.processors[at].first() else { return };
        self.at_processors -= dispatch.items.len();
        self.scheduler.complete(self.now, at, dispatch.ticket, Some(measured));
        self.measures.served(self.now, at, dispatch.bytes, self.now - *scheduled, &dispatch.items);
        self.observer.served(&Served {
            processor: at,
            sa: dispatch.sa,
            scheduled_ticks: *scheduled,
            completed_ticks: self.now,
            predicted_wait_ticks: dispatch.predicted_wait,
            processing_ticks: *processing,
            packets: &dispatch.items,
        });
        if !self.has_stages {
            self.measures.left(self.now, &dispatch.items);
        }
        let sa = dispatch.sa;
        let packets = std::mem::take(&mut dispatch.items);
        self.processors[at].leave();
        if self.has_stages {
            self.leave_cryptography(sa, &packets);
        }
        self.scheduler.recycle(packets);
        self.advance(at);
    }
}
