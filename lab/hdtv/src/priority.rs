//! Scheduling priority of threads: real-time, or only when the processor is idle.

use std::io;

use thread_priority::{
    Error, NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Gives the calling thread the lowest real-time priority (`SCHED_RR`), so that it runs before all
/// ordinary threads.
///
/// # Errors
/// The operating system's; most users lack the permission.
pub(crate) fn real_time() -> io::Result<()> {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy).map_err(of_system)
}

/// Lets the calling thread run only when the processor is idle (`SCHED_IDLE`), whatever priority it
/// inherited. Needs no permission.
pub(crate) fn background() -> io::Result<()> {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy).map_err(of_system)
}

fn of_system(error: Error) -> io::Error {
    match error {
        Error::OS(number) => io::Error::from_raw_os_error(number),
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use thread_priority::thread_schedule_policy;

    use super::*;

    #[test]
    fn a_thread_in_the_background_is_idle_even_if_it_was_started_with_real_time_priority() {
        let policies = std::thread::spawn(|| {
            real_time()?;
            std::thread::spawn(|| {
                let inherited = thread_schedule_policy();
                background().map(|()| (inherited, thread_schedule_policy()))
            })
            .join()
            .expect("it ends")
        });
        let (inherited, background) = match policies.join().expect("it ends") {
            Ok(policies) => policies,
            // A user without permission for real-time priority gets the system's error.
            Err(error) => return assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
        };
        let real_time = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
        assert_eq!(inherited.expect("known"), real_time);
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        assert_eq!(background.expect("known"), idle);
    }
}
