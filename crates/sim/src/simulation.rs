//! One run: a platform, when packets arrive, and the traffic.

use convoy_scheduler::Policy;
use serde::{Deserialize, Serialize};

use crate::machine::{Machine, Observer};
use crate::platform::Platform;
use crate::report::Report;
use crate::traffic::{Arrivals, Pattern, PatternError, Synthetic, SyntheticSpec, Traffic, TrafficError};

/// One run's configuration. The same configuration and traffic always give the same [`Report`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    /// What packets go through.
    pub platform: Platform,
    /// When they arrive.
    pub arrivals: Arrivals,
    /// Seed of random arrivals; patterns have their own, the same by
    /// [`run_pattern`](Self::run_pattern).
    pub seed: u64,
    /// Packets after which the traffic is cut off, if it is.
    pub packets: Option<u64>,
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The platform makes no sense; what was read from a file has been checked before.
    #[error("platform: {0}")]
    Platform(String),
    /// Arrivals make no sense.
    #[error("{0} packets a second; it must be a number above 0")]
    Arrivals(String),
    /// A pattern's name is unknown.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The trace cannot be read.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
}

impl Simulation {
    /// Back-to-back arrivals of all packets, with seed 1.
    pub fn new(platform: Platform) -> Self {
        Self { platform, arrivals: Arrivals::BackToBack, seed: 1, packets: None }
    }

    /// Sets the scheduler's policy.
    pub fn set_policy(&mut self, policy: Policy) {
        self.platform.scheduler.policy = policy.name().to_owned();
        self.platform.scheduler.packet_size_threshold = match policy {
            Policy::PacketSize(bytes) => Some(bytes),
            _ => None,
        };
    }

    /// Runs `packets` packets of a pattern, whose seed is the run's.
    ///
    /// # Errors
    /// [`SimulationError`] says what is out of range.
    pub fn run_pattern(
        &self,
        pattern: Pattern,
        spec: &SyntheticSpec,
        packets: u64,
    ) -> Result<Report, SimulationError> {
        self.run(Synthetic::new(pattern, spec, self.seed, packets)?)
    }

    /// Runs some traffic to its end.
    ///
    /// # Errors
    /// [`SimulationError`] says what is out of range or cannot be read.
    pub fn run<T: Traffic>(&self, traffic: T) -> Result<Report, SimulationError> {
        self.run_observed(traffic, &mut ())
    }

    /// The same, and tells `observer` of every multi-packet that is done.
    ///
    /// # Errors
    /// [`SimulationError`] says what is out of range or cannot be read.
    pub fn run_observed<T: Traffic, O: Observer>(
        &self,
        traffic: T,
        observer: &mut O,
    ) -> Result<Report, SimulationError> {
        if let Arrivals::Paced(rate) | Arrivals::Poisson(rate) = self.arrivals
            && !(rate.is_finite() && rate > 0.0)
        {
            return Err(SimulationError::Arrivals(rate.to_string()));
        }
        self.platform.check().map_err(|problem| SimulationError::Platform(problem.to_string()))?;
        let machine = Machine::new(self, traffic, observer).map_err(SimulationError::Platform)?;
        Ok(machine.run(self)?)
    }
}
