//! Commands of the laboratory's program, `convoy-lab`: it is run for them where it is installed.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::Failure;

/// The program.
const PROGRAM: &str = "convoy-lab";
/// Its commands that `convoy` passes on.
const COMMANDS: [&str; 5] = ["demo", "sim", "bench", "hdtv", "nic"];

/// Becomes the laboratory's program if the first argument is one of its commands. Returns only if
/// it is not, with `None`, or with why the program could not be run.
pub(crate) fn run_if_named(arguments: impl Iterator<Item = OsString>) -> Option<Failure> {
    let arguments: Vec<OsString> = arguments.skip(1).collect();
    let name = arguments.first()?.to_str().filter(|name| COMMANDS.contains(name))?;
    let error = Command::new(program()).args(&arguments).exec();
    Some(Failure::Failed(format!(
        "`convoy {name}` is a command of the laboratory, and {PROGRAM} could not be run ({error}); install the \
         package convoy-lab"
    )))
}

/// The one that was installed or built together with this program, or else the one on the path.
fn program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    beside.filter(|beside| beside.is_file()).unwrap_or_else(|| PROGRAM.into())
}
