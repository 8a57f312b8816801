//! `convoy run`: the gateway over its ports, until it is told to stop.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use convoy_ipsec::TunnelId;
use convoy_port::{Pcap, Port, PortError, PortKind, Raw, Tun, Udp, UdpConfig};

use crate::assemble::{self, AssembleError, Installed, inner_mtu};
use crate::config::{Config, PortConfig};
use crate::costs::Costs;
use crate::pipeline::Clock;
use crate::snapshot::Snapshot;
use crate::worker::{Worker, WorkerEvent};

/// How long packets that are under way may take when the gateway stops.
const DRAIN: Duration = Duration::from_secs(5);
/// Rounds between two looks at what the operator wants.
const ROUNDS: u32 = 64;

/// What the operator wants of a running gateway.
pub enum Order {
    /// Let packets under way leave, then end.
    Stop,
    /// Go over to this configuration; SAs that did not change stay.
    Reload(Box<Config>),
    /// Say what there is, by this channel.
    Show(std::sync::mpsc::Sender<Snapshot>),
}

/// Why a gateway could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be put together.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// A port could not be opened, or failed as a whole.
    #[error(transparent)]
    Port(#[from] PortError),
    /// It would have gone on with more rights than it needs.
    #[error(transparent)]
    Privileges(#[from] crate::privileges::PrivilegeError),
}

/// A gateway with its ports open.
pub struct Gateway {
    worker: Worker,
    config: Config,
    installed: Vec<Installed>,
    next_tunnel: u32,
    costs: Costs,
    began: Instant,
}

impl Gateway {
    /// Opens ports, gives up all privileges, and installs engines and tunnels.
    ///
    /// # Errors
    /// [`RunError`] names the port, engine or tunnel.
    pub fn start(config: Config) -> Result<Self, RunError> {
        let mut ports: [Vec<Box<dyn Port>>; 2] = Default::default();
        for port in &config.ports {
            ports[usize::from(port.is_outside)].push(open(port, &config)?);
        }
        if let Some(side) = ports.iter().position(Vec::is_empty) {
            let side = ["inside", "outside"][side];
            let reason = "there is none; a gateway needs a [[port]] on each side".to_owned();
            return Err(PortError::Invalid { port: side.to_owned(), reason }.into());
        }
        crate::privileges::drop_all()?;
        let mut costs = Costs::new();
        let engines = assemble::engines(&config, &mut costs)?;
        let (pipeline, installed) = assemble::pipeline(&config, engines, &mut costs, Clock::start())?;
        let [inside, outside] = ports;
        let next_tunnel = installed.len() as u32;
        let worker = Worker::new(pipeline, inside, outside);
        Ok(Self { worker, config, installed, next_tunnel, costs, began: Instant::now() })
    }

    /// Works until an order to stop comes, or every port has ended (captures). `tell` hears what the operator
    /// should know.
    ///
    /// # Errors
    /// [`RunError::Port`] if a port failed as a whole.
    pub fn work(&mut self, orders: &Receiver<Order>, tell: &mut dyn FnMut(String)) -> Result<(), RunError> {
        let mut rounds = 0;
        while !self.worker.is_finished() {
            let moved = self.worker.round(true)?;
            if !moved {
                self.worker.idle();
            }
            rounds += 1;
            if moved && rounds % ROUNDS != 0 {
                continue;
            }
            self.tell_events(tell);
            match orders.try_recv() {
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => break,
                Ok(Order::Reload(config)) => self.reload(*config, tell),
                Ok(Order::Show(reply)) => {
                    // Whoever asked may have gone.
                    let _ = reply.send(self.snapshot());
                }
                Err(TryRecvError::Empty) => {}
            }
        }
        self.drain()?;
        self.tell_events(tell);
        Ok(())
    }

    fn drain(&mut self) -> Result<(), RunError> {
        let began = Instant::now();
        while !self.worker.is_drained() && began.elapsed() < DRAIN {
            if !self.worker.round(false)? {
                self.worker.idle();
            }
        }
        Ok(())
    }

    fn tell_events(&mut self, tell: &mut dyn FnMut(String)) {
        for event in self.worker.take_events() {
            tell(match event {
                WorkerEvent::Engine(event) => event.to_string(),
                WorkerEvent::Lifetime(event) => {
                    format!("SA {}: {:?} lifetime reached", event.name, event.expiry)
                }
            });
        }
    }

    /// What there is now.
    pub fn snapshot(&self) -> Snapshot {
        let names = self.installed.iter().map(|tunnel| (tunnel.id, tunnel.config.name.clone())).collect();
        Snapshot::of(&self.worker, &names, self.began.elapsed())
    }

    /// Goes over to another configuration: tunnels that did not change keep their SAs, and with them their
    /// sequence numbers and replay windows. Ports and engines stay as they are.
    fn reload(&mut self, config: Config, tell: &mut dyn FnMut(String)) {
        if config.ports != self.config.ports || config.engines != self.config.engines {
            tell(
                "reload: changes of ports and engines need a restart; they were left as they are".to_owned(),
            );
        }
        let mut kept = Vec::new();
        let mut gone = Vec::new();
        for tunnel in self.installed.drain(..) {
            let stays = config.tunnels.contains(&tunnel.config);
            if stays { kept.push(tunnel) } else { gone.push(tunnel) }
        }
        let is_new = |wanted: &&crate::config::TunnelConfig| !kept.iter().any(|old| **wanted == old.config);
        let new: Vec<_> = config.tunnels.iter().filter(is_new).cloned().collect();
        let pipeline = self.worker.pipeline_mut();
        // Policies first: nothing may be prepared for an SA that is leaving.
        assemble::set_policies(pipeline, &config, &kept);
        let count = gone.len();
        for tunnel in gone {
            tunnel.sas.iter().for_each(|sa| pipeline.retire(*sa));
        }
        let (stayed, mut added) = (kept.len(), 0);
        for tunnel in new {
            let id = TunnelId(self.next_tunnel);
            self.next_tunnel += 1;
            match assemble::install(pipeline, &tunnel, id, &mut self.costs) {
                Ok(installed) => {
                    kept.push(installed);
                    added += 1;
                }
                Err(error) => tell(format!("reload: {error}")),
            }
        }
        assemble::set_policies(pipeline, &config, &kept);
        self.installed = kept;
        tell(format!("reload: {stayed} tunnels stayed, {added} came, {count} went"));
        self.config =
            Config { ports: self.config.ports.clone(), engines: self.config.engines.clone(), ..config };
    }
}

/// Opens one port of a configuration.
fn open(port: &PortConfig, config: &Config) -> Result<Box<dyn Port>, PortError> {
    let invalid = |reason: &str| PortError::Invalid { port: port.name.clone(), reason: reason.to_owned() };
    match port.kind {
        PortKind::Tun => {
            let device = port.device.as_deref().ok_or_else(|| invalid("add device = \"convoy0\""))?;
            let routes = routes(config, &port.addresses);
            let tun = Tun::open(&port.name, device, &port.addresses, inner_mtu(config), &routes)?;
            Ok(Box::new(tun))
        }
        PortKind::Udp => {
            let addresses: Vec<IpAddr> = port.addresses.iter().map(|(address, _)| *address).collect();
            let queues = Udp::bind(&UdpConfig {
                name: port.name.clone(),
                addresses,
                port: port.udp_port,
                mtu: config.mtu,
                queues: 1,
                offloads: true,
            })?;
            first(queues, &port.name)
        }
        PortKind::Pcap => {
            let (read, write) = &port.files;
            Ok(Box::new(Pcap::open(&port.name, read.as_deref(), write.as_deref())?))
        }
        PortKind::Raw => {
            let addresses: Vec<IpAddr> = port.addresses.iter().map(|(address, _)| *address).collect();
            Ok(Box::new(Raw::bind(&port.name, &addresses, config.mtu.into())?))
        }
        PortKind::Memory => Err(invalid("memory ports are for tests; use tun and udp")),
    }
}

/// The queue of the one worker.
fn first<P: Port + 'static>(queues: Vec<P>, port: &str) -> Result<Box<dyn Port>, PortError> {
    let queue = queues.into_iter().next();
    queue
        .map(|queue| Box::new(queue) as Box<dyn Port>)
        .ok_or_else(|| PortError::Invalid { port: port.to_owned(), reason: "it has no queue".to_owned() })
}

/// What is behind the tunnels' peers, but for what the interface's own addresses already cover.
fn routes(config: &Config, own: &[(IpAddr, u8)]) -> Vec<(IpAddr, u8)> {
    let mut routes: Vec<(IpAddr, u8)> = config
        .tunnels
        .iter()
        .filter(|tunnel| tunnel.mode == convoy_ipsec::Mode::Tunnel)
        .flat_map(|tunnel| &tunnel.remote_ts)
        .filter_map(|selector| selector.addresses.as_prefix())
        .filter(|prefix| !own.contains(prefix))
        .collect();
    routes.sort_unstable();
    routes.dedup();
    routes
}
