//! Unix sockets that the gateway listens on, for root, the user who started it, and one more user
//! where one is admitted.

use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::OnceLock;

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{Gid, setfsgid};
use socket2::{Domain, SockAddr, Socket, Type};

/// The user who started the gateway. It may become another one, for example `nobody`, whose other
/// programs it does not trust.
static STARTED_BY: OnceLock<u32> = OnceLock::new();

fn started_by() -> u32 {
    *STARTED_BY.get_or_init(|| nix::unistd::getuid().as_raw())
}

/// A user whose processes are admitted beside root's and those of the user who started the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmittedUser {
    /// The user's number.
    pub uid: u32,
    /// The number of the user's group, which the socket's file belongs to.
    pub gid: u32,
}

/// Listens at `path`, in a folder that is made if need be; the socket of a dead gateway there is
/// replaced. The file's mode is 0600, or 0660 for the group of a user who is admitted. `backlog`
/// connections may wait to be accepted.
///
/// # Errors
/// What the system refused, [`ErrorKind::AddrInUse`] if someone listens there, or
/// [`ErrorKind::AlreadyExists`] if the path exists and is not a socket.
pub fn listen(path: &Path, kind: Type, backlog: i32, admitted: Option<AdmittedUser>) -> io::Result<Socket> {
    started_by();
    let address = SockAddr::unix(path)?;
    clear(path, kind, &address)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        std::fs::create_dir_all(folder)?;
        if admitted.is_some() {
            std::fs::set_permissions(folder, Permissions::from_mode(0o711))?;
        }
    }
    let socket = Socket::new(Domain::UNIX, kind, None)?;
    match admitted {
        Some(AdmittedUser { gid, .. }) => bind_for_group(&socket, path, &address, gid)?,
        None => socket.bind(&address)?,
    }
    // There is no client before `listen`.
    let mode = if admitted.is_some() { 0o660 } else { 0o600 };
    std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    socket.listen(backlog)?;
    Ok(socket)
}

/// Binds a socket whose file then belongs to a group. This needs CAP_SETGID alone, where a change
/// of the file's group needs CAP_CHOWN.
fn bind_for_group(socket: &Socket, path: &Path, address: &SockAddr, gid: u32) -> io::Result<()> {
    let before = setfsgid(Gid::from_raw(gid));
    let bound = socket.bind(address);
    setfsgid(before);
    bound?;
    if std::fs::metadata(path)?.gid() != gid {
        let what = format!("cannot give the socket to the group {gid} (needs CAP_SETGID)");
        return Err(io::Error::new(ErrorKind::PermissionDenied, what));
    }
    Ok(())
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

/// The process at the other end, if it belongs to root, to the user who started the gateway (the
/// user of this process when it first listened), or to the one who is admitted.
pub fn trusted_peer(socket: &impl AsFd, admitted: Option<AdmittedUser>) -> Option<i32> {
    let peer = getsockopt(socket, sockopt::PeerCredentials).ok()?;
    let trusted = [Some(0), Some(started_by()), admitted.map(|user| user.uid)];
    trusted.contains(&Some(peer.uid())).then(|| peer.pid())
}

/// Whether the process at the other end belongs to root.
pub fn is_root(socket: &impl AsFd) -> bool {
    getsockopt(socket, sockopt::PeerCredentials).is_ok_and(|peer| peer.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of_failure(path: &Path, kind: Type) -> Option<ErrorKind> {
        listen(path, kind, 1, None).err().map(|error| error.kind())
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_living_one_of_either_kind_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new").join("socket");
        for kind in [Type::STREAM, Type::SEQPACKET] {
            let living = listen(&path, kind, 1, None).expect("listening");
            assert_eq!(std::fs::metadata(&path).expect("a socket").permissions().mode() & 0o777, 0o600);
            for other in [Type::STREAM, Type::SEQPACKET] {
                assert_eq!(kind_of_failure(&path, other), Some(ErrorKind::AddrInUse));
            }
            drop(living);
            assert!(path.exists());
        }
        listen(&path, Type::STREAM, 1, None).expect("a dead one is replaced");
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
        assert_eq!(trusted_peer(&one, None), Some(nix::unistd::getpid().as_raw()));
    }

    #[test]
    fn the_group_of_an_admitted_user_may_open_the_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new").join("socket");
        // Every user may give a file to a group of its own, and root to any.
        let gid = nix::unistd::getegid().as_raw();
        let admitted = AdmittedUser { uid: 12345, gid };
        let _socket = listen(&path, Type::SEQPACKET, 1, Some(admitted)).expect("listening");
        let file = std::fs::metadata(&path).expect("a socket");
        assert_eq!((file.permissions().mode() & 0o777, file.gid()), (0o660, gid));
        let folder = std::fs::metadata(path.parent().expect("a folder")).expect("made");
        assert_eq!(folder.permissions().mode() & 0o777, 0o711);
    }
}
