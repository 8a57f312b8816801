//! Threads that live as long as the gateway. If one panics, the gateway ends in good order: a
//! gateway that its operator cannot stop, or that charon cannot reach, is worse than one that the
//! service manager restarts.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::thread::{Builder, JoinHandle};

use convoy_process::panics::words;

use crate::run::Order;

/// Starts a thread whose panic ends the gateway.
///
/// # Errors
/// The system's, if it cannot create a thread.
pub fn spawn(
    name: &str,
    orders: Sender<Order>,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let thread = name.to_owned();
    Builder::new().name(name.to_owned()).spawn(move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
            tracing::error!("thread {thread} ended because of a fault in convoy: {}", words(&*panic));
            // A gateway that has ended need not be notified.
            let _ = orders.send(Order::Fault(thread));
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
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_that_panics_is_reported_by_name_and_one_that_ends_is_not() {
        let (orders, received) = channel();
        spawn("good", orders.clone(), || ()).expect("a thread").join().expect("no panic");
        let bad = spawn("bad", orders, || panic!("provoked by a test")).expect("a thread");
        bad.join().expect("the panic was caught");
        assert!(matches!(received.try_recv(), Ok(Order::Fault(name)) if name == "bad"));
        assert!(received.try_recv().is_err());
    }

    #[test]
    fn client_that_panics_ends_alone() {
        assert!(survive("a client", || ()) && !survive("a client", || panic!("provoked by a test")));
    }
}
