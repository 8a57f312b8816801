//! The policies by name: the finishing time, and the baselines it is compared with.

use std::fmt;
use std::str::FromStr;

/// How the engine is chosen. Only engines that are available and support the algorithm are
/// considered; each policy treats full queues in its own way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The lowest `f = w + p` (equation 1); on a tie the fastest accelerator, then the next ones,
    /// then the CPU. [`FullQueue`](crate::FullQueue) decides if its queue is full.
    #[default]
    FinishingTime,
    /// Of all multi-packets in the window the one whose second lowest `f` exceeds its lowest by
    /// most (*sufferage*, Maheswaran et al. 1999), to its lowest; one that was passed by as many as
    /// [`ageing`](crate::SchedulerConfig::ageing) says goes next. `FullQueue` as above. See [the
    /// crate's page](crate#the-policy-sufferage).
    Sufferage,
    /// The CPU alone; other engines only if no available CPU supports the algorithm.
    CpuOnly,
    /// The engines with room in turns.
    RoundRobin,
    /// Multi-packets of fewer bytes to the CPU, others to an accelerator, like DPDK's cryptodev
    /// scheduler with two workers. If one kind is missing the other takes all.
    PacketSize(u32),
    /// The first capable accelerator in the order of the configuration, like the OpenBSD
    /// Cryptographic Framework; the CPU only if there is none.
    FirstCapable,
    /// The lowest `w` among engines with room, whatever the multi-packet itself costs.
    LeastLoaded,
}

/// The default threshold of `packet-size`, in bytes; DPDK's.
const PACKET_SIZE_DEFAULT: u32 = 128;

impl Policy {
    /// All policies, with the default threshold.
    pub const ALL: [Self; 7] = [
        Self::FinishingTime,
        Self::Sufferage,
        Self::CpuOnly,
        Self::RoundRobin,
        Self::PacketSize(PACKET_SIZE_DEFAULT),
        Self::FirstCapable,
        Self::LeastLoaded,
    ];

    /// The names of all policies, for messages.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Whether it chooses by finishing times, and is not a baseline.
    #[inline]
    pub const fn is_by_finishing_time(self) -> bool {
        matches!(self, Self::FinishingTime | Self::Sufferage)
    }

    /// The name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FinishingTime => "finishing-time",
            Self::Sufferage => "sufferage",
            Self::CpuOnly => "cpu-only",
            Self::RoundRobin => "round-robin",
            Self::PacketSize(_) => "packet-size",
            Self::FirstCapable => "first-capable",
            Self::LeastLoaded => "least-loaded",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An unknown policy name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy {0:?}; possible policies: {names}", names = Policy::names())]
pub struct PolicyError(pub String);

impl FromStr for Policy {
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
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert!("fastest".parse::<Policy>().is_err());
    }
}
