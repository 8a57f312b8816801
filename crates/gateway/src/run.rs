//! `convoy run`: the gateway over its ports, a thread for each worker, until it is ordered to stop.

mod lead;
mod loader;
mod peers;
mod protect;
mod reload;
mod static_news;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

use convoy_assembly::assemble::{self, OpenEngines};
use convoy_assembly::change::without_tunnels;
use convoy_assembly::choice;
use convoy_assembly::ranks;
use convoy_config::inner_mtu::{InnerMtu, inner_mtu};
use convoy_config::{Config, OnStop};
use convoy_dataplane::costs::Costs;
use convoy_dataplane::handoff::Handoff;
use convoy_dataplane::interfaces::InterfaceLinks;
use convoy_dataplane::pipeline::{Clock, PipelineResources};
use convoy_dataplane::worker::Worker;
use convoy_engine::wipe_stack;
use convoy_host::guard::GuardWatch;
use convoy_host::helper::Helper;
use convoy_host::networks;
use convoy_host::port_watch::PortWatch;
use convoy_host::ports::{self, OpenPorts};
use convoy_host::privileges::{self, Account};
use convoy_ipsec::{AdmittedAlgorithms, Directory, SaProtocol, Transform};
use convoy_kernel::Prefix;
use convoy_names::Names;
use convoy_process::supervise::Faults;
use convoy_report::events::Events;
use convoy_report::snapshot::{ConfiguredRow, MemoryRow, Snapshot, TunnelSelection};
use convoy_state::{Grant, Starts, State};
use zeroize::Zeroizing;

use crate::blocked::Blocked;
use crate::calibrator;
use crate::charon::{Charon, Share};
use crate::cluster::{Cluster, Led, Pairs, Stopped, StoredSas};
use crate::crew::Crew;
use crate::explain::{ExplainRequest, Explanation, GatewayParts, explain};
use crate::gather::gather;
use crate::monitors::AllMonitors;
use crate::trace::{TraceReport, TraceRequest, Tracing};
use crate::wireshark;
use crate::worker_handles::WorkerHandles;
use crate::worker_thread::WorkerThread;

pub use crate::error::RunError;
pub use lead::{Joining, MemberOrders};
pub use loader::on_one_thread;
pub use reload::{Load, ReloadReport, Reloading, reload};

/// Interval between checks of the workers while no order arrives.
const WATCH: Duration = Duration::from_millis(100);

/// Receives an answer; the requester may be gone by then.
pub type Reply<T> = Box<dyn FnOnce(T) + Send>;

/// An operator's order to a running gateway.
pub enum Order {
    /// Let packets in flight leave, then end. A second one ends the gateway at once.
    Stop,
    /// Switch to this configuration; SAs that did not change stay.
    Reload(Box<Config>, Reply<Reloading>),
    /// Report the state.
    Show(Option<TunnelSelection>, Reply<Snapshot>),
    /// Say what would become of a packet.
    Explain(ExplainRequest, Reply<Result<Explanation, String>>),
    /// Give out the keys of all SAs, as Wireshark takes them.
    Keys(Reply<Result<Zeroizing<String>, String>>),
    /// Begin a trace of packets.
    BeginTrace(TraceRequest, Reply<Result<(), String>>),
    /// Report the packets traced since the last such order.
    TakeTraced(Reply<Result<TraceReport, String>>),
    /// End the trace.
    EndTrace(Reply<()>),
    /// Lead a group of the cluster, going on with these SAs and without those that cannot be read.
    Lead(String, StoredSas, Reply<Led>),
    /// Lead it no longer, and return the last numbers of its SAs.
    StandBy(String, Reply<Stopped>),
    /// Lead no group of the cluster, or lead groups again.
    Drain(bool, Reply<Result<(), String>>),
    /// Show that the thread that executes orders works.
    Beat(Reply<()>),
}

/// What is opened before a gateway gives up its privileges.
struct OpenedDevices {
    ports: OpenPorts,
    engines: OpenEngines,
    charon: Option<Charon>,
    state: Option<State>,
    cluster: Option<Cluster>,
    costs: Costs,
}

