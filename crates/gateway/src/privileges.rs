//! Giving up what is not needed any more.
//!
//! Ports are opened with whatever the gateway was started with; sockets and devices keep working without it. Threads
//! inherit what their maker has, so this comes before any thread that outlives the start.

use caps::CapSet;

/// Why privileges could not be given up.
#[derive(Debug, thiserror::Error)]
#[error("privileges cannot be given up: {0}")]
pub struct PrivilegeError(String);

/// Drops every capability of this thread and of all that it will make, for good.
///
/// # Errors
/// [`PrivilegeError`] if the system refuses; the gateway should not go on then.
pub fn drop_all() -> Result<(), PrivilegeError> {
    let refused = |error: &dyn std::fmt::Display| PrivilegeError(error.to_string());
    nix::sys::prctl::set_no_new_privs().map_err(|error| refused(&error))?;
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set).map_err(|error| refused(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_gave_up_its_privileges_has_none_and_passes_none_on() {
        let left = || caps::read(None, CapSet::Permitted).expect("readable").len();
        let thread = std::thread::spawn(move || {
            drop_all().expect("allowed");
            (left(), std::thread::spawn(left).join().expect("no panic"))
        });
        assert_eq!(thread.join().expect("no panic"), (0, 0));
    }
}
