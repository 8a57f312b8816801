//! `convoy run`: the gateway over its ports, a thread for each worker, until it is told to stop.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use convoy_port::PortError;

use crate::assemble::{self, AssembleError};
use crate::charon::Charon;
use crate::config::Config;
use crate::costs::Costs;
use crate::handover::Handover;
use crate::lane::{Common, Lane, Reloaded, Tell};
use crate::lanes::Lanes;
use crate::pipeline::Clock;
use crate::ports;
use crate::snapshot::Snapshot;
use crate::worker::Worker;

/// How often the workers are looked after while no order comes.
const WATCH: Duration = Duration::from_millis(100);

/// What is done with an answer; whoever asked may have gone by then.
pub type Reply<T> = Box<dyn FnOnce(T) + Send>;

/// What the operator wants of a running gateway.
pub enum Order {
    /// Let packets under way leave, then end.
    Stop,
    /// Go over to this configuration; SAs that did not change stay.
    Reload(Box<Config>),
    /// Say what there is.
    Show(Reply<Snapshot>),
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
    /// The system refused a thread or an event file.
    #[error("worker threads: {0}")]
    Threads(#[from] std::io::Error),
    /// Nobody could listen for charon.
    #[error("charon's socket: {0}")]
    Charon(std::io::Error),
    /// A worker ended by a fault of the program.
    #[error("worker {0} ended by a fault in convoy; please report what it said")]
    Worker(usize),
    /// It would have gone on with more rights than it needs.
    #[error(transparent)]
    Privileges(#[from] crate::privileges::PrivilegeError),
}

/// A gateway with its ports open.
pub struct Gateway {
    lanes: Lanes,
    threads: Vec<JoinHandle<Result<(), PortError>>>,
    config: Config,
    common: Arc<Common>,
    tell: Tell,
    _charon: Option<Charon>,
}

impl Gateway {
    /// Opens ports, gives up all privileges, installs engines and tunnels, and starts the workers. `tell` hears what the
    /// operator should know.
    ///
    /// # Errors
    /// [`RunError`] names the port, engine or tunnel.
    pub fn start(config: Config, tell: impl Fn(String) + Send + Sync + 'static) -> Result<Self, RunError> {
        let ports = ports::open_all(&config)?;
        crate::privileges::drop_all()?;
        let mut charon = config.charon.as_ref().map(|path| Charon::new(path, &config));
        let mut costs = Costs::new();
        let mut engines = assemble::engines(&config, &mut costs)?;
        for (engine, cost) in ports.engines {
            costs.state(&engine.description().name, cost);
            engines[0].push(engine);
        }
        let handovers = Handover::between(usize::from(config.workers))?;
        let clock = Clock::start();
        let mut assembled = Vec::new();
        for (number, ((engines, [inside, outside]), handover)) in
            (0..config.workers).zip(engines.into_iter().zip(ports.queues).zip(handovers))
        {
            let (pipeline, installed) = assemble::pipeline(&config, number, engines, &mut costs, clock)?;
            let worker = Worker::new(pipeline, inside, outside);
            let worker = match &charon {
                Some(charon) => worker.with_daemon(charon.ear(number)),
                None => worker,
            };
            assembled.push((worker, installed, handover));
        }
        let costs = Arc::new(Mutex::new(costs));
        let (common, tell): (_, Tell) = (Arc::new(Common::default()), Arc::new(tell));
        let (mut entrances, mut threads) = (Vec::new(), Vec::new());
        let shared = Arc::new(config.clone());
        for (number, (worker, installed, handover)) in assembled.into_iter().enumerate() {
            let (commands, received) = channel();
            entrances.push((commands, handover.waker()));
            let mut lane =
                Lane::new(worker.among(handover), Arc::clone(&shared), installed, Arc::clone(&costs));
            let (common, tell) = (Arc::clone(&common), Arc::clone(&tell));
            let thread = std::thread::Builder::new().name(format!("worker {number}"));
            threads.push(thread.spawn(move || lane.work(&received, &common, &tell))?);
        }
        let lanes = Lanes::new(entrances);
        if let Some(charon) = &mut charon {
            charon.join(lanes.clone(), &config, clock).map_err(RunError::Charon)?;
        }
        Ok(Self { lanes, threads, config, common, tell, _charon: charon })
    }

    /// Follows orders until one to stop comes, or every port has ended (captures).
    ///
    /// # Errors
    /// [`RunError::Port`] if a port failed as a whole.
    pub fn work(&mut self, orders: &Receiver<Order>) -> Result<(), RunError> {
        while !self.threads.iter().any(JoinHandle::is_finished) {
            match orders.recv_timeout(WATCH) {
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Order::Reload(config)) => self.reload(*config),
                Ok(Order::Show(reply)) => reply(self.snapshot()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.stop()
    }

    fn stop(&mut self) -> Result<(), RunError> {
        self.common.is_stopping.store(true, Ordering::Release);
        self.lanes.wake();
        let mut result = Ok(());
        for (number, thread) in self.threads.drain(..).enumerate() {
            let ended =
                thread.join().map_or(Err(RunError::Worker(number)), |ended| ended.map_err(RunError::Port));
            result = result.and(ended);
        }
        result
    }

    /// What there is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::merge(self.lanes.ask(|lane| lane.snapshot()))
    }

    fn reload(&mut self, config: Config) {
        for what in needs_restart(&self.config, &config) {
            (self.tell)(format!("reload: a change of {what} needs a restart; it was left as it was"));
        }
        let tunnels = Arc::new(config.clone());
        let mut all = self.lanes.ask(move |lane| lane.reload(&tunnels)).into_iter();
        let Reloaded { stayed, came, went, mut refused } = all.next().unwrap_or_default();
        refused.extend(all.flat_map(|other| other.refused));
        refused.sort();
        refused.dedup();
        refused.iter().for_each(|error| (self.tell)(format!("reload: {error}")));
        // The right to do so was given up.
        let known = ports::routes(&self.config);
        for route in ports::routes(&config).iter().filter(|route| !known.contains(route)) {
            let device = ports::inside_device(&self.config).unwrap_or("the interface inside");
            let words = ports::command(route);
            (self.tell)(format!("reload: there is no route yet; run: ip route replace {words} dev {device}"));
        }
        (self.tell)(format!("reload: {stayed} tunnels stayed, {came} came, {went} went"));
        self.config.tunnels = config.tunnels;
        self.config.bypass = config.bypass;
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Whatever ended the program has been told.
        let _ = self.stop();
    }
}

/// Settings that differ and that only a new start takes up.
fn needs_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let changes = [
        ("gateway.control", old.control != new.control),
        ("gateway.charon", old.charon != new.charon),
        ("gateway.allow_weak", old.allow_weak != new.allow_weak),
        ("gateway.check_icmp", old.check_icmp != new.check_icmp),
        ("gateway.metrics", old.metrics != new.metrics),
        ("gateway.workers", old.workers != new.workers),
        ("gateway.mtu", old.mtu != new.mtu),
        ("[scheduler]", old.scheduler != new.scheduler || old.ordered != new.ordered),
        ("scheduler.classes", old.classes != new.classes),
        ("[[engine]]", old.engines != new.engines),
        ("[[bus]]", old.buses != new.buses),
        ("[[port]]", old.ports != new.ports),
    ];
    changes.into_iter().filter(|(_, has_changed)| *has_changed).map(|(what, _)| what).collect()
}
