//! Unix sockets that the gateway listens on, for root and the user who started it only.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::OnceLock;

use nix::sys::socket::{getsockopt, sockopt};
use socket2::{Domain, SockAddr, Socket, Type};

/// The user who started the gateway. It may become another one, for example `nobody`, whose other
/// programs it does not trust.
static STARTED_BY: OnceLock<u32> = OnceLock::new();

fn started_by() -> u32 {
    *STARTED_BY.get_or_init(|| nix::unistd::getuid().as_raw())
}

/// Listens at `path`, mode 0600, in a folder that is made if need be; the socket of a dead gateway
/// there is replaced. `backlog` connections may wait to be accepted.
///
/// # Errors
/// What the system refused, [`ErrorKind::AddrInUse`] if someone listens there, or
/// [`ErrorKind::AlreadyExists`] if the path exists and is not a socket.
pub fn listen(path: &Path, kind: Type, backlog: i32) -> io::Result<Socket> {
    started_by();
    let address = SockAddr::unix(path)?;
    clear(path, kind, &address)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let socket = Socket::new(Domain::UNIX, kind, None)?;
    socket.bind(&address)?;
    // Nobody can connect before `listen`.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    socket.listen(backlog)?;
    Ok(socket)
}

/// Removes a socket without a listener.
fn clear(path: &Path, kind: Type, address: &SockAddr) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "the path exists and is not a socket"));
    }
    match Socket::new(Domain::UNIX, kind, None)?.connect(address) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(error),
        // A listener of another kind refuses with another error.
        _ => Err(io::Error::new(ErrorKind::AddrInUse, "another gateway listens there")),
    }
}

/// The process at the other end, if it belongs to root or to the user who started the gateway: the
/// user of this process when it first listened.
pub fn trusted_peer(socket: &impl AsFd) -> Option<i32> {
    let peer = getsockopt(socket, sockopt::PeerCredentials).ok()?;
    let is_trusted = peer.uid() == 0 || peer.uid() == started_by();
    is_trusted.then(|| peer.pid())
}

/// Whether the process at the other end belongs to root.
pub fn is_root(socket: &impl AsFd) -> bool {
    getsockopt(socket, sockopt::PeerCredentials).is_ok_and(|peer| peer.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of_failure(path: &Path, kind: Type) -> Option<ErrorKind> {
        listen(path, kind, 1).err().map(|error| error.kind())
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_living_one_of_either_kind_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new").join("socket");
        for kind in [Type::STREAM, Type::SEQPACKET] {
            let living = listen(&path, kind, 1).expect("listening");
            assert_eq!(std::fs::metadata(&path).expect("a socket").permissions().mode() & 0o777, 0o600);
            for other in [Type::STREAM, Type::SEQPACKET] {
                assert_eq!(kind_of_failure(&path, other), Some(ErrorKind::AddrInUse));
            }
            drop(living);
            assert!(path.exists());
        }
        listen(&path, Type::STREAM, 1).expect("a dead one is replaced");
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        std::fs::write(&path, "precious").expect("written");
        assert_eq!(kind_of_failure(&path, Type::STREAM), Some(ErrorKind::AlreadyExists));
        assert_eq!(std::fs::read(&path).expect("still there"), b"precious");
    }

    #[test]
    fn our_own_user_is_trusted() {
        let (one, _other) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("a pair");
        assert_eq!(trusted_peer(&one), Some(nix::unistd::getpid().as_raw()));
    }
}
