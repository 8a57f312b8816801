//! The process from its start to the first message.

use std::io;
use std::os::unix::net::UnixStream;

use convoy_cluster::messages::{LIMIT, Start};
use convoy_process::framing::Framing;
use convoy_process::{companion, privileges};
use serde::de::DeserializeOwned;

use crate::{member, store_calls};

/// The form of all messages.
pub(crate) const FRAMING: Framing = Framing { limit: LIMIT };

/// Serves the gateway or the command at the other end of standard input until it or the member
/// ends.
///
/// # Errors
/// What the system refused, or that the first message is wrong.
pub fn serve() -> io::Result<()> {
    let mut socket = companion::begin(c"convoy-cluster")?;
    let account = privileges::Account::find(None).map_err(io::Error::other)?.0;
    privileges::give_up(account.as_ref()).map_err(io::Error::other)?;
    match receive(&mut socket)? {
        Some(Start::Begin(begin)) => member::serve(*begin, socket),
        Some(Start::Store(access)) => store_calls::serve(*access, socket),
        // The other process has ended before it began.
        None => Ok(()),
    }
}

/// Receives a message; `None` if the other process has ended.
///
/// # Errors
/// The line's, or that the message is wrong.
pub(crate) fn receive<T: DeserializeOwned>(socket: &mut UnixStream) -> io::Result<Option<T>> {
    match FRAMING.receive(socket) {
        // A process that ends leaves what it has not read.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
        received => received,
    }
}
