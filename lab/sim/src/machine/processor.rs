//! A processor and its queue (docs/lab/simulator.md: rules 4 and 5).
//!
//! The multi-packets of a processor form one queue, in this order: the one whose output is
//! transferred, the one at the core, the one whose input is transferred, and those that wait. They
//! are served in order, so the state of each follows from its position.
//!
//! Only a processor with buffers does several things at once, and needs [`Processor::step`]. Any
//! other processor has a single multi-packet in service, from start to end.

use std::collections::VecDeque;

use convoy_scheduler::{CostModel, Dispatch};

use super::deviation::Deviation;
use super::sa_cache::SaCache;

/// A multi-packet at a processor.
pub(crate) struct Job<P> {
    /// When it was scheduled, in ticks.
    pub(crate) scheduled: u64,
    /// Time of one transfer on the bus, in ticks.
    pub(crate) transfer: u64,
    /// Processing time at the core, in ticks.
    pub(crate) processing: u64,
    /// What the scheduler dispatched.
    pub(crate) dispatch: Dispatch<P>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Core {
    Empty,
    Busy,
    /// Finished, but the output buffer is occupied.
    Finished,
    /// Serving a packet of this stage.
    Stage(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    Empty,
    Asked,
    Loaded,
}

/// The next step of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Transfer the input, for this many ticks.
    MoveIn(u64),
    /// Transfer the output, for this many ticks.
    MoveOut(u64),
    /// Compute for this many ticks.
    Compute(u64),
}

/// How multi-packets are transferred to and from a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferMode {
    /// Without a bus; transfers take no time.
    Direct,
    /// Over a bus: one multi-packet is transferred, computed and transferred back before the next.
    Bus(usize),
    /// As `Bus`, on a bus that nothing else uses, so that the end of the output is known at the
    /// start.
    OwnBus(usize),
    /// Over a bus, with a buffer for the next input or the last output.
    Buffered(usize),
}

impl TransferMode {
    pub(crate) fn bus(self) -> Option<usize> {
        match self {
            Self::Direct => None,
            Self::Bus(bus) | Self::OwnBus(bus) | Self::Buffered(bus) => Some(bus),
        }
    }
}

pub(crate) struct Processor<P> {
    pub(crate) way: TransferMode,
    prefetch: bool,
    write_buffer: bool,
    /// How often a multi-packet crosses the bus, in and out or only in.
    transfers: u32,
    /// How many of these crossings the scheduler expects as part of the processing time.
    predicted_transfers: u32,
    line: VecDeque<Job<P>>,
    is_writing: bool,
    core: Core,
    input: Input,
    pub(crate) busy_ticks: u64,
    /// Its cost by algorithm; those that it does not support have none.
    costs: Vec<Option<CostModel>>,
    /// The bits of the scheduler's algorithms below the algorithm itself.
    pub(crate) cache_bits: u32,
    /// Its cache of SAs; without one, all SAs are available without delay.
    pub(crate) cache: Option<SaCache>,
    /// How its times differ from the estimates, if they do.
    pub(crate) deviation: Option<Deviation>,
}

/// The buffers of a processor beside its core.
#[derive(Clone, Copy)]
pub(crate) struct Buffers {
    /// Whether it reads a multi-packet while it processes another.
    pub(crate) prefetch: bool,
    /// Whether it processes a multi-packet while it writes another.
    pub(crate) write: bool,
}

impl<P> Processor<P> {
    pub(crate) fn new(
        way: TransferMode,
        buffers: Buffers,
        depth: usize,
        costs: Vec<Option<CostModel>>,
    ) -> Self {
        Self {
            way,
            prefetch: buffers.prefetch,
            write_buffer: buffers.write,
            transfers: 2,
            predicted_transfers: 0,
            // The configured depth may be far larger than what is ever used.
            line: VecDeque::with_capacity(depth.min(64) + 2),
            is_writing: false,
            core: Core::Empty,
            input: Input::Empty,
            busy_ticks: 0,
            costs,
            cache_bits: 0,
            cache: None,
            deviation: None,
        }
    }

    /// Sets how often a multi-packet crosses the bus, and whether the scheduler expects the time of
    /// that.
    pub(crate) fn set_transfers(&mut self, transfers: u32, is_predicted: bool) {
        self.transfers = transfers;
        self.predicted_transfers = if is_predicted { transfers } else { 0 };
    }

