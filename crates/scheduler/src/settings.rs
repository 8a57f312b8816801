//! What the caller tells the scheduler of its engines and of its own core.

use crate::cost::{CostModel, Handover};
use crate::scheduler::Scheduler;

impl<T, R> Scheduler<T, R> {
    /// Sets what an algorithm costs on an engine, from a new calibration; `None` if the engine
    /// cannot do it.
    pub fn set_cost(&mut self, engine: usize, algorithm: u16, model: Option<CostModel>) {
        self.costs.set(engine, usize::from(algorithm), model);
    }

    /// Sets what the caller's core pays to hand packets of an algorithm to an engine elsewhere: see
    /// [the crate's page](crate#the-handover). Nothing without, and for an engine on that core.
    pub fn set_handover(&mut self, engine: usize, algorithm: u16, handover: Handover) {
        if !self.engines.cpus.contains(engine) {
            self.costs.set_handover(engine, usize::from(algorithm), handover);
        }
    }

    /// Says that an engine on the caller's core takes so many multi-packets before it begins: until
    /// then it counts as idle, since nothing but the caller keeps it waiting. 1 without.
    pub fn set_gathers(&mut self, engine: usize, multi_packets: usize) {
        self.engines.set_gathers(engine, multi_packets);
    }

    /// Says what the caller's core does for each packet besides the work of engines, in ticks:
    /// receive, prepare, send. See [the crate's page](crate#the-cores-own-work); 0 without.
    #[inline]
    pub fn set_worker_overhead(&mut self, ticks_per_packet: u64) {
        self.worker_overhead = ticks_per_packet;
    }

    /// Says what the caller's core has to do besides the work of engines, in ticks, until it can
    /// give engines elsewhere more: its work for packets at hand counts for at least as much. See
    /// [the crate's page](crate#the-cores-own-work); 0 without.
    #[inline]
    pub fn set_overhead_ahead(&mut self, ticks: u64) {
        self.overhead_ahead = ticks;
    }

    /// The [own cost](Self::set_worker_overhead), in ticks per packet.
    pub fn worker_overhead(&self) -> u64 {
        self.worker_overhead
    }

    /// Says how many packets the caller keeps until the window has room for them: its core has work
    /// to do for these, too.
    #[inline]
    pub fn set_before_window(&mut self, packets: usize) {
        self.before_window = packets;
    }

    /// Says that an engine takes trains.
    pub fn set_takes_trains(&mut self, engine: usize) {
        self.engines.train_takers.set(engine, true);
    }

    /// Says that the caller does at once what this engine on its core is given, and then says so:
    /// it never has anything.
    pub fn set_at_once(&mut self, engine: usize) {
        self.engines.at_once.set(engine, true);
    }

    /// Sets what a change of SA inside a train costs an engine for an algorithm, `t_key`, in ticks;
    /// nothing without. Where that is more than a multi-packet of its own costs, which is `t_init`
    /// and the [window](Self::set_window_cost), packets are bundled by SA.
    pub fn set_t_key(&mut self, engine: usize, algorithm: u16, t_key: f64) {
        self.costs.set_t_key(engine, usize::from(algorithm), t_key);
    }

    /// Sets what it costs the caller to have the window sort a packet by SA, in ticks; nothing
    /// without.
    pub fn set_window_cost(&mut self, ticks_per_packet: f64) {
        self.costs.set_window_cost(ticks_per_packet);
    }
}
