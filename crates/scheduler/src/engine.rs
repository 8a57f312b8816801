//! The scheduler's mirror of one engine: its queue in estimates (equations 2 to 4 of the paper).

use std::collections::VecDeque;

use crate::cost::{Cost, CostModel, EngineModel};
use crate::snapshot::{EngineSnapshot, Histogram};

#[derive(Clone, Copy)]
struct Pending {
    ticket: u64,
    algorithm: u16,
    cost: u64,
    dispatched: u64,
    predicted_finish: u64,
}

pub(crate) struct EngineState {
    pub(crate) name: String,
    pub(crate) is_cpu: bool,
    pub(crate) is_available: bool,
    depth: usize,
    costs: Vec<Option<Cost>>,
    /// The one in service first.
    queue: VecDeque<Pending>,
    /// `q`: the sum of the estimates of those that wait.
    waiting: u64,
    /// When the one in service began.
    began: u64,
    packets: u64,
    multi_packets: u64,
    bytes: u64,
    packets_per_multi_packet: Histogram,
    /// Sums over completions, for the mean errors of the prediction of finishing times.
    predicted_ticks: u64,
    error_ticks: u64,
    signed_error_ticks: i64,
    completed: u64,
}

impl EngineState {
    pub(crate) fn new(model: EngineModel) -> Self {
        Self {
            name: model.name,
            is_cpu: model.is_cpu,
            is_available: true,
            depth: model.depth,
            costs: model.costs.into_iter().map(|cost| cost.map(Cost::new)).collect(),
            queue: VecDeque::with_capacity(model.depth + 1),
            waiting: 0,
            began: 0,
            packets: 0,
            multi_packets: 0,
            bytes: 0,
            packets_per_multi_packet: Histogram::default(),
            predicted_ticks: 0,
            error_ticks: 0,
            signed_error_ticks: 0,
            completed: 0,
        }
    }

    pub(crate) fn set_cost(&mut self, algorithm: u16, model: Option<CostModel>) {
        let at = usize::from(algorithm);
        if self.costs.len() <= at {
            self.costs.resize(at + 1, None);
        }
        self.costs[at] = model.map(Cost::new);
    }

    /// `p`: the estimate for a multi-packet, if the engine can do it.
    pub(crate) fn cost(&self, algorithm: u16, blocks: u64) -> Option<u64> {
        Some(self.costs.get(usize::from(algorithm))?.as_ref()?.of(blocks))
    }

    pub(crate) fn t_init(&self, algorithm: u16) -> f64 {
        self.costs.get(usize::from(algorithm)).and_then(Option::as_ref).map_or(0.0, Cost::t_init)
    }

    pub(crate) fn has_room(&self) -> bool {
        self.queue.len() <= self.depth
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// `w = q + r`: the estimate of what it has to do before a new multi-packet.
    pub(crate) fn wait(&self, now: u64) -> u64 {
        let left = self.queue.front().map_or(0, |front| {
            let spent = now.saturating_sub(self.began);
            front.cost.saturating_sub(spent)
        });
        self.waiting + left
    }

    pub(crate) fn enqueue(
        &mut self,
        now: u64,
        ticket: u64,
        algorithm: u16,
        cost: u64,
        packets: u32,
        bytes: u64,
    ) {
        let predicted_finish = now + self.wait(now) + cost;
        if self.queue.is_empty() {
            self.began = now;
        } else {
            self.waiting += cost;
        }
        self.queue.push_back(Pending { ticket, algorithm, cost, dispatched: now, predicted_finish });
        self.packets += u64::from(packets);
        self.multi_packets += 1;
        self.bytes += bytes;
        self.packets_per_multi_packet.add(packets.into());
    }

    /// Takes a multi-packet off the mirror; `measured` is its time in service. Returns when it was
    /// dispatched, or `None` for a ticket that is not here.
    pub(crate) fn complete(
        &mut self,
        now: u64,
        ticket: u64,
        measured: Option<u64>,
        correct: bool,
    ) -> Option<u64> {
        let at = self.queue.iter().position(|pending| pending.ticket == ticket)?;
        let done = self.queue.remove(at)?;
        if at == 0 {
            self.began = now;
            self.waiting -= self.queue.front().map_or(0, |next| next.cost);
        } else {
            self.waiting -= done.cost;
        }
        let error = now as i64 - done.predicted_finish as i64;
        self.predicted_ticks += done.predicted_finish - done.dispatched;
        self.error_ticks += error.unsigned_abs();
        self.signed_error_ticks += error;
        self.completed += 1;
        if let (true, Some(measured)) = (correct, measured)
            && let Some(Some(cost)) = self.costs.get_mut(usize::from(done.algorithm))
        {
            cost.correct(done.cost, measured);
        }
        Some(done.dispatched)
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.waiting = 0;
    }

    pub(crate) fn snapshot(&self) -> EngineSnapshot {
        let mean = |sum: f64| if self.completed == 0 { 0.0 } else { sum / self.completed as f64 };
        EngineSnapshot {
            name: self.name.clone(),
            is_available: self.is_available,
            queued: self.queue.len(),
            packets: self.packets,
            multi_packets: self.multi_packets,
            bytes: self.bytes,
            packets_per_multi_packet: self.packets_per_multi_packet,
            predicted_ticks: mean(self.predicted_ticks as f64),
            error_ticks: mean(self.error_ticks as f64),
            bias_ticks: mean(self.signed_error_ticks as f64),
            corrections: self.costs.iter().map(|cost| cost.as_ref().map(Cost::ratio)).collect(),
        }
    }
}
