//! A gateway without packets, for a real charon: `control_path.sh` runs the two against a stock
//! charon.
//!
//! usage: control_path SOCKET LOCAL_ADDRESS. It owns UDP 500 and 4500 there, keeps SAs in memory,
//! lets them expire by their lifetimes, and on a line `acquire` requests the SAs of every trap. It
//! prints what it does, one line each.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use convoy_ike::protocol::{CharonReply, CharonRequest, Datagram, EncapMode, SaEvent, WireSelector};
use convoy_ike::server::{Handler, Outlet, Server, ServerConfig};
use convoy_ike::state::{
    CharonState, ChildName, ChildNews, NegotiatedEnds, PolicyUpdate, Refusal, SaBackend, SaUsage, StateConfig,
};
use convoy_ipsec::{Action, Expiry, Policy, PolicyPlace, SaConfig, SaIndex, SaNumber, TunnelId};
use rand::Rng;

/// One SA: its soft and hard times, and which of them it has reached.
struct Sa {
    config: SaConfig,
    since: Instant,
    reported: Option<Expiry>,
}

#[derive(Default)]
struct Memory {
    sas: HashMap<SaNumber, Sa>,
    next: u32,
    policies: BTreeMap<PolicyPlace, Policy>,
}

impl SaBackend for Memory {
    fn warn_of_mode(&mut self, child: &ChildName, configured: EncapMode, mode: EncapMode) {
        println!("warn {child} {configured} {mode}");
    }

    fn tell(&mut self, news: ChildNews) {
        println!("news {} {:?}", news.child, news.what);
    }

    fn install(&mut self, sa: SaConfig, _: Option<u32>) -> Result<SaNumber, Refusal> {
        let number = SaNumber { owner: 0, index: SaIndex(self.next), generation: self.next };
        self.next += 1;
        println!(
            "install {:?} {:08x} {} {:?} esn={} tunnel={}",
            sa.direction,
            sa.spi,
            sa.keys.transform(),
            sa.mode,
            sa.esn,
            sa.tunnel.0
        );
        self.sas.insert(number, Sa { config: sa, since: Instant::now(), reported: None });
        Ok(number)
    }

    fn remove(&mut self, sa: SaNumber) {
        if let Some(sa) = self.sas.remove(&sa) {
            println!("remove {:?} {:08x}", sa.config.direction, sa.config.spi);
        }
    }

    fn change_policies(&mut self, update: PolicyUpdate) {
        for change in update.steps.into_iter().map(|step| step.change) {
            change.gone.and_then(|place| self.policies.remove(&place));
            if let Some((rank, policy)) = change.came {
                self.policies.insert(PolicyPlace { priority: policy.priority, rank }, policy);
            }
        }
        for policy in self.policies.values() {
            println!("policy {} {} {} {:?}", policy.priority, policy.name, policy.selector, policy.action);
        }
        println!("policies {}", self.policies.len());
    }

    fn move_sa(&mut self, sa: SaNumber, ends: NegotiatedEnds) -> Result<(), Refusal> {
        println!("move {sa:?} {ends:?}");
        Ok(())
    }

    fn usage(&mut self, _: SaNumber) -> Option<SaUsage> {
        Some(SaUsage::default())
    }
}

impl Memory {
    /// The SAs that have reached a lifetime since the last call.
    fn due(&mut self) -> Vec<(SaNumber, Expiry)> {
        let reached =
            |limit: Option<u64>, age: Duration| limit.is_some_and(|ns| age.as_nanos() >= u128::from(ns));
        let mut due = Vec::new();
        for (number, sa) in &mut self.sas {
            let (age, lifetime) = (sa.since.elapsed(), sa.config.lifetime);
            let expiry = match sa.reported {
                None | Some(Expiry::Soft) if reached(lifetime.hard.time_ns, age) => Expiry::Hard,
                None if reached(lifetime.soft.time_ns, age) => Expiry::Soft,
                _ => continue,
            };
            sa.reported = Some(expiry);
            due.push((*number, expiry));
        }
        due
    }
}

struct Gateway {
    inner: Mutex<(CharonState, Memory)>,
    udp: [UdpSocket; 2],
}

