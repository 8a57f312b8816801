//! Companions: processes beside a gateway, each with one end of a pair of sockets as its standard
//! input.

use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{SigSet, Signal};

/// Where companions are if they are not beside the gateway's program.
pub const FOLDER: &str = "/usr/libexec/convoy";

/// Signals that a service manager or a terminal sends to all: the gateway ends its companions.
const NOT_FOR_US: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// The program of a companion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    path: PathBuf,
    /// Its name in the list of processes until it has one of its own.
    name: OsString,
}

/// That the program of a companion is not installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} was found neither in {} nor in {FOLDER}", beside.display())]
pub struct NotFound {
    name: String,
    beside: PathBuf,
}

impl Program {
    /// The program that is running, also if its file has been replaced.
    #[must_use]
    pub fn own() -> Self {
        Self { path: "/proc/self/exe".into(), name: "convoy".into() }
    }

    /// The program of this name beside the running one, or else in [`FOLDER`].
    ///
    /// # Errors
    /// [`NotFound`].
    pub fn find(name: &str) -> Result<Self, NotFound> {
        // The link of a program whose file was replaced still begins with its folder.
        let own = std::env::current_exe().unwrap_or_default();
        let beside = own.parent().unwrap_or(Path::new("")).to_owned();
        Self::find_in([&beside, Path::new(FOLDER)], name)
            .ok_or_else(|| NotFound { name: name.to_owned(), beside })
    }

    fn find_in(folders: [&Path; 2], name: &str) -> Option<Self> {
        let found = folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        found.map(|path| Self { path, name: name.into() })
    }

    /// Starts it with these arguments; returns the gateway's end of the pair.
    ///
    /// # Errors
    /// The system's.
    pub fn start<'a>(
        &self,
        arguments: impl IntoIterator<Item = &'a OsStr>,
    ) -> io::Result<(UnixStream, Child)> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&self.path);
        // Signals of the terminal are for the gateway, which ends these processes.
        command.arg0(&self.name).args(arguments).process_group(0).current_dir("/");
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        Ok((ours, command.spawn()?))
    }
}

/// The first step of a companion: ignores the signals that are for its gateway, takes a name of its
/// own in the list of processes, and returns its end of the pair.
///
/// # Errors
/// The system's.
pub fn begin(name: &CStr) -> io::Result<UnixStream> {
    NOT_FOR_US.into_iter().collect::<SigSet>().thread_block()?;
    nix::sys::prctl::set_name(name)?;
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_beside_the_running_one_is_found_first_and_a_folder_is_no_program() {
        let folders = tempfile::tempdir().expect("a folder");
        let [beside, installed] = ["beside", "installed"].map(|name| folders.path().join(name));
        let find = || Program::find_in([&beside, &installed], "agent").map(|program| program.path);
        std::fs::create_dir_all(beside.join("agent")).expect("a folder");
        std::fs::create_dir(&installed).expect("a folder");
        assert_eq!(find(), None);
        std::fs::write(installed.join("agent"), "").expect("a file");
        assert_eq!(find(), Some(installed.join("agent")));
        std::fs::remove_dir(beside.join("agent")).expect("it is empty");
        std::fs::write(beside.join("agent"), "").expect("a file");
        assert_eq!(find(), Some(beside.join("agent")));
    }

    #[test]
    fn program_that_is_not_installed_is_reported_with_both_folders() {
        let error = Program::find("convoy-agent-of-no-kind").expect_err("there is none").to_string();
        let own = std::env::current_exe().expect("a test");
        let beside = own.parent().expect("a folder").display();
        assert_eq!(
            error,
            format!("convoy-agent-of-no-kind was found neither in {beside} nor in /usr/libexec/convoy")
        );
    }
}
