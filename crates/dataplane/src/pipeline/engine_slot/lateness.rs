//! When an engine is late with a train, and when it has failed.
//!
//! Trains leave in order, so one that an engine does not complete holds up all that follow. A late
//! train is therefore soon processed again, from its saved input, by an engine that can; the late
//! engine's own result is discarded. Lateness is no failure: the system may have taken the core
//! from the engine's thread for a moment. The engine merely gets no new work until it has completed
//! all that it has. It has failed if it is later still, or late too often.

use convoy_ipsec::CryptoPacket;

use super::EngineSlot;
use crate::pipeline::in_flight::{Deadlines, TrainRecords, Trains};

/// An engine may take this many times the predicted time, plus [`Timeouts::late_ns`]: a wrong cost
/// model is corrected, not punished.
const LATE_MARGIN: u64 = 4;
/// The factor of the predicted time after which an engine has failed, with [`Timeouts::failed_ns`].
const FAILED_MARGIN: u64 = 10;
/// An engine that is late this often within [`SPAN_NS`] has failed: packets wait each time.
const OFTEN: u32 = 10;
const SPAN_NS: u64 = 1_000_000_000;

/// How long past its predicted time an engine may take for a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Beyond this another engine processes the train, in ns.
    pub late_ns: u64,
    /// Beyond this the engine has failed, in ns.
    pub failed_ns: u64,
}

impl Default for Timeouts {
    /// Late means longer than a few time slices of another thread, 3 ms each on Linux, and a
    /// wake-up. Failed means gone for half a second.
    fn default() -> Self {
        Self { late_ns: 10_000_000, failed_ns: 500_000_000 }
    }
}

impl Timeouts {
    /// One time for lateness and failure.
    pub const fn both(ns: u64) -> Self {
        Self { late_ns: ns, failed_ns: ns }
    }

    /// The deadlines of a train submitted at `now_ns` and predicted to complete within
    /// `predicted_ns`. `slack_ns` is what the engine may take beyond its stated time.
    pub(in crate::pipeline) fn deadlines(&self, now_ns: u64, predicted_ns: u64, slack_ns: u64) -> Deadlines {
        let from_now = |margin: u64, timeout_ns: u64| {
            let timeout_ns = timeout_ns.saturating_add(slack_ns);
            now_ns.saturating_add(predicted_ns.saturating_mul(margin)).saturating_add(timeout_ns)
        };
        Deadlines {
            late_ns: from_now(LATE_MARGIN, self.late_ns),
            failed_ns: from_now(FAILED_MARGIN, self.failed_ns),
        }
    }
}

/// The lateness of one engine.
#[derive(Default)]
pub(super) struct Lateness {
    /// Trains that the engine still holds although others have processed them: the ticket, and the
    /// time at which the engine has failed, in ns.
    awaited: Vec<(u64, u64)>,
    /// Whether it gets no new work until it has completed all that it has.
    pub(super) rests: bool,
    /// The start of the span over which `times` counts, in ns.
    since_ns: u64,
    times: u32,
}

impl Lateness {
    /// Stops giving it work. Returns `false` if it was late too often.
    fn rest(&mut self, now_ns: u64) -> bool {
        if !self.rests {
            self.rests = true;
            if now_ns.saturating_sub(self.since_ns) > SPAN_NS {
                (self.since_ns, self.times) = (now_ns, 0);
            }
            self.times += 1;
        }
        self.times < OFTEN
    }

    /// It has completed a train that others have processed.
    pub(super) fn brought(&mut self, ticket: u64) {
        self.awaited.retain(|(awaited, _)| *awaited != ticket);
    }

    /// The time at which it has failed unless it completes what others have processed, in ns.
    fn failed_ns(&self) -> Option<u64> {
        self.awaited.iter().map(|(_, failed_ns)| *failed_ns).min()
    }

    /// It is quarantined or back: forget what it was late with.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl EngineSlot {
    /// The next time at which it turns late or fails unless it completes what it has, in ns.
    pub(in crate::pipeline) fn next_deadline_ns(&self, trains: &Trains) -> Option<u64> {
        if !self.is_up() {
            return None;
        }
        let late_ns = trains.records(self.at).next().map(|(_, oldest)| oldest.deadlines.late_ns);
        late_ns.into_iter().chain(self.lateness.failed_ns()).min()
    }

