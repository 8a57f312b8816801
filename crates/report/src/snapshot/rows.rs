//! The parts of a snapshot.

use std::collections::BTreeMap;

use convoy_packet::Region;
use convoy_scheduler::Histogram;
use serde::{Deserialize, Serialize};

use super::Drops;

/// The connection to charon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CharonRow {
    /// Whether a charon is connected.
    pub is_connected: bool,
    /// SAs requested from charon.
    pub acquires: u64,
    /// SAs not requested from charon because the queue to it was full, or it was not connected.
    /// They are requested again.
    pub acquires_lost: u64,
    /// IKE messages for which charon's socket had no room, or while it was not connected.
    /// `ike_queue_full` among the drops counts those lost before.
    pub ike_lost: u64,
    /// Expiries and moved peers that charon has not been notified of yet.
    pub events_waiting: u64,
    /// What keeps its negotiations from an end.
    #[serde(default)]
    pub negotiations: Vec<NegotiationRow>,
    /// The peers of its tunnels that have SAs, by the tunnel's number.
    #[serde(default)]
    pub peers: BTreeMap<u32, IkePeerRow>,
}

/// Who the peer of a tunnel of charon's is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IkePeerRow {
    /// Its identity, as charon prints it.
    pub identity: String,
    /// Its virtual IPs, if it has some, separated by spaces.
    pub virtual_ips: String,
    /// How the keys were exchanged, in swanctl's words: `x25519`, `x25519+mlkem768`.
    pub key_exchange: String,
}

/// A connection of charon's that has no SAs, or cannot replace them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NegotiationRow {
    /// Its name in swanctl.conf; while that is not known, the tunnel's that has this peer.
    pub connection: String,
    /// The peer's address.
    pub peer: String,
    /// Why, and where to look.
    pub reason: String,
    /// Time since that happened, in seconds.
    pub age_s: f64,
}

impl NegotiationRow {
    /// Whether it is the negotiation of a tunnel with this name, which is the connection's or has
    /// it before a slash.
    fn is_of(&self, name: &str) -> bool {
        name.strip_prefix(&self.connection).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl CharonRow {
    /// The last negotiation that failed of a tunnel with one of these names, its own and charon's,
    /// or with a peer at this address.
    pub fn negotiation(&self, names: [&str; 2], peer: Option<&str>) -> Option<&NegotiationRow> {
        let all = self.negotiations.iter();
        let is_of = |row: &NegotiationRow| names.iter().any(|name| row.is_of(name));
        let of_tunnel = all.filter(|row| is_of(row) || Some(row.peer.as_str()) == peer);
        of_tunnel.min_by(|one, other| one.age_s.total_cmp(&other.age_s))
    }
}

/// Probes through a tunnel: pings to a host behind the peer, or ESP echoes to the peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MonitorRow {
    /// The tunnel's name in the configuration.
    pub tunnel: String,
    /// Who is pinged; empty for echoes.
    pub ping: String,
    /// From where; empty for echoes.
    pub source: String,
    /// Time between two probes, in seconds.
    pub interval_s: f64,
    /// `answered`, `lost` if there was no answer for too long, or `unknown` before.
    pub state: String,
    /// Time since the last answer, in seconds; nothing if there was none.
    pub answered_s: Option<f64>,
    /// The average round trip, in seconds.
    pub round_trip_s: Option<f64>,
    /// Of the last 64 probes, how many there was time to answer.
    pub recent: usize,
    /// How many of those had no answer.
    pub unanswered: usize,
}

impl MonitorRow {
    /// Who is to answer, in words.
    pub fn answerer(&self) -> String {
        if self.ping.is_empty() { "the peer".to_owned() } else { self.ping.clone() }
    }

    /// What is to be answered, in words.
    pub fn probes(&self) -> String {
        if self.ping.is_empty() { "ESP echoes".to_owned() } else { format!("pings from {}", self.source) }
    }

    /// Whether there was no answer for too long.
    pub fn is_lost(&self) -> bool {
        self.state == "lost"
    }

