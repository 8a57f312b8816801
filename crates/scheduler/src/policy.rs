//! The policies by name.

use std::fmt;
use std::str::FromStr;

/// How the next multi-packet and its engine are chosen, by finishing times `f = w + p` (equation
/// 1). Only engines that are available and support the algorithm are considered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulingPolicy {
    /// The lowest `f`; on a tie the fastest accelerator, then the next ones, then the CPU.
    /// [`FullQueue`](crate::FullQueue) decides if its queue is full.
    #[default]
    FinishingTime,
    /// Of all multi-packets in the window the one whose second lowest `f` exceeds its lowest by
    /// most (*sufferage*, Maheswaran et al. 1999), to its lowest; one that was passed by as many as
    /// [`ageing`](crate::Research::ageing) says goes next. `FullQueue` as above. See [the crate's
    /// page](crate#the-policy-sufferage).
    Sufferage,
}

impl SchedulingPolicy {
    /// All policies.
    pub const ALL: [Self; 2] = [Self::FinishingTime, Self::Sufferage];

    /// The names of all policies, for messages.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FinishingTime => "finishing-time",
            Self::Sufferage => "sufferage",
        }
    }
}

impl fmt::Display for SchedulingPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An unknown policy name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy {0:?}; possible policies: {names}", names = SchedulingPolicy::names())]
pub struct PolicyError(pub String);

impl FromStr for SchedulingPolicy {
    type Err = PolicyError;

    fn from_str(name: &str) -> Result<Self, PolicyError> {
        let known = Self::ALL.into_iter().find(|policy| policy.name() == name);
        known.ok_or_else(|| PolicyError(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for policy in SchedulingPolicy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert!("fastest".parse::<SchedulingPolicy>().is_err());
    }
}
