//! `convoy run`: the gateway over its ports, a thread for each worker, until it is told to stop.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use convoy_ipsec::{Directory, SaProtocol, Transform};
use convoy_port::PortError;
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::assemble::{self, AssembleError, OpenEngines};
use crate::calibrator;
use crate::charon::Charon;
use crate::choice;
use crate::clock::Environment;
use crate::config::{Config, Problem};
use crate::costs::Costs;
use crate::crew::Crew;
use crate::handoff::Handoff;
use crate::helper::{Helper, HelperError};
use crate::inner_mtu::{InnerMtu, inner_mtu};
use crate::pipeline::Clock;
use crate::ports::{self, OpenPorts};
use crate::privileges::{self, Account};
use crate::snapshot::{MemoryRow, Snapshot};
use crate::state::{Beginnings, State, StateError};
use crate::worker::Worker;
use crate::worker_handles::WorkerHandles;
use crate::worker_thread::{Reloaded, Tell, WorkerThread};

/// How often the workers are looked after while no order comes.
const WATCH: Duration = Duration::from_millis(100);

/// What is done with an answer; whoever asked may have gone by then.
pub type Reply<T> = Box<dyn FnOnce(T) + Send>;

/// Reads the configuration for a reload; what is wrong with it in words for the operator.
pub type Load = Arc<dyn Fn() -> Result<Box<Config>, String> + Send + Sync>;

/// What a reload did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Tunnels that did not change.
    pub stayed: usize,
    /// New tunnels.
    pub came: usize,
    /// Tunnels that are no more there.
    pub went: usize,
    /// What the operator should know, such as changes that wait for a restart.
    pub notes: Vec<String>,
    /// Tunnels that could not be installed, and why.
    pub refused: Vec<String>,
}

impl fmt::Display for ReloadReport {
    /// In one line, without notes and refusals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stayed, came, went, .. } = self;
        let tunnels = if *stayed == 1 { "tunnel" } else { "tunnels" };
        write!(f, "{stayed} {tunnels} stayed, {came} came, {went} went")
    }
}

/// Has a running gateway read its configuration anew and go over to it, without waiting for that: `reply` hears what came of
/// it. Errors are logged, too.
///
/// # Errors
/// What is wrong with the configuration, which stays as it was; or that the gateway is stopping.
pub fn reload(load: &Load, orders: &Sender<Order>, reply: Reply<ReloadReport>) -> Result<(), String> {
    let config = load().map_err(|errors| format!("the configuration stays as it was:\n{errors}"));
    let sent = config.and_then(|config| {
        orders.send(Order::Reload(config, reply)).map_err(|_| "the gateway is stopping".to_owned())
    });
    sent.inspect_err(|error| tracing::error!("reload: {error}"))
}

/// What the operator wants of a running gateway.
pub enum Order {
    /// Let packets under way leave, then end. A second one ends the gateway at once.
    Stop,
    /// Go over to this configuration; SAs that did not change stay.
    Reload(Box<Config>, Reply<ReloadReport>),
    /// Say what there is.
    Show(Reply<Snapshot>),
    /// End: the thread of this name, without which the gateway would only seem to work, has ended by a fault.
    Fault(String),
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
    #[error("worker {number} ended by a fault in convoy, please report it: {reason}")]
    Worker {
        /// Its number.
        number: usize,
        /// What its panic said.
        reason: String,
    },
    /// Another thread ended by a fault of the program.
    #[error("thread {0} ended by a fault in convoy; please report what the log says of it")]
    Thread(String),
    /// Workers did not end in time.
    #[error("{} did not end in time, because an engine or a port did not return; its packets are lost", Workers(.0))]
    Hung(Vec<usize>),
    /// The operator did not want to wait.
    #[error("stopped by a second signal: {} had not ended, and packets in progress are lost", Workers(.0))]
    Hurried(Vec<usize>),
    /// There is not enough memory.
    #[error(transparent)]
    Memory(#[from] crate::memory::MemoryError),
    /// Numbers of static keys could not be kept.
    #[error(transparent)]
    State(#[from] StateError),
    /// It would have gone on with more rights than it needs.
    #[error(transparent)]
    Privileges(#[from] privileges::PrivilegeError),
    /// The helper ended by a fault, or somebody ended it.
    #[error(
        "the helper process ended ({0}): without it, routes cannot be restored and the configuration cannot be reloaded; start the gateway again"
    )]
    Helper(ExitStatus),
    /// Nothing could be routed into the tunnels.
    #[error("routes into the tunnels: {0}")]
    Routes(#[from] HelperError),
}

/// Workers by their numbers, for people.
struct Workers<'a>(&'a [usize]);

impl fmt::Display for Workers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "worker{} {}", if self.0.len() == 1 { "" } else { "s" }, numbers.join(", "))
    }
}

