//! The scheduler's mirror of one engine: its queue in estimates (equations 2 to 4 of the paper).

use std::collections::VecDeque;

use crate::config::CLASSES;
use crate::engine_mask::EngineMask;

/// A multi-packet or train at an engine.
pub(crate) struct Pending<R = ()> {
    pub(crate) ticket: u64,
    pub(crate) algorithm: u16,
    /// The class of its first packet; 0 for a train.
    pub(crate) class: u8,
    /// `p`, in ticks.
    pub(crate) cost: u64,
    /// How much of the engine's depth it takes.
    pub(crate) places: u32,
    pub(crate) dispatched: u64,
    pub(crate) predicted_finish: u64,
    /// The caller's record of it.
    pub(crate) record: Option<R>,
}

/// The queue of one engine.
pub(crate) struct QueueModel<R = ()> {
    depth: usize,
    /// All ones for processor 0 of the model, otherwise 0; a mask.
    pub(crate) if_cpu: u64,
    /// Multi-packets that it gathers before it starts on its own.
    gathers: usize,
    /// The part of the depth in use: everything except the one in service.
    taken: usize,
    /// The one in service first.
    pending: VecDeque<Pending<R>>,
    /// How many of these are of each class below the highest.
    of_class: [u32; CLASSES],
    /// `q`: the sum of the estimates of those waiting.
    waiting: u64,
    /// When the one in service should complete; for an empty queue, since when it has been empty.
    /// `r` is what remains of it.
    busy_until: u64,
}

impl<R> QueueModel<R> {
    pub(crate) fn new(is_cpu: bool, depth: usize) -> Self {
        // The declared depth may be far larger than what is ever used.
        let pending = VecDeque::with_capacity(depth.min(64) + 1);
        let if_cpu = if is_cpu { u64::MAX } else { 0 };
        Self {
            depth,
            if_cpu,
            gathers: 1,
            taken: 0,
            pending,
            of_class: [0; CLASSES],
            waiting: 0,
            busy_until: 0,
        }
    }

    /// Whether a multi-packet that takes this much of the depth fits. A larger one may wait alone.
    #[inline]
    pub(crate) fn has_room(&self, places: u32) -> bool {
        let all = (places as usize).min(self.depth).max(1);
        self.taken + all <= self.depth || self.pending.is_empty()
    }

    /// Whether it holds fewer multi-packets than its credits, or its wait is shorter than
    /// `slowest`. One that gathers starts only when it has enough.
    #[inline]
    pub(crate) fn has_credit(&self, now: u64, credits: usize, slowest: u64) -> bool {
        self.pending.len() < credits || self.gathers > 1 || self.wait(now) < slowest
    }

    /// Whether it holds fewer multi-packets of a class and those below it than `credits`, or its
    /// wait is shorter than `slowest`.
    pub(crate) fn has_class_credit(&self, now: u64, class: u8, credits: usize, slowest: u64) -> bool {
        let lower: usize = self.of_class.iter().skip(class.into()).map(|count| *count as usize).sum();
        lower < credits || self.gathers > 1 || self.wait(now) < slowest
    }

    /// Whether the one in service is overdue by more than `margin`. What gathers on the caller's
    /// core waits only for the caller, and is not late.
    #[inline]
    pub(crate) fn is_late(&self, now: u64, margin: u64) -> bool {
        self.gathers == 1 && !self.is_idle() && now.saturating_sub(self.busy_until) > margin
    }

