//! What the caller tells the scheduler about its engines and its own core.

use crate::cost::{CostModel, Handover, TrainModel};
use crate::scheduler::Scheduler;

impl<T, R> Scheduler<T, R> {
    /// Sets the cost of an algorithm on an engine after a new calibration; `None` if the engine
    /// does not support it.
    pub fn set_cost(&mut self, engine: usize, algorithm: u16, model: Option<CostModel>) {
        self.costs.set(engine, usize::from(algorithm), model);
    }

    /// Sets the caller's cost of handing packets of an algorithm to an engine elsewhere: see [the
    /// crate's page](crate#the-handover). 0 by default, and for an engine on the caller's core.
    pub fn set_handover(&mut self, engine: usize, algorithm: u16, handover: Handover) {
        if !self.engines.cpus.contains(engine) {
            self.costs.set_handover(engine, usize::from(algorithm), handover);
        }
    }

    /// Sets how many multi-packets an engine on the caller's core gathers before it starts: until
    /// then it counts as idle, since only the caller keeps it waiting. 1 by default.
    pub fn set_gathers(&mut self, engine: usize, multi_packets: usize) {
        self.engines.set_gathers(engine, multi_packets);
    }

    /// Sets the overhead of the caller's core for each packet beside the work of engines, in ticks:
    /// receive, prepare, send. See [the crate's page](crate#worker-overhead); 0 by default.
    #[inline]
    pub fn set_worker_overhead(&mut self, ticks_per_packet: u64) {
        self.core.overhead = ticks_per_packet;
    }

    /// Sets the minimum overhead of the caller's core until it can give engines elsewhere more
    /// work, in ticks: while [more input is at hand](crate::Input::More), its overhead for packets
    /// at hand counts for at least as much. See [the crate's page](crate#worker-overhead); 0 by
    /// default.
    #[inline]
    pub fn set_overhead_ahead(&mut self, ticks: u64) {
        self.core.overhead_ahead = ticks;
    }

    /// The [overhead](Self::set_worker_overhead), in ticks per packet.
    pub fn worker_overhead(&self) -> u64 {
        self.core.overhead
    }

    /// Sets how many packets the caller holds until the window has room for them: its core has
    /// overhead for these, too.
    #[inline]
    pub fn set_before_window(&mut self, packets: usize) {
        self.core.before_window = packets;
    }

    /// Declares that an engine takes trains.
    pub fn set_takes_trains(&mut self, engine: usize) {
        self.engines.train_takers.set(engine, true);
    }

    /// Declares that the caller processes at once whatever this engine on its core is given, and
    /// then reports it: the engine never has a queue.
    pub fn set_at_once(&mut self, engine: usize) {
        self.engines.at_once.set(engine, true);
    }

    /// Sets the cost of a change of SA inside a train on an engine for an algorithm, `t_key`, in
    /// ticks; 0 by default. If it exceeds the cost of a separate multi-packet, which is `t_init`
    /// and the [window's](Self::set_window_cost), packets are bundled by SA.
    pub fn set_t_key(&mut self, engine: usize, algorithm: u16, t_key: f64) {
        self.costs.set_t_key(engine, usize::from(algorithm), t_key);
    }

    /// Sets an engine's time for trains of an algorithm; `None`, the default, if that is the time
    /// for a multi-packet.
    pub fn set_train(&mut self, engine: usize, algorithm: u16, train: Option<TrainModel>) {
        self.costs.set_train(engine, usize::from(algorithm), train);
    }

    /// Sets the caller's cost of sorting a packet by SA in the window, in ticks; 0 by default.
    pub fn set_window_cost(&mut self, ticks_per_packet: f64) {
        self.costs.set_window_cost(ticks_per_packet);
    }
}