/// A gateway with its ports open.
pub struct Gateway {
    handles: WorkerHandles,
    crew: Crew,
    config: Config,
    /// What the interface inside was given at the start.
    inner_mtu: InnerMtu,
    tell: Tell,
    /// Does what needs privileges; a gateway over ports that were given to it has none.
    helper: Option<Arc<Helper>>,
    state: Option<State>,
    /// Whether there were static keys at the start, when alone a state file can be opened.
    began_with_static_keys: bool,
    charon: Option<Charon>,
}

impl Gateway {
    /// Makes the packet memory, opens the state file, the ports and the engines' devices, gives up all privileges, installs engines and tunnels, and starts the workers. Nothing is routed into the
    /// tunnels until [`route`](Self::route). `helper` does what needs privileges later; `tell` hears what the operator should
    /// know.
    ///
    /// # Errors
    /// [`RunError`] names the port, engine or tunnel.
    pub fn start(
        config: Config,
        helper: Arc<Helper>,
        tell: impl Fn(String) + Send + Sync + 'static,
    ) -> Result<Self, RunError> {
        let (account, warning) = Account::find(config.user.as_deref())?;
        warning.into_iter().for_each(&tell);
        let tell: Tell = Arc::new(tell);
        crate::memory::make_region(config.workers)?;
        let state = State::open(&config, &tell)?;
        assemble::start_dpdk(&config)?;
        let ports = ports::open_all(&config)?;
        let engines = OpenEngines::configured(&config)?;
        let charon = config.charon.as_ref().map(|path| Charon::listen(path, &config)).transpose();
        let charon = charon.map_err(RunError::Charon)?;
        let mut costs = Costs::new();
        costs.hold();
        if let Err(error) = privileges::lock_memory() {
            tell(error.to_string());
        }
        privileges::give_up(account.as_ref())?;
        privileges::give_up_in_dpdk()?;
        let mut gateway = Self::over(config, (ports, engines), charon, state, costs, tell)?;
        wipe_stack();
        gateway.helper = Some(helper);
        Ok(gateway)
    }

    /// A gateway over these ports. Never inlined: what it leaves on the stack, keys among it, is to lie below its caller's frame.
    #[inline(never)]
    fn over(
        config: Config,
        (ports, engines): (OpenPorts, OpenEngines),
        mut charon: Option<Charon>,
        mut state: Option<State>,
        mut costs: Costs,
        tell: Tell,
    ) -> Result<Self, RunError> {
        crate::memory::check(config.workers)?;
        let mut engines = assemble::start_engines(engines, &config, &mut costs)?;
        for (engine, cost) in ports.engines {
            costs.state(&engine.description().name, cost);
            engines[0].push(engine);
        }
        tracing::info!("{}", choice::summary(&config, &engines, &costs));
        let handoffs = Handoff::between(usize::from(config.workers))?;
        let (clock, directory) = (Clock::start(), Arc::new(Directory::new(config.workers)));
        let beginnings = match &state {
            Some(state) => state.begin(&config.tunnels, &config.tunnels)?,
            None => Beginnings::Fresh,
        };
        let mut assembled = Vec::new();
        for (number, ((engines, [inside, outside]), handoff)) in
            (0..config.workers).zip(engines.into_iter().zip(ports.queues).zip(handoffs))
        {
            let environment =
                Environment { directory: Arc::clone(&directory), ..Environment::from(clock.clone()) };
            let (pipeline, installed) =
                assemble::pipeline(&config, number, engines, &costs, environment, &beginnings)?;
            let busy_poll = Duration::from_micros(config.busy_poll_us.into());
            let moderation = Duration::from_micros(config.moderation_us.into());
            let worker =
                Worker::new(pipeline, inside, outside).busy_polling(busy_poll).moderating(moderation);
            let worker = match &charon {
                Some(charon) => worker.with_daemon(charon.notifier(number)),
                None => worker,
            };
            assembled.push((worker, installed, handoff));
        }
        let (wanted, wants) = channel();
        let models = costs.models().asking(wanted);
        let (mut handles, mut threads) = (Vec::new(), Vec::new());
        let shared = Arc::new(config.clone());
        for (worker, installed, handoff) in assembled {
            let (commands, received) = channel();
            handles.push((commands, handoff.waker()));
            let mut thread =
                WorkerThread::new(worker.among(handoff), Arc::clone(&shared), installed, models.clone());
            if let Some(state) = &state {
                thread.report_to(state.reporter());
            }
            threads.push((thread, received));
        }
        let (crew, handles) = (Crew::start(threads, &tell)?, WorkerHandles::new(handles));
        drop(models);
        let ahead = ahead(&config, &costs);
        calibrator::start(costs, wants, ahead, handles.clone())?;
        if let Some(state) = &mut state {
            state.keep(handles.clone(), Arc::clone(&tell))?;
        }
        if let Some(charon) = &mut charon {
            charon.join(handles.clone(), &config, clock).map_err(RunError::Charon)?;
        }
        let inner_mtu = inner_mtu(&config);
        let began_with_static_keys = config.has_static_keys();
        Ok(Self {
            handles,
            crew,
            config,
            inner_mtu,
            tell,
            helper: None,
            state,
            began_with_static_keys,
            charon,
        })
    }