    /// Whether the output crosses the bus.
    #[inline]
    pub(crate) fn writes(&self) -> bool {
        self.transfers == 2
    }

    /// The time of the first multi-packet, as far as the scheduler predicts it, in ticks.
    #[inline]
    pub(crate) fn measured_of_first(&self) -> Option<u64> {
        let transfers = u64::from(self.predicted_transfers);
        self.line.front().map(|job| job.processing + transfers * job.transfer)
    }

    /// Processing time of a multi-packet of `blocks` that is enqueued now, in ticks. Queues are
    /// served in order, so an SA that is in the cache now will still be there when its turn comes.
    #[inline]
    pub(crate) fn processing(&mut self, now: u64, dispatch: &Dispatch<P>, blocks: u64) -> u64 {
        let cost = || self.costs[usize::from(dispatch.algorithm >> self.cache_bits)].expect("it supports it");
        let estimate = match &mut self.cache {
            Some(cache) => cache.use_for(dispatch.sa, cost(), blocks),
            None if self.deviation.is_some() || self.predicted_transfers > 0 || blocks != dispatch.blocks => {
                cost().cost(blocks)
            }
            None => dispatch.predicted_processing,
        };
        self.deviation.as_mut().map_or(estimate, |deviation| deviation.actual(now, estimate))
    }

    /// When the multi-packet in service has been processed, if its processing starts at `start`. If
    /// the core is lost meanwhile, its processing time grows by that.
    #[inline]
    pub(crate) fn end(&mut self, start: u64, processing: u64) -> u64 {
        let Some(deviation) = &mut self.deviation else { return start + processing };
        let end = deviation.end(start, processing);
        if let Some(job) = self.line.front_mut() {
            job.processing = end - start;
        }
        end
    }

    #[inline]
    pub(crate) fn enqueue(&mut self, job: Job<P>) {
        self.line.push_back(job);
    }

    /// Starts the next multi-packet if none is in service, and returns its processing time and its
    /// transfer time.
    #[inline]
    pub(crate) fn start(&mut self) -> Option<(u64, u64)> {
        if self.core != Core::Empty {
            return None;
        }
        let job = self.line.front()?;
        let times = (job.processing, job.transfer);
        self.core = Core::Busy;
        self.busy_ticks += times.0;
        Some(times)
    }

    /// Transfer time of the output of the multi-packet in service.
    #[inline]
    pub(crate) fn transfer_out(&self) -> u64 {
        self.line.front().map_or(0, |job| job.transfer)
    }

    /// Starts and returns the next step that a processor with buffers can begin now. Call it until
    /// it returns `None`.
    pub(crate) fn step(&mut self) -> Option<Step> {
        if self.core == Core::Finished && !self.is_writing {
            (self.core, self.is_writing) = (Core::Empty, true);
            return Some(Step::MoveOut(self.line.front()?.transfer));
        }
        let is_free = self.core == Core::Empty && (self.write_buffer || !self.is_writing);
        if is_free && self.input == Input::Loaded {
            (self.input, self.core) = (Input::Empty, Core::Busy);
            let job = self.line.get(usize::from(self.is_writing))?;
            let processing = job.processing;
            self.busy_ticks += processing;
            return Some(Step::Compute(processing));
        }
        if self.input == Input::Empty && (is_free || self.prefetch) {
            let ahead = usize::from(self.is_writing) + usize::from(self.core != Core::Empty);
            let transfer = self.line.get(ahead)?.transfer;
            self.input = Input::Asked;
            return Some(Step::MoveIn(transfer));
        }
        None
    }

    /// If the core is free: the time at which the multi-packet that could start now was scheduled,
    /// if there is one.
    pub(crate) fn oldest_if_free(&self) -> Option<Option<u64>> {
        (self.core == Core::Empty).then(|| self.line.front().map(|job| job.scheduled))
    }

    /// Occupies the core with a stage's packet.
    pub(crate) fn serve_stage(&mut self, stage: usize, ticks: u64) {
        self.core = Core::Stage(stage);
        self.busy_ticks += ticks;
    }

    /// Notes that the input has been transferred, at a processor with buffers.
    pub(crate) fn loaded(&mut self) {
        self.input = Input::Loaded;
    }

