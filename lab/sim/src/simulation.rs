//! One run: a platform, the arrival times of packets, and the traffic.

use convoy_scheduler::{Heuristic, SchedulingPolicy};
use serde::{Deserialize, Serialize};

use crate::machine::{Machine, Observer};
use crate::platform::Platform;
use crate::report::Report;
use crate::traffic::{Arrivals, Pattern, PatternError, Synthetic, SyntheticSpec, Traffic, TrafficError};

/// One run's configuration. The same configuration and traffic always give the same [`Report`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    /// The platform that processes the packets.
    pub platform: Platform,
    /// When packets arrive.
    pub arrivals: Arrivals,
    /// Seed of random arrivals. [`run_pattern`](Self::run_pattern) uses it for the pattern as well.
    pub seed: u64,
    /// Number of packets after which the traffic ends; without it, all packets are run.
    pub packets: Option<u64>,
}

/// Why a run produced no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The platform is invalid. A platform read from a file was checked when it was read.
    #[error("platform: {0}")]
    Platform(String),
    /// The rate of arrivals is invalid.
    #[error("the rate must be a number above 0, not {0} packets a second")]
    Arrivals(String),
    /// A value of a search is out of range.
    #[error("{0}")]
    Search(String),
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
    pub fn set_policy(&mut self, policy: SchedulingPolicy) {
        self.platform.scheduler.policy = policy.name().to_owned();
        self.platform.scheduler.packet_size_threshold = None;
    }

    /// Runs `packets` packets of a pattern, generated from the run's seed.
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

    /// Runs the traffic to its end.
    ///
    /// # Errors
    /// [`SimulationError`] says what is out of range or cannot be read.
    pub fn run<T: Traffic>(&self, traffic: T) -> Result<Report, SimulationError> {
        self.run_observed(traffic, &mut ())
    }

    /// Runs the traffic to its end and reports every completed multi-packet to `observer`.
    ///
    /// # Errors
    /// [`SimulationError`] says what is out of range or cannot be read.
    pub fn run_observed<T: Traffic, O: Observer>(
        &self,
        traffic: T,
        observer: &mut O,
    ) -> Result<Report, SimulationError> {
        Ok(self.machine(traffic, observer)?.run(self)?)
    }

    /// Runs the traffic to its end with a heuristic in the place of the platform's policy. Packets
    /// that it never assigns are left in the window.
    ///
    /// # Errors
    /// [`SimulationError`] says what is out of range or cannot be read.
    pub fn run_with_heuristic<T: Traffic>(
        &self,
        traffic: T,
        heuristic: Box<dyn Heuristic>,
    ) -> Result<Report, SimulationError> {
        let mut observer = ();
        let mut machine = self.machine(traffic, &mut observer)?;
        machine.set_heuristic(heuristic);
        Ok(machine.run(self)?)
    }

    fn machine<'a, T: Traffic, O: Observer>(
        &self,
        traffic: T,
        observer: &'a mut O,
    ) -> Result<Machine<'a, T, O>, SimulationError> {
        if let Arrivals::Paced(rate) | Arrivals::Poisson(rate) | Arrivals::Bursty(rate) = self.arrivals
            && !(rate.is_finite() && rate > 0.0)
        {
            return Err(SimulationError::Arrivals(rate.to_string()));
        }
        self.platform.check().map_err(|problem| SimulationError::Platform(problem.to_string()))?;
        Machine::new(self, traffic, observer).map_err(SimulationError::Platform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heuristic_that_is_given_decides_as_the_rival_of_that_name() {
        let simulation = Simulation::new(Platform::open("pci-accelerators").expect("built in"));
        let traffic = || Synthetic::new(Pattern::Trace, &SyntheticSpec::default(), 1, 2_000).expect("good");
        let mut named = simulation.clone();
        named.platform.scheduler.policy = "overtake".to_owned();
        let given = (convoy_rivals::by_name("overtake").expect("a rival").make)();
        let report = simulation.run_with_heuristic(traffic(), given).expect("good");
        assert_eq!(report, named.run(traffic()).expect("good"));
        assert_ne!(report, simulation.run(traffic()).expect("good"));
    }
}
