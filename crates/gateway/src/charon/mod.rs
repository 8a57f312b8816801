//! The connection between strongSwan's charon and the workers: its SAs go to the worker that serves
//! their tunnel, its policies to all, its IKE messages out by the ports, and the workers' events to
//! charon.

mod backend;
mod key_exchanges;
mod lead;
mod negotiations;
mod networks;
mod notifier;
mod notifies;
mod share;
mod tunnel_names;
mod virtual_ips;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use convoy_config::Config;
use convoy_dataplane::daemon::Daemon;
use convoy_dataplane::pipeline::{Acquire, Clock};
use convoy_ike::local::AdmittedUser;
use convoy_ike::protocol::{CharonReply, CharonRequest, Datagram, SaEvent, WireSelector};
use convoy_ike::server::{Handler, Listening, Outlet, Server, ServerConfig};
use convoy_ike::state::{CharonState, StateConfig};
use convoy_packet::protocol::UDP;
use convoy_packet::{IpHeader, Layout, udp};
use convoy_process::privileges::Account;
use convoy_process::supervise::{self, Fault};
use convoy_report::events::Events;
use convoy_report::snapshot::CharonRow;
use rand::Rng;

use crate::worker_handles::WorkerHandles;
pub(crate) use backend::Workers;
pub(crate) use lead::Door;
use negotiations::Negotiations;
pub(crate) use networks::{Behind, Standing};
use notifier::{CharonNote, Counts, Notifier, NotifierInbox};
pub(crate) use share::Share;
pub(crate) use virtual_ips::may_be_ours;

/// The socket at which charon's plugin looks for the gateway by default.
pub const DEFAULT_SOCKET: &str = "/run/convoy/charon.sock";
/// The first id of charon's tunnels; those below are the configuration's.
const FIRST_TUNNEL: u32 = 1 << 30;
/// How long after charon's queue was full an event is sent again.
const AGAIN: Duration = Duration::from_millis(100);

/// State and workers, which change together.
struct Installed {
    state: CharonState,
    workers: Workers,
}

/// Executes charon's requests.
struct CharonHandler {
    installed: Mutex<Option<Installed>>,
    handles: Mutex<Option<WorkerHandles>>,
    /// The source of IKE messages for which charon names no address.
    sources: Vec<IpAddr>,
    counts: Arc<Counts>,
    /// SAs requested from charon.
    acquires: AtomicU64,
    /// Why negotiations fail.
    negotiations: Mutex<Option<Negotiations>>,
    faults: Sender<Fault>,
}

/// The gateway's side of the connection to charon; it closes when dropped.
pub(crate) struct Charon {
    path: PathBuf,
    listening: Option<Listening>,
    server: Option<Server>,
    handler: Arc<CharonHandler>,
    heard: Option<NotifierInbox>,
    notifiers: Vec<Arc<Notifier>>,
}

impl Charon {
    /// Listens for charon, which may connect from now on, as root or as the user of
    /// [`Config::charon_user`]; it is served from [`join`](Self::join) on. Threads that it starts
    /// report to `faults`.
    ///
    /// # Errors
    /// The system's, that there is no such user, or that another gateway listens there.
    pub(crate) fn listen(path: &Path, config: &Config, faults: Sender<Fault>) -> io::Result<Self> {
        let account = Account::of_charon(config.charon_user.as_deref()).map_err(io::Error::other)?;
        let admitted = account.map(|account| AdmittedUser { uid: account.uid(), gid: account.gid() });
        let listening = Some(Listening::at(path, admitted)?);
        let outside = config.ports.iter().filter(|port| port.is_outside).flat_map(|port| &port.addresses);
        let handler = Arc::new(CharonHandler {
            installed: Mutex::new(None),
            handles: Mutex::new(None),
            sources: outside.map(|(address, _)| *address).collect(),
            counts: Arc::default(),
            acquires: AtomicU64::new(0),
            negotiations: Mutex::new(None),
            faults,
        });
        let (notifiers, heard) = Notifier::for_each(config.workers, &handler.counts);
        let path = path.to_owned();
        Ok(Self { path, listening, server: None, handler, heard: Some(heard), notifiers })
    }

    /// The notifier of a worker.
    pub(crate) fn notifier(&self, worker: u16) -> Arc<dyn Daemon> {
        Arc::clone(&self.notifiers[usize::from(worker)]) as Arc<dyn Daemon>
    }

