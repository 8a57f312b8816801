//! Progress notifications to the service manager (sd_notify(3)).

use std::io;

use sd_notify::NotifyState;

/// The gateway's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Its ports are open and its sockets answer.
    Ready,
    /// Packets in flight leave, then it ends.
    Stopping,
}

/// Notifies the service manager that started this program, if any.
///
/// # Errors
/// The system's, if the manager's socket is named but cannot be reached.
pub fn tell(progress: Progress) -> io::Result<()> {
    sd_notify::notify(&[match progress {
        Progress::Ready => NotifyState::Ready,
        Progress::Stopping => NotifyState::Stopping,
    }])
}
