//! The agent's program.

use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::process::Child;

use convoy_cluster::messages::{LIMIT, Start};
use convoy_process::companion::Program;
use convoy_process::framing::Framing;

use super::ClusterError;

/// The form of all messages to and from an agent.
pub(super) const FRAMING: Framing = Framing { limit: LIMIT };

/// The file that has the program.
const NAME: &str = "convoy-cluster-agent";

/// Starts an agent with these arguments and its first message; returns this end of the line.
///
/// # Errors
/// [`ClusterError::NotInstalled`] and [`ClusterError::Agent`].
pub(super) fn start<'a>(
    arguments: impl IntoIterator<Item = &'a OsStr>,
    first: &Start,
) -> Result<(UnixStream, Child), ClusterError> {
    let (mut socket, child) = Program::find(NAME)?.start(arguments).map_err(ClusterError::Agent)?;
    FRAMING.send(&mut socket, first).map_err(ClusterError::Agent)?;
    Ok((socket, child))
}
