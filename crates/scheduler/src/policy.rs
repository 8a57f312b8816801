//! Who gets a multi-packet: the finishing time, and the baselines that it is held against.

use std::fmt;
use std::str::FromStr;

use crate::engine::EngineState;
use crate::window::Group;

/// How the engine is chosen. Only engines that are available, can do the algorithm and have room are considered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The lowest `f = w + p` (equation 1); on a tie the fastest accelerator, then the next ones, then the CPU.
    #[default]
    FinishingTime,
    /// The CPU alone.
    CpuOnly,
    /// One after the other.
    RoundRobin,
    /// Multi-packets below so many bytes to the CPU, others to an accelerator, as DPDK's cryptodev scheduler has it
    /// for two workers. Where one kind is missing the other takes all.
    PacketSize(u32),
    /// The first capable accelerator, in the order of the configuration, as the OpenBSD Cryptographic Framework
    /// has it; the CPU only where there is none.
    FirstCapable,
    /// The lowest `w`, whatever the multi-packet itself costs.
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
#[error(
    "unknown policy {0:?}; one of finishing-time, cpu-only, round-robin, packet-size, first-capable, least-loaded"
)]
pub struct PolicyError(pub String);

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(name: &str) -> Result<Self, PolicyError> {
        let known = Self::ALL.into_iter().find(|policy| policy.name() == name);
        known.ok_or_else(|| PolicyError(name.to_owned()))
    }
}

/// A choice: the engine and the two parts of its finishing time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) engine: usize,
    pub(crate) wait: u64,
    pub(crate) processing: u64,
}

/// Chooses by the policy; `last` is the engine of the last choice. `None` if no engine has room.
pub(crate) fn choose(
    policy: Policy,
    engines: &[EngineState],
    group: &Group,
    now: u64,
    last: usize,
) -> Option<Choice> {
    let candidates = || {
        engines.iter().enumerate().filter_map(move |(engine, state)| {
            let processing = state.cost(group.algorithm, group.blocks).filter(|_| state.is_available)?;
            Some((Choice { engine, wait: state.wait(now), processing }, state))
        })
    };
    let with_room = || candidates().filter(|(_, state)| state.has_room());
    // Rule 3's tie: accelerators before the CPU, the faster first; then the order of the configuration.
    let rank = |(choice, state): &(Choice, &EngineState)| (state.is_cpu, choice.processing, choice.engine);
    let finish = |choice: &Choice| choice.wait + choice.processing;
    let lowest_finish = |is_wanted: &dyn Fn(&EngineState) -> bool| {
        with_room()
            .filter(|(_, state)| is_wanted(state))
            .min_by_key(|entry| (finish(&entry.0), rank(entry)))
            .map(|(choice, _)| choice)
    };
    match policy {
        Policy::FinishingTime => lowest_finish(&|_| true),
        Policy::CpuOnly => lowest_finish(&|state| state.is_cpu),
        Policy::RoundRobin => {
            let count = engines.len();
            with_room()
                .min_by_key(|(choice, _)| (choice.engine + count - last - 1) % count)
                .map(|(choice, _)| choice)
        }
        Policy::PacketSize(threshold) => {
            let wants_cpu = group.bytes < u64::from(threshold);
            let has_kind = |is_cpu: bool| candidates().any(|(_, state)| state.is_cpu == is_cpu);
            let is_cpu = wants_cpu && has_kind(true) || !has_kind(false);
            lowest_finish(&|state| state.is_cpu == is_cpu)
        }
        Policy::FirstCapable => {
            let first = candidates().min_by_key(|(choice, state)| (state.is_cpu, choice.engine));
            first.filter(|(_, state)| state.has_room()).map(|(choice, _)| choice)
        }
        Policy::LeastLoaded => {
            with_room().min_by_key(|entry| (entry.0.wait, rank(entry))).map(|(choice, _)| choice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{CostModel, EngineModel};

    fn engine(is_cpu: bool, t_init: f64, depth: usize) -> EngineState {
        let costs = vec![Some(CostModel { t_init, t_block: 1.0 })];
        EngineState::new(EngineModel { name: String::new(), is_cpu, depth, costs })
    }

    fn group(bytes: u64) -> Group {
        Group { sa: 0, algorithm: 0, packets: 1, blocks: bytes.div_ceil(16), bytes, is_closed: false }
    }

    fn chosen(policy: Policy, engines: &[EngineState], bytes: u64, last: usize) -> Option<usize> {
        choose(policy, engines, &group(bytes), 0, last).map(|choice| choice.engine)
    }

    #[test]
    fn names_are_read_back() {
        for policy in Policy::ALL {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        assert!("fastest".parse::<Policy>().is_err());
    }

    #[test]
    fn on_a_tie_the_fastest_accelerator_goes_before_the_cpu() {
        let mut engines = [engine(true, 10.0, 4), engine(false, 20.0, 4), engine(false, 10.0, 4)];
        assert_eq!(chosen(Policy::FinishingTime, &engines, 160, 0), Some(2));
        // Now 2 finishes at 40, 0 at 20.
        engines[2].enqueue(0, 1, 0, 20, 1, 160);
        assert_eq!(chosen(Policy::FinishingTime, &engines, 160, 0), Some(0));
        engines[0].enqueue(0, 2, 0, 10, 1, 160);
        // 0: 10 + 20, 1: 0 + 30: a tie, and 1 is an accelerator.
        assert_eq!(chosen(Policy::FinishingTime, &engines, 160, 0), Some(1));
    }

    #[test]
    fn each_baseline_has_its_own_mind() {
        let mut engines = [engine(true, 1.0, 0), engine(false, 500.0, 0), engine(false, 2.0, 0)];
        assert_eq!(chosen(Policy::CpuOnly, &engines, 16, 0), Some(0));
        assert_eq!(chosen(Policy::RoundRobin, &engines, 16, 0), Some(1));
        assert_eq!(chosen(Policy::RoundRobin, &engines, 16, 2), Some(0));
        assert_eq!(chosen(Policy::PacketSize(128), &engines, 64, 0), Some(0));
        assert_eq!(chosen(Policy::PacketSize(128), &engines, 200, 0), Some(2));
        assert_eq!(chosen(Policy::FirstCapable, &engines, 16, 0), Some(1));
        assert_eq!(chosen(Policy::LeastLoaded, &engines, 16, 0), Some(2));
        engines[1].enqueue(0, 1, 0, 1, 1, 16);
        // First-capable waits for its accelerator, which has no room.
        assert_eq!(chosen(Policy::FirstCapable, &engines, 16, 0), None);
        engines[1].is_available = false;
        assert_eq!(chosen(Policy::FirstCapable, &engines, 16, 0), Some(2));
    }

    #[test]
    fn with_no_room_anywhere_nobody_is_chosen() {
        let mut engines = [engine(true, 1.0, 0)];
        engines[0].enqueue(0, 1, 0, 1, 1, 16);
        for policy in Policy::ALL {
            assert_eq!(chosen(policy, &engines, 16, 0), None, "{policy}");
        }
    }
}
