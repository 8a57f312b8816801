//! Rules of queueing theory that look at the lengths of the queues.

use convoy_scheduler::{Done, Heuristic, Offer, Pick, View};

use crate::immediate::head_to;

/// JSQ: the shortest queue.
pub(crate) struct ShortestQueue;

impl Heuristic for ShortestQueue {
    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        view.offers(0)
            .min_by_key(|(engine, _)| view.engines[*engine].queued)
            .map(|(engine, _)| head_to(engine))
    }
}

/// JSQ(2): the shorter queue of two engines drawn at random, by a fixed sequence
/// (SplitMix64, so that runs can be repeated).
#[derive(Default)]
pub(crate) struct ShortestOfTwo {
    state: u64,
}

impl ShortestOfTwo {
    fn draw(&mut self, below: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ bits >> 31) % below as u64) as usize
    }
}

impl Heuristic for ShortestOfTwo {
    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        let mut drawn: Vec<(usize, Offer)> = view.offers(0).collect();
        while drawn.len() > 2 {
            let out = self.draw(drawn.len());
            drawn.swap_remove(out);
        }
        drawn
            .into_iter()
            .min_by_key(|(engine, _)| view.engines[*engine].queued)
            .map(|(engine, _)| head_to(engine))
    }
}

/// Weight of the newest service time in its mean.
const GAIN: f64 = 1.0 / 32.0;

/// SED: the shortest expected delay: the length of the queue with the new
/// multi-packet times the mean estimate of those that the engine completed.
#[derive(Default)]
pub(crate) struct ShortestExpectedDelay {
    means: Vec<Option<f64>>,
}

impl Heuristic for ShortestExpectedDelay {
    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        self.means.resize(view.engines.len(), None);
        let delay = |(engine, offer): &(usize, Offer)| {
            let mean = self.means[*engine].unwrap_or(offer.processing as f64);
            (view.engines[*engine].queued + 1) as f64 * mean
        };
        view.offers(0)
            .min_by(|one, other| delay(one).total_cmp(&delay(other)))
            .map(|(engine, _)| head_to(engine))
    }

    fn completed(&mut self, done: &Done) {
        if let Some(mean) = self.means.get_mut(done.engine) {
            let newest = done.predicted as f64;
            *mean = Some(mean.map_or(newest, |mean| mean + GAIN * (newest - mean)));
        }
    }
}
