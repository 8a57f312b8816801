//! The gateway's configuration: a TOML file, checked as a whole, with every error at its place.
//!
//! - [`Config`] is a valid file: nothing behind it reads keys or text. `file.rs` has every key with
//!   its type; each section has a file of its own, which says what its keys mean and what is wrong.
//! - [`Kinds`] are the kinds of engine and port that a program has, and [`Basis`] is that with the
//!   machine on which a file is checked.
//! - [`init`] makes the files of two gateways from what an operator says, [`import`] those of one
//!   from the configuration of another program, [`genkey`] random keys.
//!
//! Nothing here needs a running gateway.

mod cluster;
mod counted;
mod dpdk;
mod ends;
mod engine;
mod environment;
mod file;
mod forwarding;
pub mod genkey;
mod host;
pub mod hosts_behind;
mod idle_workers;
pub mod import;
pub mod init;
pub mod inner_mtu;
mod interface;
mod keys;
mod kinds;
mod lines;
mod logged;
mod monitor;
mod overlap;
mod port;
mod scheduler;
mod shared;
mod static_tunnels;
mod tunnel;
mod usual_address;
mod values;

pub use cluster::{ClusterConfig, ClusterTls, GROUP, ReplayAfterTakeover, TunnelGroup};
pub use convoy_port::PortConfig;
pub use convoy_settings::{ConfigErrors, HostEnvironment, Nowhere, Position, Problem, Severity, reported};
pub use counted::counted;
pub use ends::{is_host_name, not_carried, unserved};
pub use engine::BusConfig;
pub use environment::ThisMachine;
pub use interface::InterfaceConfig;
pub use kinds::{Kinds, PRODUCT, PortEngine};
pub use logged::{log, log_for};
pub use monitor::MonitorConfig;
pub use shared::{OwnFile, SharedConfig, SharedText};
pub use static_tunnels::{StaticTunnels, load_private, static_policies};
pub use tunnel::unknown_proposal;

use std::collections::HashMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use convoy_engine::{EngineKindRow, EngineSettings};
use convoy_ipsec::{
    AdmittedAlgorithms, ClassMap, EcnMode, IptfsConfig, KeyMaterial, Lifetime, Mode, NatKeepalive, OuterDf,
    OuterDscp, Proposal, SaProtocol, Selector, TrafficSelector,
};
use convoy_kernel::Routing;
use convoy_port::NATT_PORT;
use convoy_scheduler::SchedulerConfig;
use convoy_settings::Source;
use zeroize::Zeroizing;

/// What a configuration is checked against.
#[derive(Clone, Copy)]
pub struct Basis<'a> {
    /// The kinds of engine and port of the program.
    pub kinds: &'static Kinds,
    /// The machine.
    pub machine: &'a dyn HostEnvironment,
}

impl Basis<'static> {
    /// A program with these kinds, on a machine of which nothing is known.
    pub const fn of(kinds: &'static Kinds) -> Self {
        Self { kinds, machine: &Nowhere }
    }
}