    /// The stage whose packet the core has just finished, if it was serving a stage.
    #[inline]
    pub(crate) fn stage_done(&mut self) -> Option<usize> {
        let Core::Stage(stage) = self.core else { return None };
        self.core = Core::Empty;
        Some(stage)
    }

    /// Notes that the core has finished, at a processor with buffers.
    pub(crate) fn computed(&mut self) {
        self.core = Core::Finished;
    }

    /// Notes that the output of the first multi-packet has been transferred.
    #[inline]
    pub(crate) fn written(&mut self) {
        self.is_writing = false;
        if !matches!(self.way, TransferMode::Buffered(_)) {
            self.core = Core::Empty;
        }
    }

    /// Notes that the core has finished the first multi-packet, which needs no transfer.
    #[inline]
    pub(crate) fn finished(&mut self) {
        self.core = Core::Empty;
    }

    /// The first multi-packet of the queue, which is the next to be completed.
    #[inline]
    pub(crate) fn first(&mut self) -> Option<&mut Job<P>> {
        self.line.front_mut()
    }

    /// Removes the first multi-packet of the queue.
    #[inline]
    pub(crate) fn leave(&mut self) {
        self.line.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processor(prefetch: bool, write_buffer: bool) -> Processor<()> {
        let costs = vec![Some(CostModel { t_init: 0.0, t_block: 1.0 })];
        let mut processor =
            Processor::new(TransferMode::Buffered(0), Buffers { prefetch, write: write_buffer }, 4, costs);
        for ticket in 0..3 {
            let dispatch = Dispatch {
                engine: 0,
                ticket,
                sa: 0,
                algorithm: 0,
                is_of_many: false,
                items: Vec::new(),
                blocks: 1,
                bytes: 1,
                predicted_wait: 0,
                predicted_processing: 100 + ticket,
            };
            let processing = processor.processing(0, &dispatch, 1);
            processor.enqueue(Job { scheduled: 0, transfer: 10 + ticket, processing, dispatch });
        }
        processor
    }

    /// Ends the transfer of the first output, removes its multi-packet and returns its ticket.
    fn leave(processor: &mut Processor<()>) -> Option<u64> {
        processor.written();
        let ticket = processor.first().map(|job| job.dispatch.ticket);
        processor.leave();
        ticket
    }

    fn steps(processor: &mut Processor<()>) -> Vec<Step> {
        std::iter::from_fn(|| processor.step()).collect()
    }

    #[test]
    fn without_buffers_one_multi_packet_is_in_out_and_done_before_the_next() {
        let mut one = processor(false, false);
        assert_eq!(steps(&mut one), [Step::MoveIn(10)]);
        one.loaded();
        assert_eq!(steps(&mut one), [Step::Compute(100)]);
        one.computed();
        assert_eq!(steps(&mut one), [Step::MoveOut(10)]);
        assert_eq!(leave(&mut one), Some(0));
        assert_eq!(steps(&mut one), [Step::MoveIn(11)]);
    }

    #[test]
    fn with_prefetch_the_next_comes_in_during_computation_but_waits_for_the_output() {
        let mut one = processor(true, false);
        steps(&mut one);
        one.loaded();
        assert_eq!(steps(&mut one), [Step::Compute(100), Step::MoveIn(11)]);
        one.loaded();
        assert_eq!(steps(&mut one), []);
        one.computed();
        assert_eq!(steps(&mut one), [Step::MoveOut(10)]);
        leave(&mut one);
        assert_eq!(steps(&mut one), [Step::Compute(101), Step::MoveIn(12)]);
    }

    #[test]
    fn with_both_buffers_the_core_goes_on_while_the_output_leaves() {
        let mut one = processor(true, true);
        steps(&mut one);
        one.loaded();
        steps(&mut one);
        one.loaded();
        one.computed();
        assert_eq!(steps(&mut one), [Step::MoveOut(10), Step::Compute(101), Step::MoveIn(12)]);
        one.loaded();
        // The second is finished before the output of the first has left, and there is room for
        // only one output.
        one.computed();
        assert_eq!(steps(&mut one), []);
        assert_eq!(leave(&mut one), Some(0));
        assert_eq!(steps(&mut one), [Step::MoveOut(11), Step::Compute(102)]);
    }
}
