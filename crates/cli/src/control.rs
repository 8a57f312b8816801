//! Asking a running gateway by its control socket.

use std::path::Path;

use convoy_gateway::control::{self, Answer, Ask};

use crate::Failure;
use crate::args::ReloadArgs;

/// Asks, and says what to look at where no gateway answers.
pub(crate) fn ask(control: &Path, what: Ask) -> Result<Answer, Failure> {
    control::ask(control, what).map_err(|error| {
        let place = control.display();
        Failure::Failed(format!(
            "no gateway answers at {place}: {error} (is `convoy run` running? --control names its socket)"
        ))
    })
}

/// `convoy reload`.
pub(crate) fn reload(args: &ReloadArgs) -> Result<(), Failure> {
    let report = match ask(&args.control, Ask::Reload)? {
        Answer::Reloaded(report) => report,
        Answer::Refused(reason) => return Err(Failure::Failed(reason)),
        other => return Err(Failure::Failed(format!("the gateway answered something else: {other:?}"))),
    };
    for note in &report.notes {
        println!("{note}");
    }
    println!("{report}");
    if report.refused.is_empty() { Ok(()) } else { Err(Failure::Failed(report.refused.join("\n"))) }
}