/// A valid configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of its file.
    pub file: String,
    /// The kinds of engine and port of the program that has read it.
    pub kinds: &'static Kinds,
    /// The control socket.
    pub control: PathBuf,
    /// The socket for strongSwan's charon, if any.
    pub charon: Option<PathBuf>,
    /// The user that charon runs as, if it is not root; by default `convoy-charon`.
    pub charon_user: Option<String>,
    /// One packet in this many is computed again by another engine; none with 0.
    pub verify_one_in: u32,
    /// The user that the gateway becomes; by default `convoy`.
    pub user: Option<String>,
    /// What happens to the tunnels' traffic when the gateway ends.
    pub on_stop: OnStop,
    /// Whether the kernel is kept from forwarding packets of the tunnels' networks past the
    /// gateway.
    pub guard: bool,
    /// The numbers of its routing table, rules and mark.
    pub routing: Routing,
    /// Where the numbers of static keys are kept over restarts, if anywhere.
    pub state: Option<StatePath>,
    /// Which algorithms are admitted.
    pub admitted: AdmittedAlgorithms,
    /// Whether ICMP errors received through a tunnel must quote a packet whose answers that tunnel
    /// may carry.
    pub check_icmp: bool,
    /// To what the maximum segment size of TCP connections is lowered.
    pub mss_clamp: MssLimit,
    /// Flows of each direction and family whose policy a worker caches; a power of two.
    pub flow_cache: usize,
    /// How long a worker polls its ports before it sleeps, in us; 0 is off.
    pub busy_poll_us: u16,
    /// For how long a woken worker gathers packets, in us; 0 is off.
    pub moderation_us: u16,
    /// The cluster that it is a member of, if any.
    pub cluster: Option<ClusterConfig>,
    /// The address at which metrics are served, if any.
    pub metrics: Option<SocketAddr>,
    /// Whether each tunnel and SA has metrics of its own; `None` is while there are few.
    pub metrics_per_tunnel: Option<bool>,
    /// Whether the metrics' server has a page for browsers as well.
    pub metrics_page: bool,
    /// Worker threads.
    pub workers: u16,
    /// The largest IP packet that leaves outside, in bytes.
    pub mtu: u16,
    /// The window and its policy.
    pub scheduler: SchedulerConfig,
    /// The class of each DSCP.
    pub classes: ClassMap,
    /// Whether packets of one SA leave in order.
    pub ordered: bool,
    /// Engines, in order; if empty, the gateway chooses.
    pub engines: Vec<EngineConfig>,
    /// DPDK's arguments; by default determined by the devices named.
    pub dpdk: Option<Vec<String>>,
    /// Buses that modelled engines share, by name.
    pub buses: HashMap<String, BusConfig>,
    /// Ports, in order; those inside carry the packets of all tunnels without an interface.
    pub ports: Vec<PortConfig>,
    /// Inside interfaces of certain tunnels; the first has the number 1
    /// ([`interface_number`](Self::interface_number)).
    pub interfaces: Vec<InterfaceConfig>,
    /// Tunnels, in order.
    pub tunnels: Vec<TunnelConfig>,
    /// How tunnels are probed, in their order.
    pub monitors: Vec<MonitorConfig>,
    /// Selectors, local and remote, of traffic that passes unprotected; they precede all tunnels.
    pub bypass: Vec<(TrafficSelector, TrafficSelector)>,
    /// Warnings: what is valid, but probably a mistake.
    pub warnings: Vec<Problem>,
}

/// To what the maximum segment size of TCP connections through the tunnels is lowered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MssLimit {
    /// To what fits the inside interface and the tunnel.
    #[default]
    Auto,
    /// It stays as the hosts announce it.
    Off,
    /// To this number of bytes.
    To(u16),
}

/// What happens to packets to the networks behind the tunnels once the gateway has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStop {
    /// They are dropped until a gateway runs again or somebody removes the routes that drop them.
    #[default]
    Block,
    /// They follow the host's other routes, unencrypted.
    Open,
}

/// The identity of a gateway among those of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayIdentity {
    /// The control socket.
    pub control: PathBuf,
    /// The numbers of the routing table, rules and mark.
    pub routing: Routing,
}

impl Default for GatewayIdentity {
    /// The identity of a gateway with a default configuration.
    fn default() -> Self {
        let (table, priority, mark) = (values::ROUTING, values::ROUTING, values::ROUTING);
        Self { control: values::CONTROL.into(), routing: Routing { table, priority, mark } }
    }
}

/// The place of the state file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePath {
    /// The file.
    pub path: PathBuf,
    /// Whether it is the default, which may be unusable.
    pub is_default: bool,
}

impl StatePath {
    /// From the configured text; the default is the usual place, and an empty text is no file.
    fn of(text: Option<&str>) -> Option<Self> {
        match text {
            None => Some(Self { path: "/var/lib/convoy/state".into(), is_default: true }),
            Some("") => None,
            Some(path) => Some(Self { path: path.into(), is_default: false }),
        }
    }
}

/// One engine.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineConfig {
    /// Unique; by default from its kind and position.
    pub name: String,
    /// The worker that an engine with a thread or a device of its own serves; `None` for one that
    /// serves all workers, each by an instance or a queue of its own.
    pub worker: Option<u16>,
    /// The settings of its kind.
    pub settings: EngineSettings,
}

impl EngineConfig {
    /// One with default settings, named after its kind.
    pub fn plain(row: &EngineKindRow) -> Self {
        Self { name: row.kind().to_string(), worker: None, settings: row.default_settings() }
    }

    /// Those of `workers` workers that have one of these.
    pub fn workers(&self, workers: u16) -> std::ops::Range<u16> {
        self.worker.map_or(0..workers, |worker| worker..worker + 1)
    }
}