    /// Routes into the tunnels what is behind them. To be called last, so that a start that fails changes no route.
    ///
    /// # Errors
    /// [`RunError::Routes`].
    pub fn route(&self) -> Result<(), RunError> {
        let plan = self.helper.as_ref().zip(ports::route_plan(&self.config));
        plan.map_or(Ok(()), |(helper, plan)| helper.route(plan)).map_err(RunError::Routes)
    }

    /// Follows orders until one to stop comes, or every port has ended (captures).
    ///
    /// # Errors
    /// [`RunError`] if a port failed as a whole, a thread ended by a fault, or a worker does not end.
    pub fn work(&mut self, orders: &Receiver<Order>) -> Result<(), RunError> {
        let mut result = Ok(());
        while result.is_ok() && !self.crew.has_gap() {
            match orders.recv_timeout(WATCH) {
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Order::Reload(config, reply)) => reply(self.reload(&config)),
                Ok(Order::Show(reply)) => reply(self.snapshot()),
                Ok(Order::Fault(thread)) => result = Err(RunError::Thread(thread)),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.state.as_ref().is_some_and(State::has_fallen) {
                result = Err(RunError::Thread("state".to_owned()));
            }
            if let Some(status) = self.helper.as_ref().and_then(|helper| helper.has_ended()) {
                result = Err(RunError::Helper(status));
            }
            if let Some(thread) = self.charon.as_ref().and_then(Charon::fallen) {
                result = Err(RunError::Thread(thread.to_owned()));
            }
        }
        let stopped = self.crew.stop(&self.handles, &mut |pause| is_hurried(orders, pause));
        if let Some(state) = &mut self.state {
            state.end();
        }
        result.and(stopped)
    }

    /// What there is now.
    pub fn snapshot(&self) -> Snapshot {
        let answers = self.handles.ask(|thread| thread.snapshot());
        let silent = (0..).zip(&answers).filter(|(_, answer)| answer.is_none());
        let silent_workers = silent.map(|(worker, _)| worker).collect();
        let mut snapshot = Snapshot {
            silent_workers,
            charon: self.charon.as_ref().map(Charon::row),
            memory: Some(MemoryRow::now()),
            ..Snapshot::merge(answers.into_iter().flatten().collect())
        };
        let is_routed = |name: &str| {
            self.config
                .ports
                .iter()
                .any(|port| port.name == name && port.settings.routed_interface().is_some())
        };
        for port in snapshot.ports.iter_mut().filter(|port| is_routed(&port.name)) {
            port.mtu_reason.clone_from(&self.inner_mtu.reason);
        }
        snapshot
    }

    fn reload(&mut self, config: &Config) -> ReloadReport {
        let mut notes: Vec<String> = config.warnings.iter().map(Problem::in_one_line).collect();
        let restart = needs_restart(&self.config, config).into_iter();
        notes
            .extend(restart.map(|what| format!("a change of {what} needs a restart; it was left as it was")));
        let (tunnels, bypass) = (config.tunnels.clone(), config.bypass.clone());
        let tunnels = Arc::new(Config { tunnels, bypass, ..self.config.clone() });
        let (beginnings, left_out) = self.begin_missing(&tunnels);
        let (released, beginnings) = (Arc::clone(&tunnels), Arc::new(beginnings));
        // All let go before any takes up: an SPI may go from a tunnel of one worker to a tunnel of another.
        let went = self.handles.tell(move |thread| thread.let_go(&released)).into_iter().flatten().max();
        let taken_up = Arc::clone(&tunnels);
        let answers = self.handles.tell(move |thread| thread.take_up(&taken_up, &beginnings));
        let silent: Vec<usize> = (0..answers.len()).filter(|worker| answers[*worker].is_none()).collect();
        if !silent.is_empty() {
            let workers = Workers(&silent);
            notes.push(format!("{workers} did not answer in time; the change is made there later"));
        }
        let done: Vec<Reloaded> = answers.into_iter().flatten().collect();
        let names: HashSet<String> =
            done.iter().flat_map(|worker| &worker.refused).map(|(name, _)| name.clone()).collect();
        if !names.is_empty() {
            self.handles.tell(move |thread| thread.leave_out(&names));
        }
        let stayed = done.first().map_or(0, |worker| worker.stayed);
        let came = done.iter().map(|worker| worker.came).sum();
        let went = went.unwrap_or_default();
        let mut refused: Vec<String> =
            done.into_iter().flat_map(|worker| worker.refused).map(|(_, why)| why).chain(left_out).collect();
        refused.sort();
        refused.dedup();
        self.config.tunnels.clone_from(&config.tunnels);
        self.config.bypass.clone_from(&config.bypass);
        notes.extend(self.take_networks());
        notes.extend(self.route().err().map(|error| error.to_string()));
        notes.iter().chain(&refused).for_each(|what| (self.tell)(format!("reload: {what}")));
        let report = ReloadReport { stayed, came, went, notes, refused };
        tracing::info!("reload: {report}");
        report
    }

