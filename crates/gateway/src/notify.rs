//! Telling the service manager how far the gateway is (sd_notify(3)).

use std::io;

use sd_notify::NotifyState;

/// How far the gateway is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Its ports are open and its sockets answer.
    Ready,
    /// Packets under way leave, then it ends.
    Stopping,
}

/// Tells the service manager that started this program; nobody, where there is none.
///
/// # Errors
/// The system's, if the manager's socket is named but cannot be reached.
pub fn tell(progress: Progress) -> io::Result<()> {
    sd_notify::notify(&[match progress {
        Progress::Ready => NotifyState::Ready,
        Progress::Stopping => NotifyState::Stopping,
    }])
}
