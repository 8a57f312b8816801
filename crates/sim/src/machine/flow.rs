//! A packet's way through the machine: source, window, queue, core, out.

use convoy_scheduler::{Dispatch, Input, Item};

use super::processor::{Job, Step};
use super::{Client, Machine, NEVER, Observer, Served, Single};
use crate::machine::Carried;
use crate::traffic::{Traffic, TrafficError};

impl<T: Traffic, O: Observer> Machine<'_, T, O> {
    /// The packet in hand has arrived.
    #[inline]
    pub(super) fn arrive(&mut self) -> Result<(), TrafficError> {
        let Some(hand) = self.source.hand else { return Ok(()) };
        let packet = hand.packet;
        let carried = Carried { arrived_ticks: self.now, bytes: hand.bytes, class: packet.class };
        let single = Single { sa: packet.sa, carried };
        self.source.fetch()?;
        self.source.stands_since = self.now;
        if self.stages.is_empty() {
            self.enter_window(single);
        } else {
            self.inside += 1;
            self.enter_platform(single);
        }
        Ok(())
    }

    /// Lets the source go on if it stands and has a packet for which there is room. Until now its clock stood still, so
    /// that every later arrival shifts (MODEL: source).
    #[inline]
    pub(super) fn resume_source(&mut self) {
        let Some(hand) = &self.source.hand else { return };
        if self.events.at(self.source_at) != NEVER {
            return;
        }
        let has_room = if self.before.is_empty() {
            self.scheduler.room_for(hand.packet.class) > 0 && self.inside < self.frames
        } else {
            self.inside < self.frames
        };
        if has_room {
            self.source.waited_ticks += self.now - self.source.stands_since;
            self.events.set(self.source_at, self.now + hand.gap);
        }
    }

    /// Puts a packet into the window, which has room for it.
    #[inline]
    pub(super) fn enter_window(&mut self, single: Single) {
        let Single { sa, carried } = single;
        let (bytes, class) = (carried.bytes, carried.class);
        let item = Item { sa, algorithm: 0, class, blocks: bytes.div_ceil(16), bytes, payload: carried };
        let entered = self.scheduler.push(self.now, item);
        debug_assert!(entered.is_ok(), "the window has room");
    }

    /// Sends multi-packets as long as the scheduler has any (MODEL: rules 1 to 3).
    #[inline]
    pub(super) fn schedule(&mut self) {
        loop {
            let input = self.input();
            while let Some(dispatch) = self.scheduler.dispatch(self.now, input) {
                self.send(dispatch);
            }
            if self.door.is_empty() || !self.pass_door() {
                break;
            }
        }
        if self.has_timeout {
            // A deadline that is past waits for room in a queue, which a completion will make.
            let deadline = self.scheduler.next_deadline().filter(|deadline| *deadline > self.now);
            self.events.set(self.timeout_at, deadline.unwrap_or(NEVER));
        }
    }

    /// What is known of packets that are not in the window yet.
    #[inline]
    fn input(&self) -> Input {
        let has_ended = self.source.hand.is_none() && self.inside_before() == 0;
        if has_ended {
            Input::Ended
        } else if self.is_work_conserving && self.door.is_empty() {
            Input::Paused
        } else {
            Input::More
        }
    }

    /// Queues a multi-packet at its processor.
    #[inline]
    fn send(&mut self, dispatch: Dispatch<Carried>) {
        let processor = &mut self.processors[dispatch.engine];
        let transfer = processor.bus.map_or(0, |bus| self.buses[bus].transfer(dispatch.bytes));
        processor.enqueue(Job {
            ticket: dispatch.ticket,
            sa: dispatch.sa,
            scheduled: self.now,
            predicted_wait: dispatch.predicted_wait,
            processing: dispatch.predicted_processing,
            transfer,
            bytes: dispatch.bytes,
            packets: dispatch.items,
        });
        self.advance(dispatch.engine);
    }

    /// Lets a processor start what it can (MODEL: rules 4 and 5).
    #[inline]
    pub(super) fn advance(&mut self, at: usize) {
        if !self.stages.is_empty() && self.serve_stage_first(at) {
            return;
        }
        while let Some(step) = self.processors[at].step() {
            match step {
                Step::Compute(ticks) => self.events.set(self.processors_at + at, self.now + ticks),
                Step::MoveIn(ticks) => self.request(at, Client::Input(at), ticks),
                Step::MoveOut(ticks) => self.request(at, Client::Output(at), ticks),
            }
        }
    }

    #[inline]
    fn request(&mut self, processor: usize, client: Client, ticks: u64) {
        if let Some(bus) = self.processors[processor].bus
            && let Some(end) = self.buses[bus].request(self.now, client, ticks)
        {
            self.events.set(bus, end);
        }
    }

    /// A transfer has ended; the next one starts before its owner asks again.
    #[inline]
    pub(super) fn transferred(&mut self, bus: usize) {
        let (client, next_end) = self.buses[bus].release(self.now);
        self.events.set(bus, next_end.unwrap_or(NEVER));
        match client {
            Some(Client::Input(processor)) => {
                self.processors[processor].loaded();
                self.advance(processor);
            }
            Some(Client::Output(processor)) => {
                let job = self.processors[processor].written();
                self.complete(processor, job);
            }
            Some(Client::Stage(stage)) => self.stage_moved(stage),
            None => {}
        }
    }

    /// A processor's core is done.
    #[inline]
    pub(super) fn computed(&mut self, at: usize) {
        if let Some(stage) = self.processors[at].computed() {
            self.stage_computed(stage, at);
        } else if self.processors[at].bus.is_some() {
            self.advance(at);
        } else {
            let job = self.processors[at].done_without_bus();
            self.complete(at, job);
        }
    }

    /// A multi-packet is done: it is measured, and the processor goes on.
    #[inline]
    fn complete(&mut self, processor: usize, job: Option<Job<Carried>>) {
        let Some(job) = job else { return };
        self.scheduler.complete(self.now, processor, job.ticket, None);
        self.measures.served(self.now, processor, job.bytes, self.now - job.scheduled, &job.packets);
        self.observer.served(&Served {
            processor,
            sa: job.sa,
            scheduled_ticks: job.scheduled,
            completed_ticks: self.now,
            predicted_wait_ticks: job.predicted_wait,
            processing_ticks: job.processing,
            packets: &job.packets,
        });
        if self.stages.is_empty() {
            self.measures.left(self.now, &job.packets);
        } else {
            self.leave_cryptography(job.sa, &job.packets);
        }
        self.scheduler.recycle(job.packets);
        self.advance(processor);
    }
}
