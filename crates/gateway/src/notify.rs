//! Telling the service manager how far the gateway is: one datagram to the socket that it names (sd_notify(3)).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable in which a service manager names its socket.
pub const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// How far the gateway is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Its ports are open and its sockets answer.
    Ready,
    /// Packets under way leave, then it ends.
    Stopping,
}

impl Progress {
    fn words(self) -> &'static [u8] {
        match self {
            Self::Ready => b"READY=1",
            Self::Stopping => b"STOPPING=1",
        }
    }
}

/// Tells the service manager that started this program; nobody, where there is none.
///
/// # Errors
/// The system's, if the socket is named but cannot be reached.
pub fn tell(progress: Progress) -> io::Result<()> {
    std::env::var_os(SOCKET_VARIABLE).map_or(Ok(()), |socket| send(&socket, progress))
}

/// An address that begins with `@` is an abstract one.
fn send(socket: &OsStr, progress: Progress) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(progress.words(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(manager: &UnixDatagram) -> Vec<u8> {
        let mut words = [0; 64];
        let len = manager.recv(&mut words).expect("a datagram");
        words[..len].to_vec()
    }

    #[test]
    fn a_service_manager_hears_at_a_path_and_at_an_abstract_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        send(path.as_os_str(), Progress::Ready).expect("sent");
        assert_eq!(heard(&manager), b"READY=1");
        let name = format!("convoy-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let manager = UnixDatagram::bind_addr(&address).expect("a socket");
        send(format!("@{name}").as_ref(), Progress::Stopping).expect("sent");
        assert_eq!(heard(&manager), b"STOPPING=1");
    }

    #[test]
    fn a_socket_that_is_not_there_is_an_error() {
        assert!(send("/nonexistent/notify".as_ref(), Progress::Ready).is_err());
    }
}
