//! Why a gateway could not start, or ended.

use std::fmt;
use std::process::ExitStatus;

use convoy_assembly::assemble::AssembleError;
use convoy_host::helper::HelperError;
use convoy_host::privileges;
use convoy_port::PortError;
use convoy_process::supervise::Fault;
use convoy_state::StateError;

/// Why a gateway could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be assembled.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// A port could not be opened, or failed as a whole.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The system refused a thread or an eventfd.
    #[error("cannot start the worker threads: {0}")]
    Threads(#[from] std::io::Error),
    /// Listening for charon failed.
    #[error("cannot listen on charon's socket: {0}")]
    Charon(std::io::Error),
    /// A worker panicked.
    #[error("worker {number} ended because of a fault in convoy, please report it: {reason}")]
    Worker {
        /// Its number.
        number: usize,
        /// The panic's message.
        reason: String,
    },
    /// Another thread panicked.
    #[error("thread {0} ended because of a fault in convoy; please report it with the log")]
    Thread(String),
    /// Workers did not end in time.
    #[error("{} did not end in time, because an engine or a port did not return; its packets are lost", WorkerNumbers(.0))]
    Hung(Vec<usize>),
    /// The operator did not want to wait for these workers.
    #[error("stopped by a second signal: {} had not ended, and packets in progress are lost", WorkerNumbers(.0))]
    Hurried(Vec<usize>),
    /// There is not enough memory.
    #[error(transparent)]
    Memory(#[from] convoy_dataplane::memory::MemoryError),
    /// The numbers of static keys could not be persisted.
    #[error(transparent)]
    State(#[from] StateError),
    /// It would have kept more privileges than it needs.
    #[error(transparent)]
    Privileges(#[from] privileges::PrivilegeError),
    /// The helper panicked, or was killed.
    #[error(
        "the helper process ended ({0}): without it, routes cannot be restored and the configuration cannot be reloaded; start the gateway again"
    )]
    Helper(ExitStatus),
    /// The helper does not know which interfaces it would have to create again.
    #[error("interfaces of ports: {0}")]
    Devices(HelperError),
    /// The helper is stopped, or hangs.
    #[error(
        "the helper process has not answered for 10 s: it is stopped or hangs, so that routes and guard cannot be restored; start the gateway again"
    )]
    HelperSilent,
    /// Nothing could be routed into the tunnels.
    #[error("routes into the tunnels: {0}")]
    Routes(HelperError),
    /// The kernel could not be kept from forwarding the tunnels' packets past the gateway.
    #[error("{0}")]
    Guard(HelperError),
}

impl RunError {
    /// The error with which a fault ends the gateway; what has ended a worker is known to its
    /// thread.
    pub(crate) fn of(fault: Fault) -> Option<Self> {
        match fault {
            Fault::Thread(name) => Some(Self::Thread(name)),
            Fault::WorkerEnded => None,
            Fault::HelperEnded(status) => Some(Self::Helper(status)),
            Fault::HelperSilent => Some(Self::HelperSilent),
        }
    }
}

/// Workers by their numbers, for messages.
pub(super) struct WorkerNumbers<'a>(pub(super) &'a [usize]);

impl fmt::Display for WorkerNumbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "worker{} {}", if self.0.len() == 1 { "" } else { "s" }, numbers.join(", "))
    }
}
