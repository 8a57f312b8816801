//! A gateway as a member of a cluster: it protects packets only while it leads.
//!
//! The member itself ([`convoy_cluster::Member`]) runs in a process of its own, the **agent** (the
//! program `convoy-cluster-agent`), with the connection to the store. If the gateway's process
//! ends, the agent gives what it led to the next member at once; if the agent ends, the lease does,
//! and the gateway with it. Here are the gateway's end of the line between them ([`Agent`],
//! `Cluster`), how SAs start when it is ordered to lead (`pairs.rs`), and the store as commands see
//! it ([`ConfigStore`]).
//!
//! Rules and invariants are in `docs/internals/cluster.md`.

mod config_store;
mod etcd_version;
mod group_line;
mod led;
mod line;
mod member_gateway;
mod memory;
mod pairs;
mod program;
mod pulse;
mod store_line;
mod view;

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use convoy_cluster::messages::{Begin, Pem, Start};
use convoy_cluster::{GroupEvent, SaFingerprint, Seen};
use convoy_config::{ClusterConfig, ClusterTls, ReplayAfterTakeover, SharedConfig};
use convoy_dataplane::fence::Fence;
use convoy_dataplane::pipeline::Clock;
use convoy_host::helper::Helper;
use convoy_process::companion::NotFound;
use convoy_process::supervise::{self, Fault};
use convoy_report::events::Events;
use convoy_report::snapshot::ClusterRow;
use convoy_reservation::{ReserveRules, ReserveSize};
use convoy_state::{Note, Reporter, StartId};
use zeroize::Zeroizing;

pub use config_store::ConfigStore;
pub use convoy_kernel::service::ServiceAddress;
pub(crate) use group_line::GroupLine;
pub use led::{Led, Stopped};
pub(crate) use member_gateway::MemberGateway;
pub use member_gateway::StoredSas;
pub(crate) use pairs::{LedTerm, Pairs, StartedTunnels};

use crate::worker_handles::WorkerHandles;
use led::LedSas;
use line::AgentLine;
use memory::StoreMemory;
use view::ClusterView;

/// Time limit of a message to the agent.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Why a gateway cannot be a member.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A file cannot be read.
    #[error("cluster: cannot read {file}: {source}")]
    File {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The key of the cluster is not usable.
    #[error("cluster: {0}")]
    Key(String),
    /// The store cannot be used, or did not do what was asked.
    #[error("cluster: {0}")]
    Store(String),
    /// The agent's program is not installed.
    #[error("the cluster's agent {0}; install it there: convoy's package has it")]
    NotInstalled(#[from] NotFound),
    /// What was seen of the store cannot be kept.
    #[error(
        "cluster: {file}, which has what this gateway has seen of the store, cannot be used: {source}; set `state` in [gateway] to a \
         file in a folder that can be written, or to \"\" to do without: then a store that went back is not noticed after a restart"
    )]
    Memory {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The agent could not be started.
    #[error("cluster: cannot start the agent: {0}")]
    Agent(io::Error),
}

/// An agent that has begun.
pub struct Agent {
    config: ClusterConfig,
    member: String,
    memory: Option<StoreMemory>,
    socket: UnixStream,
    child: Child,
}

impl Agent {
    /// Starts the agent with `arguments`, and its end of the line as standard input. It gets what
    /// is in the cluster's files, which this process can still read.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub fn start<'a>(
        config: &ClusterConfig,
        arguments: impl IntoIterator<Item = &'a std::ffi::OsStr>,
    ) -> Result<Self, ClusterError> {
        let mut begin = Box::new(begin(config)?);
        let memory = config
            .memory_of(&begin.member)
            .map(|file| StoreMemory::open(&file).map_err(|source| ClusterError::Memory { file, source }));
        let (memory, seen) = memory.transpose()?.unzip();
        begin.seen = seen.unwrap_or_default();
        convoy_cluster::seal::ClusterKey::parse(&begin.secret)
            .map_err(|error| ClusterError::Key(format!("{}: {error}", config.secret.display())))?;
        let member = begin.member.clone();
        let (socket, child) = program::start(arguments, &Start::Begin(begin))?;
        Ok(Self { config: config.clone(), member, memory, socket, child })
    }
}

fn begin(config: &ClusterConfig) -> Result<Begin, ClusterError> {
    let pem = |tls: &ClusterTls| {
        Ok::<_, ClusterError>(Pem {
            ca: read(&tls.ca)?.to_string(),
            certificate: read(&tls.certificate)?.to_string(),
            key: read_secret(&tls.key)?,
        })
    };
    Ok(Begin {
        cluster: config.name.clone(),
        member: config.member.clone().unwrap_or_else(host_name),
        priority: config.priority,
        groups: config.groups.iter().map(|group| group.name.clone()).collect(),
        lease_s: config.lease.as_secs() as u32,
        rebalance_ns: config.rebalance.map(|after| after.as_nanos() as u64),
        is_strict: config.replay == ReplayAfterTakeover::Strict,
        endpoints: config.endpoints.clone(),
        tls: config.tls.as_ref().map(pem).transpose()?,
        inbound_reserve_ns: config.inbound_reserve.as_nanos() as u64,
        wants_config: config.has_tunnels,
        secret: read_secret(&config.secret)?,
        seen: Seen::default(),
    })
}

