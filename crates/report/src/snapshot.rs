//! The state of a running gateway for `convoy show` and the metrics: plain structs, nothing secret.
//!
//! Each worker reports its own in parts (`crate::survey`, `of_worker.rs`), `convoy_gateway::gather`
//! collects them, and `merge.rs` merges those of all workers.

mod cluster;
mod configured;
mod counters;
mod lately;
mod merge;
mod names;
mod of_worker;
mod peers;
mod rows;
mod selection;
mod warnings;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use cluster::{ClusterRow, GroupRow, MemberRow};
pub use configured::ConfiguredRow;
pub use counters::{COUNTERS, Counter};
pub use lately::EngineLately;
pub use names::{NameKind, NamesRequest, RunningName};
pub use of_worker::{PolicyNote, SaNote, direction, policy, sa};
pub use peers::{PeerRow, PeerState, TunnelKey, WayRow};
pub use rows::{
    Buckets, CharonRow, EngineRow, GuardRow, IkePeerRow, IptfsRow, MemoryRow, MonitorRow, NameRow,
    NegotiationRow, PolicyRow, PortRow, SaRow, SchedulerRow, TunnelRow,
};

pub use selection::TunnelSelection;

/// Dropped packets by reason, without reasons that did not occur.
pub type Drops = BTreeMap<String, u64>;

/// A gateway at about one moment: workers visit their SAs in steps, between the packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its version.
    pub version: String,
    /// When it started, in seconds since 1970.
    pub started_s: f64,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// When the snapshot was taken, in seconds since 1970.
    #[serde(default)]
    pub taken_s: f64,
    /// Its configuration's file; empty where it has none.
    #[serde(default)]
    pub configuration: String,
    /// When the configuration was last read, in seconds since 1970.
    #[serde(default)]
    pub configured_s: f64,
    /// How many workers it has.
    #[serde(default)]
    pub workers: u16,
    /// The tunnels of its configuration, in their order.
    #[serde(default)]
    pub configured: Vec<ConfiguredRow>,
    /// The totals of each tunnel since the start, over all SAs that it has had, outbound and
    /// inbound.
    pub tunnels: Vec<TunnelRow>,
    /// SAs.
    pub sas: Vec<SaRow>,
    /// Policies, first to last.
    pub policies: Vec<PolicyRow>,
    /// Engines.
    pub engines: Vec<EngineRow>,
    /// Each worker's scheduler.
    pub schedulers: Vec<SchedulerRow>,
    /// Ports.
    pub ports: Vec<PortRow>,
    /// Dropped packets by reason, of all SAs and of none.
    pub drops: Drops,
    /// Packets prepared for encryption.
    pub protected: u64,
    /// Packets decrypted and delivered.
    pub decrypted: u64,
    /// What all SAs in mode `iptfs` have packed.
    #[serde(default)]
    pub iptfs_out: IptfsRow,
    /// What they have unpacked.
    #[serde(default)]
    pub iptfs_in: IptfsRow,
    /// Packets that one worker received and another processed.
    pub handed_over: u64,
    /// The counts of [`COUNTERS`], by name.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// Workers that did not answer in time, of which nothing is here.
    #[serde(default)]
    pub silent_workers: Vec<u16>,
    /// The connection to charon, if the gateway has one.
    #[serde(default)]
    pub charon: Option<CharonRow>,
    /// The cluster that it is a member of, if any.
    #[serde(default)]
    pub cluster: Option<ClusterRow>,
    /// The peers given by name, by tunnel.
    #[serde(default)]
    pub names: Vec<NameRow>,
    /// The probes through tunnels, in the order of the configuration.
    #[serde(default)]
    pub monitors: Vec<MonitorRow>,
    /// The guard, if there is one and it can be asked.
    #[serde(default)]
    pub guard: Option<GuardRow>,
    /// The packet memory.
    #[serde(default)]
    pub memory: Option<MemoryRow>,
}