/// Static keys of one pair of SAs.
#[derive(Clone, Debug)]
pub struct ManualKeys {
    /// The SPI of the peer's packets.
    pub spi_in: u32,
    /// The SPI of packets to the peer.
    pub spi_out: u32,
    /// The keys of the peer's packets.
    pub keys_in: KeyMaterial,
    /// The keys of packets to the peer.
    pub keys_out: KeyMaterial,
}

impl PartialEq for ManualKeys {
    fn eq(&self, other: &Self) -> bool {
        fn is_same(a: &KeyMaterial, b: &KeyMaterial) -> bool {
            a.transform() == b.transform()
                && a.cipher_key() == b.cipher_key()
                && a.salt() == b.salt()
                && a.integrity_key() == b.integrity_key()
        }
        (self.spi_in, self.spi_out) == (other.spi_in, other.spi_out)
            && is_same(&self.keys_in, &other.keys_in)
            && is_same(&self.keys_out, &other.keys_out)
    }
}

/// One tunnel. Two are equal if nothing changed, so that their SAs can stay over a reload.
#[derive(Clone, Debug, PartialEq)]
pub struct TunnelConfig {
    /// Unique.
    pub name: String,
    /// The group of the cluster that it belongs to.
    pub group: String,
    /// The inside interface that its packets have for themselves; `None` is the shared one.
    pub interface: Option<String>,
    /// ESP or AH.
    pub protocol: SaProtocol,
    /// Tunnel, transport or AGGFRAG.
    pub mode: Mode,
    /// Settings of AGGFRAG mode.
    pub iptfs: IptfsConfig,
    /// This side's outer address; unspecified if a daemon negotiates and the file has none.
    pub local: IpAddr,
    /// The peer's; unspecified if the file has its name or none, and may be like `local`.
    pub remote: IpAddr,
    /// The peer's name, if the file has that.
    pub remote_name: Option<String>,
    /// Whether the peer's address and port are learned from its authentic packets.
    pub roams: bool,
    /// What is protected, this side.
    pub local_ts: Vec<TrafficSelector>,
    /// What is protected, the peer's side.
    pub remote_ts: Vec<TrafficSelector>,
    /// The algorithms; if a daemon negotiates, the assumed ones.
    pub proposal: Proposal,
    /// Whether the algorithms are only assumed: a daemon negotiates, and the file does not say
    /// what.
    pub is_assumed: bool,
    /// Whether ESP travels in UDP.
    pub is_encapsulated: bool,
    /// The peer's UDP port.
    pub remote_port: u16,
    /// Whether the UDP flow to the peer is kept open through a NAT.
    pub nat_keepalive: NatKeepalive,
    /// 64-bit sequence numbers.
    pub esn: bool,
    /// Anti-replay window in packets.
    pub replay_window: u32,
    /// Soft and hard lifetimes.
    pub lifetime: Lifetime,
    /// The outer DF bit.
    pub df: OuterDf,
    /// The outer DSCP.
    pub dscp: OuterDscp,
    /// ECN across the tunnel.
    pub ecn: EcnMode,
    /// Inner length to which packets are padded, in bytes; 0 is none.
    pub tfc_bytes: u16,
    /// Lower comes first.
    pub priority: u32,
    /// Static keys, one pair of SAs for each resource (RFC 9611), the tunnel's own first; if there
    /// are none, keys come from charon.
    pub manual: Vec<ManualKeys>,
}

impl TunnelConfig {
    /// A tunnel between two ends with defaults otherwise, and without name, selectors and keys.
    fn plain(local: IpAddr, remote: IpAddr, proposal: Proposal) -> Self {
        Self {
            name: String::new(),
            group: GROUP.to_owned(),
            interface: None,
            protocol: SaProtocol::Esp,
            mode: Mode::Tunnel,
            iptfs: IptfsConfig::default(),
            local,
            remote,
            remote_name: None,
            roams: false,
            local_ts: Vec::new(),
            remote_ts: Vec::new(),
            proposal,
            is_assumed: false,
            is_encapsulated: true,
            remote_port: NATT_PORT,
            nat_keepalive: NatKeepalive::default(),
            esn: proposal.esn,
            replay_window: 1024,
            lifetime: Lifetime::default(),
            df: OuterDf::Copy,
            dscp: OuterDscp::Copy,
            ecn: EcnMode::Normal,
            tfc_bytes: 0,
            priority: 1000,
            manual: Vec::new(),
        }
    }

