//! What engines have: whether they are in use, and the caller's records of what they were given.

use crate::scheduler::Scheduler;

impl<T, R> Scheduler<T, R> {
    /// Takes an engine out of the choice, and forgets what it has; or puts it back.
    pub fn set_available(&mut self, engine: usize, is_available: bool) {
        self.engines.set_available(engine, is_available);
        if !is_available {
            drop(self.engines.clear(engine));
        }
    }

    /// Takes an engine out of the choice until it is [available](Self::set_available) again; it
    /// goes on with what it has.
    pub fn rest(&mut self, engine: usize) {
        self.engines.set_available(engine, false);
    }

    /// Whether an engine is in the choice.
    pub fn is_available(&self, engine: usize) -> bool {
        self.engines.available.contains(engine)
    }

    /// Notes what the caller has to know of a multi-packet or train that an engine has.
    pub fn note(&mut self, engine: usize, ticket: u64, record: R) {
        if let Some(pending) = self.engines.find(engine, ticket) {
            pending.record = Some(record);
        }
    }

    /// Takes a record back; what it is of goes on. `None` for what the engine does not have any
    /// more.
    pub fn take_record(&mut self, engine: usize, ticket: u64) -> Option<R> {
        self.engines.find(engine, ticket)?.record.take()
    }

    /// All that an engine has, with its ticket, the oldest first.
    pub fn records(&self, engine: usize) -> impl Iterator<Item = (u64, &R)> {
        let pending = self.engines.queue(engine).pending();
        pending.filter_map(|pending| Some((pending.ticket, pending.record.as_ref()?)))
    }

    /// The record of the oldest that an engine has.
    pub fn oldest_record(&mut self, engine: usize) -> Option<&mut R> {
        self.engines.first(engine)?.record.as_mut()
    }

    /// Forgets what an engine has not done and will not do.
    pub fn forget(&mut self, now: u64, engine: usize, ticket: u64) -> Option<R> {
        self.engines.complete(now, engine, ticket)?.record
    }

    /// Takes an engine out of the choice with all that it has, the oldest first.
    pub fn take_out(&mut self, engine: usize) -> impl Iterator<Item = R> + use<T, R> {
        self.engines.set_available(engine, false);
        self.engines.clear(engine).filter_map(|pending| pending.record)
    }
}
