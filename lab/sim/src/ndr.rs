//! Search for the highest rate at which a platform loses no packets, or at most a given share (RFC
//! 2544, section 26.1).

use serde::{Deserialize, Serialize};

use crate::platform::Platform;
use crate::rate_search::{Bracket, check_limits};
use crate::report::{Load, Report};
use crate::setting::Setting;
use crate::simulation::{Simulation, SimulationError};
use crate::traffic::Arrivals;

/// Parameters of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NdrSearch {
    /// Largest permitted share of lost packets; 0 gives the throughput of RFC 2544.
    pub loss_ratio: f64,
    /// Relative resolution of the search: the largest relative difference between the result and
    /// the lowest rate known to fail.
    pub resolution: f64,
    /// Whether packets arrive as a Poisson process rather than evenly spaced.
    pub is_poisson: bool,
}

impl Default for NdrSearch {
    fn default() -> Self {
        Self { loss_ratio: 0.0, resolution: 0.001, is_poisson: false }
    }
}

/// One trial of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The offered load, measured over the time of arrivals.
    pub offered: Load,
    /// Number of dropped packets.
    pub dropped_packets: u64,
    /// Whether the loss is within the permitted share.
    pub is_good: bool,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ndr {
    /// The highest offered load that passed; zero if no rate passed.
    pub throughput: Load,
    /// The load when packets arrive back to back at the line rate.
    pub line: Load,
    /// All trials, in order; the first is at the line rate.
    pub trials: Vec<Trial>,
    /// The report of the run at that load, or at the lowest rate tried if no rate passed.
    pub report: Report,
}

impl NdrSearch {
    /// Runs the search. All trials use the same traffic from its start and differ only in their
    /// rate.
    ///
    /// # Errors
    /// [`SimulationError`] if the platform has no ingress queue, since without one no packet is
    /// ever lost, or if a value is out of range.
    pub fn run(&self, base: &Platform, setting: &Setting) -> Result<Ndr, SimulationError> {
        let simulation = setting.simulation(base)?;
        self.run_trials(&simulation.platform, |arrivals| {
            Simulation { arrivals, ..simulation.clone() }.run(setting.traffic()?)
        })
    }

    /// Runs the search over trials of the caller's, each a run of the platform with these arrivals.
    ///
    /// # Errors
    /// As for [`run`](Self::run), and any error of `trial`.
    pub fn run_trials<E: From<SimulationError>>(
        &self,
        platform: &Platform,
        mut trial: impl FnMut(Arrivals) -> Result<Report, E>,
    ) -> Result<Ndr, E> {
        check_limits(self.loss_ratio, self.resolution)?;
        if !platform.source.is_lossy() {
            let what = format!(
                "{} loses no packets, because its source waits; give it an ingress queue with queue_packets in \
                 [source] or --queue-packets",
                platform.name
            );
            return Err(SimulationError::Platform(what).into());
        }
        let mut trials = Vec::new();
        let mut offer = |arrivals| -> Result<(bool, Report), E> {
            let report = trial(arrivals)?;
            let is_good = report.dropped.packets as f64 <= self.loss_ratio * report.offered.packets as f64;
            let dropped_packets = report.dropped.packets;
            trials.push(Trial { offered: report.offered, dropped_packets, is_good });
            Ok((is_good, report))
        };
        let (is_good, at_line) = offer(Arrivals::BackToBack)?;
        let line = at_line.offered;
        if is_good {
            return Ok(Ndr { throughput: line, line, trials, report: at_line });
        }
        let mut bracket = Bracket::new(line.pps, at_line.carried.pps, 0.0);
        let (mut best, mut last) = (None, at_line);
        bracket.narrow_to(self.resolution, |rate| {
            let (is_good, report) =
                offer(if self.is_poisson { Arrivals::Poisson(rate) } else { Arrivals::Paced(rate) })?;
            if is_good {
                best = Some(report);
            } else {
                last = report;
            }
            Ok::<_, E>(is_good)
        })?;
        let throughput = best.as_ref().map_or(Load::default(), |best| best.offered);
        Ok(Ndr { throughput, line, trials, report: best.unwrap_or(last) })
    }
}