    /// When it turns late, if nothing completes before.
    fn late_from(&self, margin: u64) -> Option<u64> {
        let may_be_late = self.gathers == 1 && !self.is_idle();
        may_be_late.then(|| self.busy_until.saturating_add(margin).saturating_add(1))
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether a multi-packet would be started at once, or together with those gathered.
    #[inline]
    pub(crate) fn may_begin(&self) -> bool {
        self.pending.len() < self.gathers
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// `w = q + r`: the estimated work ahead of a new multi-packet.
    #[inline]
    pub(crate) fn wait(&self, now: u64) -> u64 {
        self.waiting + self.busy_until.saturating_sub(now)
    }

    /// How long it has been idle.
    pub(crate) fn idle(&self, now: u64) -> u64 {
        if self.is_idle() { now.saturating_sub(self.busy_until) } else { 0 }
    }

    #[inline]
    fn enqueue(&mut self, now: u64, pending: Pending<R>) {
        if self.pending.is_empty() {
            self.busy_until = now.saturating_add(pending.cost);
        } else {
            self.waiting += pending.cost;
            self.taken += pending.places as usize;
        }
        // Nothing bounds class 0.
        if pending.class > 0 {
            self.count_class(pending.class, true);
        }
        self.pending.push_back(pending);
    }

    /// Removes a multi-packet; `None` for an unknown ticket.
    #[inline(always)]
    fn complete(&mut self, now: u64, ticket: u64) -> Option<Pending<R>> {
        // Engines are mostly FIFO: the completed one is nearly always the first.
        let first = self.pending.front()?;
        if first.ticket != ticket {
            return self.complete_out_of_order(ticket);
        }
        if first.class > 0 {
            let class = first.class;
            self.count_class(class, false);
        }
        let done = self.pending.pop_front();
        let (next_cost, places) = self.pending.front().map_or((0, 0), |next| (next.cost, next.places));
        self.waiting -= next_cost;
        self.taken -= places as usize;
        self.busy_until = now.saturating_add(next_cost);
        done
    }

    /// Kept out of the code of a single class, which is inlined where work completes.
    #[inline(never)]
    fn count_class(&mut self, class: u8, is_more: bool) {
        let count = &mut self.of_class[usize::from(class)];
        if is_more { *count += 1 } else { *count -= 1 }
    }

    #[cold]
    fn complete_out_of_order(&mut self, ticket: u64) -> Option<Pending<R>> {
        let at = self.pending.iter().position(|pending| pending.ticket == ticket)?;
        let done = self.pending.remove(at)?;
        self.waiting -= done.cost;
        self.taken -= done.places as usize;
        if done.class > 0 {
            self.count_class(done.class, false);
        }
        Some(done)
    }

    /// All entries, the one in service first.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Pending<R>> {
        self.pending.iter()
    }

    fn find(&mut self, ticket: u64) -> Option<&mut Pending<R>> {
        // The entry asked for is nearly always the first or the last.
        let last = self.pending.back().is_some_and(|last| last.ticket == ticket);
        if last { self.pending.back_mut() } else { self.pending.iter_mut().find(|it| it.ticket == ticket) }
    }

    fn clear(&mut self) -> impl Iterator<Item = Pending<R>> + use<R> {
        self.taken = 0;
        self.waiting = 0;
        self.busy_until = 0;
        self.of_class = [0; CLASSES];
        std::mem::take(&mut self.pending).into_iter()
    }
}

/// All engines: their queues, and the sets from which a choice starts.
pub(crate) struct Engines<R = ()> {
    queues: Vec<QueueModel<R>>,
    /// Those that are processor 0 of the model.
    pub(crate) cpus: EngineMask,
    pub(crate) available: EngineMask,
    /// Those of `available` whose queue has room for a packet.
    pub(crate) open: EngineMask,
    /// Those that take trains.
    pub(crate) train_takers: EngineMask,
    /// Those whose trains the caller processes at once.
    pub(crate) at_once: EngineMask,
}

impl<R> Engines<R> {
    /// Available engines, each given by whether it is a CPU and its depth.
    pub(crate) fn new(engines: impl Iterator<Item = (bool, usize)>) -> Self {
        let (mut cpus, mut available) = (EngineMask::default(), EngineMask::default());
        let queue = |(engine, (is_cpu, depth))| {
            cpus.set(engine, is_cpu);
            available.set(engine, true);
            QueueModel::new(is_cpu, depth)
        };
        let queues = engines.enumerate().map(queue).collect();
        let (train_takers, at_once) = (EngineMask::default(), EngineMask::default());
        Self { queues, cpus, available, open: available, train_takers, at_once }
    }

    /// Whether there is exactly one engine, and it is idle, takes trains and does them at once on
    /// the caller's core.
    #[inline]
    pub(crate) fn is_only_at_once(&self) -> bool {
        let does = self.cpus.and(self.available).and(self.train_takers).and(self.at_once);
        matches!(&self.queues[..], [only] if only.is_idle()) && !does.is_empty()
    }

    #[inline]
    pub(crate) fn queue(&self, engine: usize) -> &QueueModel<R> {
        &self.queues[engine]
    }

    /// All queues, in the order of the engines.
    #[inline]
    pub(crate) fn queues(&self) -> std::slice::Iter<'_, QueueModel<R>> {
        self.queues.iter()
    }

    #[inline]
    pub(crate) fn enqueue(&mut self, now: u64, engine: usize, pending: Pending<R>) {
        let queue = &mut self.queues[engine];
        queue.enqueue(now, pending);
        self.open.set(engine, queue.has_room(1));
    }

    /// When the next engine turns late, after `now`.
    pub(crate) fn next_late(&self, now: u64, margin: u64) -> Option<u64> {
        let late_from = self.available.filter_map(|engine| self.queues[engine].late_from(margin));
        late_from.filter(|at| *at > now).min()
    }

    /// Removes a multi-packet; `None` for an unknown engine or ticket. Always inlined, since most
    /// callers drop the large record that it returns: a call took 50 instructions more.
    #[inline(always)]
    pub(crate) fn complete(&mut self, now: u64, engine: usize, ticket: u64) -> Option<Pending<R>> {
        let queue = self.queues.get_mut(engine)?;
        let done = queue.complete(now, ticket);
        self.open.set(engine, self.available.contains(engine) && queue.has_room(1));
        done
    }

    pub(crate) fn set_gathers(&mut self, engine: usize, multi_packets: usize) {
        self.queues[engine].gathers = multi_packets.max(1);
    }

