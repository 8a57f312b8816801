//! The way between strongSwan's charon and the workers: its SAs and policies go into all of them, its IKE messages by their
//! ports, and what they have to say goes to it.

mod backend;
mod ear;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use convoy_ike::protocol::{Datagram, Event, Reply, Request, WireSelector};
use convoy_ike::server::{Handler, Outlet, Server, ServerConfig};
use convoy_ike::state::{State, StateConfig};
use convoy_packet::protocol::UDP;
use convoy_packet::{IpHeader, Layout, udp};
use rand::RngCore;

use crate::config::Config;
use crate::daemon::Daemon;
use crate::lanes::Lanes;
use crate::pipeline::{Acquire, Clock};
use backend::Workers;
use ear::{Ear, Note};

/// Where charon's plugin looks for the gateway unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/convoy/charon.sock";
/// UDP port of IKE (RFC 7296 section 2).
pub const IKE_PORT: u16 = 500;
/// Tunnels of charon's; those below are the configuration's.
const FIRST_TUNNEL: u32 = 1 << 30;
/// What workers may have told that charon has not heard; what more there is, is lost.
const NOTES: usize = 1024;

/// State and workers, which are changed together.
struct Installed {
    state: State,
    workers: Workers,
}

/// What charon asks is done here.
struct Desk {
    installed: Mutex<Option<Installed>>,
    lanes: Mutex<Option<Lanes>>,
    /// The source of what charon sends from no address in particular.
    sources: Vec<IpAddr>,
}

/// A charon's place at the gateway; it ends when this is dropped.
pub(crate) struct Charon {
    path: PathBuf,
    server: Option<Server>,
    desk: Arc<Desk>,
    notes: Option<Receiver<Note>>,
    ears: Vec<Arc<Ear>>,
    thread: Option<JoinHandle<()>>,
}

impl Charon {
    /// A place for charon; it is heard from [`join`](Self::join) on.
    pub(crate) fn new(path: &Path, config: &Config) -> Self {
        let outside = config.ports.iter().filter(|port| port.is_outside).flat_map(|port| &port.addresses);
        let desk = Arc::new(Desk {
            installed: Mutex::new(None),
            lanes: Mutex::new(None),
            sources: outside.map(|(address, _)| *address).collect(),
        });
        let (sender, notes) = sync_channel(NOTES);
        let ears = (0..config.workers).map(|worker| Arc::new(Ear::new(worker, sender.clone()))).collect();
        Self { path: path.to_owned(), server: None, desk, notes: Some(notes), ears, thread: None }
    }

    /// What a worker tells.
    pub(crate) fn ear(&self, worker: u16) -> Arc<dyn Daemon> {
        Arc::clone(&self.ears[usize::from(worker)]) as Arc<dyn Daemon>
    }

    /// Gives charon the workers, and listens for it.
    ///
    /// # Errors
    /// The system's, or that another gateway listens there.
    pub(crate) fn join(&mut self, lanes: Lanes, config: &Config, clock: Clock) -> io::Result<()> {
        let state = State::new(StateConfig {
            first_tunnel: FIRST_TUNNEL,
            workers: config.workers,
            allow_weak: config.allow_weak,
            ..StateConfig::default()
        });
        let workers = Workers::new(lanes.clone());
        *lock(&self.desk.lanes) = Some(lanes);
        *lock(&self.desk.installed) = Some(Installed { state, workers });
        let Some(notes) = self.notes.take() else { return Ok(()) };
        let handler: Arc<dyn Handler> = Arc::clone(&self.desk) as Arc<dyn Handler>;
        let server = Server::start(ServerConfig::new(&self.path, rand::rng().next_u64()), handler)?;
        let (desk, outlet) = (Arc::clone(&self.desk), server.outlet());
        self.server = Some(server);
        let thread = std::thread::Builder::new().name("charon's ear".to_owned());
        self.thread = Some(thread.spawn(move || {
            for note in notes {
                desk.hear(note, &outlet, clock);
            }
        })?);
        Ok(())
    }
}

