//! One point of an experiment: the changes to a platform, and its traffic.

use std::fmt::Display;
use std::str::FromStr;

use convoy_scheduler::{DepthUnit, FullQueue};
use serde::{Deserialize, Serialize};

use crate::machine::Observer;
use crate::platform::{Platform, ProcessorKind};
use crate::report::Report;
use crate::simulation::{Simulation, SimulationError};
use crate::traffic::{Pattern, Synthetic, SyntheticSpec};

/// Default number of packets of a pattern.
pub const PAPER_PACKETS: u64 = 500_000;

/// The changes; `None` keeps the value of the platform or of the paper. The names are those of the
/// command line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setting {
    /// Variants of the platform, separated by `+`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Name of a [`Pattern`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Number of packets of the pattern; by default 500,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Seed of sizes, SAs and random arrivals; by default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Number of SAs; by default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sas: Option<u32>,
    /// Exponent of Zipf's law for the popularity of SAs; by default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub popularity: Option<f64>,
    /// Probability that a packet has the same SA as the one before; the default is that of
    /// [`SyntheticSpec::paper`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locality: Option<f64>,
    /// `W`, in packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    /// Number of accelerators of the first kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accelerators: Option<usize>,
    /// The CPU's `T_init_ratio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_ratio: Option<f64>,
    /// The CPU's `T_enc_ratio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enc_ratio: Option<f64>,
    /// Depth of each processor's queue, in `depth_unit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
    /// The reference accelerator's `t_init`, in us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_init_us: Option<f64>,
    /// Name of the scheduler's policy, or of a rival from the literature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What a policy by finishing times or a rival does if the best processor's queue is full:
    /// `wait` or `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_queue: Option<String>,
    /// Unit of the depth: `multi-packets`, `packets` or `bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth_unit: Option<String>,
    /// How many others may pass a multi-packet of the window, under policy `sufferage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ageing: Option<usize>,
    /// The most multi-packets that a processor holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credits: Option<usize>,
    /// The most packets that all processors hold together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<usize>,
    /// How often a multi-packet crosses the bus of an accelerator: 2 (in and out) or 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<u32>,
    /// Whether the scheduler expects the time of these transfers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicts_transfers: Option<bool>,
    /// Number of bytes that closes a multi-packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte_limit: Option<u32>,
    /// Number of bytes that fills the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    /// Path MTU in bytes for aggregation: the packets of a multi-packet share outer packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregation: Option<u32>,
    /// Number of traffic classes in use; by default one for each share or weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<usize>,
    /// Weight of each class, highest class first; without weights, classes have strict priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<Vec<u32>>,
    /// The share of SAs in each class, highest class first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_shares: Option<Vec<f64>>,
    /// The most multi-packets of a class and those below it at a processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_credits: Option<usize>,
    /// Time after which the window is closed, in us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wait_us: Option<f64>,
    /// Whether accelerators on a bus prefetch (docs/lab/simulator.md: rule 5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<bool>,
    /// Whether accelerators on a bus have a write buffer (docs/lab/simulator.md: rule 5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_buffer: Option<bool>,
    /// Rate of the source's line, in Mbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// Capacity of the ingress queue in packets; with it the source does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<usize>,
    /// Capacity of the ingress queue in bytes; with it the source does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<u64>,
}

impl Setting {
    /// The platform with the changes applied.
    ///
    /// # Errors
    /// [`SimulationError::Platform`] says which value is out of range.
    pub fn platform(&self, base: &Platform) -> Result<Platform, SimulationError> {
        let mut platform = match &self.variant {
            Some(names) => base.with_variants(names).map_err(SimulationError::Platform)?,
            None => base.clone(),
        };
        if let Some(count) = self.accelerators {
            let has = |kind| platform.processors.iter().any(|processor| processor.kind == kind);
            if count > 0 && !has(ProcessorKind::Accelerator) {
                let what = format!("{} has no accelerator, so their number cannot be {count}", platform.name);
                return Err(SimulationError::Platform(what));
            }
            platform.set_accelerators(count);
        }
        self.init_ratio.inspect(|ratio| platform.set_init_ratio(*ratio));
        self.enc_ratio.inspect(|ratio| platform.set_enc_ratio(*ratio));
        self.depth.inspect(|depth| platform.set_depth(*depth));
        platform.reference.t_init_us = self.t_init_us.unwrap_or(platform.reference.t_init_us);
        platform.source.rate_mbps = self.rate_mbps.unwrap_or(platform.source.rate_mbps);
        platform.source.queue_packets = self.queue_packets.or(platform.source.queue_packets);
        platform.source.queue_bytes = self.queue_bytes.or(platform.source.queue_bytes);
        platform.scheduler.window = self.window.unwrap_or(platform.scheduler.window);
        platform.scheduler.byte_limit = self.byte_limit.or(platform.scheduler.byte_limit);
        platform.scheduler.window_bytes = self.window_bytes.or(platform.scheduler.window_bytes);
        platform.scheduler.aggregation = self.aggregation.or(platform.scheduler.aggregation);
        platform.scheduler.max_wait_us = self.max_wait_us.unwrap_or(platform.scheduler.max_wait_us);
        for processor in platform.processors.iter_mut().filter(|processor| processor.bus.is_some()) {
            processor.transfers = self.transfers.unwrap_or(processor.transfers);
            processor.prefetch = self.prefetch.unwrap_or(processor.prefetch);
            processor.write_buffer = self.write_buffer.unwrap_or(processor.write_buffer);
        }
        if let Some(name) = &self.policy {
            crate::policy::named(name).map_err(SimulationError::Platform)?;
            // It is the other policy's.
            platform.scheduler.packet_size_threshold.take_if(|_| platform.scheduler.policy != *name);
            platform.scheduler.policy.clone_from(name);
        }
        if let Some(name) = &self.full_queue {
            platform.scheduler.full_queue = known::<FullQueue>(name)?.name().to_owned();
        }
        if let Some(name) = &self.depth_unit {
            platform.scheduler.depth_unit = known::<DepthUnit>(name)?.name().to_owned();
        }
        platform.scheduler.ageing = self.ageing.or(platform.scheduler.ageing);
        platform.scheduler.credits = self.credits.or(platform.scheduler.credits);
        platform.scheduler.class_credits = self.class_credits.or(platform.scheduler.class_credits);
        if self.weights.is_some() {
            platform.scheduler.weights.clone_from(&self.weights);
        }
        let shares = self.class_shares.as_ref().map(Vec::len);
        let classes = self.classes.or(self.weights.as_ref().map(Vec::len)).or(shares);
        platform.scheduler.classes = classes.unwrap_or(platform.scheduler.classes);
        platform.scheduler.pool = self.pool.or(platform.scheduler.pool);
        platform.scheduler.predicts_transfers =
            self.predicts_transfers.unwrap_or(platform.scheduler.predicts_transfers);
        platform.check().map_err(|problem| SimulationError::Platform(problem.to_string()))?;
        Ok(platform)
    }

