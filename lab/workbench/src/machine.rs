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
    /// Fraction of the machine's time that its host gave to other virtual machines, 0 to 1.
    pub stolen: f64,
}

impl DemoMachine {
    /// This machine, since `began`.
    pub(crate) fn here(core_use: CoreUse, began: HostTime) -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let processor =
            model.map_or("an unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let stolen = HostTime::now().stolen_since(began);
        Self { processor: processor.to_owned(), cores, core_use, stolen }
    }

    /// Fraction of the cores that others took from the demo's threads, 0 to 1; `None` if the
    /// threads took cores from each other.
    pub fn taken_by_others(&self) -> Option<f64> {
        (self.core_use.busy_threads <= self.cores).then(|| self.core_use.waited_share())
    }

    /// Why figures of this run vary, one sentence for each reason.
    pub fn warnings(&self) -> Vec<String> {
        let Self { cores, core_use: CoreUse { busy_threads, .. }, stolen, .. } = self;
        let own = match self.taken_by_others() {
            None => Some(format!(
                "This machine has fewer cores, {cores}, than the demo has busy threads, {busy_threads}: they wait \
                 for each other."
            )),
            Some(taken) => (taken > QUIET).then(|| {
                format!("This machine is busy: other programs took {:.0} % of the core.", taken * 100.0)
            }),
        };
        let host = (*stolen > QUIET)
            .then(|| format!("The host of this virtual machine took {:.0} % of its cores.", stolen * 100.0));
        own.into_iter().chain(host).collect()
    }
}

impl fmt::Display for DemoMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.cores == 1 { "" } else { "s" };
        write!(f, "{}, {} core{plural}", self.processor, self.cores)
    }
}

/// Time of all cores since the machine started, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HostTime {
    all: u64,
    stolen: u64,
}

impl HostTime {
    /// Until now; zero if the kernel does not say.
    pub(crate) fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(stat: &str) -> Self {
        let ticks = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        let ticks: Vec<u64> = ticks.split_ascii_whitespace().take(8).flat_map(str::parse).collect();
        Self { all: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or_default() }
    }

    fn stolen_since(self, began: Self) -> f64 {
        let all = self.all.saturating_sub(began.all).max(1);
        self.stolen.saturating_sub(began.stolen) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cores: usize, busy_threads: usize, waited_ns: u64) -> DemoMachine {
        let core_use = CoreUse { ran_ns: 100 - waited_ns, waited_ns, busy_threads };
        DemoMachine { processor: "a processor".to_owned(), cores, core_use, stolen: 0.0 }
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
    #[test]
    fn virtual_machine_whose_host_took_its_cores_is_warned_of() {
        let warnings = DemoMachine { stolen: 0.2, ..machine(2, 2, 1) }.warnings();
        assert_eq!(warnings, ["The host of this virtual machine took 20 % of its cores."]);
    }

    #[test]
    fn stolen_time_is_the_eighth_figure_of_all_cores_since_the_start() {
        let [before, after] =
            ["cpu  100 0 50 800 0 0 0 50 7 7\ncpu0 1\n", "cpu  150 0 70 870 0 0 0 110 9 9\n"];
        let [before, after] = [before, after].map(HostTime::parse);
        assert_eq!(before, HostTime { all: 1_000, stolen: 50 });
        assert_eq!(after.stolen_since(before), 60.0 / 200.0);
        assert_eq!(HostTime::parse(""), HostTime::default());
    }
}
