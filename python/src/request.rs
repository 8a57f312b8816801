//! What is to be run, and how a run is ended early.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use convoy_scheduler::SchedulingPolicy;
use convoy_sim::{
    Arrivals, CaptureLength, Ndr, NdrSearch, PAPER_PACKETS, Packet, Platform, Report, Setting, Simulation,
    SimulationError, TraceFile, Traffic, TrafficError, by_destination,
};
use pyo3::prelude::*;

use crate::bad;
use crate::policy::{PythonPolicy, Raised};
use crate::traffic::PythonTraffic;

/// Packets of a pattern in each trial of a search unless a number is given, as `convoy-lab sim
/// ndr`.
const TRIAL_PACKETS: u64 = 200_000;

/// Where packets come from.
pub(crate) enum Source {
    /// The pattern of the setting.
    Pattern,
    Trace(PathBuf),
    /// Packets that Python gives.
    Given(Py<PyAny>),
}

/// A run and its traffic.
pub(crate) struct Request {
    simulation: Simulation,
    setting: Setting,
    source: Source,
    policy: Option<PythonPolicy>,
}

impl Request {
    /// Runs of `platform` with the changes of `setting`, and with `policy` in the place of the
    /// platform's, if there is one.
    pub(crate) fn new(
        platform: &Platform,
        setting: Setting,
        source: Source,
        policy: Option<PythonPolicy>,
    ) -> Result<Self, SimulationError> {
        let mut simulation = Simulation { packets: setting.packets, ..setting.simulation(platform)? };
        if policy.is_some() {
            simulation.set_policy(SchedulingPolicy::default());
        }
        Ok(Self { simulation, setting, source, policy })
    }

    /// When packets arrive, by name; `rate` is in packets a second.
    pub(crate) fn with_arrivals(mut self, name: &str, rate: Option<f64>) -> Result<Self, String> {
        self.simulation.arrivals = match (name, rate) {
            ("back-to-back", None) => Arrivals::BackToBack,
            ("captured", None) if matches!(self.source, Source::Pattern) => {
                return Err("arrivals \"captured\" need a trace; a pattern has no times".to_owned());
            }
            ("captured", None) => Arrivals::Captured,
            ("paced", Some(rate)) => Arrivals::Paced(rate),
            ("poisson", Some(rate)) => Arrivals::Poisson(rate),
            ("paced" | "poisson", None) => return Err(format!("arrivals {name:?} need a rate")),
            ("back-to-back" | "captured", Some(_)) => {
                return Err(format!("a rate is only for arrivals \"paced\" or \"poisson\", not {name:?}"));
            }
            _ => {
                return Err(format!(
                    "unknown arrivals {name:?}; possible arrivals: back-to-back, paced, poisson, captured"
                ));
            }
        };
        Ok(self)
    }

    /// Runs it to its end, or until `go_on`, which is asked several times a second, gives a reason
    /// not to.
    pub(crate) fn run(&self, go_on: impl FnMut() -> PyResult<()>) -> Result<Report, Ended> {
        let simulation = &self.simulation;
        let Source::Given(given) = &self.source else {
            return self.run_with(simulation.arrivals, PAPER_PACKETS, go_on);
        };
        let needs_gaps = simulation.arrivals == Arrivals::Captured;
        let mut traffic = Python::attach(|py| PythonTraffic::new(given.bind(py), needs_gaps))?;
        let report = self.run_over(simulation, &mut traffic, go_on);
        traffic.take_error().map_or(report, |error| Err(Ended::Stopped(error)))
    }

    /// Searches for the highest rate without loss, with trials that differ from this run only in
    /// their arrivals. Asks `go_on` as [`run`](Self::run) does.
    pub(crate) fn ndr(
        &self,
        search: &NdrSearch,
        mut go_on: impl FnMut() -> PyResult<()>,
    ) -> Result<Ndr, Ended> {
        let packets = self.given_packets()?;
        search.run_trials(&self.simulation.platform, |arrivals| {
            // A short trial ends before it asks.
            go_on()?;
            match &packets {
                Some(packets) => {
                    let simulation = Simulation { arrivals, ..self.simulation.clone() };
                    self.run_over(&simulation, packets.clone().into_iter(), &mut go_on)
                }
                None => self.run_with(arrivals, TRIAL_PACKETS, &mut go_on),
            }
        })
    }