fn read(file: &Path) -> Result<Zeroizing<String>, ClusterError> {
    let failed = |source| ClusterError::File { file: file.to_owned(), source };
    std::fs::read_to_string(file).map(Zeroizing::new).map_err(failed)
}

/// Reads a file that its owner alone may read.
fn read_secret(file: &Path) -> Result<Zeroizing<String>, ClusterError> {
    use std::os::unix::fs::PermissionsExt;
    let failed = |source| ClusterError::File { file: file.to_owned(), source };
    let mode = std::fs::metadata(file).map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        let what = format!(
            "{} can be read by others than its owner; run: chmod 600 {}",
            file.display(),
            file.display()
        );
        return Err(ClusterError::Key(what));
    }
    read(file)
}

/// The name of this host.
fn host_name() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "gateway".to_owned())
}

/// A gateway's membership.
pub(crate) struct Cluster {
    config: ClusterConfig,
    fence: Fence,
    led: Arc<LedSas>,
    line: Arc<AgentLine>,
    view: Arc<ClusterView>,
    reporter: Reporter,
    memory: Option<StoreMemory>,
    /// What comes from the agent and from the workers, until threads take it.
    received: Option<(UnixStream, Receiver<Note>)>,
    child: Child,
}

impl Cluster {
    /// A member whose workers are behind a closed fence.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn new(agent: Agent) -> io::Result<Self> {
        let Agent { config, member, memory, socket, child } = agent;
        // An agent that does not read must not hold up the gateway's end.
        socket.set_write_timeout(Some(TIMEOUT))?;
        let receiving = socket.try_clone()?;
        let (reporter, reports) = Reporter::for_cluster();
        let view = Arc::new(ClusterView::new(config.clone(), member));
        Ok(Self {
            config,
            view,
            fence: Fence::closed(),
            led: Arc::default(),
            line: Arc::new(AgentLine::new(socket)),
            reporter,
            memory,
            received: Some((receiving, reports)),
            child,
        })
    }

    /// The fence of its workers.
    pub(crate) fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// A worker's way to report the last numbers of its SAs.
    pub(crate) fn reporter(&self) -> Reporter {
        self.reporter.clone()
    }

    /// Follows the agent's orders from now on.
    ///
    /// # Errors
    /// The system's, if it cannot create a thread.
    pub(crate) fn join(&mut self, place: Place) -> io::Result<()> {
        let Some((receiving, reports)) = self.received.take() else { return Ok(()) };
        let (led, line) = (Arc::clone(&self.led), Arc::clone(&self.line));
        let faults = place.faults.clone();
        supervise::spawn("cluster's reports", &faults, move || line::report(&reports, &led, &line))?;
        let events = place.events.clone();
        let memory = self.memory.take();
        let memory = memory.map(|memory| memory.keep(move |warning| events.warn(warning), &faults));
        pulse::start(self.config.lease, &place, Arc::clone(&self.line))?;
        let follower = line::Follower {
            config: self.config.clone(),
            view: Arc::clone(&self.view),
            fence: self.fence.clone(),
            led: Arc::clone(&self.led),
            line: Arc::clone(&self.line),
            memory: memory.transpose()?,
            place,
        };
        supervise::spawn("cluster's orders", &faults, move || follower.follow(receiving)).map(drop)
    }

    /// Has it give its groups away and lead none, or lead groups again.
    pub(crate) fn drain(&self, is_draining: bool) {
        self.line.drain(is_draining);
    }

    /// How SAs that are new to the store reserve their first numbers.
    pub(crate) fn rules(&self) -> ReserveRules {
        let is_strict = self.config.replay == ReplayAfterTakeover::Strict;
        ReserveRules { outbound: ReserveSize::OUTBOUND, inbound: is_strict.then_some(ReserveSize::INBOUND) }
    }

    /// The line for a group's SAs that come and go.
    fn line_of(&self, group: &str) -> GroupLine {
        let (led, line) = (Arc::clone(&self.led), Arc::clone(&self.line));
        GroupLine { group: group.to_owned(), led, line }
    }

    /// The line for charon's SAs, which are of its only group.
    pub(crate) fn charons_line(&self) -> Option<GroupLine> {
        self.config.groups.first().map(|group| self.line_of(&group.name))
    }

    /// A group that is led has these pairs, too.
    pub(crate) fn add(
        &self,
        group: &str,
        starts: HashMap<StartId, SaFingerprint>,
        reported: Vec<GroupEvent>,
    ) {
        self.led.add(group, starts);
        reported.into_iter().for_each(|event| self.line.report(self.led.report(group, event)));
    }

    /// The cluster now.
    pub(crate) fn row(&self) -> ClusterRow {
        self.view.row()
    }

    /// Hands over what it leads, with these last numbers, and ends the agent.
    pub(crate) fn end(&mut self, stopped: Stopped) {
        self.line.end(stopped);
        // One that does not answer is left to its lease.
        for _ in 0..200 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a member's threads need of its gateway.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) handles: WorkerHandles,
    pub(crate) clock: Clock,
    pub(crate) helper: Option<Arc<Helper>>,
    pub(crate) events: Events,
    /// The part of the configuration that the cluster shares.
    pub(crate) shared: SharedConfig,
    pub(crate) gateway: Arc<dyn MemberGateway>,
    pub(crate) faults: Sender<Fault>,
}
