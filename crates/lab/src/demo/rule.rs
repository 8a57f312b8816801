//! The rules to compare: the scheduler's own policy with its options, and the baselines.

use std::fmt;

use convoy_scheduler::{FullQueue, Policy};
use serde::{Serialize, Serializer};

/// A policy with its options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Chooses the engine of a multi-packet.
    pub policy: Policy,
    /// What `finishing-time` does when the best engine's queue is full; baselines ignore it.
    pub full_queue: FullQueue,
    /// Whether packets of other SAs may overtake a multi-packet that waits.
    pub overtake: bool,
}

impl Rule {
    /// The default: waits for the engine with the lowest finishing time.
    pub const WAIT: Self =
        Self { policy: Policy::FinishingTime, full_queue: FullQueue::Wait, overtake: false };
    /// Chooses the lowest finishing time among engines with room.
    pub const SKIP: Self = Self { full_queue: FullQueue::Skip, ..Self::WAIT };
    /// As [`WAIT`](Self::WAIT), but packets of other SAs overtake the one that waits.
    pub const OVERTAKE: Self = Self { overtake: true, ..Self::WAIT };

    /// Both variants of the scheduler's own policy, and every baseline.
    pub fn compared() -> Vec<Self> {
        let baselines = Policy::ALL.into_iter().filter(|policy| *policy != Policy::FinishingTime);
        let baselines = baselines.map(|policy| Self { policy, ..Self::WAIT });
        [Self::WAIT, Self::SKIP].into_iter().chain(baselines).collect()
    }

    /// Whether it is a baseline.
    pub fn is_baseline(&self) -> bool {
        self.policy != Policy::FinishingTime
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy.name())?;
        if !self.is_baseline() {
            write!(f, ", {}", self.full_queue)?;
        }
        if self.overtake { f.write_str(", overtake") } else { Ok(()) }
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
        assert_eq!(rules.len(), Policy::ALL.len() + 1);
        assert_eq!(rules.iter().filter(|rule| !rule.is_baseline()).count(), 2);
        let mut names: Vec<String> = rules.iter().chain(&[Rule::OVERTAKE]).map(Rule::to_string).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rules.len() + 1);
    }
}