    /// Whether it has static keys.
    pub fn has_static_keys(&self) -> bool {
        !self.manual.is_empty()
    }

    /// The pairs of a local and a remote selector that can match, in their order.
    pub fn selectors(&self) -> impl Iterator<Item = Selector> {
        let pair = |local: &TrafficSelector| {
            let local = *local;
            self.remote_ts.iter().map(move |remote| Selector { local, remote: *remote })
        };
        self.local_ts.iter().flat_map(pair).filter(Selector::can_match)
    }
}

/// Opens a configuration for reading, without blocking if it is a FIFO.
///
/// # Errors
/// The system's.
pub fn open(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

impl Config {
    /// The identity of this gateway among those of the host.
    pub fn identity(&self) -> GatewayIdentity {
        GatewayIdentity { control: self.control.clone(), routing: self.routing }
    }

    /// Reads and checks the file of a gateway of a program with these kinds that is to start on
    /// this machine. A file with keys that others than its owner may read is refused.
    ///
    /// # Errors
    /// [`ConfigErrors`], all of them, each with file, line and key.
    pub fn load(path: &Path, kinds: &'static Kinds) -> Result<Self, ConfigErrors> {
        Self::read(path, opened(path)?, &Basis { kinds, machine: &ThisMachine }, None)
    }

    /// Like [`load`](Self::load), but not checked against this machine: for captures and
    /// simulations.
    ///
    /// # Errors
    /// Those of [`load`](Self::load).
    pub fn load_for_any_machine(path: &Path, kinds: &'static Kinds) -> Result<Self, ConfigErrors> {
        Self::read(path, opened(path)?, &Basis::of(kinds), None)
    }

    /// Like [`load`](Self::load), from a file that is already open, checked on this basis; `path`
    /// is its name in errors. If its tunnels are in the cluster's store, those of `shared` are
    /// taken.
    ///
    /// # Errors
    /// Those of [`load`](Self::load).
    pub fn read(
        path: &Path,
        file: std::fs::File,
        basis: &Basis<'_>,
        shared: Option<&SharedText>,
    ) -> Result<Self, ConfigErrors> {
        let (text, mode) = text_of(path, file)?;
        Self::checked(path, &text, mode, basis, shared)
    }

    /// Like [`load`](Self::load), with the text that was checked.
    fn load_with_text(path: &Path, kinds: &'static Kinds) -> Result<(Zeroizing<String>, Self), ConfigErrors> {
        let (text, mode) = text_of(path, opened(path)?)?;
        let config = Self::checked(path, &text, mode, &Basis { kinds, machine: &ThisMachine }, None)?;
        Ok((text, config))
    }

    /// The configuration of a file with this text and mode.
    fn checked(
        path: &Path,
        text: &str,
        mode: u32,
        basis: &Basis<'_>,
        shared: Option<&SharedText>,
    ) -> Result<Self, ConfigErrors> {
        let name = path.display().to_string();
        let config = match shared.filter(|_| is_shared(text)) {
            Some(shared) => Self::parse_with(OwnFile { name: &name, text }, shared, basis)?,
            None => Self::parse_at(&name, text, basis)?,
        };
        if mode & 0o077 != 0 && config.has_static_keys() && !config.has_tunnels_in_store() {
            return Err(keys_are_readable(&name, mode));
        }
        Ok(config)
    }

    /// Whether a tunnel has static keys.
    pub fn has_static_keys(&self) -> bool {
        self.tunnels.iter().any(TunnelConfig::has_static_keys)
    }

    /// The number of an inside interface, as [`Policy::interface`](convoy_ipsec::Policy::interface)
    /// has it: 0 for `None`, the shared one. `None` if there is no such interface.
    pub fn interface_number(&self, name: Option<&str>) -> Option<u16> {
        let Some(name) = name else { return Some(0) };
        let place = self.interfaces.iter().position(|interface| interface.name == name)?;
        u16::try_from(place + 1).ok()
    }

    /// Our UDP port for ESP in UDP.
    pub fn natt_port(&self) -> u16 {
        self.ports.iter().find_map(|port| port.settings.udp_port()).unwrap_or(NATT_PORT)
    }

    /// Whether workers have UDP ports of their own: there are several, and tunnels have SAs of
    /// several of them, or may get them from charon.
    pub fn has_own_ports(&self) -> bool {
        let has_resources = |tunnel: &TunnelConfig| tunnel.manual.len() > 1;
        self.workers > 1 && (self.charon.is_some() || self.tunnels.iter().any(has_resources))
    }

    /// The UDP port from which a worker sends packets of a tunnel with SAs of several workers:
    /// those of each are a flow of their own to the network and to the peer.
    pub fn own_port(&self, worker: u16) -> u16 {
        self.natt_port().saturating_add(1).saturating_add(worker)
    }

    /// The system calls of its engines and ports beside those of every gateway, once privileges are
    /// given up.
    pub fn system_calls(&self) -> Vec<i64> {
        let engines = self.engines.iter().map(|engine| engine.settings.kind().traits().system_calls);
        let ports = self.ports.iter().map(|port| port.traits().system_calls);
        engines.chain(ports).flatten().copied().collect()
    }

    /// The same gateway with a single worker, which has all engines: for captures, which are one
    /// stream.
    pub fn with_one_worker(&self) -> Self {
        let engines = self.engines.iter().cloned().map(|engine| EngineConfig { worker: None, ..engine });
        Self { workers: 1, engines: engines.collect(), ..self.clone() }
    }

    /// Whether its tunnels are in the cluster's store.
    pub fn has_tunnels_in_store(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.has_tunnels)
    }

    /// Checks a configuration of the product given as text; `name` replaces the file's in errors.
    /// It knows no machine.
    ///
    /// # Errors
    /// [`ConfigErrors`], like [`load`](Self::load).
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigErrors> {
        Self::parse_at(name, text, &Basis::of(&PRODUCT))
    }

    /// Checks a configuration given as text on this basis.
    ///
    /// # Errors
    /// [`ConfigErrors`], like [`load`](Self::load).
    pub fn parse_at(name: &str, text: &str, basis: &Basis<'_>) -> Result<Self, ConfigErrors> {
        Self::parse_parts(name, text, None, basis)
    }

    /// Checks a configuration given as text that a cluster shares from the byte `shared` on.
    fn parse_parts(
        name: &str,
        text: &str,
        shared: Option<usize>,
        basis: &Basis<'_>,
    ) -> Result<Self, ConfigErrors> {
        let source = Source::new(name, text);
        let (file, problems) = file::File::read(&source, basis.kinds).map_err(ConfigErrors)?;
        let config = values::check(&file, problems, &source, shared, basis)?;
        Ok(Self { file: name.to_owned(), ..config })
    }
}

