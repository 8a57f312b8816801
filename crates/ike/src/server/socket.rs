//! The system's side: a `SOCK_SEQPACKET` listener and its connections.

use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use socket2::{Socket, Type};

use crate::local::AdmittedUser;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 8;

/// A listening socket.
pub(super) struct Listener {
    socket: Socket,
    admitted: Option<AdmittedUser>,
}

impl Listener {
    pub(super) fn bind(path: &Path, admitted: Option<AdmittedUser>) -> io::Result<Self> {
        let socket = crate::local::listen(path, Type::SEQPACKET, BACKLOG, admitted)?;
        Ok(Self { socket, admitted })
    }

    /// The next connection, with the process at its other end if that is trusted.
    pub(super) fn accept(&self) -> io::Result<(Connection, Option<i32>)> {
        let (socket, _) = self.socket.accept()?;
        let pid = crate::local::trusted_peer(&socket, self.admitted);
        Ok((Connection(socket), pid))
    }

    /// Ends `accept`, now and later.
    pub(super) fn close(&self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

/// One connection. Reading waits as long as it takes unless a limit is set.
pub(super) struct Connection(Socket);

impl Connection {
    #[cfg(test)]
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let socket = Socket::new(socket2::Domain::UNIX, Type::SEQPACKET, None)?;
        socket.connect(&socket2::SockAddr::unix(path)?)?;
        Ok(Self(socket))
    }

    pub(super) fn set_timeouts(&self, read: Option<Duration>, write: Duration) -> io::Result<()> {
        self.0.set_read_timeout(read)?;
        self.0.set_write_timeout(Some(write))
    }

    /// Reads one message into `buffer`, which has room for one byte more than the longest.
    pub(super) fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let count = (&self.0).read(buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if count == buffer.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message that is too long"));
        }
        Ok(&buffer[..count])
    }

    /// Sends one message, within the limit that was set.
    pub(super) fn send(&self, message: &[u8]) -> io::Result<()> {
        self.0.send_with_flags(message, libc::MSG_NOSIGNAL).map(drop)
    }

    /// Sends one message if there is room now.
    pub(super) fn try_send(&self, message: &[u8]) -> io::Result<()> {
        self.0.send_with_flags(message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT).map(drop)
    }

    /// Ends all calls, now and later.
    pub(super) fn close(&self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}
