//! Prequal (Wydrowski et al., *Load is not what you should balance*, NSDI 2024): requests in flight
//! first, then latency. There, probes tell both; here the scheduler knows the former, and the
//! latter is measured.

use convoy_scheduler::{Done, Heuristic, Offer, Pick, View};

use crate::immediate::head_to;

/// Engines with more requests in flight than this quantile of all are hot.
const HOT_QUANTILE: f64 = 0.84;
/// Weight of the newest latency in its mean.
const GAIN: f64 = 0.25;
/// Numbers of requests in flight for which latencies are kept apart; more count as the last.
const DEPTHS: usize = 64;

/// The hot-cold lexicographic rule: among cold engines the lowest latency that was measured with as
/// many requests in flight; if all are hot, the fewest requests in flight.
#[derive(Default)]
pub(crate) struct Prequal {
    /// By engine and requests in flight at dispatch: the mean of latencies, in ticks.
    latencies: Vec<[Option<f64>; DEPTHS]>,
    /// By engine: how many were in flight when each of those in flight was dispatched.
    in_flight: Vec<std::collections::VecDeque<usize>>,
}

impl Prequal {
    /// The expected latency of one more request: the mean at this depth, or that at the nearest
    /// depth with a measurement. An engine without measurements is tried first.
    fn latency(&self, engine: usize, queued: usize) -> f64 {
        let (at, of) = (queued.min(DEPTHS - 1), &self.latencies[engine]);
        let measured = (0..DEPTHS).filter(|depth| of[*depth].is_some());
        let nearest = measured.min_by_key(|depth| depth.abs_diff(at));
        nearest.and_then(|depth| of[depth]).unwrap_or(0.0)
    }
}

impl Heuristic for Prequal {
    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        self.latencies.resize(view.engines.len(), [None; DEPTHS]);
        self.in_flight.resize_with(view.engines.len(), Default::default);
        let mut all: Vec<usize> = view.offers(0).map(|(engine, _)| view.engines[engine].queued).collect();
        all.sort_unstable();
        let limit = *all.get((HOT_QUANTILE * all.len() as f64) as usize)?;
        let queued = |engine: usize| view.engines[engine].queued;
        let is_cold = |(engine, _): &(usize, Offer)| queued(*engine) < limit.max(1);
        let latency = |(engine, _): &(usize, Offer)| self.latency(*engine, queued(*engine));
        let coldest =
            view.offers(0).filter(is_cold).min_by(|one, other| latency(one).total_cmp(&latency(other)));
        let fewest = || view.offers(0).min_by_key(|(engine, _)| queued(*engine));
        coldest.or_else(fewest).map(|(engine, _)| head_to(engine))
    }

    fn assigned(&mut self, view: &View<'_>, pick: Pick) {
        self.in_flight[pick.engine].push_back(view.engines[pick.engine].queued);
    }

    fn completed(&mut self, done: &Done) {
        let Some(depth) = self.in_flight.get_mut(done.engine).and_then(|them| them.pop_front()) else {
            return;
        };
        let newest = (done.now - done.dispatched) as f64;
        let mean = &mut self.latencies[done.engine][depth.min(DEPTHS - 1)];
        *mean = Some(mean.map_or(newest, |mean| mean + GAIN * (newest - mean)));
    }
}