/// A gateway with its ports open.
pub struct Gateway {
    handles: WorkerHandles,
    crew: Crew,
    config: Config,
    /// The ranks of the policies of its tunnels.
    ranks: Vec<u64>,
    /// The networks to which the inside ports take packets; `None` if one refused some of them.
    networks: Option<Arc<BTreeSet<Prefix>>>,
    /// When it was last read, in seconds since 1970.
    configured_s: f64,
    /// The links of the interfaces of certain tunnels.
    links: Arc<InterfaceLinks>,
    /// The MTU of the inside interface since the start.
    inner_mtu: InnerMtu,
    /// Logs and keeps what happens.
    events: Events,
    /// Does what needs privileges; a gateway over given ports has none.
    helper: Option<Arc<Helper>>,
    state: Option<State>,
    cluster: Option<Cluster>,
    /// The groups of its cluster that it leads, with their pairs of SAs.
    led: BTreeMap<String, Pairs>,
    /// The number of the last start of SAs in a cluster.
    last_start: u64,
    /// Whether there were static keys at the start, the only time at which a state file can be
    /// opened.
    began_with_static_keys: bool,
    /// Whether the workers have all tunnels of the configuration, as far as it is theirs to have
    /// them.
    has_all_tunnels: bool,
    charon: Option<Charon>,
    /// Networks of charon's that the configuration does not cover.
    blocked: Blocked,
    /// Virtual IPs that the helper was last asked to set.
    virtual_ips: BTreeSet<IpAddr>,
    /// The time of its workers.
    clock: Clock,
    tracing: Tracing,
    names: Names,
    monitors: AllMonitors,
    /// Ports that wait for an interface or an address.
    port_watch: PortWatch,
    /// Where all that must live as long as it reports its end.
    faults: Faults,
    /// Whether routes and guard are to be notified of changed addresses of peers, and when they
    /// last were.
    peers_changed: bool,
    peers_reported: Option<Instant>,
}

impl Gateway {
    /// Allocates the packet memory, opens the state file, the ports and the engines' devices, gives
    /// up all privileges, installs engines and tunnels, and starts the workers. Nothing is routed
    /// into the tunnels until [`route`](Self::route). `helper` does what needs privileges later;
    /// `joining` is what it needs for its cluster, if it is in one; `faults` ends it; `notify`
    /// receives messages for the operator.
    ///
    /// # Errors
    /// [`RunError`] names the port, engine or tunnel.
    pub fn start(
        config: Config,
        helper: Arc<Helper>,
        joining: Option<Joining>,
        faults: Faults,
        notify: impl Fn(String) + Send + Sync + 'static,
    ) -> Result<Self, RunError> {
        let events = Events::new(notify);
        let (agent, orders) = joining.map(|Joining { agent, orders }| (agent, orders)).unzip();
        let cluster = agent.map(Cluster::new).transpose()?;
        let (account, warning) = Account::find(config.user.as_deref())?;
        warning.into_iter().for_each(|warning| events.warn(warning));
        let of_ports = config.ports.iter().map(|port| port.settings.packet_chunks(config.mtu)).sum();
        convoy_dataplane::memory::make_region(config.workers, of_ports)?;
        let state = State::open(&config, &events.notify())?;
        assemble::start_dpdk(&config)?;
        let ports = ports::open_all(&config)?;
        let engines = OpenEngines::configured(&config)?;
        let charon =
            config.charon.as_ref().map(|path| Charon::listen(path, &config, faults.sender())).transpose();
        let charon = charon.map_err(RunError::Charon)?;
        let mut costs = assemble::costs();
        costs.hold();
        if let Err(error) = privileges::lock_memory() {
            events.warn(error.to_string());
        }
        privileges::give_up(account.as_ref())?;
        privileges::give_up_in_dpdk()?;
        let opened = OpenedDevices { ports, engines, charon, state, cluster, costs };
        let is_approved = config.admitted == AdmittedAlgorithms::Approved;
        let mut gateway = Self::over(config, opened, events, faults)?;
        if is_approved {
            tracing::info!("{FIPS}");
        }
        wipe_stack();
        helper.devices(gateway.port_watch.devices()).map_err(RunError::Devices)?;
        Helper::watch(&helper, &gateway.faults.sender())?;
        gateway.helper = Some(helper);
        if let Some(orders) = orders {
            gateway.join_cluster(orders)?;
        }
        Ok(gateway)
    }

