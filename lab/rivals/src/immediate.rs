//! Rules that assign the head of the window at once, by its times on the engines (Maheswaran et al.
//! 1999, *Dynamic Mapping of a Class of Independent Tasks onto Heterogeneous Computing Systems*;
//! Braun et al. 2001).

use convoy_scheduler::{Heuristic, Offer, Pick, View};

/// The head of the window, at this engine.
pub(crate) fn head_to(engine: usize) -> Pick {
    Pick { group: 0, engine }
}

/// MET: the engine with the shortest processing time.
pub(crate) struct MinimumExecutionTime;

impl Heuristic for MinimumExecutionTime {
    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        view.offers(0).min_by_key(|(_, offer)| offer.processing).map(|(engine, _)| head_to(engine))
    }
}

/// OLB: the engine that becomes idle first.
pub(crate) struct OpportunisticLoadBalancing;

impl Heuristic for OpportunisticLoadBalancing {
    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        view.offers(0).min_by_key(|(engine, _)| view.engines[*engine].wait).map(|(engine, _)| head_to(engine))
    }
}

/// The k of k-percent-best: more than half of the engines, since with 50 % and two engines it would
/// be MET.
const PERCENT: usize = 70;

/// KPB: the lowest finishing time among the k % of engines with the shortest processing time,
/// rounded up.
pub(crate) struct KPercentBest;

impl Heuristic for KPercentBest {
    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        let mut all: Vec<(usize, Offer)> = view.offers(0).collect();
        all.sort_by_key(|(_, offer)| offer.processing);
        all.truncate((all.len() * PERCENT).div_ceil(100));
        all.into_iter()
            .min_by_key(|(engine, offer)| view.finish(*engine, *offer))
            .map(|(engine, _)| head_to(engine))
    }
}
