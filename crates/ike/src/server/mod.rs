//! The listening side: charon's plugin connects, sends requests, and receives events.
//!
//! Separate threads do everything that may block, so that neither a slow nor a hostile client holds
//! the gateway up: requests go to the [`Handler`], events wait in a bounded queue (whose callers
//! learn when it is full), and an IKE datagram without room is dropped, as a network would.

mod connection;
mod links;
mod socket;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::local::AdmittedUser;
use crate::protocol::{CharonReply, CharonRequest, Datagram, SaEvent};
use links::CharonLinks;
use socket::Listener;

/// The gateway's side of charon's requests. Called from the server's threads, possibly
/// concurrently.
pub trait Handler: Send + Sync + 'static {
    /// A charon has connected; pass it on to
    /// [`CharonState::connect`](crate::state::CharonState::connect).
    fn connected(&self, session: u64, charon: &str);

    /// Executes a request. charon waits for two seconds.
    fn request(&self, request: CharonRequest) -> CharonReply;

    /// Sends an IKE datagram of charon's by the port outside.
    fn transmit(&self, datagram: Datagram);

    /// The thread that accepts connections has panicked: no charon can connect any more.
    fn listener_failed(&self);
}

/// Settings of [`Server`].
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where to listen.
    pub path: PathBuf,
    /// Random, drawn when the gateway starts.
    pub generation: u64,
    /// The gateway's port for IKE.
    pub ike_port: u16,
    /// The gateway's port for IKE and ESP behind a NAT.
    pub natt_port: u16,
    /// Whether to refuse every charon until [`Outlet::lead`].
    pub stands_by: bool,
}

impl ServerConfig {
    /// Listening at `path`, with the usual ports.
    pub fn new(path: &Path, generation: u64) -> Self {
        Self { path: path.to_owned(), generation, ike_port: 500, natt_port: 4500, stands_by: false }
    }
}

/// Losses between the gateway and charon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossCounters {
    /// Acquires for which the queue had no room, or charon was not connected.
    pub acquires: u64,
    /// IKE datagrams for charon for which the socket had no room, or charon was not connected.
    pub datagrams: u64,
}

/// A socket that listens already; clients wait until [`Server::serve`].
pub struct Listening(Listener);

impl Listening {
    /// Listens at `path`, for charons of root, of the user who started the gateway, and of the one
    /// who is admitted. A socket that a dead gateway left is replaced.
    ///
    /// # Errors
    /// What the system refused, or that another gateway listens there.
    pub fn at(path: &Path, admitted: Option<AdmittedUser>) -> io::Result<Self> {
        Listener::bind(path, admitted).map(Self)
    }
}

/// Listens until it is dropped.
pub struct Server {
    path: PathBuf,
    listener: Arc<Listener>,
    links: Arc<CharonLinks>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on threads of its own. A socket that a dead gateway left is replaced.
    ///
    /// # Errors
    /// What the system refused, or that another gateway listens there.
    pub fn start(config: ServerConfig, handler: Arc<dyn Handler>) -> io::Result<Self> {
        Self::serve(Listening::at(&config.path, None)?, config, handler)
    }

    /// Serves who connects to a socket, on threads of its own; `config` names its path.
    ///
    /// # Errors
    /// That the system refused a thread.
    pub fn serve(listening: Listening, config: ServerConfig, handler: Arc<dyn Handler>) -> io::Result<Self> {
        let listener = Arc::new(listening.0);
        let links =
            Arc::new(if config.stands_by { CharonLinks::standing_by() } else { CharonLinks::default() });
        let path = config.path.clone();
        let (accepting, shared) = (Arc::clone(&listener), Arc::clone(&links));
        let acceptor = std::thread::Builder::new().name("charon".to_owned()).spawn(move || {
            let _listening = Accepting(Arc::clone(&handler));
            connection::accept_all(&accepting, &Arc::new(config), &shared, &handler);
        })?;
        Ok(Self { path, listener, links, acceptor: Some(acceptor) })
    }

    /// A channel to charon; there may be any number.
    pub fn outlet(&self) -> Outlet {
        Outlet(Arc::clone(&self.links))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.listener.close();
        self.links.close();
        if let Some(acceptor) = self.acceptor.take() {
            // It does not panic; and if it did, there is nothing left to do.
            let _ = acceptor.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Reports the panic of the thread that has it.
struct Accepting(Arc<dyn Handler>);

impl Drop for Accepting {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.listener_failed();
        }
    }
}

/// The channel to charon, for the gateway's threads. None of its calls blocks.
#[derive(Clone)]
pub struct Outlet(Arc<CharonLinks>);

impl Outlet {
    /// Sends charon an event, now or when it is back; an acquire only now. Returns whether it could
    /// be queued: a lost acquire is counted, anything else must be sent again.
    pub fn event(&self, event: SaEvent) -> bool {
        self.0.push_event(event)
    }

    /// Sends charon an IKE datagram. Returns whether there was room.
    pub fn datagram(&self, datagram: &Datagram) -> bool {
        self.0.send_datagram(datagram)
    }

    /// Disconnects charon and refuses every one until [`lead`](Self::lead), since another gateway
    /// of the cluster leads.
    pub fn stand_by(&self) {
        self.0.stand_by();
    }

    /// Admits a charon from now on, to which this gateway is another one than before.
    pub fn lead(&self) {
        self.0.lead();
    }

    /// Whether a charon is connected, on all three connections.
    pub fn is_connected(&self) -> bool {
        self.0.is_complete()
    }

    /// Events that wait for charon.
    pub fn waiting(&self) -> usize {
        self.0.waiting()
    }

    /// What was lost so far.
    pub fn losses(&self) -> LossCounters {
        self.0.losses()
    }
}

#[cfg(test)]
mod tests;