    /// Gives charon the workers, and serves it; `events` receives news of its tunnels. With
    /// `share`, only while the gateway leads.
    ///
    /// # Errors
    /// That the system refused a thread.
    pub(crate) fn join(
        &mut self,
        handles: WorkerHandles,
        config: &Config,
        clock: Clock,
        events: Events,
        share: Option<Share>,
    ) -> io::Result<()> {
        let is_shared = share.is_some();
        let numbers = config.interfaces.iter().zip(1..);
        let interfaces = numbers.filter_map(|(interface, number)| Some((interface.if_id?, number))).collect();
        let state = CharonState::new(StateConfig {
            first_tunnel: FIRST_TUNNEL,
            admitted: config.admitted,
            is_shared,
            ..StateConfig::default()
        })
        .with_interfaces(interfaces);
        let workers = Workers::new(handles.clone(), config, events, share);
        *lock(&self.handler.negotiations) = Some(workers.negotiations.clone());
        *lock(&self.handler.handles) = Some(handles);
        *lock(&self.handler.installed) = Some(Installed { state, workers });
        let Some((heard, listening)) = self.heard.take().zip(self.listening.take()) else { return Ok(()) };
        let NotifierInbox { messages, notes } = heard;
        let handler: Arc<dyn Handler> = Arc::clone(&self.handler) as Arc<dyn Handler>;
        let natt_port = config.natt_port();
        let stands_by = is_shared;
        let config =
            ServerConfig { natt_port, stands_by, ..ServerConfig::new(&self.path, rand::rng().next_u64()) };
        let server = Server::serve(listening, config, handler)?;
        let (handler, outlet) = (Arc::clone(&self.handler), server.outlet());
        self.server = Some(server);
        let (to_charon, faults) = (outlet.clone(), self.handler.faults.clone());
        supervise::spawn("charon's messages", &faults, move || {
            for datagram in messages.iter().filter_map(|packet| datagram_of(&packet)) {
                // Without room it is lost, as on any network, and counted: IKE retransmits.
                to_charon.datagram(&datagram);
            }
        })?;
        supervise::spawn("charon's events", &faults, move || {
            for note in notes {
                handler.counts.heard(&note);
                handler.hear(note, &outlet, &clock);
            }
        })?;
        Ok(())
    }

    /// Takes another configuration: it may give charon's tunnels other names.
    pub(crate) fn configure(&self, config: &Config) {
        if let Some(Installed { workers, .. }) = lock(&self.handler.installed).as_mut() {
            workers.configure(config);
        }
    }

    /// The traffic of tunnel mode policies that arrived since the last call, or of `all` of them.
    pub(crate) fn behind(&self, all: bool) -> Vec<Behind> {
        let mut installed = lock(&self.handler.installed);
        let Some(Installed { state, workers }) = installed.as_mut() else { return Vec::new() };
        let Workers { networks, names, .. } = workers;
        let behind = if all { networks.take_all() } else { networks.take_new() };
        let child = |tunnel| match state.name(tunnel).filter(|name| !name.child.is_empty()) {
            Some(name) => name.to_string(),
            None => format!("of reqid {}", state.reqid(tunnel).unwrap_or_default()),
        };
        let behind = behind.into_iter().map(|(tunnel, selector)| {
            let (child, standing) = (child(tunnel), names.standing(tunnel));
            Behind { child, selector, standing }
        });
        behind.collect()
    }

    /// The addresses of this host's that peers have chosen; none while another gateway leads.
    pub(crate) fn virtual_ips(&self) -> BTreeSet<IpAddr> {
        let installed = lock(&self.handler.installed);
        let workers = installed.as_ref().map(|installed| &installed.workers);
        workers.filter(|workers| workers.may_serve()).map_or_else(BTreeSet::new, |it| it.virtual_ips.all())
    }

    /// Its state for `convoy show`.
    pub(crate) fn row(&self) -> CharonRow {
        let outlet = self.server.as_ref().map(Server::outlet);
        let counts = &self.handler.counts;
        let negotiations = lock(&self.handler.negotiations).as_ref().map(Negotiations::rows);
        let installed = lock(&self.handler.installed);
        let peers = installed.iter().flat_map(|installed| installed.state.peers());
        let peers = peers.map(|(id, peer)| (id.0, key_exchanges::row(peer))).collect();
        drop(installed);
        CharonRow {
            is_connected: outlet.as_ref().is_some_and(Outlet::is_connected),
            acquires: self.handler.acquires.load(Ordering::Relaxed),
            acquires_lost: counts.lost_acquires(),
            ike_lost: outlet.as_ref().map_or(0, |outlet| outlet.losses().datagrams),
            events_waiting: counts.waiting() + outlet.map_or(0, |outlet| outlet.waiting() as u64),
            negotiations: negotiations.unwrap_or_default(),
            peers,
        }
    }
}