    /// A gateway over what is open. Never inlined: what it leaves on the stack, keys included, must
    /// be below its caller's frame.
    #[inline(never)]
    fn over(config: Config, opened: OpenedDevices, events: Events, faults: Faults) -> Result<Self, RunError> {
        let OpenedDevices { ports, engines, mut charon, mut state, cluster, mut costs } = opened;
        convoy_dataplane::memory::check(config.workers)?;
        let mut engines = assemble::start_engines(engines, &config, &mut costs)?;
        for (engine, cost) in ports.engines {
            costs.set_fixed(&engine.description().name, cost);
            engines[0].push(engine);
        }
        tracing::info!("{}", choice::summary(&config, &engines, &costs));
        let handoffs = Handoff::between(usize::from(config.workers))?;
        let (clock, directory) = (Clock::start(), Arc::new(Directory::new(config.workers)));
        let starts = match &state {
            Some(state) => state.start(&config.tunnels, &config.tunnels)?,
            None => Starts::Unlimited,
        };
        // A member of a cluster has SAs only while it leads.
        let tunnels = if cluster.is_some() { Vec::new() } else { config.tunnels.clone() };
        let begun = Config { tunnels, ..config.clone() };
        let interfaces = ports::inside_interfaces(&config);
        let links = Arc::new(InterfaceLinks::new(config.interfaces.len() as u16 + 1));
        let mut assembled = Vec::new();
        for (number, ((engines, [inside, outside]), handoff)) in
            (0..config.workers).zip(engines.into_iter().zip(ports.queues).zip(handoffs))
        {
            let resources = PipelineResources {
                directory: Arc::clone(&directory),
                ..PipelineResources::from(clock.clone())
            };
            let (pipeline, installed) =
                assemble::pipeline(&begun, number, engines, &costs, resources, &starts)?;
            let busy_poll = Duration::from_micros(config.busy_poll_us.into());
            let moderation = Duration::from_micros(config.moderation_us.into());
            let worker = Worker::new(pipeline, inside, outside)
                .with_interfaces(interfaces.clone(), Arc::clone(&links))
                .busy_polling(busy_poll)
                .moderating(moderation);
            let worker = match &charon {
                Some(charon) => worker.with_daemon(charon.notifier(number)),
                None => worker,
            };
            let worker = match &cluster {
                Some(cluster) => worker.behind(cluster.fence()),
                None => worker,
            };
            assembled.push((worker, installed, handoff));
        }
        let (wanted, wants) = channel();
        let models = costs.models().asking(wanted);
        let (mut handles, mut threads) = (Vec::new(), Vec::new());
        let shared = without_tunnels(&config);
        for (worker, installed, handoff) in assembled {
            let (commands, received) = channel();
            handles.push((commands, handoff.waker()));
            let mut thread =
                WorkerThread::new(worker.among(handoff), Arc::clone(&shared), installed, models.clone());
            if let Some(state) = &state {
                thread.report_to(state.reporter());
            }
            if let Some(cluster) = &cluster {
                thread.report_to(cluster.reporter());
            }
            threads.push((thread, received));
        }
        let (crew, handles) = (Crew::start(threads, &events, &faults.sender())?, WorkerHandles::new(handles));
        drop(models);
        let ahead = ahead(&config, &costs);
        calibrator::start(costs, wants, ahead, handles.clone())?;
        if let Some(state) = &mut state {
            let workers = handles.clone();
            let grant = move |Grant { worker, id, limits }| {
                let limits = HashMap::from([(id, limits)]);
                workers.send(worker, move |thread| thread.extend_numbers(&limits));
            };
            state.keep(grant, events.notify(), &faults.sender())?;
        }
        if let Some(charon) = &mut charon {
            let share = cluster
                .as_ref()
                .and_then(|cluster| cluster.charons_line().map(|line| Share::new(line, cluster.rules())));
            charon
                .join(handles.clone(), &config, clock.clone(), events.clone(), share)
                .map_err(RunError::Charon)?;
        }
        let inner_mtu = inner_mtu(&config);
        let began_with_static_keys = config.has_static_keys();
        let mut blocked = Blocked::default();
        blocked.cover(networks::covered(&config));
        let mut names = Names::default();
        names.follow(&config.tunnels, &faults.sender())?;
        let monitors = AllMonitors::of(&config, &AllMonitors::default());
        watch_by(&handles, &monitors);
        Ok(Self {
            handles,
            crew,
            ranks: ranks::of(&config.tunnels),
            networks: Some(Arc::new(networks::networks(&config).into_iter().collect())),
            config,
            configured_s: since_1970_s(),
            links,
            inner_mtu,
            events,
            helper: None,
            state,
            cluster,
            led: BTreeMap::new(),
            last_start: 0,
            began_with_static_keys,
            has_all_tunnels: true,
            charon,
            blocked,
            virtual_ips: BTreeSet::new(),
            clock,
            tracing: Tracing::default(),
            names,
            monitors,
            port_watch: PortWatch::new(ports.watched),
            faults,
            peers_changed: false,
            peers_reported: None,
        })
    }