    /// Has the ports inside take packets to the networks that are behind the tunnels now; what went wrong there.
    fn take_networks(&self) -> HashSet<String> {
        let networks = ports::networks(&self.config);
        let answers = self.handles.tell(move |thread| thread.take_networks(&networks));
        answers.into_iter().flatten().flatten().collect()
    }

    /// Where the tunnels begin that a reload to this configuration would install, and what keeps those with static keys from it.
    fn begin_missing(&mut self, config: &Arc<Config>) -> (Beginnings, Option<String>) {
        match self.try_begin(config) {
            Ok(beginnings) => (beginnings, None),
            Err(error) => {
                let left_out = format!("new tunnels with static keys are left out: {error}");
                (Beginnings::Noted(HashMap::new()), Some(left_out))
            }
        }
    }

    fn try_begin(&mut self, config: &Arc<Config>) -> Result<Beginnings, StateError> {
        let Some(state) = &self.state else {
            State::do_without(config, self.began_with_static_keys, &self.tell)?;
            return Ok(Beginnings::Fresh);
        };
        self.handles.ask(|thread| thread.numbers()).iter().flatten().for_each(|report| state.note(report));
        let tunnels = Arc::clone(config);
        let missing: HashSet<String> = self
            .handles
            .ask(move |thread| thread.missing(&tunnels))
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        let begun = config.tunnels.iter().filter(|tunnel| missing.contains(&tunnel.name));
        state.begin(begun, &config.tunnels)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Whatever ended the program has been told.
        let _ = self.crew.stop(&self.handles, &mut |pause| {
            std::thread::sleep(pause);
            false
        });
        if let Some(state) = &mut self.state {
            state.end();
        }
    }
}

/// The transforms that charon may negotiate with these engines, to be measured before it does.
fn ahead(config: &Config, costs: &Costs) -> Vec<Transform> {
    let may_come = |transform: &Transform| {
        config.charon.is_some() && (config.allow_weak || !transform.is_weak(SaProtocol::Esp))
    };
    costs.transforms().into_iter().filter(may_come).collect()
}

/// Waits for `pause`, and says whether the operator wants the gateway to end sooner.
fn is_hurried(orders: &Receiver<Order>, pause: Duration) -> bool {
    match orders.recv_timeout(pause) {
        Ok(Order::Stop) => true,
        Err(RecvTimeoutError::Disconnected) => {
            std::thread::sleep(pause);
            false
        }
        Ok(_) | Err(RecvTimeoutError::Timeout) => false,
    }
}

/// Overwrites what functions that returned have left below on this thread's stack: engines expand keys there.
#[inline(never)]
pub(crate) fn wipe_stack() {
    /// More than any engine's `install_key` takes, with room for what called it, in bytes.
    const DEPTH: usize = 256 << 10;
    let mut stack = [0xa5_u8; DEPTH];
    std::hint::black_box(&mut stack).zeroize();
    std::hint::black_box(&stack);
}

/// Settings that differ and that only a new start takes up.
fn needs_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let changes = [
        ("gateway.control", old.control != new.control),
        ("gateway.charon", old.charon != new.charon),
        ("gateway.user", old.user != new.user),
        ("gateway.route_table, rule_priority, mark", old.routing != new.routing),
        ("gateway.state", old.state != new.state),
        ("gateway.allow_weak", old.allow_weak != new.allow_weak),
        ("gateway.check_icmp", old.check_icmp != new.check_icmp),
        ("gateway.flow_cache", old.flow_cache != new.flow_cache),
        ("gateway.busy_poll_us", old.busy_poll_us != new.busy_poll_us),
        ("gateway.moderation_us", old.moderation_us != new.moderation_us),
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

#[cfg(test)]
mod tests;