impl Handler for Gateway {
    fn connected(&self, session: u64, charon: &str) {
        println!("connected charon {charon}");
        let (state, memory) = &mut *self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        state.connect(session, memory);
    }

    fn request(&self, request: CharonRequest) -> CharonReply {
        let (state, memory) = &mut *self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut random = |bytes: &mut [u8]| rand::rng().fill_bytes(bytes);
        let reply = state.handle(request.clone(), memory, &mut random);
        match &request {
            CharonRequest::Peer { reqid, peer } => println!("peer {reqid} {}", peer.identity),
            CharonRequest::Name { reqid, connection, child, .. } => {
                println!("name {reqid} {connection}/{child}")
            }
            CharonRequest::QuerySa(_) | CharonRequest::QueryPolicy(_) => {}
            _ => {
                if let CharonReply::Refused { reason, .. } = &reply {
                    println!("refused kind {}: {reason}", request.kind());
                }
            }
        }
        reply
    }

    fn transmit(&self, datagram: Datagram) {
        let socket = &self.udp[usize::from(datagram.source.port() != 500)];
        if let Err(error) = socket.send_to(&datagram.payload, datagram.destination) {
            println!("not sent: {error}");
        }
    }

    fn listener_failed(&self) {
        println!("the listener failed");
    }
}

/// Passes packets of one port on to charon, except for ESP and keep-alives.
fn receive(socket: &UdpSocket, local: SocketAddr, outlet: &Outlet) -> std::io::Result<()> {
    let mut buffer = vec![0; 65_535];
    loop {
        let (len, source) = socket.recv_from(&mut buffer)?;
        let payload = &buffer[..len];
        if local.port() == 4500 && !payload.starts_with(&[0; 4]) {
            continue;
        }
        outlet.datagram(&Datagram { source, destination: local, payload: payload.to_vec() });
    }
}

fn acquire_all(gateway: &Gateway, outlet: &Outlet) {
    let (state, memory) = &mut *gateway.inner.lock().unwrap_or_else(PoisonError::into_inner);
    for policy in memory.policies.values() {
        let Action::Protect(TunnelId(tunnel)) = policy.action else { continue };
        let end = |address: IpAddr| WireSelector::of_packet(address, 17, 9);
        let (source, destination) =
            (policy.selector.local.addresses.first(), policy.selector.remote.addresses.first());
        let event = state.acquire(TunnelId(tunnel), None, 0, end(source), end(destination));
        println!("acquire {}", event.is_some_and(|event: SaEvent| outlet.event(event)));
    }
}

fn main() -> std::io::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(Ok(local))) =
        (arguments.next(), arguments.next().map(|text| text.parse::<IpAddr>()))
    else {
        return Err(std::io::Error::other("usage: control_path SOCKET LOCAL_ADDRESS"));
    };
    let bind = |port| UdpSocket::bind((local, port));
    let state = CharonState::new(StateConfig::default());
    let gateway =
        Arc::new(Gateway { inner: Mutex::new((state, Memory::default())), udp: [bind(500)?, bind(4500)?] });
    let generation = rand::rng().next_u64();
    let handler = Arc::clone(&gateway);
    let server = Server::start(ServerConfig::new(Path::new(&path), generation), handler)?;
    println!("listening generation {generation:016x}");
    for (at, port) in [500, 4500].into_iter().enumerate() {
        let (socket, outlet) = (gateway.udp[at].try_clone()?, server.outlet());
        std::thread::spawn(move || receive(&socket, SocketAddr::new(local, port), &outlet));
    }
    let (timed, outlet) = (Arc::clone(&gateway), server.outlet());
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(100));
            let (state, memory) = &mut *timed.inner.lock().unwrap_or_else(PoisonError::into_inner);
            for (index, expiry) in memory.due() {
                if let Some(event) = state.expired(index, expiry, memory) {
                    println!("expire {expiry:?} {}", outlet.event(event));
                }
            }
        }
    });
    for line in std::io::stdin().lock().lines() {
        if line?.trim() == "acquire" {
            acquire_all(&gateway, &server.outlet());
        }
    }
    Ok(())
}
