//! Processes beside the gateway's: this program again, with one end of a pair of sockets as its
//! standard input.

pub(crate) mod framing;

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Starts one with these arguments; returns the gateway's end of the pair.
///
/// # Errors
/// The system's.
pub(crate) fn start<'a>(arguments: impl IntoIterator<Item = &'a OsStr>) -> io::Result<(UnixStream, Child)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new("/proc/self/exe");
    // Signals of the terminal are for the gateway, which ends these processes.
    command.arg0("convoy").args(arguments).process_group(0).current_dir("/");
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
    Ok((ours, command.spawn()?))
}