    pub(super) fn has_failed(&self, now_ns: u64, trains: &Trains) -> bool {
        let oldest_ns = trains.records(self.at).next().map(|(_, oldest)| oldest.deadlines.failed_ns);
        let failed_ns = oldest_ns.into_iter().chain(self.lateness.failed_ns()).min();
        self.is_up() && failed_ns.is_some_and(|failed_ns| failed_ns < now_ns)
    }

    /// The packets of the oldest train, if the engine is late with it and its input was saved.
    pub(in crate::pipeline) fn late<'a>(
        &self,
        now_ns: u64,
        trains: &'a Trains,
    ) -> Option<&'a [CryptoPacket]> {
        let (_, oldest) = trains.records(self.at).next()?;
        let oldest = Some(oldest).filter(|oldest| oldest.deadlines.late_ns < now_ns)?;
        (self.is_up() && !oldest.kept.is_empty()).then_some(&oldest.kept)
    }

    /// Has others process the oldest train, with which the engine is late. Its own result will be
    /// discarded, and it gets no new work until it has completed all that it has. `Err` if it was
    /// late too often.
    pub(in crate::pipeline) fn give_to_others(
        &mut self,
        records: &mut TrainRecords<'_>,
    ) -> Result<(), String> {
        self.withdraw_backlog(records);
        records.trains.rest(self.at);
        let oldest = records.trains.records(self.at).next().map(|(ticket, _)| ticket);
        let entry = oldest.and_then(|ticket| records.trains.forget(records.now_ns, self.at, ticket));
        if let (Some(ticket), Some(entry)) = (oldest, entry) {
            self.counters.retried_packets += entry.kept.len() as u64;
            self.lateness.awaited.push((ticket, entry.deadlines.failed_ns));
            records.again.push_back(entry.again_from_copies());
        }
        if self.lateness.rest(records.now_ns) { Ok(()) } else { Err("it was late repeatedly".to_owned()) }
    }

    /// No other engine supports the oldest train: wait for it until the engine has failed.
    pub(in crate::pipeline) fn wait_for_oldest(&self, trains: &mut Trains) {
        if let Some(oldest) = trains.oldest_record(self.at) {
            oldest.deadlines.late_ns = oldest.deadlines.failed_ns;
        }
    }

    /// Whether it has now completed all that it was late with, so that it accepts work again.
    pub(in crate::pipeline) fn ends_rest(&mut self, trains: &Trains) -> bool {
        let has_all_back = |slot: &Self| trains.records(slot.at).next().is_none();
        let ends = self.lateness.rests && self.lateness.awaited.is_empty() && has_all_back(self);
        self.lateness.rests &= !ends;
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_follow_the_prediction_and_have_a_floor() {
        let deadlines = |predicted_ns| Timeouts::default().deadlines(1_000, predicted_ns, 0);
        assert_eq!(deadlines(0), Deadlines { late_ns: 10_001_000, failed_ns: 500_001_000 });
        assert_eq!(deadlines(1_000_000), Deadlines { late_ns: 14_001_000, failed_ns: 510_001_000 });
        let model = Timeouts::default().deadlines(0, 0, 60_000_000_000);
        assert_eq!(model, Deadlines { late_ns: 60_010_000_000, failed_ns: 60_500_000_000 });
        let never = Timeouts::both(u64::MAX).deadlines(7, 7, 7);
        assert_eq!(never, Deadlines { late_ns: u64::MAX, failed_ns: u64::MAX });
    }

    /// Makes an engine late and complete again at each of these times, in ms; returns how often
    /// that was tolerated.
    fn allowed(times_ms: impl Iterator<Item = u64>) -> usize {
        let mut lateness = Lateness::default();
        let once = |ms: u64| {
            let is_allowed = lateness.rest(ms * 1_000_000);
            lateness.rests = false;
            is_allowed
        };
        times_ms.map(once).take_while(|is_allowed| *is_allowed).count()
    }

    #[test]
    fn an_engine_that_is_late_ten_times_within_a_second_has_failed() {
        assert_eq!(allowed((0..100).map(|at| 5_000 + at * 50)), 9);
        assert_eq!(allowed((0..100).map(|at| 5_000 + at * 150)), 100);
    }

    #[test]
    fn trains_that_are_late_together_count_once() {
        let mut lateness = Lateness::default();
        assert!((0..100).all(|at| lateness.rest(5_000_000_000 + at)));
    }
}
