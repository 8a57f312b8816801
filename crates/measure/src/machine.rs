//! On what machine something was measured.

use serde::Serialize;

use crate::cores;

/// What a report says of its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// The processor, as the kernel names it.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// The kernel's version.
    pub kernel: String,
    /// This program's version.
    pub convoy: String,
    /// Whether this program was built with optimisation; without, its figures say nothing.
    pub is_release: bool,
}

impl Machine {
    /// This one.
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
