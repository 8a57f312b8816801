//! `convoy run`: the gateway over its ports, a thread for each worker, until it is told to stop.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use convoy_port::PortError;

use crate::assemble::{self, AssembleError};
use crate::config::Config;
use crate::costs::Costs;
use crate::handover::{Handover, Waker};
use crate::lane::{Command, Common, Lane, Reloaded, Tell};
use crate::pipeline::Clock;
use crate::ports;
use crate::snapshot::Snapshot;
use crate::worker::Worker;

/// How often the workers are looked after while no order comes.
const WATCH: Duration = Duration::from_millis(100);
/// How long a worker may take over what it is asked.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the operator wants of a running gateway.
pub enum Order {
    /// Let packets under way leave, then end.
    Stop,
    /// Go over to this configuration; SAs that did not change stay.
    Reload(Box<Config>),
    /// Say what there is, by this channel.
    Show(Sender<Snapshot>),
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
    /// A worker ended by a fault of the program.
    #[error("worker {0} ended by a fault in convoy; please report what it said")]
    Worker(usize),
    /// It would have gone on with more rights than it needs.
    #[error(transparent)]
    Privileges(#[from] crate::privileges::PrivilegeError),
}

/// One worker's thread, as seen from outside.
struct Handle {
    thread: Option<JoinHandle<Result<(), PortError>>>,
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

/// A gateway with its ports open.
pub struct Gateway {
    lanes: Vec<Handle>,
    config: Config,
    common: Arc<Common>,
    tell: Tell,
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
        let mut costs = Costs::new();
        let engines = assemble::engines(&config, &mut costs)?;
        let handovers = Handover::between(usize::from(config.workers))?;
        let clock = Clock::start();
        let mut assembled = Vec::new();
        for (number, ((engines, [inside, outside]), handover)) in
            (0..config.workers).zip(engines.into_iter().zip(ports).zip(handovers))
        {
            let (pipeline, installed) = assemble::pipeline(&config, number, engines, &mut costs, clock)?;
            assembled.push((Worker::new(pipeline, inside, outside), installed, handover));
        }
        let costs = Arc::new(Mutex::new(costs));
        let (common, tell): (_, Tell) = (Arc::new(Common::default()), Arc::new(tell));
        let mut gateway = Self { lanes: Vec::new(), config, common, tell };
        for (worker, installed, handover) in assembled {
            let waker = handover.waker();
            let lane =
                Lane::new(worker.among(handover), gateway.config.workers, installed, Arc::clone(&costs));
            gateway.spawn(lane, waker)?;
        }
        Ok(gateway)
    }

    fn spawn(&mut self, mut lane: Lane, waker: Arc<Waker>) -> std::io::Result<()> {
        let (commands, received) = channel();
        let (common, tell) = (Arc::clone(&self.common), Arc::clone(&self.tell));
        let thread = std::thread::Builder::new()
            .name(format!("worker {}", self.lanes.len()))
            .spawn(move || lane.work(&received, &common, &tell))?;
        self.lanes.push(Handle { thread: Some(thread), commands, waker });
        Ok(())
    }

    /// Follows orders until one to stop comes, or every port has ended (captures).
    ///
    /// # Errors
    /// [`RunError::Port`] if a port failed as a whole.
    pub fn work(&mut self, orders: &Receiver<Order>) -> Result<(), RunError> {
        let is_finished = |lane: &Handle| lane.thread.as_ref().is_none_or(JoinHandle::is_finished);
        while !self.lanes.iter().any(is_finished) {
            match orders.recv_timeout(WATCH) {
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Order::Reload(config)) => self.reload(*config),
                Ok(Order::Show(reply)) => {
                    // Whoever asked may have gone.
                    let _ = reply.send(self.snapshot());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.stop()
    }

    fn stop(&mut self) -> Result<(), RunError> {
        self.common.is_stopping.store(true, Ordering::Release);
        self.lanes.iter().for_each(|lane| lane.waker.wake());
        let mut result = Ok(());
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let ended = lane.thread.take().map_or(Ok(Ok(())), JoinHandle::join);
            let ended = ended.map_or(Err(RunError::Worker(number)), |ended| ended.map_err(RunError::Port));
            result = result.and(ended);
        }
        result
    }

    /// Has every worker do something on its thread; what each answered, in order. One that does not answer in time is
    /// left out.
    fn ask<R: Send + 'static>(&self, what: impl Fn(&mut Lane) -> R + Clone + Send + 'static) -> Vec<R> {
        let asked: Vec<_> = self
            .lanes
            .iter()
            .map(|lane| {
                let (reply, answer) = channel();
                let what = what.clone();
                // One that has ended, and one that asks no more, are no concern here.
                let _ = lane.commands.send(Box::new(move |lane| drop(reply.send(what(lane)))));
                lane.waker.wake();
                answer
            })
            .collect();
        asked.into_iter().filter_map(|answer| answer.recv_timeout(PATIENCE).ok()).collect()
    }

    /// What there is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::merge(self.ask(|lane| lane.snapshot()))
    }

    fn reload(&mut self, config: Config) {
        for what in needs_restart(&self.config, &config) {
            (self.tell)(format!("reload: a change of {what} needs a restart; it was left as it was"));
        }
        let tunnels = Arc::new(config.clone());
        let mut all = self.ask(move |lane| lane.reload(&tunnels)).into_iter();
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
