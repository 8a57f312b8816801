//! The core of a trial's gateways.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// This thread, and hence the gateways, on one core until dropped. Threads that engines start
/// meanwhile may use the others, and those of modelled accelerators leave it this core.
pub(crate) struct GatewayCore {
    before: Option<CpuSet>,
}

impl GatewayCore {
    /// Begins a trial with what `start` makes.
    pub(crate) fn with<T>(start: impl FnOnce() -> T) -> (Self, T) {
        let Some((all, first)) = cores() else { return (Self { before: None }, start()) };
        // Where the system refuses, figures vary more, but it is not an error.
        let set = |cores: &CpuSet| _ = sched_setaffinity(Pid::from_raw(0), cores);
        // It moves there at once, and stays while threads inherit all cores.
        set(&first);
        set(&all);
        let made = start();
        set(&first);
        (Self { before: Some(all) }, made)
    }
}

impl Drop for GatewayCore {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(Pid::from_raw(0), before);
        }
    }
}

/// The cores that this thread may use, and the first of them.
fn cores() -> Option<(CpuSet, CpuSet)> {
    let all = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let first = (0..CpuSet::count()).find(|core| all.is_set(*core).unwrap_or(false))?;
    let mut own = CpuSet::new();
    own.set(first).ok()?;
    Some((all, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_are_started_meanwhile_may_use_all_cores_and_all_is_as_before_afterwards() {
        let mine = || sched_getaffinity(Pid::from_raw(0)).expect("a thread knows its cores");
        let (all, first) = cores().expect("there is a core");
        let (core, started) = GatewayCore::with(|| std::thread::spawn(mine));
        assert_eq!((mine(), started.join().expect("it only reads")), (first, all));
        drop(core);
        assert_eq!(mine(), all);
    }
}
