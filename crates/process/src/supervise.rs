//! What must live as long as the gateway: threads, workers, the helper. If one ends, the gateway
//! ends in good order: one that its operator cannot stop, or that charon cannot reach, is worse
//! than one that the service manager restarts.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use crate::panics::words;

/// Something without which the gateway would only seem to work.
#[derive(Debug)]
pub enum Fault {
    /// The thread of this name has panicked, or a process that stands for one has ended.
    Thread(String),
    /// A worker has ended: by a panic, an error of a port, or with its captures, which is no error.
    WorkerEnded,
    /// The helper process has ended.
    HelperEnded(ExitStatus),
    /// The helper process did not answer in time.
    HelperSilent,
}

/// The channel by which all faults reach the gateway.
pub struct Faults {
    sender: Sender<Fault>,
    reported: Receiver<Fault>,
}

impl Default for Faults {
    fn default() -> Self {
        let (sender, reported) = channel();
        Self { sender, reported }
    }
}

impl Faults {
    /// Where faults are reported. A gateway that has ended takes none.
    pub fn sender(&self) -> Sender<Fault> {
        self.sender.clone()
    }

    /// The next fault, if there is one.
    pub fn next(&self) -> Option<Fault> {
        self.reported.try_recv().ok()
    }
}

/// Starts a thread whose panic ends the gateway.
///
/// # Errors
/// The system's, if it cannot create a thread.
pub fn spawn(
    name: &str,
    faults: &Sender<Fault>,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let (thread, faults) = (name.to_owned(), faults.clone());
    Builder::new().name(name.to_owned()).spawn(move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
            tracing::error!("thread {thread} ended because of a fault in convoy: {}", words(&*panic));
            let _ = faults.send(Fault::Thread(thread));
        }
    })
}

/// Serves one client; a panic ends only that client's service. `false` if there was one.
pub fn survive(what: &str, serve: impl FnOnce()) -> bool {
    let outcome = catch_unwind(AssertUnwindSafe(serve));
    if let Err(panic) = &outcome {
        tracing::error!("{what} ended because of a fault in convoy, please report it: {}", words(&**panic));
    }
    outcome.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_that_panics_is_reported_by_name() {
        let faults = Faults::default();
        spawn("good", &faults.sender(), || ()).expect("a thread").join().expect("no panic");
        let bad = spawn("bad", &faults.sender(), || panic!("provoked by a test")).expect("a thread");
        bad.join().expect("the panic was caught");
        assert!(matches!(faults.next(), Some(Fault::Thread(name)) if name == "bad"));
        assert!(faults.next().is_none(), "a thread that ends without a panic is no fault");
    }

    #[test]
    fn client_that_panics_ends_alone() {
        assert!(survive("a client", || ()) && !survive("a client", || panic!("provoked by a test")));
    }
}
