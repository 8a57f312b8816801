//! Which multi-packet of the window goes next.

use std::fmt;
use std::str::FromStr;

use crate::choice::Choice;
use crate::config::Input;
use crate::policy::Policy;
use crate::room::NameError;
use crate::scheduler::Scheduler;
use crate::window::Group;

/// The order in which multi-packets leave the window, within their class. Packets of an SA keep
/// their order in any case, since a multi-packet has all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WindowOrder {
    /// The order of their first packets, as published: what waits for room in its engine's queue
    /// holds up all others (small-packets paper, section III-B).
    #[default]
    Arrival,
    /// The order of their first packets, but others may pass one that waits for room.
    Overtake,
    /// While the window has room, the order of arrival. Once it is full, the multi-packet goes
    /// first that would suffer most from its second best engine (*sufferage*, Maheswaran et al.
    /// 1999); only with the policy `finishing-time`, and not the [policy of that
    /// name](Policy::Sufferage). See [the crate's page](crate#the-order-of-a-full-window).
    Sufferage,
}

impl WindowOrder {
    /// All.
    pub const ALL: [Self; 3] = [Self::Arrival, Self::Overtake, Self::Sufferage];

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Overtake => "overtake",
            Self::Sufferage => "sufferage",
        }
    }
}

impl fmt::Display for WindowOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for WindowOrder {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let known = Self::ALL.into_iter().find(|order| order.name() == name);
        known.ok_or_else(|| NameError { given: name.to_owned(), expected: "arrival, overtake, sufferage" })
    }
}

/// The part of its finishing time by which the first multi-packet of the window is more urgent than
/// its sufferage says; for the others it falls to nothing, packet by packet. It keeps small
/// differences from delaying those that have waited for long, which would also break up
/// multi-packets that still grow.
const AGE: u64 = 4;

impl<T, R> Scheduler<T, R> {
    /// The multi-packet that goes next, with its engine; `None` if all wait for room.
    #[inline]
    pub(crate) fn next_group(&mut self, now: u64, input: Input, class: usize) -> Option<(Group, Choice)> {
        let group = self.window.group(class)?;
        if self.policy == Policy::Sufferage {
            return self.most_suffering(now, input, group);
        }
        let by_urgency = self.order == WindowOrder::Sufferage && self.policy == Policy::FinishingTime;
        if by_urgency && self.is_closed(input) && self.passed < self.size {
            return self.most_urgent(now, input, group);
        }
        self.first_with_room(now, input, group)
    }

    /// The first multi-packet whose engine has room, from `group` on; `group` alone if none may
    /// pass it.
    #[inline]
    fn first_with_room(&mut self, now: u64, input: Input, mut group: Group) -> Option<(Group, Choice)> {
        loop {
            if let Some(choice) = self.choose(now, input, &group) {
                self.passed = 0;
                return Some((group, choice));
            }
            if self.order != WindowOrder::Overtake {
                return None;
            }
            group = self.window.group_behind(&group)?;
        }
    }

    /// The most urgent multi-packet of those whose engine has room. The first one is passed by at
    /// most as many as the window has packets.
    #[inline(never)]
    fn most_urgent(&mut self, now: u64, input: Input, first: Group) -> Option<(Group, Choice)> {
        let mut best: Option<(u64, Group, Choice)> = None;
        let (mut group, mut ahead) = (first, 0);
        loop {
            if let Some(choice) = self.choose(now, input, &group) {
                let urgency = self.urgency(now, input, &group, &choice, ahead);
                // On a tie the one nearer to the head goes first.
                if best.as_ref().is_none_or(|(most, ..)| urgency > *most) {
                    best = Some((urgency, group, choice));
                }
            }
            ahead += u64::from(group.packets);
            let Some(next) = self.window.group_behind(&group) else { break };
            group = next;
        }
        let (_, group, choice) = best?;
        self.passed = if group == first { 0 } else { self.passed + 1 };
        Some((group, choice))
    }

    /// How much later than with its choice a multi-packet would finish on the second best engine,
    /// in ticks, and its [age](AGE); `ahead` is the number of packets in front of it.
    #[inline]
    fn urgency(&self, now: u64, input: Input, group: &Group, choice: &Choice, ahead: u64) -> u64 {
        let sufferage = self.search(now, input, group).sufferage(choice);
        let packets = self.window.len() as u64;
        let age = choice.finish / AGE / packets.max(1) * packets.saturating_sub(ahead);
        sufferage.saturating_add(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        assert!(WindowOrder::ALL.iter().all(|order| order.to_string().parse() == Ok(*order)));
        let error = "fifo".parse::<WindowOrder>().expect_err("no such order").to_string();
        assert!(error.contains("arrival, overtake, sufferage"), "{error}");
    }
}
