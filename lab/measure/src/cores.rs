//! Placement of a measurement's threads on cores.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The cores that this process may use, in ascending order.
pub(crate) fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0));
    let is_set = |core: &usize| set.as_ref().is_ok_and(|set| set.is_set(*core).unwrap_or(false));
    let cores: Vec<usize> = (0..CpuSet::count()).filter(is_set).collect();
    if cores.is_empty() { vec![0] } else { cores }
}

/// Pins the calling thread to a core. Where the system refuses, the measurement is less exact, but
/// it is not an error.
pub(crate) fn pin(core: usize) {
    let mut set = CpuSet::new();
    if set.set(core).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

/// Pins the calling thread to a core until this is dropped.
pub(crate) struct Pinned(Option<CpuSet>);

impl Pinned {
    pub(crate) fn to(core: usize) -> Self {
        let before = sched_getaffinity(Pid::from_raw(0)).ok();
        pin(core);
        Self(before)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(Pid::from_raw(0), before);
        }
    }
}
