//! How a running port goes on when its interface has vanished and is back. The gateway has given up
//! its privileges by then: its helper creates TUN interfaces, and sockets are in reserve.

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::interface::PortError;
use crate::tun_device::TunFiles;

/// What has to be done when a port's interface is missing.
#[derive(Clone, Debug)]
pub enum Reopening {
    /// A TUN interface: the helper creates it again for these files.
    Tun(TunFiles),
    /// An interface of the host's: the port takes reserved sockets to it once it is back.
    Link(Arc<dyn Reopen>),
}

/// An interface of the host's at which a port's queues have sockets.
pub trait Reopen: Debug + Send + Sync {
    /// Its name.
    fn interface(&self) -> &str;

    /// The number of the interface at which the sockets are; `None` if there was none yet.
    fn number(&self) -> Option<u32>;

    /// Whether sockets are left in reserve.
    fn has_reserve(&self) -> bool;

    /// Takes reserved sockets to the interface of this number; the queues find them by their next
    /// [`tick`](crate::Port::tick). It needs no privileges.
    ///
    /// # Errors
    /// What the system refused.
    fn reopen(&self, number: u32) -> Result<(), PortError>;
}

/// Sets of sockets, one for each queue of a port, opened while the process had privileges.
#[derive(Debug)]
pub(crate) struct SocketReserve(Mutex<Vec<Vec<OwnedFd>>>);

impl SocketReserve {
    /// So many sets.
    ///
    /// # Errors
    /// The first error of `open`.
    pub(crate) fn new(
        sets: usize,
        open: impl Fn() -> std::io::Result<Vec<OwnedFd>>,
    ) -> std::io::Result<Self> {
        (0..sets).map(|_| open()).collect::<Result<_, _>>().map(|sets| Self(Mutex::new(sets)))
    }

    /// Takes a set, if one is left.
    pub(crate) fn take(&self) -> Option<Vec<OwnedFd>> {
        lock(&self.0).pop()
    }

    /// Whether one is left.
    pub(crate) fn has_more(&self) -> bool {
        !lock(&self.0).is_empty()
    }
}

/// New sockets for the queues of a port, each until its queue takes it.
pub(crate) struct Fresh<S>(Vec<Mutex<Option<(u32, S)>>>);

impl<S> Fresh<S> {
    /// None yet for this many queues.
    pub(crate) fn new(queues: usize) -> Self {
        Self((0..queues).map(|_| Mutex::default()).collect())
    }

    /// Gives each queue its socket at the interface of this number.
    pub(crate) fn put(&self, number: u32, sockets: impl IntoIterator<Item = S>) {
        for (place, socket) in self.0.iter().zip(sockets) {
            *lock(place) = Some((number, socket));
        }
    }

    /// A queue's socket with the number of its interface, if there is a new one.
    pub(crate) fn take(&self, queue: usize) -> Option<(u32, S)> {
        lock(self.0.get(queue)?).take()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_takes_its_latest_socket_once() {
        let fresh = Fresh::new(2);
        assert_eq!(fresh.take(0), None);
        fresh.put(7, ["a", "b"]);
        fresh.put(8, ["c", "d"]);
        assert_eq!((fresh.take(1), fresh.take(1), fresh.take(0)), (Some((8, "d")), None, Some((8, "c"))));
    }
}