    /// The packets that Python gives, which every trial needs and an iterator has only once.
    fn given_packets(&self) -> PyResult<Option<Vec<Packet>>> {
        let Source::Given(given) = &self.source else { return Ok(None) };
        let most = self.simulation.packets.unwrap_or(u64::MAX);
        Python::attach(|py| PythonTraffic::new(given.bind(py), false)?.collect(py, most)).map(Some)
    }

    /// Runs a pattern or a trace.
    fn run_with(
        &self,
        arrivals: Arrivals,
        pattern_packets: u64,
        go_on: impl FnMut() -> PyResult<()>,
    ) -> Result<Report, Ended> {
        let simulation = Simulation { arrivals, ..self.simulation.clone() };
        if let Source::Trace(path) = &self.source {
            let traffic = TraceFile::open(path, CaptureLength::default(), by_destination());
            return self.run_over(&simulation, traffic.map_err(SimulationError::from)?, go_on);
        }
        let packets = Some(simulation.packets.unwrap_or(pattern_packets));
        self.run_over(&simulation, Setting { packets, ..self.setting.clone() }.traffic()?, go_on)
    }

    fn run_over<T: Traffic>(
        &self,
        simulation: &Simulation,
        traffic: T,
        mut go_on: impl FnMut() -> PyResult<()>,
    ) -> Result<Report, Ended> {
        let called = self.policy.as_ref().map(|policy| Python::attach(|py| policy.heuristic(py)));
        let (heuristic, raised) = called.unzip();
        let raised = || raised.as_ref().and_then(Raised::take).map_or(Ok(()), Err);
        let go_on = || raised().and_then(|()| go_on());
        let mut watched = Watched { traffic, go_on, asked: Instant::now(), stopped: None };
        let report = match heuristic {
            Some(heuristic) => simulation.run_with_heuristic(&mut watched, heuristic),
            None => simulation.run(&mut watched),
        };
        watched.stopped.map_or(Ok(()), Err)?;
        raised()?;
        let report = report?;
        let left = report.offered.packets - report.dropped.packets - report.packets_out;
        if left > 0 {
            return Err(Ended::Stopped(bad(format!(
                "policy left {left} packets: it returned None at the end"
            ))));
        }
        Ok(report)
    }
}

/// Why there is no report.
pub(crate) enum Ended {
    /// Something is out of range or cannot be read.
    Failed(SimulationError),
    /// Python raised an exception.
    Stopped(PyErr),
}

impl From<SimulationError> for Ended {
    fn from(error: SimulationError) -> Self {
        Self::Failed(error)
    }
}

impl From<PyErr> for Ended {
    fn from(error: PyErr) -> Self {
        Self::Stopped(error)
    }
}

/// How often is asked whether to go on.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// Traffic that ends as soon as there is a reason to.
struct Watched<T, F> {
    traffic: T,
    go_on: F,
    asked: Instant,
    stopped: Option<PyErr>,
}

impl<T: Traffic, F: FnMut() -> PyResult<()>> Traffic for Watched<T, F> {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        let mut packets = Vec::with_capacity(1);
        self.fill(&mut packets, 1)?;
        Ok(packets.pop())
    }

    /// The simulator takes some hundred packets at a time: often enough to ask, and seldom enough
    /// to read a clock.
    fn fill(&mut self, packets: &mut Vec<Packet>, most: usize) -> Result<(), TrafficError> {
        if self.stopped.is_none() && self.asked.elapsed() >= ASKED_EVERY {
            self.stopped = (self.go_on)().err();
            self.asked = Instant::now();
        }
        if self.stopped.is_some() { Ok(()) } else { self.traffic.fill(packets, most) }
    }
}
