//! Search for the highest rate at which a platform loses no packets, or at most a given share (RFC
//! 2544, section 26.1), by bisection.

use serde::{Deserialize, Serialize};

use crate::platform::Platform;
use crate::report::{Load, Report};
use crate::setting::Setting;
use crate::simulation::SimulationError;
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

/// Bounds of the rate: the highest that passed and the lowest that failed. The first guess is the
/// rate that the overloaded platform carried. The search then moves outwards in growing steps until
/// both bounds are known, and from there on halves the interval between them.
struct Bracket {
    low: f64,
    high: f64,
    line: f64,
    guess: f64,
    step: f64,
}

/// Fraction of the line rate below which the search gives up.
const LEAST_PART: f64 = 1e-12;

impl Bracket {
    fn new(line: f64, guess: f64) -> Self {
        Self { low: 0.0, high: line, line, guess, step: 0.01 }
    }

    /// The rate to try next, or `None` once the bounds are within the resolution.
    fn next(&self, resolution: f64) -> Option<f64> {
        let is_done = self.high - self.low <= resolution * self.high || self.high < self.line * LEAST_PART;
        let is_between = self.guess > self.low && self.guess < self.high;
        (!is_done).then_some(if is_between { self.guess } else { (self.low + self.high) / 2.0 })
    }

    fn narrow(&mut self, rate: f64, is_good: bool) {
        if is_good {
            self.low = rate
        } else {
            self.high = rate
        }
        self.step *= 2.0;
        self.guess = if self.low == 0.0 {
            rate * (1.0 - self.step).max(0.5)
        } else if self.high == self.line {
            rate * (1.0 + self.step)
        } else {
            (self.low + self.high) / 2.0
        };
    }
}

impl NdrSearch {
    /// Runs the search. All trials use the same traffic from its start and differ only in their
    /// rate.
    ///
    /// # Errors
    /// [`SimulationError`] if the platform has no ingress queue, since without one no packet is
    /// ever lost, or if a value is out of range.
    pub fn run(&self, base: &Platform, setting: &Setting) -> Result<Ndr, SimulationError> {
        self.check()?;
        if !setting.platform(base)?.source.is_lossy() {
            let what = format!(
                "{} loses no packets, because its source waits; give it an ingress queue with queue_packets in \
                 [source] or --queue-packets",
                base.name
            );
            return Err(SimulationError::Platform(what));
        }
        let mut trials = Vec::new();
        let mut trial = |arrivals| -> Result<(bool, Report), SimulationError> {
            let mut simulation = setting.simulation(base)?;
            simulation.arrivals = arrivals;
            let report = simulation.run(setting.traffic()?)?;
            let is_good = report.dropped.packets as f64 <= self.loss_ratio * report.offered.packets as f64;
            let dropped_packets = report.dropped.packets;
            trials.push(Trial { offered: report.offered, dropped_packets, is_good });
            Ok((is_good, report))
        };
        let (is_good, at_line) = trial(Arrivals::BackToBack)?;
        let line = at_line.offered;
        let mut best = is_good.then(|| at_line.clone());
        let mut bracket = Bracket::new(line.pps, at_line.carried.pps);
        let mut last = at_line;
        while best.as_ref().is_none_or(|best| best.offered != line)
            && let Some(rate) = bracket.next(self.resolution)
        {
            let (is_good, report) =
                trial(if self.is_poisson { Arrivals::Poisson(rate) } else { Arrivals::Paced(rate) })?;
            bracket.narrow(rate, is_good);
            if is_good {
                best = Some(report);
            } else {
                last = report;
            }
        }
        let throughput = best.as_ref().map_or(Load::default(), |best| best.offered);
        Ok(Ndr { throughput, line, trials, report: best.unwrap_or(last) })
    }

    fn check(&self) -> Result<(), SimulationError> {
        let is_share = |value: f64| (0.0..1.0).contains(&value);
        if !is_share(self.loss_ratio) {
            let what = format!("the loss ratio must be at least 0 and below 1, not {}", self.loss_ratio);
            return Err(SimulationError::Platform(what));
        }
        if !is_share(self.resolution) || self.resolution < 1e-9 {
            let what =
                format!("the resolution must be above 0 and below 1, such as 0.001, not {}", self.resolution);
            return Err(SimulationError::Platform(what));
        }
        Ok(())
    }
}
