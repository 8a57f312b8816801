//! The work at engines: their availability, and the caller's records of what they were given.

use crate::scheduler::Scheduler;

impl<T, R> Scheduler<T, R> {
    /// Takes an engine out of the choice and forgets its work; or puts it back.
    pub fn set_available(&mut self, engine: usize, is_available: bool) {
        self.engines.set_available(engine, is_available);
        if !is_available {
            drop(self.engines.clear(engine));
        }
    }

    /// Takes an engine out of the choice until it is [available](Self::set_available) again; its
    /// work goes on.
    pub fn rest(&mut self, engine: usize) {
        self.engines.set_available(engine, false);
    }

    /// Whether an engine is in the choice.
    pub fn is_available(&self, engine: usize) -> bool {
        self.engines.available.contains(engine)
    }

    /// Attaches the caller's record to a multi-packet or train at an engine.
    pub fn note(&mut self, engine: usize, ticket: u64, record: R) {
        if let Some(pending) = self.engines.find(engine, ticket) {
            pending.record = Some(record);
        }
    }

    /// Takes a record back while its work goes on. `None` if the engine no longer has the work.
    pub fn take_record(&mut self, engine: usize, ticket: u64) -> Option<R> {
        self.engines.find(engine, ticket)?.record.take()
    }

    /// All records of an engine with their tickets, the oldest first.
    pub fn records(&self, engine: usize) -> impl Iterator<Item = (u64, &R)> {
        let pending = self.engines.queue(engine).pending();
        pending.filter_map(|pending| Some((pending.ticket, pending.record.as_ref()?)))
    }

    /// The record of an engine's oldest work.
    pub fn oldest_record(&mut self, engine: usize) -> Option<&mut R> {
        self.engines.first(engine)?.record.as_mut()
    }

    /// Forgets work that an engine has not done and will not do.
    pub fn forget(&mut self, now: u64, engine: usize, ticket: u64) -> Option<R> {
        self.engines.complete(now, engine, ticket)?.record
    }

    /// Takes an engine out of the choice and returns all its records, the oldest first.
    pub fn take_out(&mut self, engine: usize) -> impl Iterator<Item = R> + use<T, R> {
        self.engines.set_available(engine, false);
        self.engines.clear(engine).filter_map(|pending| pending.record)
    }
}