    /// The simulation on this platform, without the traffic.
    ///
    /// # Errors
    /// As for [`platform`](Self::platform).
    pub fn simulation(&self, base: &Platform) -> Result<Simulation, SimulationError> {
        let mut simulation = Simulation::new(self.platform(base)?);
        simulation.seed = self.seed.unwrap_or(simulation.seed);
        Ok(simulation)
    }

    /// The synthetic traffic; by default the trace of the paper.
    ///
    /// # Errors
    /// [`SimulationError::Traffic`] says which parameter is out of range.
    pub fn traffic(&self) -> Result<Synthetic, SimulationError> {
        let pattern = match &self.pattern {
            Some(name) => name.parse().map_err(SimulationError::Pattern)?,
            None => Pattern::Trace,
        };
        let paper = SyntheticSpec::paper(pattern);
        let spec = SyntheticSpec {
            sas: self.sas.unwrap_or(paper.sas),
            popularity: self.popularity.unwrap_or(paper.popularity),
            locality: self.locality.unwrap_or(paper.locality),
            class_shares: self.class_shares.clone().unwrap_or(paper.class_shares),
        };
        let packets = self.packets.unwrap_or(PAPER_PACKETS);
        Ok(Synthetic::new(pattern, &spec, self.seed.unwrap_or(1), packets)?)
    }

    /// Runs the simulation.
    ///
    /// # Errors
    /// [`SimulationError`] says what is out of range.
    pub fn run(&self, base: &Platform) -> Result<Report, SimulationError> {
        self.run_observed(base, &mut ())
    }

    /// Runs the simulation and reports every completed multi-packet to `observer`.
    ///
    /// # Errors
    /// [`SimulationError`] says what is out of range.
    pub fn run_observed<O: Observer>(
        &self,
        base: &Platform,
        observer: &mut O,
    ) -> Result<Report, SimulationError> {
        self.simulation(base)?.run_observed(self.traffic()?, observer)
    }
}

/// Parses a name.
fn known<T: FromStr<Err: Display>>(name: &str) -> Result<T, SimulationError> {
    name.parse().map_err(|error| SimulationError::Platform(format!("{error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper() -> Platform {
        Platform::open("pci-accelerators").expect("it comes with the program")
    }

    #[test]
    fn what_is_not_set_stays_as_the_platform_has_it() {
        assert_eq!(Setting::default().platform(&paper()).expect("good"), paper());
        let setting = Setting { window: Some(1), t_init_us: Some(5.0), depth: Some(3), ..Setting::default() };
        let changed = setting.platform(&paper()).expect("good");
        assert_eq!((changed.scheduler.window, changed.reference.t_init_us), (1, 5.0));
        assert!(changed.processors.iter().all(|processor| processor.depth == 3));
    }

    #[test]
    fn another_policy_drops_the_threshold_of_packet_size() {
        let mut base = paper();
        base.scheduler.policy = "packet-size".to_owned();
        base.scheduler.packet_size_threshold = Some(600);
        for (name, threshold) in [("packet-size", Some(600)), ("sufferage", None)] {
            let setting = Setting { policy: Some(name.to_owned()), ..Setting::default() };
            assert_eq!(setting.platform(&base).expect("good").scheduler.packet_size_threshold, threshold);
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused_by_name() {
        for (setting, what) in [
            (Setting { policy: Some("fastest".into()), ..Setting::default() }, "finishing-time"),
            (Setting { full_queue: Some("drop".into()), ..Setting::default() }, "wait, skip"),
            (Setting { depth_unit: Some("blocks".into()), ..Setting::default() }, "multi-packets, packets"),
            (Setting { pattern: Some("pareto".into()), ..Setting::default() }, "exponential"),
            (Setting { window: Some(0), ..Setting::default() }, "window"),
            (Setting { aggregation: Some(67), ..Setting::default() }, "68 to 65535"),
            (Setting { pool: Some(0), ..Setting::default() }, "pool"),
            (Setting { transfers: Some(3), ..Setting::default() }, "1 or 2 times"),
            (Setting { t_init_us: Some(-1.0), ..Setting::default() }, "t_init_us"),
            (Setting { locality: Some(1.5), packets: Some(1), ..Setting::default() }, "locality"),
        ] {
            let error = setting.run(&paper()).expect_err("out of range").to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
