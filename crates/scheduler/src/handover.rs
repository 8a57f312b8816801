//! Who gets a multi-packet where it costs the caller's core something to hand it over: see [the
//! crate's page](crate#the-handover).

use crate::choice::{Choice, Search};
use crate::cost::Handover;
use crate::engine_mask::EngineMask;
use crate::room::FullQueue;

/// A multi-packet that looks for the engine with the lowest finishing time. It is a search of its
/// own, so that one that counts no handover, as in the simulator and without engines elsewhere,
/// does not pay for it.
pub(crate) struct HandoverSearch<'a, R = ()> {
    pub(crate) search: Search<'a, R>,
    /// What the caller's core pays to hand the multi-packet to each engine.
    pub(crate) handovers: &'a [Handover],
    pub(crate) packets: u64,
    /// Whether the caller has more packets at hand, which wait while its core is busy.
    pub(crate) has_more: bool,
}

impl<R> HandoverSearch<'_, R> {
    /// Chooses as [`Search::choose`] does by the finishing time.
    pub(crate) fn choose(&self) -> Option<Choice> {
        let search = &self.search;
        let finish = |choice: &Choice| choice.finish.saturating_add(self.handover(choice.engine));
        let in_time = search.in_time();
        if search.full_queue == FullQueue::Skip || in_time.is_empty() {
            return search.lowest(self.worth_it(search.open()), finish);
        }
        let best = search.lowest(self.worth_it(in_time), finish)?;
        if search.engines.queue(best.engine).has_room(search.places) {
            return Some(best);
        }
        // Whoever waits for room has nothing else to do meanwhile.
        let without_overhead = Self { search: Search { overhead: 0, ..*search }, ..*self };
        if search.overhead > 0 { without_overhead.choose() } else { None }
    }

    /// With more at hand, these engines without those elsewhere to which it would cost the core
    /// half as much to hand the packets over as to do them itself, if it has an engine with room:
    /// it would gain nothing by it.
    fn worth_it(&self, mut among: EngineMask) -> EngineMask {
        let Search { engines, processing, .. } = self.search;
        let here = if self.has_more {
            among.and(engines.cpus).and(self.search.open())
        } else {
            EngineMask::default()
        };
        let Some(own) = here.map(|engine| processing[engine]).min() else { return among };
        for engine in among.without(engines.cpus) {
            among.set(engine, is_worth_it(self.handover(engine), own));
        }
        among
    }

    fn handover(&self, engine: usize) -> u64 {
        self.handovers.get(engine).map_or(0, |handover| handover.cost(self.packets, self.search.blocks))
    }
}

/// How many times what a handover is said to cost must be less than what the core takes itself.
/// Calibration sees a multi-packet by itself; at work its order, its deadlines and what the other
/// core writes to lay packets out come on top of it: 1.6 times in all with 1450 bytes, 2.1 with 64,
/// on an AMD EPYC (Zen 5).
const MARGIN: f64 = 2.0;

/// Whether the core gains by a handover what takes it `own` ticks itself. Where nothing is said of
/// the handover, nothing is held against it.
pub(crate) fn is_worth_it(handover: u64, own: u64) -> bool {
    handover == 0 || handover as i64 as f64 * MARGIN < own as i64 as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::tests::{All, all, fill, search};
    use crate::policy::Policy;

    /// One engine on the caller's core that takes `here` and a tick, and more elsewhere, by
    /// (`t_init`, what it costs to hand a packet over).
    fn engines(here: f64, elsewhere: &[(f64, f64)]) -> (All, Vec<Handover>) {
        let engines: Vec<_> = elsewhere.iter().map(|engine| (false, engine.0, 1)).collect();
        let handover = |engine: &(f64, f64)| Handover { t_packet: engine.1, ..Handover::default() };
        let none = std::iter::once(Handover::default());
        (
            all(&[&[(true, here, 1)], &engines[..]].concat()),
            none.chain(elsewhere.iter().map(handover)).collect(),
        )
    }

    fn chosen((all, handovers): &(All, Vec<Handover>), overhead: u64, has_more: bool) -> Option<usize> {
        let search = Search { overhead, ..search(all, 16) };
        let choice = HandoverSearch { search, handovers, packets: 1, has_more }.choose();
        choice.map(|choice| choice.engine)
    }

    #[test]
    fn the_handover_is_part_of_the_finishing_time_elsewhere() {
        let by = |handover, packets| {
            let (all, handovers) = engines(100.0, &[(10.0, handover)]);
            let search = search(&all, 16);
            let choice = HandoverSearch { search, handovers: &handovers, packets, has_more: false }.choose();
            choice.map(|choice| (choice.engine, choice.wait, choice.processing))
        };
        let (here, elsewhere) = (Some((0, 0, 101)), Some((1, 0, 11)));
        // 101 against 11 and the handover. A tie is for accelerators.
        assert_eq!([by(0.0, 1), by(90.0, 1), by(91.0, 1)], [elsewhere, elsewhere, here]);
        assert_eq!([by(30.0, 3), by(31.0, 3)], [elsewhere, here]);
    }

    #[test]
    fn with_more_at_hand_nothing_is_given_away_once_the_handover_costs_half_as_much_as_the_core_itself() {
        for full_queue in FullQueue::ALL {
            let by = |handover, has_more| {
                let (all, handovers) = engines(100.0, &[(10.0, handover)]);
                let search = Search { overhead: 10_000, full_queue, ..search(&all, 16) };
                let choice = HandoverSearch { search, handovers: &handovers, packets: 1, has_more }.choose();
                choice.map(|choice| choice.engine)
            };
            // The core has so much to do besides that the finishing time says elsewhere; 101 is
            // what its engine takes.
            assert_eq!([50.0, 51.0, 5_000.0].map(|handover| by(handover, true)), [Some(1), Some(0), Some(0)]);
            assert_eq!([51.0, 5_000.0].map(|handover| by(handover, false)), [Some(1); 2]);
        }
    }

    #[test]
    fn of_several_engines_elsewhere_those_with_a_cheap_handover_stay_in_the_choice() {
        assert_eq!(chosen(&engines(100.0, &[(10.0, 101.0), (50.0, 40.0)]), 10_000, true), Some(2));
    }

    #[test]
    fn without_a_handover_the_choice_is_the_usual_one() {
        let (all, none) = engines(100.0, &[(150.0, 0.0), (120.0, 0.0)]);
        for overhead in [0, 19, 20, 49, 50] {
            let usual = Search { overhead, ..search(&all, 16) }.choose(Policy::FinishingTime, 0);
            for has_more in [false, true] {
                let search = Search { overhead, ..search(&all, 16) };
                assert_eq!(HandoverSearch { search, handovers: &none, packets: 1, has_more }.choose(), usual);
            }
        }
    }

    #[test]
    fn a_dear_handover_keeps_nothing_where_no_engine_of_the_core_can_do_it_or_has_room() {
        let dear = || engines(100.0, &[(10.0, 5_000.0)]);
        assert_eq!(chosen(&dear(), 10_000, true), Some(0));
        let mut incapable = dear();
        incapable.0.capable.set(0, false);
        assert_eq!(chosen(&incapable, 10_000, true), Some(1));
        let mut full = dear();
        (0..2).for_each(|_| fill(&mut full.0, 0, 1));
        assert_eq!(chosen(&full, 10_000, true), Some(1));
    }
}
