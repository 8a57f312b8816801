//! The policies by name: the finishing time, and the baselines that it is held against.

use std::fmt;
use std::str::FromStr;

/// How the engine is chosen. Only engines that are available and can do the algorithm are
/// considered; who has room matters as each policy says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The lowest `f = w + p` (equation 1); on a tie the fastest accelerator, then the next ones,
    /// then the CPU. [`FullQueue`](crate::FullQueue) says what it does where that one's queue is
    /// full.
    #[default]
    FinishingTime,
    /// The CPU alone; the others only where no CPU is available that can do the algorithm.
    CpuOnly,
    /// One after the other, of those that have room.
    RoundRobin,
    /// Multi-packets below so many bytes to the CPU, others to an accelerator, as DPDK's cryptodev
    /// scheduler has it for two workers. Where one kind is missing the other takes all.
    PacketSize(u32),
    /// The first capable accelerator, in the order of the configuration, as the OpenBSD
    /// Cryptographic Framework has it; the CPU only where there is none.
    FirstCapable,
    /// The lowest `w` among those that have room, whatever the multi-packet itself costs.
    LeastLoaded,
}

/// The threshold of `packet-size` where none is given, in bytes; DPDK's default.
const PACKET_SIZE_DEFAULT: u32 = 128;

impl Policy {
    /// All policies, with the default threshold.
    pub const ALL: [Self; 6] = [
        Self::FinishingTime,
        Self::CpuOnly,
        Self::RoundRobin,
        Self::PacketSize(PACKET_SIZE_DEFAULT),
        Self::FirstCapable,
        Self::LeastLoaded,
    ];

    /// The names of all policies, as a message lists them.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FinishingTime => "finishing-time",
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

/// A name that is no policy's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy {0:?}; one of {names}", names = Policy::names())]
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
