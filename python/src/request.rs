//! What is to be run, free of Python.

use std::path::PathBuf;

use convoy_scheduler::Policy;
use convoy_sim::{
    Arrivals, CaptureLength, Pattern, Platform, Report, Simulation, SimulationError, SyntheticSpec,
    TraceFile, by_destination,
};

/// Packets of a pattern where nobody says how many, as in the paper.
const PATTERN_PACKETS: u64 = 500_000;

/// Where packets come from.
pub(crate) enum Source {
    Pattern(Pattern, SyntheticSpec),
    Trace(PathBuf),
}

impl Source {
    /// A pattern by its name; what is not given is the paper's.
    pub(crate) fn pattern(
        name: &str,
        sas: Option<u32>,
        popularity: Option<f64>,
        locality: Option<f64>,
    ) -> Result<Self, String> {
        let pattern: Pattern = name.parse().map_err(|error| format!("{error}"))?;
        let paper = SyntheticSpec::paper(pattern);
        let spec = SyntheticSpec {
            sas: sas.unwrap_or(paper.sas),
            popularity: popularity.unwrap_or(paper.popularity),
            locality: locality.unwrap_or(paper.locality),
            ..paper
        };
        Ok(Self::Pattern(pattern, spec))
    }
}

/// A run and its traffic.
pub(crate) struct Request {
    simulation: Simulation,
    source: Source,
}

impl Request {
    pub(crate) fn new(platform: Platform, source: Source, packets: Option<u64>, seed: u64) -> Self {
        Self { simulation: Simulation { seed, packets, ..Simulation::new(platform) }, source }
    }

    /// When packets arrive, by name; `rate` is in packets a second.
    pub(crate) fn with_arrivals(mut self, name: &str, rate: Option<f64>) -> Result<Self, String> {
        self.simulation.arrivals = match (name, rate) {
            ("back-to-back", None) => Arrivals::BackToBack,
            ("captured", None) if matches!(self.source, Source::Pattern(..)) => {
                return Err("arrivals \"captured\" are a trace's; a pattern has no times".to_owned());
            }
            ("captured", None) => Arrivals::Captured,
            ("paced", Some(rate)) => Arrivals::Paced(rate),
            ("poisson", Some(rate)) => Arrivals::Poisson(rate),
            ("paced" | "poisson", None) => return Err(format!("arrivals {name:?} need a rate")),
            ("back-to-back" | "captured", Some(_)) => {
                return Err(format!("a rate is for arrivals \"paced\" or \"poisson\", not {name:?}"));
            }
            _ => {
                return Err(format!(
                    "unknown arrivals {name:?}; one of back-to-back, paced, poisson, captured"
                ));
            }
        };
        Ok(self)
    }

    /// A policy by name instead of the platform's, if one is given.
    pub(crate) fn with_policy(mut self, name: Option<&str>) -> Result<Self, String> {
        if let Some(name) = name {
            let policy: Policy = name.parse().map_err(|error| format!("{error}"))?;
            self.simulation.set_policy(policy);
        }
        Ok(self)
    }

    pub(crate) fn run(&self) -> Result<Report, SimulationError> {
        match &self.source {
            Source::Pattern(pattern, spec) => {
                let packets = self.simulation.packets.unwrap_or(PATTERN_PACKETS);
                self.simulation.run_pattern(*pattern, spec, packets)
            }
            Source::Trace(path) => {
                let trace = TraceFile::open(path, CaptureLength::default(), by_destination())?;
                self.simulation.run(trace)
            }
        }
    }
}
