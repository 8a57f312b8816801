//! Description of the machine on which something was measured.

use serde::Serialize;

use crate::cores;

/// The machine, as named in reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Processor model, as the kernel names it.
    pub processor: String,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// Kernel version.
    pub kernel: String,
    /// Version of this program.
    pub convoy: String,
    /// Whether this program was built with optimisation; without it, the results are meaningless.
    pub is_release: bool,
}

impl Machine {
    /// The machine that this runs on.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let processor = model.map_or("unknown", |rest| rest.trim_start_matches([' ', '\t', ':']));
        Self {
            processor: processor.to_owned(),
            cores: cores::allowed().len(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            convoy: env!("CARGO_PKG_VERSION").to_owned(),
            is_release: !cfg!(debug_assertions),
        }
    }
}
