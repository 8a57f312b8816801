//! Threads that live as long as the gateway. If one panics, the gateway ends in good order: a
//! gateway that its operator cannot stop, or that charon cannot reach, is worse than one that the
//! service manager restarts.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};

use convoy_process::panics::words;

/// Ends the gateway in good order when one of its threads has panicked.
pub trait OnFault: Send + 'static {
    /// The thread of this name has panicked.
    fn fault(&self, thread: String);
}

/// Starts a thread whose panic ends the gateway.
///
/// # Errors
/// The system's, if it cannot create a thread.
pub fn spawn(
    name: &str,
    gateway: impl OnFault,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let thread = name.to_owned();
    Builder::new().name(name.to_owned()).spawn(move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
            tracing::error!("thread {thread} ended because of a fault in convoy: {}", words(&*panic));
            gateway.fault(thread);
        }
    })
}

/// Serves one client; a panic ends only that client's service. `false` if there was one.
pub(crate) fn survive(what: &str, serve: impl FnOnce()) -> bool {
    let outcome = catch_unwind(AssertUnwindSafe(serve));
    if let Err(panic) = &outcome {
        tracing::error!("{what} ended because of a fault in convoy, please report it: {}", words(&**panic));
    }
    outcome.is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    impl OnFault for Sender<String> {
        fn fault(&self, thread: String) {
            self.send(thread).expect("the test receives it");
        }
    }

    #[test]
    fn a_thread_that_panics_is_reported_by_name_and_one_that_ends_is_not() {
        let (faults, received) = channel::<String>();
        spawn("good", faults.clone(), || ()).expect("a thread").join().expect("no panic");
        let bad = spawn("bad", faults, || panic!("provoked by a test")).expect("a thread");
        bad.join().expect("the panic was caught");
        assert_eq!(received.try_recv().as_deref(), Ok("bad"));
        assert!(received.try_recv().is_err());
    }

    #[test]
    fn client_that_panics_ends_alone() {
        assert!(survive("a client", || ()) && !survive("a client", || panic!("provoked by a test")));
    }
}
