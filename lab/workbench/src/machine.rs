//! The machine of a run, and what else it did meanwhile.

use std::fmt;

use serde::Serialize;

use super::core_use::CoreUse;

/// Fraction of the cores that other programs may take before the report warns.
const QUIET: f64 = 0.03;

/// The machine, and how much of it the demo had.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoMachine {
    /// Processor model, as the kernel names it.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// What the demo's threads had of them.
    pub core_use: CoreUse,
}

impl DemoMachine {
    /// This machine.
    pub(crate) fn here(core_use: CoreUse) -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let processor =
            model.map_or("an unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { processor: processor.to_owned(), cores, core_use }
    }

    /// Fraction of the cores that others took from the demo's threads, 0 to 1; `None` if the
    /// threads took cores from each other.
    pub fn taken_by_others(&self) -> Option<f64> {
        (self.core_use.busy_threads <= self.cores).then(|| self.core_use.waited_share())
    }

    /// Why figures of this run vary, one sentence for each reason.
    pub fn warnings(&self) -> Vec<String> {
        let Self { cores, core_use: CoreUse { busy_threads, .. }, .. } = self;
        match self.taken_by_others() {
            None => vec![format!(
                "This machine has fewer cores, {cores}, than the demo has busy threads, {busy_threads}: they wait \
                 for each other."
            )],
            Some(taken) if taken > QUIET => {
                vec![format!("This machine is busy: other programs took {:.0} % of the core.", taken * 100.0)]
            }
            Some(_) => Vec::new(),
        }
    }
}

impl fmt::Display for DemoMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.cores == 1 { "" } else { "s" };
        write!(f, "{}, {} core{plural}", self.processor, self.cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cores: usize, busy_threads: usize, waited_ns: u64) -> DemoMachine {
        let core_use = CoreUse { ran_ns: 100 - waited_ns, waited_ns, busy_threads };
        DemoMachine { processor: "a processor".to_owned(), cores, core_use }
    }

    #[test]
    fn quiet_machine_with_enough_cores_has_no_warning() {
        assert_eq!(machine(2, 2, 1).warnings(), Vec::<String>::new());
        assert_eq!(machine(2, 2, 1).to_string(), "a processor, 2 cores");
    }

    #[test]
    fn machine_whose_core_others_took_is_called_busy() {
        assert_eq!(
            machine(2, 2, 40).warnings(),
            ["This machine is busy: other programs took 40 % of the core."]
        );
    }

    #[test]
    fn machine_with_fewer_cores_than_busy_threads_is_not_blamed_on_other_programs() {
        let warnings = machine(1, 2, 50).warnings();
        assert_eq!(warnings.len(), 1);
        assert!(
            warnings[0].starts_with("This machine has fewer cores, 1, than the demo has busy threads, 2")
        );
    }
}