    /// Whether probes are answered.
    pub fn is_answered(&self) -> bool {
        self.state == "answered"
    }
}

/// The guard that keeps the kernel from forwarding packets of the tunnels' networks past the
/// gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardRow {
    /// The nftables table.
    pub table: String,
    /// Packets that it has dropped: from networks behind tunnels, by another interface.
    pub dropped_inbound: u64,
    /// Packets that it has dropped: to networks behind tunnels, by another interface.
    pub dropped_outbound: u64,
}

/// The packet memory of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRow {
    /// Its size in bytes.
    pub bytes: u64,
    /// The kind of its pages, in words.
    pub pages: String,
}

impl MemoryRow {
    /// The packet memory of this process.
    pub fn now() -> Self {
        let region = Region::of_process();
        Self { bytes: region.bytes() as u64, pages: region.pages().to_string() }
    }
}

/// A peer given by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NameRow {
    /// Its tunnel's name.
    pub tunnel: String,
    /// The peer's name.
    pub name: String,
    /// Its address as last known; nothing if the name has not resolved yet, and the tunnel is down.
    pub address: Option<String>,
    /// Why the last question brought no address; empty if it did.
    pub problem: String,
    /// The time until the next question, in seconds; nothing while the first one is under way.
    pub asked_again_s: Option<f64>,
}

/// One direction of a tunnel, over all SAs that it has had. No count ever decreases while the
/// gateway runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TunnelRow {
    /// Its name, as [`SaRow::tunnel`].
    pub tunnel: String,
    /// `outbound` or `inbound`.
    pub direction: String,
    /// Packets.
    pub packets: u64,
    /// Bytes to which the algorithms were applied.
    pub bytes: u64,
    /// Dropped packets by reason.
    pub drops: Drops,
    /// Time since the last packet, in seconds; nothing if there was none.
    #[serde(default)]
    pub last_used_s: Option<f64>,
}

/// One SA.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SaRow {
    /// Its tunnel's name in the configuration; charon's where no `[[tunnel]]` has its networks.
    pub tunnel: String,
    /// Its tunnel's number. Peers whose tunnels have one name, as clients of one connection of
    /// charon's, have different numbers; an SA and its successors have the same.
    #[serde(default)]
    pub tunnel_id: u32,
    /// charon's name for the CHILD_SA, as `connection/child`; empty with static keys.
    pub child: String,
    /// The worker that it belongs to.
    pub worker: u16,
    /// Its SPI.
    pub spi: u32,
    /// `outbound` or `inbound`.
    pub direction: String,
    /// `esp` or `ah`.
    pub protocol: String,
    /// `tunnel`, `transport` or `iptfs`: what the SA has, whatever was configured.
    pub mode: String,
    /// Our outer address.
    pub local: String,
    /// Our UDP port, where ESP goes in UDP.
    pub local_port: Option<u16>,
    /// The peer's outer address.
    pub remote: String,
    /// The peer's UDP port, where ESP goes in UDP.
    pub remote_port: Option<u16>,
    /// `udp` where ESP goes in UDP, else `none`.
    pub encap: String,
    /// Its algorithms, in swanctl's words.
    pub transform: String,
    /// Whether sequence numbers are 64 bits long.
    pub esn: bool,
    /// The replay window in packets, 0 if replays are not detected; inbound SAs have one.
    pub replay_window: Option<u32>,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// The last sequence number sent, or the highest received.
    pub sequence: u64,
    /// The path MTU to the peer, in bytes, as far as known; outbound SAs have one.
    pub path_mtu: Option<u16>,
    /// Its age in seconds.
    pub age_s: f64,
    /// Time since its last packet, in seconds; nothing if there was none.
    pub last_used_s: Option<f64>,
    /// Whether it has reached its hard lifetime, and carries nothing any more.
    #[serde(default)]
    pub has_ended: bool,
    /// The used part of its hard lifetime, or of its sequence numbers if that is more: 1 at its
    /// end; nothing for an inbound SA without a hard lifetime.
    #[serde(default)]
    pub lifetime_part: Option<f64>,
    /// The port whose device seals or opens its packets in flight; empty if engines do.
    pub inline_by: String,
    /// Dropped packets by reason.
    pub drops: Drops,
    /// What was packed or unpacked, in mode `iptfs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iptfs: Option<IptfsRow>,
}