    /// Executes orders until one to stop, or until every port has ended (captures).
    ///
    /// # Errors
    /// [`RunError`] if a port failed as a whole, a thread panicked, or a worker does not end.
    pub fn work(&mut self, orders: &Receiver<Order>) -> Result<(), RunError> {
        let mut result = self.watch_ports();
        let mut guard = GuardWatch::default();
        let (mut looked, mut retired) = (Instant::now(), Instant::now());
        while result.is_ok() {
            if let Some(fault) = self.faults.next() {
                result = RunError::of(fault).map_or(Ok(()), Err);
                break;
            }
            if looked.elapsed() >= WATCH {
                self.block();
                self.set_virtual_ips();
                self.tracing.expire(&self.handles);
                self.follow_names();
                self.retire_succeeded(&mut retired);
                result = self.watch_ports();
                looked = Instant::now();
            }
            match orders.recv_timeout(WATCH) {
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Order::Reload(config, reply)) => reply(self.reload(&config)),
                Ok(Order::Show(selection, reply)) => reply(self.snapshot(selection.as_ref())),
                Ok(Order::Explain(request, reply)) => {
                    reply(explain(&self.handles, &self.config, &self.beside(), &request));
                }
                Ok(Order::Keys(reply)) => reply(wireshark::esp_sa(&self.handles)),
                Ok(Order::BeginTrace(request, reply)) => reply(self.tracing.begin(&self.handles, request)),
                Ok(Order::TakeTraced(reply)) => reply(self.tracing.take(&self.handles, self.clock_s())),
                Ok(Order::EndTrace(reply)) => {
                    self.tracing.end(&self.handles);
                    reply(());
                }
                Ok(Order::Lead(group, sas, reply)) => reply(self.lead(&group, &sas)),
                Ok(Order::StandBy(group, reply)) => reply(self.stand_by(&group)),
                Ok(Order::Drain(is_draining, reply)) => reply(self.drain(is_draining)),
                Ok(Order::Beat(reply)) => reply(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.watch_guard(&mut guard);
        }
        self.hand_over();
        let stopped = self.crew.stop(&self.handles, &mut |pause| is_hurried(orders, pause));
        if let Some(state) = &mut self.state {
            state.end();
        }
        result.and(stopped)
    }

    /// Notifies the operator of ports that wait, and opens those again that can be.
    fn watch_ports(&mut self) -> Result<(), RunError> {
        let Self { port_watch, links, config, helper, events, .. } = self;
        let has_link = |port: &str| {
            let number = config.interface_number(Some(port));
            number.is_none_or(|number| links.is_up(number))
        };
        port_watch.look(helper.as_deref(), &has_link, events).map_err(RunError::Port)
    }

    /// The time at which the workers' clock read 0, in seconds since 1970.
    fn clock_s(&self) -> f64 {
        since_1970_s() - self.clock.now_ns() as f64 * 1e-9
    }

    /// What happens to the routes when this gateway ends, by its current configuration.
    pub fn on_stop(&self) -> OnStop {
        self.config.on_stop
    }

    /// Its events.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// What the parts beside the workers know.
    fn beside(&self) -> GatewayParts<'_> {
        GatewayParts {
            helper: self.helper.as_deref(),
            charon: self.charon.as_ref().map(Charon::row),
            cluster: self.cluster.as_ref().map(Cluster::row),
            monitors: self.monitors.rows(self.clock.now_ns()),
        }
    }

