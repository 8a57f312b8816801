//! What is held against what: the scheduler's own policy with its options, and the baselines.

use std::fmt;

use convoy_scheduler::{FullQueue, Policy};
use serde::{Serialize, Serializer};

/// A policy, with what goes with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Who gets a multi-packet.
    pub policy: Policy,
    /// What `finishing-time` does with a full queue; baselines have rules of their own.
    pub full_queue: FullQueue,
    /// Whether other SAs' packets may pass a multi-packet that waits.
    pub overtake: bool,
}

impl Rule {
    /// The default: the engine with the lowest finishing time is waited for.
    pub const WAIT: Self =
        Self { policy: Policy::FinishingTime, full_queue: FullQueue::Wait, overtake: false };
    /// The lowest finishing time among engines with room.
    pub const SKIP: Self = Self { full_queue: FullQueue::Skip, ..Self::WAIT };
    /// As [`WAIT`](Self::WAIT), and other SAs' packets pass the one that waits.
    pub const OVERTAKE: Self = Self { overtake: true, ..Self::WAIT };

    /// Both ways of the scheduler's own policy, and every baseline.
    pub fn compared() -> Vec<Self> {
        let baselines = Policy::ALL.into_iter().filter(|policy| *policy != Policy::FinishingTime);
        let baselines = baselines.map(|policy| Self { policy, ..Self::WAIT });
        [Self::WAIT, Self::SKIP].into_iter().chain(baselines).collect()
    }

    /// Whether it is something to hold the scheduler's own policy against.
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