    /// An engine's entry by its ticket.
    pub(crate) fn find(&mut self, engine: usize, ticket: u64) -> Option<&mut Pending<R>> {
        self.queues.get_mut(engine)?.find(ticket)
    }

    /// The entry that an engine has in service.
    pub(crate) fn first(&mut self, engine: usize) -> Option<&mut Pending<R>> {
        self.queues.get_mut(engine)?.pending.front_mut()
    }

    /// Makes an engine available or unavailable; its entries stay.
    pub(crate) fn set_available(&mut self, engine: usize, is_available: bool) {
        self.available.set(engine, is_available);
        self.open.set(engine, is_available && self.queues[engine].has_room(1));
    }

    /// Removes all entries of an engine.
    pub(crate) fn clear(&mut self, engine: usize) -> impl Iterator<Item = Pending<R>> + use<R> {
        let all = self.queues[engine].clear();
        self.set_available(engine, self.available.contains(engine));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(ticket: u64, cost: u64) -> Pending {
        Pending {
            ticket,
            algorithm: 0,
            class: 0,
            cost,
            places: 1,
            dispatched: 0,
            predicted_finish: 0,
            record: None,
        }
    }

    fn queue_of(costs: [u64; 3]) -> QueueModel {
        let mut queue = QueueModel::new(false, 8);
        for (ticket, cost) in costs.into_iter().enumerate() {
            queue.enqueue(100, pending(ticket as u64, cost));
        }
        queue
    }

    #[test]
    fn the_wait_is_what_waits_and_what_is_left_of_the_one_in_service() {
        let mut queue = queue_of([50, 7, 3]);
        assert_eq!(queue.wait(100), 60);
        assert_eq!(queue.wait(130), 30);
        // Overdue, but never below 0.
        assert_eq!(queue.wait(1_000), 10);
        assert!(queue.complete(1_000, 0).is_some());
        assert_eq!(queue.wait(1_000), 10);
        assert_eq!(queue.wait(1_005), 5);
    }

    #[test]
    fn one_that_is_done_before_its_turn_no_longer_waits() {
        let mut queue = queue_of([50, 7, 3]);
        assert!(queue.complete(110, 1).is_some());
        assert_eq!(queue.wait(110), 43);
        assert!(queue.complete(110, 1).is_none());
        assert_eq!(queue.len(), 2);
    }

    #[test]
    fn in_packets_a_larger_multi_packet_waits_only_where_none_other_does() {
        let mut queue = QueueModel::new(false, 8);
        let of = |ticket, places| Pending { places, ..pending(ticket, 5) };
        assert!(queue.has_room(100));
        queue.enqueue(0, of(0, 100));
        assert!(queue.has_room(100));
        queue.enqueue(0, of(1, 3));
        assert!(queue.has_room(5) && !queue.has_room(6) && !queue.has_room(100));
        assert!(queue.complete(5, 0).is_some());
        queue.enqueue(5, of(2, 100));
        assert!(!queue.has_room(1));
        assert!(queue.complete(6, 2).is_some());
        assert!(queue.has_room(8));
        let mut none = QueueModel::<()>::new(false, 0);
        none.enqueue(0, of(0, 1));
        assert!(!none.has_room(1));
    }

    #[test]
    fn an_engine_is_late_from_the_margin_on_and_until_it_completes() {
        let mut queue = queue_of([50, 7, 3]);
        assert!(!queue.is_late(160, 10));
        assert!(queue.is_late(161, 10));
        assert!(queue.complete(170, 0).is_some());
        assert!(!queue.is_late(187, 10) && queue.is_late(188, 10));
        assert!(!QueueModel::<()>::new(false, 1).is_late(1_000, 0));
        queue.gathers = 8;
        assert!(!queue.is_late(1_000, 0));
    }

    #[test]
    fn an_engine_is_idle_since_its_last_completion() {
        let mut queue = QueueModel::new(false, 0);
        queue.enqueue(10, pending(1, 5));
        assert!(!queue.has_room(1));
        assert_eq!(queue.idle(12), 0);
        assert!(queue.complete(20, 1).is_some());
        assert_eq!((queue.wait(20), queue.idle(27)), (0, 7));
    }

    #[test]
    fn an_engine_is_open_while_it_is_available_and_has_room() {
        let mut engines = Engines::new([(true, 0), (false, 1)].into_iter());
        assert!(engines.cpus.eq([0]));
        engines.enqueue(0, 0, pending(1, 5));
        engines.enqueue(0, 1, pending(2, 5));
        assert!(engines.open.eq([1]));
        engines.set_available(1, false);
        assert!(engines.open.is_empty());
        assert_eq!(engines.clear(1).count(), 1);
        assert!(engines.complete(1, 1, 2).is_none());
        assert!(engines.open.is_empty());
        engines.set_available(1, true);
        assert!(engines.complete(1, 0, 1).is_some());
        assert!(engines.open.eq([0, 1]));
        assert!(engines.complete(1, 9, 1).is_none());
    }
}
