//! The choice of an engine for a train.

use super::Parts;
use super::TrainPart;
use crate::config::Input;
use crate::engine_mask::EngineMask;
use crate::handover::is_worth_it;
use crate::scheduler::Scheduler;

/// The choice for a train; times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrainChoice {
    pub(crate) engine: usize,
    pub(crate) wait: u64,
    pub(crate) processing: u64,
}

/// A candidate elsewhere for a train; times in ticks.
struct OffCore {
    engine: usize,
    /// Its work ahead of the train.
    wait: u64,
    processing: u64,
    /// The cost for the caller's core.
    handover: u64,
}

impl<T, R> Scheduler<T, R> {
    /// The choice for a train at `now`, or `None` while no engine has room.
    ///
    /// While no more input is at hand, the finishing time, including the
    /// [handover](crate#the-handover), decides between the caller's core and engines elsewhere.
    /// Otherwise it is the finishing time of this train and the next together: while the caller
    /// processes one itself, it can give others no work. So it keeps a train as soon as the others
    /// are busy for longer than it would be, or if the handover would cost its core at least half
    /// as much.
    pub(crate) fn train_choice(
        &self,
        now: u64,
        input: Input,
        parts: &Parts,
        packets: usize,
    ) -> Option<TrainChoice> {
        let parts = parts.all();
        let among = self.engines.available.and(self.capable_of(parts)).and(self.engines.train_takers);
        let idle_here = among.and(self.engines.cpus).filter(|engine| self.engines.queue(*engine).is_idle());
        let here =
            idle_here.map(|engine| (engine, self.train_cost(engine, parts))).min_by_key(|(_, cost)| *cost);
        let mut elsewhere = among.without(self.engines.cpus);
        if let (Input::More, Some((_, own))) = (input, here) {
            for engine in elsewhere {
                elsewhere.set(engine, is_worth_it(self.handover(engine, parts, packets), own));
            }
        }
        let elsewhere = self.lowest_elsewhere(now, elsewhere, parts, packets);
        self.of_both(here, elsewhere, packets, input)
    }

    /// The better of an engine on the caller's core, with its time, and one elsewhere.
    fn of_both(
        &self,
        here: Option<(usize, u64)>,
        elsewhere: Option<OffCore>,
        packets: usize,
        input: Input,
    ) -> Option<TrainChoice> {
        let to = |engine, wait, processing| Some(TrainChoice { engine, wait, processing });
        let (own, own_processing, elsewhere) = match (here, elsewhere) {
            (None, None) => return None,
            (Some((engine, processing)), None) => return to(engine, 0, processing),
            (None, Some(OffCore { engine, wait, processing, .. })) => return to(engine, wait, processing),
            (Some((own, own_processing)), Some(elsewhere)) => (own, own_processing, elsewhere),
        };
        let OffCore { engine, wait, processing, handover } = elsewhere;
        let is_kept = match input {
            Input::More => {
                own_processing.saturating_add(self.worker_overhead().saturating_mul(packets as u64)) <= wait
            }
            // On a tie, the engine here: no other thread need be woken.
            Input::Paused | Input::Ended => {
                own_processing <= wait.saturating_add(processing).saturating_add(handover)
            }
        };
        if is_kept { to(own, 0, own_processing) } else { to(engine, wait, processing) }
    }

    /// Of these engines, the one with room for which the caller's core and the engine are done
    /// first.
    fn lowest_elsewhere(
        &self,
        now: u64,
        among: EngineMask,
        parts: &[TrainPart],
        packets: usize,
    ) -> Option<OffCore> {
        let in_time = |engine: &usize| {
            self.config.late_margin.is_none_or(|margin| !self.engines.queue(*engine).is_late(now, margin))
        };
        let open = among.and(self.engines.open).filter(in_time);
        let with_times = open.map(|engine| OffCore {
            engine,
            wait: self.engines.queue(engine).wait(now),
            processing: self.train_cost(engine, parts),
            handover: self.handover(engine, parts, packets),
        });
        with_times.min_by_key(|OffCore { wait, processing, handover, .. }| {
            wait.saturating_add(*processing).saturating_add(*handover)
        })
    }
}
