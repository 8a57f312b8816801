//! A Whittle index: each queue is an M/M/1 queue to which a multi-packet may be admitted for a
//! charge, and the index is the charge at which admission and rejection are equally good
//! (Niño-Mora 2002; Argon, Ding, Glazebrook, Ziya 2009). The engine with the lowest index gets it.

use convoy_scheduler::{Heuristic, Offer, Pick, View};

use crate::immediate::head_to;

/// Weight of the newest gap in the mean time between two multi-packets.
const GAIN: f64 = 1.0 / 256.0;
/// Queue lengths beyond this count as this.
const LONGEST: usize = 128;

/// The rule, with the measured rate of multi-packets.
#[derive(Default)]
pub(crate) struct WhittleIndex {
    last: u64,
    mean_gap: Option<f64>,
}

impl WhittleIndex {
    fn note_arrival(&mut self, now: u64) {
        let newest = (now - self.last) as f64;
        self.last = now;
        self.mean_gap = Some(self.mean_gap.map_or(newest, |mean| mean + GAIN * (newest - mean)));
    }
}

impl Heuristic for WhittleIndex {
    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        let gap = self.mean_gap.unwrap_or(0.0).max(1.0);
        let of = |(engine, offer): &(usize, Offer)| {
            let service = (offer.processing as f64).max(1.0);
            gap * index(view.engines[*engine].queued, service / gap)
        };
        view.offers(0).min_by(|one, other| of(one).total_cmp(&of(other))).map(|(engine, _)| head_to(engine))
    }

    fn assigned(&mut self, view: &View<'_>, _: Pick) {
        self.note_arrival(view.now);
    }
}

/// The index with `queued` in the queue and this load, in times between two arrivals: by how much a
/// place more lengthens the mean queue, over the fraction of arrivals that it admits in addition.
/// From the mean and the blocking probability of the M/M/1 queue with n places follows
/// `load * sum over k = 0..n of (1 + load + ... + load^k)`.
fn index(queued: usize, load: f64) -> f64 {
    let (mut power, mut inner, mut outer) = (1.0, 0.0, 0.0);
    for _ in 0..=queued.min(LONGEST) {
        inner += power;
        outer += inner;
        power *= load;
    }
    load * outer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean number in an M/M/1 queue with this many places, and the probability that all are
    /// taken.
    fn finite(places: i32, load: f64) -> (f64, f64) {
        let weights: Vec<f64> = (0..=places).map(|state| load.powi(state)).collect();
        let sum: f64 = weights.iter().sum();
        let moment: f64 = weights.iter().zip(0..).map(|(weight, state)| weight * f64::from(state)).sum();
        (moment / sum, weights[places as usize] / sum)
    }

    #[test]
    fn the_index_is_the_price_of_a_place() {
        for load in [0.3, 0.9, 1.0, 1.7] {
            for queued in 0..8 {
                let (shorter, longer) = (finite(queued, load), finite(queued + 1, load));
                let price = (longer.0 - shorter.0) / (shorter.1 - longer.1);
                assert!((index(queued as usize, load) / price - 1.0).abs() < 1e-6, "{load} {queued}");
            }
        }
    }

    #[test]
    fn the_index_of_an_empty_queue_is_its_service_time() {
        // One place: mean rho / (1 + rho), blocking rho / (1 + rho); none: 0 and 1.
        for load in [0.1, 0.5, 1.0, 3.0] {
            assert!((index(0, load) - load).abs() < 1e-9, "{}", index(0, load));
        }
    }

    #[test]
    fn the_index_grows_with_the_queue_and_with_the_service_time() {
        for load in [0.2, 0.9, 1.0, 1.5, 40.0] {
            let indices: Vec<f64> = (0..100).map(|queued| index(queued, load)).collect();
            assert!(indices.is_sorted(), "{indices:?}");
        }
        assert!(index(3, 0.5) < index(3, 0.6));
    }
}