impl Drop for Charon {
    fn drop(&mut self) {
        // Workers have ended by now, and with the last notifier the threads do.
        self.notifiers.clear();
        *lock(&self.handler.handles) = None;
        *lock(&self.handler.installed) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CharonHandler {
    /// Passes an event of a worker on to charon. Events that charon must receive wait for room:
    /// meanwhile the queue behind them fills, and then workers keep their events.
    fn hear(&self, note: CharonNote, outlet: &Outlet, clock: &Clock) {
        let Some(event) = self.event_of(&note, clock) else { return };
        if let CharonNote::Acquire(_) = note {
            match outlet.event(event) {
                true => drop(self.acquires.fetch_add(1, Ordering::Relaxed)),
                false => self.counts.lost_acquire(),
            }
            return;
        }
        while !outlet.event(event) && lock(&self.installed).is_some() {
            std::thread::sleep(AGAIN);
        }
    }

    /// The event in charon's protocol.
    fn event_of(&self, note: &CharonNote, clock: &Clock) -> Option<SaEvent> {
        let mut installed = lock(&self.installed);
        let Installed { state, workers } = installed.as_mut()?;
        let event = match note {
            CharonNote::Acquire(acquire) => {
                let resource = acquire.worker.map(|worker| workers.resource_of(acquire.tunnel, worker));
                self::acquire(state, acquire, resource, clock.now_ns())
            }
            CharonNote::Expire(event) => state.expired(event.sa, event.expiry, workers),
            CharonNote::Mapping(change) => state.mapped(change.sa, change.new),
        };
        workers.tell_store();
        event
    }
}

fn acquire(
    state: &mut CharonState,
    acquire: &Acquire,
    resource: Option<u32>,
    now_ns: u64,
) -> Option<SaEvent> {
    let flow = &acquire.flow;
    let (from, to) = flow.ports().unwrap_or_default();
    let end = |address, port| WireSelector::of_packet(address, flow.protocol(), port);
    state.acquire(acquire.tunnel, resource, now_ns, end(flow.source(), from), end(flow.destination(), to))
}

impl Handler for CharonHandler {
    fn connected(&self, session: u64, _: &str) {
        if let Some(Installed { state, workers }) = lock(&self.installed).as_mut()
            && workers.may_serve()
        {
            workers.negotiations.forget();
            workers.virtual_ips.reconnected();
            state.connect(session, workers);
            workers.tell_store();
        }
    }

    fn request(&self, request: CharonRequest) -> CharonReply {
        let mut installed = lock(&self.installed);
        let Some(Installed { state, workers }) = installed.as_mut() else {
            return CharonReply::refused(
                convoy_ike::protocol::ReplyStatus::Failed,
                "the gateway is stopping",
            );
        };
        if !workers.may_serve() {
            let status = convoy_ike::protocol::ReplyStatus::StandsBy;
            return CharonReply::refused(status, "this gateway stands by");
        }
        let reply = state.handle(request, workers, &mut |bytes| rand::rng().fill_bytes(bytes));
        workers.tell_store();
        reply
    }

    fn transmit(&self, datagram: Datagram) {
        // IKE is the leader's: a DELETE from here would end what another gateway goes on with.
        if !lock(&self.installed).as_ref().is_some_and(|installed| installed.workers.may_serve()) {
            return;
        }
        let Some(packet) = packet_of(&datagram, &self.sources) else { return };
        if let Some(handles) = lock(&self.handles).as_ref() {
            handles.send(0, move |thread| thread.worker_mut().send_outside(&packet));
        }
    }

    fn listener_failed(&self) {
        let _ = self.faults.send(Fault::Thread("charon's socket".to_owned()));
    }
}

/// The datagram in charon's protocol for a packet to one of IKE's ports.
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

/// The packet for a datagram that charon sends; from the first of `sources` of its family if charon
/// names no address.
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
