//! The description of a platform, read from a TOML file as in `platforms/` or built in code.

mod algorithm;
mod cache;
mod check;
mod deviation;
mod read;
mod scheduler;
mod source;
mod stage;
mod variant;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub(crate) use algorithm::AlgorithmsOfSas;
pub use algorithm::{AlgorithmRatios, AlgorithmSpec, SupportedAlgorithms};
pub use cache::SaCacheSpec;
/// All errors of a platform's file, each with line, column and key.
pub use convoy_settings::ConfigErrors as PlatformError;
pub use deviation::DeviationSpec;
pub use scheduler::SchedulerSpec;
pub use source::SourceSpec;
pub use stage::{CoresSpec, StagePosition, StageSpec};
pub use variant::Variants;

/// A platform: a source, a scheduler, processors, buses, and stages before and after cryptography.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Its name, for reports.
    pub name: String,
    /// The source of packets.
    #[serde(default)]
    pub source: SourceSpec,
    /// Window and policy.
    #[serde(default)]
    pub scheduler: SchedulerSpec,
    /// The accelerator to which the ratios of processors refer.
    pub reference: Reference,
    /// Shared buses.
    #[serde(default, rename = "bus")]
    pub buses: Vec<BusSpec>,
    /// The algorithms that SAs use; without any, all SAs use one, which all processors support.
    #[serde(default, rename = "algorithm", skip_serializing_if = "Vec::is_empty")]
    pub algorithms: Vec<AlgorithmSpec>,
    /// Processors of multi-packets; on a tie, those of kind `cpu` lose
    /// (docs/lab/simulator.md: rule 3).
    #[serde(rename = "processor")]
    pub processors: Vec<ProcessorSpec>,
    /// Cores that serve only stages.
    #[serde(default)]
    pub cores: Vec<CoresSpec>,
    /// Steps of each packet before and after cryptography, in order.
    #[serde(default, rename = "stage")]
    pub stages: Vec<StageSpec>,
    /// Named sets of changes to this platform.
    #[serde(default, rename = "variant")]
    pub variants: Variants,
}

/// The reference accelerator (equation 6).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// `t_init`, in us.
    pub t_init_us: f64,
    /// Rate at which it processes blocks, in Mbit/s: `t_block` is 128 bit divided by this rate.
    pub block_mbps: f64,
}

/// A bus: one transfer at a time, in order of request (docs/lab/simulator.md: rule 4).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BusSpec {
    /// Its unique name.
    pub name: String,
    /// Clock in MHz; `t_cycle` is its inverse.
    pub clock_mhz: f64,
    /// `c_address`: number of cycles of each transfer that carry no data.
    #[serde(default)]
    pub address_cycles: u32,
    /// Bytes that are transferred in each cycle.
    pub width_bytes: u32,
    /// Bytes transferred in each direction for each packet of a multi-packet but not processed,
    /// such as commands, descriptors and status.
    #[serde(default)]
    pub packet_bytes: u32,
}

/// Kind of a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessorKind {
    /// The processor on which the scheduler runs.
    Cpu,
    /// Any other processor.
    #[default]
    Accelerator,
}

/// A processor of multi-packets, or several identical ones.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorSpec {
    /// Its unique name. Several identical processors are numbered in reports.
    pub name: String,
    /// Kind of a processor.
    #[serde(default)]
    pub kind: ProcessorKind,
    /// Number of identical processors; with 0 the entry is left out.
    #[serde(default = "one")]
    pub count: usize,
    /// The bus over which multi-packets are transferred; without one, transfers take no time.
    #[serde(default)]
    pub bus: Option<String>,
    /// How often a multi-packet crosses the bus: twice, in and out, or once, in.
    #[serde(default = "in_and_out", skip_serializing_if = "is_in_and_out")]
    pub transfers: u32,
    /// Largest number of multi-packets, or of packets or bytes ([`SchedulerSpec::depth_unit`]),
    /// that may wait. Those in service are not counted.
    #[serde(default = "depth")]
    pub depth: usize,
    /// `T_init_ratio`: its initialisation time divided by the reference's (equation 7).
    #[serde(default = "ratio")]
    pub init_ratio: f64,
    /// `T_enc_ratio`: its time for a block divided by the reference's (equation 7).
    #[serde(default = "ratio")]
    pub enc_ratio: f64,
    /// The algorithms that it supports; without this, all of them, at its own ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithms: Option<SupportedAlgorithms>,
    /// Whether the next input is transferred during computation (docs/lab/simulator.md: rule
    /// 5).
    #[serde(default)]
    pub prefetch: bool,
    /// Whether the last output is transferred during computation (docs/lab/simulator.md: rule
    /// 5).
    #[serde(default)]
    pub write_buffer: bool,
    /// Its cache of SAs; without one, all SAs are available without delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<SaCacheSpec>,
    /// How its actual times differ from the estimates; without it they are exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<DeviationSpec>,
}

fn one() -> usize {
    1
}

fn in_and_out() -> u32 {
    2
}

fn is_in_and_out(transfers: &u32) -> bool {
    *transfers == in_and_out()
}

fn depth() -> usize {
    10
}

fn ratio() -> f64 {
    1.0
}

impl ProcessorSpec {
    /// An accelerator of this name with the default values.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: ProcessorKind::default(),
            count: one(),
            bus: None,
            transfers: in_and_out(),
            depth: depth(),
            init_ratio: ratio(),
            enc_ratio: ratio(),
            algorithms: None,
            prefetch: false,
            write_buffer: false,
            cache: None,
            deviation: None,
        }
    }
}

impl Platform {
    /// Reads a platform from TOML; error messages give `name` as the name of the file.
    ///
    /// # Errors
    /// [`PlatformError`] has all of them, each with file, line, column, key and what was expected.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, PlatformError> {
        read::read(name, text)
    }

    /// Reads a platform from a file.
    ///
    /// # Errors
    /// [`PlatformError`] has all of them, each with file, line, column, key and what was expected.
    pub fn load(path: &Path) -> Result<Self, PlatformError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| PlatformError::whole_file(&name, &error.to_string()))?;
        Self::from_toml(&name, &text)
    }

    /// Sets the number of accelerators of the first kind: one in figures 3 to 7, two in figures 8
    /// to 15.
    pub fn set_accelerators(&mut self, count: usize) {
        let mut accelerators = self.of_kind(ProcessorKind::Accelerator);
        if let Some(first) = accelerators.next() {
            first.count = count;
        }
    }

    /// Sets the CPU's `T_init_ratio`.
    pub fn set_init_ratio(&mut self, ratio: f64) {
        self.of_kind(ProcessorKind::Cpu).for_each(|cpu| cpu.init_ratio = ratio);
    }

    /// Sets the CPU's `T_enc_ratio`.
    pub fn set_enc_ratio(&mut self, ratio: f64) {
        self.of_kind(ProcessorKind::Cpu).for_each(|cpu| cpu.enc_ratio = ratio);
    }

    /// Sets the depth of each processor's queue, in the scheduler's `depth_unit`.
    pub fn set_depth(&mut self, depth: usize) {
        self.processors.iter_mut().for_each(|processor| processor.depth = depth);
    }

    /// Index of the first processor of this name, where identical processors count separately.
    pub(crate) fn first_of(&self, name: &str) -> usize {
        self.processors.iter().take_while(|processor| processor.name != name).map(|it| it.count).sum()
    }

    fn of_kind(&mut self, kind: ProcessorKind) -> impl Iterator<Item = &mut ProcessorSpec> {
        self.processors.iter_mut().filter(move |processor| processor.kind == kind)
    }
}