    /// The current state. With a selection, all that is listed by tunnel is of these tunnels alone.
    pub fn snapshot(&self, selection: Option<&TunnelSelection>) -> Snapshot {
        let mut snapshot = Snapshot {
            taken_s: since_1970_s(),
            configuration: self.config.file.clone(),
            configured_s: self.configured_s,
            workers: self.config.workers,
            configured: ConfiguredRow::all(&self.config),
            charon: self.charon.as_ref().map(Charon::row),
            cluster: self.cluster.as_ref().map(Cluster::row),
            guard: self.guard_row(),
            names: self.names.rows(),
            monitors: self.monitors.rows(self.clock.now_ns()),
            memory: Some(MemoryRow::now()),
            ..gather(&self.handles, selection)
        };
        if let Some(selection) = selection {
            selection.narrow(&mut snapshot);
        }
        let is_routed = |name: &str| {
            self.config
                .ports
                .iter()
                .any(|port| port.name == name && port.settings.routed_interface().is_some())
        };
        for port in snapshot.ports.iter_mut().filter(|port| is_routed(&port.name)) {
            port.mtu_reason.clone_from(&self.inner_mtu.reason);
        }
        for port in &mut snapshot.ports {
            let number = self.config.interface_number(Some(&port.name));
            port.link = number.map(|number| self.links.is_up(number));
            port.missing = self.port_watch.missing(&port.name);
        }
        snapshot
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Whatever ended the program has been reported.
        let _ = self.crew.stop(&self.handles, &mut |pause| {
            std::thread::sleep(pause);
            false
        });
        if let Some(state) = &mut self.state {
            state.end();
        }
    }
}

/// What `fips = true` means, for the log.
const FIPS: &str = "fips: approved algorithms alone; every engine has given the known answers; IVs of AES-GCM \
    by SP 800-38D section 8.2.1 (fixed field: the SA's salt of 32 bits; invocation field: a counter of 64 \
    bits); convoy and its ciphers are no validated module";

/// The time of the wall clock, in seconds since 1970.
fn since_1970_s() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// The transforms that charon may negotiate with these engines, to be measured in advance.
fn ahead(config: &Config, costs: &Costs) -> Vec<Transform> {
    let may_come = |transform: &Transform| {
        config.charon.is_some() && config.admitted.refusal(*transform, SaProtocol::Esp).is_none()
    };
    costs.transforms().into_iter().filter(may_come).collect()
}

/// Has the workers send the probes of these monitors, and take the answers.
fn watch_by(handles: &WorkerHandles, monitors: &AllMonitors) {
    for worker in 0..handles.len() {
        let monitors = monitors.clone();
        handles.send(worker, move |thread| thread.set_monitors(&monitors));
    }
}

/// Waits for `pause`, and returns whether the operator wants the gateway to end sooner.
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

#[cfg(test)]
mod tests;
