//! `convoy run`.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel, sync_channel};

use convoy_config::Kinds;
use convoy_config::{self, Basis, Config, ConfigErrors, OnStop, SharedConfig};
use convoy_gateway::cluster::{Agent, ClusterError};
use convoy_gateway::control::ControlServer;
use convoy_gateway::notify::{self, Progress};
use convoy_gateway::run::{self, Gateway, Joining, Load, MemberOrders, Order, RunError};
use convoy_host::helper::{Helper, HelperError};
use convoy_host::lock::Lock;
use convoy_host::privileges;
use convoy_log::LogFormat;
use convoy_metrics::Contents;
use convoy_process::supervise::{self, Fault, Faults};
use convoy_report::events::{Events, What};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Failure;
use crate::args::RunArgs;
use crate::check::load;
use crate::summary::ConfigSummary;

/// `convoy run`, in a program with these kinds of engine and port.
///
/// # Errors
/// The configuration's, or why the gateway did not start or did not go on.
pub fn run(args: &RunArgs, kinds: &'static Kinds) -> Result<(), Failure> {
    let path = std::path::absolute(&args.config).map_err(|error| failed(&error))?;
    let config = load(&path, kinds)?;
    warn(&config);
    if config.ports.is_empty() {
        let what = "there is no [[port]]; a gateway needs one inside and one outside";
        return Err(Failure::Problems(ConfigErrors::whole_file(&path.display().to_string(), what)));
    }
    let _lock = Lock::take(&config.control).map_err(|error| failed(&error))?;
    let helper = Arc::new(start_helper(&path, &config, args.log_format).map_err(|error| failed(&error))?);
    let agent = start_agent(&config, args.log_format).map_err(|error| failed(&error))?;
    let on_stop = config.on_stop;
    let (orders, received) = channel();
    let mut running = match RunningGateway::start(config, &path, &helper, agent, orders) {
        Ok(running) => running,
        Err(failure) => {
            end(&helper, on_stop);
            return Err(failure);
        }
    };
    running.summary.log(&running.gateway.snapshot(None));
    running.gateway.events().tell(What::Ready, "ready");
    notify_manager(Progress::Ready);
    let ended = running.gateway.work(&received);
    // A gateway that failed must not let its traffic continue in plaintext, so its routes keep
    // dropping it.
    let was_reported = matches!(ended, Ok(()) | Err(RunError::Hung(_) | RunError::Hurried(_)));
    end(&helper, if was_reported { running.gateway.on_stop() } else { OnStop::Block });
    if running.gateway.blocks() {
        tracing::info!(
            "packets to the tunnels' networks are dropped until the next start, or until `convoy unblock`"
        );
    }
    ended.map_err(|error| failed(&error))?;
    tracing::info!("stopped");
    Ok(())
}

/// Logs the configuration's warnings.
fn warn(config: &Config) {
    let (reported, rest) = convoy_config::reported(&config.warnings);
    reported.into_iter().for_each(convoy_config::log);
    rest.into_iter().for_each(|rest| tracing::warn!("{rest}"));
}

