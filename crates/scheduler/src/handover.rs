//! The choice of an engine for a multi-packet where the caller's core pays for the handover: see
//! [the crate's page](crate#the-handover).

use crate::choice::{Choice, Search};
use crate::cost::Handover;
use crate::engine_mask::EngineMask;
use crate::room::FullQueue;

/// The search for the engine with the lowest finishing time including the handover. It is separate,
/// so that searches without handovers, as in the simulator and without engines elsewhere, do not
/// pay for it.
pub(crate) struct HandoverSearch<'a, R = ()> {
    pub(crate) search: Search<'a, R>,
    /// The cost for the caller's core of handing the multi-packet to each engine.
    pub(crate) handovers: &'a [Handover],
    pub(crate) packets: u64,
    /// Whether the caller has more packets at hand, which wait while its core is busy.
    pub(crate) has_more: bool,
}

impl<R> HandoverSearch<'_, R> {
    /// Chooses like [`Search::choose`] by the finishing time.
    pub(crate) fn choose(&self) -> Option<Choice> {
        let search = &self.search;
        let finish = |choice: &Choice| choice.finish.saturating_add(self.handover(choice.engine));
        let in_time = search.in_time();
        if search.full_queue == FullQueue::Skip || in_time.is_empty() {
            return search.lowest(self.worth_it(search.considered()), finish);
        }
        let best = search.lowest(self.worth_it(in_time), finish)?;
        if search.has_room(best.engine) {
            return Some(best);
        }
        // While the caller waits for room its core has no overhead.
        let without_overhead = Self { search: Search { overhead: 0, ..*search }, ..*self };
        if search.overhead > 0 { without_overhead.choose() } else { None }
    }

    /// As [`Search::two_lowest`], with the handover, among the engines considered.
    pub(crate) fn two_lowest(&self) -> Option<(Choice, u64)> {
        let finish = |choice: &Choice| choice.finish.saturating_add(self.handover(choice.engine));
        self.search.two_lowest(self.worth_it(self.search.considered()), finish)
    }

    /// The engines of `among` worth a handover. If more packets are at hand and the core has an
    /// engine with room, engines elsewhere are left out for which the handover would cost the core
    /// at least half of what processing the packets itself would: it would gain nothing.
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

/// The stated cost of a handover, times this, must be less than the core's own time. Calibration
/// sees a single multi-packet; in operation its order, its deadlines and cache lines written by the
/// other core add to it: 1.6 times in all with 1450 bytes and 2.1 times with 64, on an AMD EPYC
/// (Zen 5).
const MARGIN: f64 = 2.0;

/// Whether the core gains by a handover of work that would take it `own` ticks. An unstated
/// handover counts as free.
pub(crate) fn is_worth_it(handover: u64, own: u64) -> bool {
    handover == 0 || handover as i64 as f64 * MARGIN < own as i64 as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::tests::{All, all, fill, search};

    /// One engine on the caller's core that takes `here` plus a tick, and others elsewhere, by
    /// (`t_init`, cost of handing a packet over).
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
        // 101 against 11 plus the handover. On a tie accelerators win.
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
            // The core's overhead is so large that the finishing time favours an engine elsewhere;
            // its own engine takes 101.
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
            let usual = Search { overhead, ..search(&all, 16) }.choose();
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
