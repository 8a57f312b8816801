//! The life of a connection: hello, then the work of its role.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zeroize::Zeroizing;

use super::links::CharonLinks;
use super::socket::{Connection, Listener};
use super::{Handler, ServerConfig};
use crate::protocol::{
    CharonRequest, DATAGRAM_BYTES, Datagram, Hello, MESSAGE_BYTES, ReplyStatus, Role, Welcome,
};

/// Time limit of a client's hello, and of receiving what it is sent.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Connections at a time, including those without a hello: a charon needs three.
const CONNECTIONS: usize = 16;
/// Pause after a failed accept, for example for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts until the listener is closed.
pub(super) fn accept_all(
    listener: &Listener,
    config: &Arc<ServerConfig>,
    links: &Arc<CharonLinks>,
    handler: &Arc<dyn Handler>,
) {
    let count = Arc::new(AtomicUsize::new(0));
    loop {
        let (connection, trusted_pid) = match listener.accept() {
            Ok((connection, trusted_pid)) => (Arc::new(connection), trusted_pid),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return,
            Err(error) => {
                tracing::warn!(%error, "charon's socket: cannot accept a connection");
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        let Some(slot) = ConnectionSlot::take(&count) else {
            tracing::warn!("charon's socket: too many connections");
            continue;
        };
        let client = Client {
            connection,
            trusted_pid,
            config: Arc::clone(config),
            links: Arc::clone(links),
            handler: Arc::clone(handler),
        };
        let thread = std::thread::Builder::new().name("charon's".to_owned());
        let spawned = thread.spawn(move || {
            let _seat = slot;
            client.serve();
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "charon's socket: cannot start a thread for a connection");
        }
    }
}

/// One of the allowed connections, given back however it ends.
struct ConnectionSlot(Arc<AtomicUsize>);

impl ConnectionSlot {
    fn take(count: &Arc<AtomicUsize>) -> Option<Self> {
        let slot = Self(Arc::clone(count));
        (count.fetch_add(1, Ordering::Relaxed) < CONNECTIONS).then_some(slot)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection's registration among the links, ended however the connection ends: charon notices,
/// and connects again.
struct LinkRegistration<'a> {
    client: &'a Client,
    role: Role,
}

impl Drop for LinkRegistration<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(role = ?self.role, "a connection of charon ended because of a fault in convoy; \
                please report it");
        }
        self.client.links.leave(self.role, &self.client.connection);
    }
}

struct Client {
    connection: Arc<Connection>,
    /// The process at the other end, if it is trusted.
    trusted_pid: Option<i32>,
    config: Arc<ServerConfig>,
    links: Arc<CharonLinks>,
    handler: Arc<dyn Handler>,
}

impl Client {
    fn serve(&self) {
        let Some(pid) = self.trusted_pid else {
            tracing::warn!(
                "charon's socket: refused a client that is neither root nor the user of the gateway or of charon"
            );
            return;
        };
        let hello = match self.greet() {
            Ok(hello) => hello,
            Err(error) => {
                tracing::warn!(pid, %error, "charon's socket: refused a client");
                return;
            }
        };
        let place = LinkRegistration { client: self, role: hello.role };
        let outcome = self.welcome(&hello, pid).and_then(|()| self.follow(hello.role));
        drop(place);
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                tracing::warn!(pid, role = ?hello.role, %error, "charon was disconnected");
            }
            _ if hello.role == Role::Control => tracing::info!(pid, "charon disconnected"),
            _ => {}
        }
    }

    /// Reads the hello; an invalid one is answered with the reason.
    fn greet(&self) -> io::Result<Hello> {
        self.connection.set_timeouts(Some(TIMEOUT), TIMEOUT)?;
        let mut buffer = [0; MESSAGE_BYTES + 1];
        Hello::decode(self.connection.receive(&mut buffer)?).or_else(|error| {
            self.connection.send(&self.answer(ReplyStatus::Failed, error.to_string()).encode())?;
            Err(io::Error::new(io::ErrorKind::InvalidData, error))
        })
    }

    /// Admits the client, or answers why not. The gateway learns of a charon before charon hears of
    /// the gateway, and charon gets its welcome before any event or datagram.
    fn welcome(&self, hello: &Hello, pid: i32) -> io::Result<()> {
        let welcome = self.answer(ReplyStatus::Ok, String::new()).encode();
        let is_control = hello.role == Role::Control;
        let greeting = (!is_control).then_some(&welcome[..]);
        let admitted = self.links.admit(hello.role, hello.session, pid, &self.connection, greeting);
        if let Err((status, reason)) = admitted {
            self.connection.send(&self.answer(status, reason.clone()).encode())?;
            // A charon that waits for its gateway to lead asks several times a second.
            let is_expected = status == ReplyStatus::StandsBy;
            return if is_expected {
                Err(io::ErrorKind::ConnectionRefused.into())
            } else {
                Err(io::Error::other(reason))
            };
        }
        if is_control {
            let version = &hello.charon;
            if hello.has_iptfs() {
                tracing::info!(pid, "charon {version} connected");
            } else {
                tracing::info!(
                    pid,
                    "charon {version} connected; `mode = iptfs` in swanctl.conf needs strongSwan 6.0.2 or later"
                );
            }
            self.handler.connected(hello.session, &hello.charon);
            self.connection.send(&welcome)?;
        }
        self.connection.set_timeouts(None, TIMEOUT)
    }

    fn answer(&self, status: ReplyStatus, text: String) -> Welcome {
        let ServerConfig { generation, ike_port, natt_port, .. } = *self.config;
        let generation = generation.wrapping_add(self.links.terms());
        Welcome { status, generation, ike_port, natt_port, text }
    }

    fn follow(&self, role: Role) -> io::Result<()> {
        match role {
            Role::Control => self.control(),
            Role::Events => self.events(),
            Role::Ike => self.ike(),
        }
    }

    /// A client that sends anything else after a valid hello is no plugin of ours, and is
    /// disconnected.
    fn control(&self) -> io::Result<()> {
        let mut buffer = Zeroizing::new([0; MESSAGE_BYTES + 1]);
        loop {
            let (id, request) =
                CharonRequest::decode(self.connection.receive(&mut buffer[..])?).map_err(io::Error::other)?;
            let kind = request.kind();
            self.connection.send(&self.handler.request(request).encode(kind, id))?;
        }
    }

    fn events(&self) -> io::Result<()> {
        while let Some(event) = self.links.wait_event(&self.connection) {
            self.connection.send(&event.encode())?;
            self.links.sent_event(&self.connection);
        }
        Ok(())
    }

    fn ike(&self) -> io::Result<()> {
        let mut buffer = vec![0; DATAGRAM_BYTES + 1];
        loop {
            let message = self.connection.receive(&mut buffer)?;
            self.handler.transmit(Datagram::decode(message).map_err(io::Error::other)?);
        }
    }
}