/// Removes the sockets, and the routes unless they are to keep blocking the tunnels' traffic.
fn end(helper: &Helper, on_stop: OnStop) {
    if let Err(error) = helper.end(on_stop) {
        tracing::warn!("cannot remove all routes and sockets: {error}");
    }
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

/// Starts the helper with a fixed list of the files that it may open and remove.
fn start_helper(path: &Path, config: &Config, log: LogFormat) -> Result<Helper, HelperError> {
    let sockets = std::iter::once(&config.control).chain(&config.charon);
    let addresses = config.cluster.iter().flat_map(|cluster| cluster.addresses());
    let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
    let mut arguments = vec![OsStr::new("helper"), OsStr::new("--config"), path.as_os_str()];
    arguments.extend([OsStr::new("--log-format"), OsStr::new(log.word())]);
    sockets.for_each(|socket| arguments.extend([OsStr::new("--socket"), socket.as_os_str()]));
    addresses.iter().for_each(|address| arguments.extend(["--address", address].map(OsStr::new)));
    Helper::start(arguments)
}

/// Starts the agent of a member of a cluster.
fn start_agent(config: &Config, log: LogFormat) -> Result<Option<Agent>, ClusterError> {
    let arguments = ["--log-format", log.word()].map(OsStr::new);
    config.cluster.as_ref().map(|cluster| Agent::start(cluster, arguments)).transpose()
}

/// A running gateway with the servers around it.
struct RunningGateway {
    gateway: Gateway,
    summary: ConfigSummary,
    _control: ControlServer,
}

impl RunningGateway {
    /// Starts everything. Steps that may fail come before those with visible effects; routes are
    /// last.
    fn start(
        config: Config,
        path: &Path,
        helper: &Arc<Helper>,
        agent: Option<Agent>,
        orders: Sender<Order>,
    ) -> Result<Self, Failure> {
        let (control, address) = (config.control.clone(), config.metrics);
        let (per_tunnel, has_page) = (config.metrics_per_tunnel, config.metrics_page);
        let system_calls = config.system_calls();
        let summary = ConfigSummary::of(path, &config);
        let socket =
            |error| Failure::Failed(format!("cannot open the control socket {}: {error}", control.display()));
        let mut server = ControlServer::listen(&control).map_err(socket)?;
        // While the process may still bind to a port below 1024.
        let listener = address.map(|address| {
            let reported =
                |error| Failure::Failed(format!("cannot listen for metrics on {address}: {error}"));
            convoy_metrics::bind(address).map_err(reported)
        });
        let listener = listener.transpose()?;
        let shared = SharedConfig::default();
        let load = load_by(path, config.kinds, helper, shared.clone());
        let faults = Faults::default();
        let fault_sender = faults.sender();
        let load = run::on_one_thread(load, fault_sender.clone());
        let joining = agent.map(|agent| {
            let (orders, load) = (orders.clone(), Arc::clone(&load));
            Joining { agent, orders: MemberOrders { orders, load, shared } }
        });
        let warn = |text| tracing::warn!("{text}");
        let gateway = Gateway::start(config, Arc::clone(helper), joining, faults, warn)
            .map_err(|error| failed(&error))?;
        let of_signals = |error| Failure::Failed(format!("cannot handle signals: {error}"));
        // Before anyone can find that the gateway answers and send one.
        let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(of_signals)?;
        let events = gateway.events().clone();
        server.start(Arc::clone(&load), orders.clone(), events.clone(), &fault_sender).map_err(socket)?;
        if let Some(listener) = listener {
            let reported = |error| Failure::Failed(format!("metrics: {error}"));
            let contents = Contents { per_tunnel, page: has_page.then(|| events.clone()) };
            let asked = orders.clone();
            let snapshots = Box::new(move |reply| asked.send(Order::Show(None, reply)).is_ok());
            convoy_metrics::serve(listener, snapshots, contents, &fault_sender).map_err(reported)?;
        }
        let reloads = Reloads { load, events };
        listen_to(signals, reloads, orders, &fault_sender).map_err(of_signals)?;
        privileges::confine(&system_calls).map_err(|error| failed(&error))?;
        gateway.route().map_err(|error| failed(&error))?;
        Ok(Self { gateway, summary, _control: server })
    }
}

/// Notifies the service manager; a failure is only logged.
fn notify_manager(progress: Progress) {
    if let Err(error) = notify::tell(progress) {
        tracing::warn!("cannot notify the service manager ({progress:?}): {error}");
    }
}

/// What a reload by a signal needs: how the configuration is read, and where news of it goes.
struct Reloads {
    load: Load,
    events: Events,
}

/// SIGTERM and SIGINT drain and stop, SIGHUP reloads.
fn listen_to(
    mut signals: Signals,
    Reloads { load, events }: Reloads,
    orders: Sender<Order>,
    faults: &Sender<Fault>,
) -> std::io::Result<()> {
    // Reloads run on a thread of their own: a large file takes long, and SIGTERM must still be
    // handled. A pending reload covers all later requests.
    let (ask, asked) = sync_channel(1);
    let reloads = orders.clone();
    supervise::spawn("reload", faults, move || {
        for () in asked {
            // The result is in the log.
            let _ = run::reload(&load, &reloads, &events, Box::new(drop));
        }
    })?;
    supervise::spawn("signals", faults, move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                // If the channel is full, a reload is already pending.
                let _ = ask.try_send(());
                continue;
            }
            notify_manager(Progress::Stopping);
            if orders.send(Order::Stop).is_err() {
                break;
            }
        }
    })?;
    Ok(())
}

/// Reads the configuration for a reload by the helper, since the gateway's user may not open it.
fn load_by(path: &Path, kinds: &'static Kinds, helper: &Arc<Helper>, shared: SharedConfig) -> Load {
    let (path, helper) = (path.to_owned(), Arc::clone(helper));
    let name = path.display().to_string();
    Arc::new(move || {
        let refused = |error: HelperError| ConfigErrors::whole_file(&name, &error.to_string());
        let file = helper.configuration().map_err(refused)?;
        // Its ports are open, and an interface that is briefly absent is no reason to refuse a
        // reload.
        Config::read(&path, file, &Basis::of(kinds), shared.get().as_ref()).map(Box::new)
    })
}