/// Whether a file says that its tunnels are in the cluster's store; what is wrong with it is
/// reported when it is checked.
fn is_shared(text: &str) -> bool {
    let read = text.parse::<toml::Table>().ok();
    let tunnels = read.as_ref().and_then(|file| file.get("cluster")?.get("tunnels")?.as_str());
    tunnels == Some("store")
}

/// The text of a file, and its mode.
fn text_of(path: &Path, mut file: std::fs::File) -> Result<(Zeroizing<String>, u32), ConfigErrors> {
    let found = file.metadata().map_err(|error| cannot_be_read(path, &error))?;
    if !found.is_file() {
        let what = "the file is not a regular file";
        return Err(ConfigErrors::whole_file(&path.display().to_string(), what));
    }
    // Allocated at once: a growing buffer would leave pieces of keys behind.
    let room = usize::try_from(found.len()).unwrap_or(0).saturating_add(1);
    let mut text = Zeroizing::new(String::with_capacity(room));
    file.read_to_string(&mut text).map_err(|error| cannot_be_read(path, &error))?;
    Ok((text, found.permissions().mode()))
}

fn keys_are_readable(name: &str, mode: u32) -> ConfigErrors {
    let what = format!(
        "the file contains keys and is readable by others (mode {:04o}); run: chmod 600 {name}",
        mode & 0o7777
    );
    ConfigErrors::whole_file(name, &what)
}

fn opened(path: &Path) -> Result<std::fs::File, ConfigErrors> {
    open(path).map_err(|error| cannot_be_read(path, &error))
}

fn cannot_be_read(path: &Path, error: &std::io::Error) -> ConfigErrors {
    ConfigErrors::whole_file(&path.display().to_string(), &format!("the file cannot be read: {error}"))
}

#[cfg(test)]
mod tests;