/// What was packed outbound, or unpacked inbound, in mode `iptfs` (RFC 9347).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IptfsRow {
    /// Inner packets.
    pub inner_packets: u64,
    /// Outer packets.
    pub outer_packets: u64,
    /// Inner packets that stood in several outer ones.
    pub split_packets: u64,
    /// Bytes of padding, at a constant rate; outbound.
    pub padding_bytes: u64,
    /// Outer packets of nothing but padding; outbound.
    pub padding_packets: u64,
    /// Outer packets that should have left at a constant rate and did not; outbound.
    pub missed_packets: u64,
    /// Outer packets that came behind one with a higher number; inbound.
    pub reordered_packets: u64,
    /// Outer packets that did not come in time; inbound.
    pub missing_packets: u64,
}

/// One policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyRow {
    /// Its tunnel's name.
    pub name: String,
    /// charon's name of its CHILD_SA, as [`SaRow::child`].
    #[serde(default)]
    pub child: String,
    /// Further tunnels of the configuration whose networks its tunnel serves.
    #[serde(default)]
    pub others: Vec<String>,
    /// Its tunnel's number, as [`SaRow::tunnel_id`], if it has a tunnel.
    #[serde(default)]
    pub tunnel_id: Option<u32>,
    /// Lower comes first.
    pub priority: u32,
    /// The local side.
    pub local: String,
    /// The remote side.
    pub remote: String,
    /// What is done.
    pub action: String,
    /// Packets that it selected.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// One engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineRow {
    /// Its name, shared by all of a kind that work on their caller's core.
    pub name: String,
    /// The worker that it serves.
    pub worker: u16,
    /// Its kind.
    pub kind: String,
    /// Whether its timing is a model's.
    pub is_model: bool,
    /// Empty while it is in use, otherwise why it is not.
    pub down: String,
    /// Packets whose result was used.
    pub packets: u64,
    /// Multi-packets whose result was used.
    pub multi_packets: u64,
    /// Multi-packets that it has now.
    pub queued: usize,
    /// How often it was quarantined.
    pub failures: u64,
    /// Packets processed again by another engine.
    pub retried_packets: u64,
    /// Packets of it that another engine has computed again.
    #[serde(default)]
    pub verified_packets: u64,
    /// Packets in each multi-packet: upper bounds and counts, the last without bound.
    pub packets_per_multi_packet: Buckets,
    /// Multi-packets over which the following means are.
    #[serde(default)]
    pub completed: u64,
    /// Mean time from dispatch to completion, in ns, as predicted.
    pub predicted_ns: f64,
    /// Mean time from dispatch to completion, in ns, as measured.
    #[serde(default)]
    pub measured_ns: f64,
    /// Mean absolute error of that prediction, in ns.
    pub prediction_error_ns: f64,
}

/// A histogram: (upper bound, count) of each bucket, and the sum of all values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Buckets {
    /// Upper bound (`None` is without) and count, not cumulative.
    pub buckets: Vec<(Option<u64>, u64)>,
    /// The sum of all values.
    pub sum: u64,
}

impl From<&Histogram> for Buckets {
    fn from(histogram: &Histogram) -> Self {
        Self { buckets: histogram.buckets().collect(), sum: histogram.sum() }
    }
}

/// The scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SchedulerRow {
    /// Its worker.
    pub worker: u16,
    /// CPU time of the worker's thread since its start, in seconds.
    #[serde(default)]
    pub cpu_s: f64,
    /// The window now, in packets.
    pub window: usize,
    /// Packets that stand in it.
    pub waiting: usize,
    /// How long packets stood in it, in ns.
    pub wait_ns: Buckets,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortRow {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// The largest IP packet that it sends whole, in bytes.
    pub mtu: usize,
    /// The origin of the inside interface's MTU; empty for other ports, whose MTU is that of
    /// `[gateway]`.
    pub mtu_reason: String,
    /// Whether an interface of certain tunnels has a link; `None` for other ports.
    #[serde(default)]
    pub link: Option<bool>,
    /// What it waits for, such as `interface eth1` or `address 192.0.2.1`.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Packets received and handed out.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Received packets that were dropped.
    pub receive_dropped: u64,
    /// Packets that could not be sent.
    pub send_dropped: u64,
    /// System calls.
    pub system_calls: u64,
    /// Additional counters of its device, by name.
    pub device: BTreeMap<String, u64>,
}
