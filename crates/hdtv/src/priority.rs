//! When the kernel runs a thread: before all ordinary ones, or only when nothing else wants the
//! processor.

use std::io;

use thread_priority::{
    Error, NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Has the calling thread run before all threads that have no real-time priority (`SCHED_RR`, the
/// lowest priority of it).
///
/// # Errors
/// The operating system's: most users may not.
pub(crate) fn real_time() -> io::Result<()> {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy).map_err(of_system)
}

/// Has the calling thread run when nothing else does (`SCHED_IDLE`), whatever it inherited;
/// everyone may ask for that.
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
            // Who may not have real-time priority gets the system's reason.
            Err(error) => return assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
        };
        let real_time = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
        assert_eq!(inherited.expect("known"), real_time);
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        assert_eq!(background.expect("known"), idle);
    }
}
