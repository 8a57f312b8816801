//! The policy `sufferage`: see [the crate's page](crate#the-policy-sufferage).

use crate::choice::Choice;
use crate::config::Input;
use crate::scheduler::Scheduler;
use crate::window::{Contender, Group};

/// So many times the packets of the window may pass a multi-packet, if the configuration says
/// nothing. In the simulator twice carried as much as no limit, and once up to 3 % less.
const AGEING_WINDOWS: usize = 2;

/// What a decision is made by, beside the window.
#[derive(Clone, Copy)]
struct Moment {
    now: u64,
    input: Input,
    /// Whether the overhead of the caller's core counts.
    with_overhead: bool,
}

impl<T, R> Scheduler<T, R> {
    /// Whether as many have passed the first multi-packet of a class as may.
    #[inline]
    pub(crate) fn is_passed_enough(&self, first: &Group) -> bool {
        self.window.passed(first) >= self.config.research.ageing.unwrap_or(AGEING_WINDOWS * self.size) as u64
    }

    /// Once the window is full, the multi-packet that would suffer most by its second best engine,
    /// with its best one; `None` while it waits for room there. The first one goes next while the
    /// window has room, or if enough have passed it.
    #[inline(never)]
    pub(crate) fn most_suffering(&mut self, now: u64, input: Input, first: Group) -> Option<(Group, Choice)> {
        if !self.is_closed(input) || self.is_passed_enough(&first) {
            return self.choose(now, input, &first).map(|choice| (first, choice));
        }
        let moment = Moment { now, input, with_overhead: true };
        let chosen = self.most_suffering_with(moment, first);
        if chosen.is_some() || self.core.overhead == 0 {
            return chosen;
        }
        // While the caller waits for room its core has no overhead.
        self.most_suffering_with(Moment { with_overhead: false, ..moment }, first)
    }

    fn most_suffering_with(&mut self, moment: Moment, first: Group) -> Option<(Group, Choice)> {
        let mut contenders = self.window.contenders.take()?;
        let others = contenders.different(first.class.into());
        let most = self.most_suffering_of(moment, &first, others);
        self.window.contenders = Some(contenders);
        let (contender, batch, choice) = most?;
        // Credits depend on its own times, and others were looked at since.
        self.costs.price(contender.algorithm, contender.blocks.into());
        if !self.search(moment.now, moment.input, &contender.as_group(first.class)).has_room(choice.engine) {
            return None;
        }
        let is_first = batch == first.reference;
        let group = if is_first { first } else { self.window.group_of(batch, first.class.into())? };
        Some((group, choice))
    }

    /// The multi-packet that suffers most, its batch and the best engine for it; on a tie that
    /// nearest to the head.
    fn most_suffering_of(
        &mut self,
        moment: Moment,
        first: &Group,
        others: &[(Contender, u32)],
    ) -> Option<(Contender, u32, Choice)> {
        let mut most = None;
        let mut most_suffered = 0;
        let class = first.class;
        let first = (first.contender(), first.reference);
        // The first one is not among the others if it begins with a packet of another class.
        let others = others.iter().filter(|(other, _)| other.packets > 0 && *other != first.0);
        for (contender, batch) in std::iter::once(&first).chain(others) {
            let best = self.two_best(moment, &contender.as_group(class));
            if let Some((choice, sufferage)) = best
                && (most.is_none() || sufferage > most_suffered)
            {
                most_suffered = sufferage;
                most = Some((*contender, *batch, choice));
            }
        }
        most
    }

    /// The best engine for a multi-packet, and by how much the second best is worse, in ticks.
    #[inline]
    fn two_best(&mut self, moment: Moment, group: &Group) -> Option<(Choice, u64)> {
        let Moment { now, input, with_overhead } = moment;
        self.costs.price(group.algorithm, group.blocks);
        if self.costs.has_handovers() {
            let mut search = self.handover_search(now, input, group);
            search.search.overhead *= u64::from(with_overhead);
            return search.two_lowest();
        }
        let mut search = self.search(now, input, group);
        search.overhead *= u64::from(with_overhead);
        search.two_lowest(search.considered(), |choice| choice.finish)
    }
}