impl Drop for Charon {
    fn drop(&mut self) {
        // Workers have ended by now, and with the last ear the thread does.
        self.ears.clear();
        *lock(&self.desk.lanes) = None;
        *lock(&self.desk.installed) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    /// Tells charon what a worker has told.
    fn hear(&self, note: Note, outlet: &Outlet, clock: Clock) {
        if let Note::Ike(packet) = note {
            if let Some(datagram) = datagram_of(&packet) {
                // Without room it is lost, as on any network: IKE sends it again.
                outlet.datagram(&datagram);
            }
            return;
        }
        let mut installed = lock(&self.installed);
        let Some(Installed { state, workers }) = installed.as_mut() else { return };
        let event = match note {
            Note::Ike(_) => None,
            Note::Acquire(acquire) => self::acquire(state, &acquire, clock.now_ns()),
            Note::Expire(worker, event) => {
                workers.handle(worker, event.sa).and_then(|sa| state.expired(sa, event.expiry, workers))
            }
            Note::Mapping(worker, change) => {
                workers.handle(worker, change.sa).and_then(|sa| state.mapped(sa, change.new))
            }
        };
        if let Some(event) = event {
            outlet.event(event);
        }
    }
}

fn acquire(state: &mut State, acquire: &Acquire, now_ns: u64) -> Option<Event> {
    let flow = &acquire.flow;
    let (from, to) = flow.ports().unwrap_or_default();
    let end = |address, port| WireSelector::of_packet(address, flow.protocol(), port);
    state.acquire(acquire.tunnel, now_ns, end(flow.source(), from), end(flow.destination(), to))
}

impl Handler for Desk {
    fn connected(&self, session: u64, charon: &str) {
        if let Some(Installed { state, workers }) = lock(&self.installed).as_mut() {
            tracing::info!("{charon} has connected");
            state.connect(session, workers);
        }
    }

    fn request(&self, request: Request) -> Reply {
        let mut installed = lock(&self.installed);
        let Some(Installed { state, workers }) = installed.as_mut() else {
            return Reply::refused(convoy_ike::protocol::Status::Failed, "the gateway is stopping");
        };
        let reply = state.handle(request, workers, &mut |bytes| rand::rng().fill_bytes(bytes));
        workers.name(|tunnel| state.name(tunnel).cloned());
        reply
    }

    fn transmit(&self, datagram: Datagram) {
        let Some(packet) = packet_of(&datagram, &self.sources) else { return };
        if let Some(lanes) = lock(&self.lanes).as_ref() {
            lanes.send(0, move |lane| lane.worker_mut().send_outside(&packet));
        }
    }
}

/// What charon reads of a packet to one of IKE's ports.
fn datagram_of(packet: &[u8]) -> Option<Datagram> {
    let layout = Layout::parse(packet).ok().filter(|layout| layout.protocol == UDP)?;
    let datagram = udp::Udp::parse(layout.body(packet)).ok()?;
    let (source, destination) = layout.addresses(packet);
    Some(Datagram {
        source: SocketAddr::new(source, datagram.source_port()),
        destination: SocketAddr::new(destination, datagram.destination_port()),
        payload: datagram.payload().to_vec(),
    })
}

/// The packet that charon wants sent; from the first of `sources` of its family where it names no address of its own.
fn packet_of(datagram: &Datagram, sources: &[IpAddr]) -> Option<Vec<u8>> {
    let destination = datagram.destination.ip();
    let of_family = || sources.iter().find(|source| source.is_ipv4() == destination.is_ipv4()).copied();
    let source = Some(datagram.source.ip()).filter(|source| !source.is_unspecified()).or_else(of_family)?;
    if source.is_ipv4() != destination.is_ipv4() {
        return None;
    }
    let header = IpHeader::new(UDP, source, destination);
    let at = header.header_len();
    let len = at + udp::HEADER_BYTES + datagram.payload.len();
    let mut packet = vec![0; u16::try_from(len).ok()?.into()];
    packet[at + udp::HEADER_BYTES..].copy_from_slice(&datagram.payload);
    header.write(&mut packet);
    udp::write(&mut packet[at..], datagram.source.port(), datagram.destination.port());
    Some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_charon_sends_and_hears_keeps_its_ends_and_its_bytes() {
        for (from, to) in [("192.0.2.1:500", "192.0.2.9:500"), ("[2001:db8::1]:4500", "[2001:db8::9]:4500")] {
            let datagram = Datagram {
                source: from.parse().expect("an end"),
                destination: to.parse().expect("an end"),
                payload: b"\0\0\0\0 an IKE message".to_vec(),
            };
            let packet = packet_of(&datagram, &[]).expect("one family");
            assert_eq!(datagram_of(&packet), Some(datagram.clone()));
            let own = datagram.source.ip();
            let from_anywhere = Datagram {
                source: SocketAddr::new(if own.is_ipv4() { [0; 4].into() } else { [0; 16].into() }, 500),
                ..datagram
            };
            let sources = ["203.0.113.1".parse().expect("an address"), own];
            let packet = packet_of(&from_anywhere, &sources[1..]).expect("there is a source");
            assert_eq!(datagram_of(&packet).map(|datagram| datagram.source), Some(SocketAddr::new(own, 500)));
        }
        assert_eq!(datagram_of(b"no packet"), None);
    }
}
