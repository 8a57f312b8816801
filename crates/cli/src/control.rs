//! Requests to a running gateway by its control socket.

use std::io;
use std::path::Path;

use convoy_gateway::control::{self, Answer, Ask};

use crate::Failure;
use crate::args::ReloadArgs;

/// Sends a request; explains what to check if no gateway answers.
pub(crate) fn ask(control: &Path, what: Ask) -> Result<Answer, Failure> {
    control::ask(control, what).map_err(|error| Failure::Failed(why_not(control, &error)))
}

/// Explains why there was no answer, and what to do.
pub(crate) fn why_not(control: &Path, error: &io::Error) -> String {
    let place = control.display();
    // Only root and the user who started the gateway may use the socket (`convoy_ike::local`).
    if error.kind() == io::ErrorKind::PermissionDenied {
        return format!(
            "no permission to use the control socket {place}: {error}; only root and the user who \
             started the gateway may use it; use sudo"
        );
    }
    format!("no gateway answers at {place}: {error} (is `convoy run` running? --control sets its socket)")
}

/// `convoy reload`.
pub(crate) fn reload(args: &ReloadArgs) -> Result<(), Failure> {
    let report = match ask(&args.control, Ask::Reload)? {
        Answer::Reloaded(report) => report,
        Answer::Refused(reason) => return Err(Failure::Failed(reason)),
        other => return Err(Failure::Failed(format!("the gateway gave an unexpected answer: {other:?}"))),
    };
    for note in &report.notes {
        println!("{note}");
    }
    println!("tunnels: {report}");
    if report.refused.is_empty() { Ok(()) } else { Err(Failure::Failed(report.refused.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permission_is_not_taken_for_a_gateway_that_is_not_there() {
        let why = |kind: io::ErrorKind| why_not(Path::new("/run/convoy/control.sock"), &kind.into());
        let denied = why(io::ErrorKind::PermissionDenied);
        assert!(denied.contains("use sudo") && !denied.contains("running"), "{denied}");
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused] {
            assert!(why(kind).contains("is `convoy run` running?"), "{kind}");
        }
    }
}
