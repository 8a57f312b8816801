//! The rules to compare: the scheduler's own policy with its options, and the baselines.

use std::fmt;

use convoy_scheduler::{FullQueue, HeuristicFactory, SchedulingPolicy};
use serde::{Serialize, Serializer};

/// A policy with its options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Chooses the engine of a multi-packet.
    pub policy: SchedulingPolicy,
    /// What `finishing-time`, `sufferage` and a rule from the literature do when the best engine's
    /// queue is full; baselines ignore it.
    pub full_queue: FullQueue,
    /// A baseline, or a rule from the literature, that takes the policy's place.
    pub rival: Option<HeuristicFactory>,
    /// Two traffic classes, the first tunnel's [urgent](crate::urgent_imix) packets in the higher
    /// one; `None` for one class.
    pub classes: Option<ClassCredits>,
}

/// The most multi-packets of the lower class that an engine is given; `None` for no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassCredits(pub Option<usize>);

impl Rule {
    /// The default, as published: in order of arrival, and waits for the engine with the lowest
    /// finishing time.
    pub const DEFAULT: Self = Self {
        policy: SchedulingPolicy::FinishingTime,
        full_queue: FullQueue::Wait,
        rival: None,
        classes: None,
    };
    /// As [`DEFAULT`](Self::DEFAULT), but the lowest finishing time among engines with room.
    pub const SKIP: Self = Self { full_queue: FullQueue::Skip, ..Self::DEFAULT };
    /// The policy that considers the whole window.
    pub const WHOLE_WINDOW: Self = Self { policy: SchedulingPolicy::Sufferage, ..Self::DEFAULT };

    /// Both variants of the scheduler's default policy, and every baseline.
    pub fn compared() -> Vec<Self> {
        [Self::DEFAULT, Self::SKIP].into_iter().chain(convoy_rivals::baselines().map(Self::rival)).collect()
    }

    /// The scheduler's default, and every baseline.
    pub(crate) fn demonstrated() -> Vec<Self> {
        Self::compared().into_iter().filter(|rule| *rule != Self::SKIP).collect()
    }

    /// A baseline, or a rule from the literature.
    pub fn rival(rival: HeuristicFactory) -> Self {
        Self { rival: Some(rival), ..Self::DEFAULT }
    }

    /// The default, with two traffic classes.
    pub fn with_classes(credits: Option<usize>) -> Self {
        Self { classes: Some(ClassCredits(credits)), ..Self::DEFAULT }
    }

    /// The name of what chooses, without options.
    pub fn name(&self) -> &'static str {
        self.rival.map_or(self.policy.name(), |rival| rival.name)
    }

    /// Whether it is not the scheduler's own rule.
    pub fn is_baseline(&self) -> bool {
        self.rival.is_some()
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if !self.is_baseline() {
            write!(f, ", {}", self.full_queue)?;
        }
        match self.classes {
            None => Ok(()),
            Some(ClassCredits(None)) => f.write_str(", two classes"),
            Some(ClassCredits(Some(credits))) => write!(f, ", two classes, {credits} credits"),
        }
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_the_own_policy_and_each_baseline_once_have_names_of_their_own() {
        let rules = Rule::compared();
        assert_eq!(rules.len(), 7);
        assert_eq!(rules.iter().filter(|rule| !rule.is_baseline()).count(), 2);
        let mut names: Vec<String> = rules.iter().chain([&Rule::WHOLE_WINDOW]).map(Rule::to_string).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rules.len() + 1);
    }
}
