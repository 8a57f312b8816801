//! Giving up privileges ([`convoy_process::privileges`]), and what only a gateway gives up besides:
//! those of DPDK's thread, and lastly all system calls but those that its work needs. Whatever
//! needs more goes through the [helper](crate::helper).

mod calls;

pub use calls::{confine, confine_helper};
pub use convoy_process::privileges::{Account, DEFAULT_USER, PrivilegeError, give_up, lock_memory};
pub use convoy_process::privileges::{keep_routing, refused};

/// Drops every capability of DPDK's thread, if it runs: it started with those of the process at
/// that time. Its user is the process's.
///
/// # Errors
/// [`PrivilegeError`] if the system or DPDK refuses; the gateway should not go on then.
pub fn give_up_in_dpdk() -> Result<(), PrivilegeError> {
    let (done, is_done) = std::sync::mpsc::sync_channel(1);
    let in_thread = move || {
        // The receiver is gone only if this process ends.
        let _ = done.send(give_up(None));
    };
    let refused = refused("cannot drop the capabilities of DPDK's thread");
    convoy_engine::in_thread_of_dpdk(in_thread).map_err(|error| refused(&error))?;
    // Without DPDK nothing was run.
    is_done.try_recv().unwrap_or(Ok(()))
}

#[cfg(all(test, feature = "dpdk"))]
mod tests {
    use caps::CapSet;

    use super::*;

    #[test]
    fn the_thread_that_dpdk_has_gives_up_its_capabilities_too() {
        let left = || {
            let (reported, tells) = std::sync::mpsc::channel();
            let count = move || {
                let left = caps::read(None, CapSet::Permitted).expect("readable");
                reported.send(left.len()).expect("the test waits");
            };
            convoy_engine::in_thread_of_dpdk(count).expect("it runs");
            tells.recv().expect("it was reported")
        };
        convoy_engine::start_dpdk(None, &["crypto_null0"]).expect("DPDK starts");
        let own = caps::read(None, CapSet::Permitted).expect("readable").len();
        assert!(own > 0 && left() == own, "this test needs root, as only root has something to give up");
        give_up_in_dpdk().expect("allowed");
        assert_eq!(left(), 0);
        assert_eq!(caps::read(None, CapSet::Permitted).expect("readable").len(), own);
    }
}
