//! What `convoy show` and the metrics tell of a running gateway: plain structs, nothing secret.

use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;

use convoy_ipsec::{DropCounters, Mode, SaDirection, SaProtocol, SaView, TunnelId};
use convoy_scheduler::Histogram;
use serde::{Deserialize, Serialize};

use crate::ledger::{Ledger, Tally};
use crate::pipeline::Health;
use crate::worker::{Side, Worker};

/// Dropped packets by reason, without the reasons that were not met.
pub type Drops = BTreeMap<String, u64>;

/// A gateway at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its version.
    pub version: String,
    /// When it started, in seconds since 1970.
    pub started_s: f64,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// What each tunnel has done since then, over all SAs that it has had, outbound and inbound.
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
    /// Packets prepared for sealing.
    pub protected: u64,
    /// Packets opened and delivered.
    pub opened: u64,
    /// Packets that one worker received and another served.
    pub handed_over: u64,
    /// Workers that did not answer in time, of which nothing is here.
    #[serde(default)]
    pub silent_workers: Vec<u16>,
    /// The way to charon, where the gateway has one.
    #[serde(default)]
    pub charon: Option<CharonRow>,
}

/// The way to charon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CharonRow {
    /// Whether a charon is connected.
    pub is_connected: bool,
    /// SAs that charon was asked for.
    pub acquires: u64,
    /// SAs that charon was not asked for as the queue to it was full, or it was not there. They are asked for again.
    pub acquires_lost: u64,
    /// IKE messages for which charon's socket had no room, or it was not there. `ike_queue_full` of the drops counts those that did
    /// not come so far.
    pub ike_lost: u64,
    /// Lifetimes and moved peers that charon is still to be told of.
    pub events_waiting: u64,
}

/// One direction of a tunnel, over all SAs that it has had. No count ever falls while the gateway runs.
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
}

/// One SA.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SaRow {
    /// Its tunnel's name: the configuration's, or charon's connection and child, `site/net`.
    pub tunnel: String,
    /// charon's name for the CHILD_SA; empty with static keys.
    pub child: String,
    /// The worker that it belongs to.
    pub worker: u16,
    /// Its SPI.
    pub spi: u32,
    /// `outbound` or `inbound`.
    pub direction: String,
    /// `esp` or `ah`.
    pub protocol: String,
    /// `tunnel` or `transport`.
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
    /// The replay window in packets, 0 if replays are not looked for; inbound SAs have one.
    pub replay_window: Option<u32>,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// The last sequence number sent, or the highest received.
    pub sequence: u64,
    /// The largest outer packet that the path to the peer carries, in bytes, as far as it is known; outbound SAs have one.
    pub path_mtu: Option<u16>,
    /// Its age in seconds.
    pub age_s: f64,
    /// How many seconds ago its last packet left or came; nothing if there was none.
    pub last_used_s: Option<f64>,
    /// The port whose device seals or opens its packets in flight; empty if engines do.
    pub in_flight_by: String,
    /// Dropped packets by reason.
    pub drops: Drops,
}

/// One policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyRow {
    /// Its tunnel's name.
    pub name: String,
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
    /// Its name, which those of a kind that works on its caller's core share.
    pub name: String,
    /// The worker that it serves.
    pub worker: u16,
    /// Its kind.
    pub kind: String,
    /// Whether its timing is a model's.
    pub is_model: bool,
    /// Empty while it is in use, else why it is not.
    pub down: String,
    /// Packets whose result was used.
    pub packets: u64,
    /// Multi-packets whose result was used.
    pub multi_packets: u64,
    /// Multi-packets that it has now.
    pub queued: usize,
    /// Times that it was taken out.
    pub failures: u64,
    /// Packets done again elsewhere.
    pub redone_packets: u64,
    /// Packets in each multi-packet: upper bounds and counts, the last without bound.
    pub packets_per_multi_packet: Buckets,
    /// Mean time from dispatch to completion, in ns, as predicted.
    pub predicted_ns: f64,
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
    /// What the MTU of the interface inside comes from; empty of the other ports, whose MTU is that of `[gateway]`.
    pub mtu_reason: String,
    /// Packets received and handed out.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that arrived and could not be handed out.
    pub receive_dropped: u64,
    /// Packets that could not leave.
    pub send_dropped: u64,
    /// System calls.
    pub system_calls: u64,
    /// What its device has counted beside, each under its name.
    pub device: BTreeMap<String, u64>,
}

/// What people call a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TunnelName {
    /// The name of the whole.
    pub(crate) tunnel: String,
    /// charon's for the CHILD_SA; empty with static keys.
    pub(crate) child: String,
}

fn rows(drops: &DropCounters) -> Drops {
    drops.met().map(|(reason, count)| (reason.name().to_owned(), count)).collect()
}

impl Snapshot {
    /// A worker's state. `ledger` has been brought up to date.
    pub(crate) fn of(
        worker: &Worker,
        names: &HashMap<TunnelId, TunnelName>,
        ledger: &Ledger,
        started: SystemTime,
    ) -> Self {
        let ipsec = worker.pipeline().ipsec();
        let counters = ipsec.counters();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_s: started
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64()),
            uptime_s: worker.pipeline().clock().now_ns() as f64 * 1e-9,
            tunnels: tunnels(ledger),
            sas: sas(worker, names, ledger),
            policies: policies(worker),
            engines: engines(worker),
            schedulers: vec![scheduler(worker)],
            ports: ports(worker),
            drops: rows(&counters.drops),
            protected: counters.protected,
            opened: counters.opened,
            handed_over: worker.handed_over(),
            ..Self::default()
        }
    }

    /// All workers' states as one gateway's: each SA, engine and scheduler for itself; policies, ports and reasons summed.
    pub fn merge(workers: Vec<Self>) -> Self {
        let mut workers = workers.into_iter();
        let mut whole = workers.next().unwrap_or_default();
        for other in workers {
            whole.sas.extend(other.sas);
            whole.engines.extend(other.engines);
            whole.schedulers.extend(other.schedulers);
            whole.protected += other.protected;
            whole.opened += other.opened;
            whole.handed_over += other.handed_over;
            for (policy, more) in whole.policies.iter_mut().zip(other.policies) {
                policy.packets += more.packets;
                policy.bytes += more.bytes;
            }
            for (port, more) in whole.ports.iter_mut().zip(other.ports) {
                port.add(&more);
            }
            for tunnel in other.tunnels {
                let is_same = |known: &&mut TunnelRow| {
                    (&known.tunnel, &known.direction) == (&tunnel.tunnel, &tunnel.direction)
                };
                match whole.tunnels.iter_mut().find(is_same) {
                    Some(known) => known.add(&tunnel),
                    None => whole.tunnels.push(tunnel),
                }
            }
            add(&mut whole.drops, &other.drops);
        }
        whole
    }
}

fn add(sums: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (name, count) in more {
        *sums.entry(name.clone()).or_default() += count;
    }
}

impl TunnelRow {
    fn add(&mut self, more: &Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
        add(&mut self.drops, &more.drops);
    }
}

impl PortRow {
    fn add(&mut self, more: &Self) {
        self.received_packets += more.received_packets;
        self.received_bytes += more.received_bytes;
        self.sent_packets += more.sent_packets;
        self.sent_bytes += more.sent_bytes;
        self.receive_dropped += more.receive_dropped;
        self.send_dropped += more.send_dropped;
        self.system_calls += more.system_calls;
        add(&mut self.device, &more.device);
    }
}

fn direction(direction: SaDirection) -> &'static str {
    match direction {
        SaDirection::Outbound => "outbound",
        SaDirection::Inbound => "inbound",
    }
}

fn tunnels(ledger: &Ledger) -> Vec<TunnelRow> {
    let row = |(tunnel, way, tally): (&str, SaDirection, &Tally)| TunnelRow {
        tunnel: tunnel.to_owned(),
        direction: direction(way).to_owned(),
        packets: tally.packets,
        bytes: tally.bytes,
        drops: rows(&tally.drops),
    };
    ledger.totals().map(row).collect()
}

fn sas(worker: &Worker, names: &HashMap<TunnelId, TunnelName>, ledger: &Ledger) -> Vec<SaRow> {
    let own = worker.pipeline().ipsec().worker();
    let views = worker.pipeline().ipsec().sas().filter(|view| view.owner == own);
    views.map(|view| sa(worker, names.get(&view.tunnel), ledger, &view)).collect()
}

fn sa(worker: &Worker, name: Option<&TunnelName>, ledger: &Ledger, view: &SaView) -> SaRow {
    let stage = worker.pipeline().stage();
    let by = |engine: usize| stage.fleet().description(engine).name.clone();
    SaRow {
        worker: view.owner,
        tunnel: ledger.tunnel_of(view.index).to_owned(),
        child: name.map(|name| name.child.clone()).unwrap_or_default(),
        spi: view.name.spi,
        direction: direction(view.name.direction).to_owned(),
        protocol: match view.name.protocol {
            SaProtocol::Esp => "esp",
            SaProtocol::Ah => "ah",
        }
        .to_owned(),
        mode: match view.mode {
            Mode::Tunnel => "tunnel",
            Mode::Transport => "transport",
        }
        .to_owned(),
        local: view.name.local.to_string(),
        local_port: view.encap.map(|encap| encap.local_port),
        remote: view.name.remote.to_string(),
        remote_port: view.encap.map(|encap| encap.remote_port),
        encap: if view.encap.is_some() { "udp" } else { "none" }.to_owned(),
        transform: view.transform.to_string(),
        esn: view.esn,
        replay_window: view.replay.map(|replay| replay.size),
        packets: view.usage.packets(),
        bytes: view.usage.bytes(),
        sequence: view.sequence,
        path_mtu: view.path_mtu,
        age_s: view.age_ns as f64 * 1e-9,
        last_used_s: view.idle_ns.map(|idle_ns| idle_ns as f64 * 1e-9),
        in_flight_by: stage.bound_to(view.index).map(by).unwrap_or_default(),
        drops: rows(&view.drops),
    }
}

fn policies(worker: &Worker) -> Vec<PolicyRow> {
    let views = worker.pipeline().ipsec().policies();
    let row = |view: convoy_ipsec::PolicyView| PolicyRow {
        name: view.policy.name,
        priority: view.policy.priority,
        local: view.policy.selector.local.to_string(),
        remote: view.policy.selector.remote.to_string(),
        action: match view.policy.action {
            convoy_ipsec::Action::Protect(_) => "protect",
            convoy_ipsec::Action::Bypass => "bypass",
            convoy_ipsec::Action::Discard => "discard",
        }
        .to_owned(),
        packets: view.packets,
        bytes: view.bytes,
    };
    views.map(row).collect()
}

fn engines(worker: &Worker) -> Vec<EngineRow> {
    let stage = worker.pipeline().stage();
    let fleet = stage.fleet();
    let snapshot = stage.scheduler().snapshot();
    let row = |(at, engine): (usize, convoy_scheduler::EngineSnapshot)| {
        let (description, counters) = (fleet.description(at), fleet.counters(at));
        EngineRow {
            worker: worker.pipeline().ipsec().worker(),
            name: engine.name,
            kind: description.kind.to_string(),
            is_model: description.is_model,
            down: match fleet.health(at) {
                Health::Up => String::new(),
                Health::Down { reason, .. } => reason.clone(),
            },
            packets: counters.packets,
            multi_packets: counters.multi_packets,
            queued: engine.queued,
            failures: counters.failures,
            redone_packets: counters.redone_packets,
            packets_per_multi_packet: (&engine.packets_per_multi_packet).into(),
            predicted_ns: engine.predicted_ticks,
            prediction_error_ns: engine.error_ticks,
        }
    };
    snapshot.engines.into_iter().enumerate().map(row).collect()
}

fn scheduler(worker: &Worker) -> SchedulerRow {
    let snapshot = worker.pipeline().stage().scheduler().snapshot();
    SchedulerRow {
        worker: worker.pipeline().ipsec().worker(),
        window: snapshot.window,
        waiting: snapshot.waiting,
        wait_ns: (&snapshot.wait).into(),
    }
}

fn ports(worker: &Worker) -> Vec<PortRow> {
    let all = [Side::Inside, Side::Outside].into_iter().flat_map(|side| worker.ports(side));
    all.map(|port| {
        let (description, counters) = (port.description(), port.counters());
        PortRow {
            name: description.name.clone(),
            kind: description.kind.to_string(),
            mtu: description.mtu,
            mtu_reason: String::new(),
            received_packets: counters.received_packets,
            received_bytes: counters.received_bytes,
            sent_packets: counters.sent_packets,
            sent_bytes: counters.sent_bytes,
            receive_dropped: counters.receive_dropped,
            send_dropped: counters.send_dropped,
            system_calls: counters.system_calls,
            device: port
                .device_counters()
                .into_iter()
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_shown_as_one_gateway() {
        let drops = |counts: &[(&str, u64)]| -> Drops {
            counts.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
        };
        let tunnel = |name: &str, packets: u64| TunnelRow {
            tunnel: name.to_owned(),
            packets,
            drops: drops(&[("replayed", packets)]),
            ..TunnelRow::default()
        };
        let one = |worker: u16, count: u64| Snapshot {
            sas: vec![SaRow { worker, packets: count, ..SaRow::default() }],
            tunnels: vec![tunnel("shared", count), tunnel(&format!("only {worker}"), 1)],
            policies: vec![PolicyRow { packets: count, ..PolicyRow::default() }],
            ports: vec![PortRow {
                received_packets: count,
                system_calls: 1,
                device: drops(&[("sealed", count)]),
                ..PortRow::default()
            }],
            drops: drops(&[("replayed", count), (&format!("only_{worker}"), 1)]),
            protected: count,
            ..Snapshot::default()
        };
        let whole = Snapshot::merge(vec![one(0, 10), one(1, 5)]);
        assert_eq!(whole.sas.iter().map(|sa| (sa.worker, sa.packets)).collect::<Vec<_>>(), [(0, 10), (1, 5)]);
        assert_eq!(whole.tunnels, [tunnel("shared", 15), tunnel("only 0", 1), tunnel("only 1", 1)]);
        assert_eq!(
            (whole.policies[0].packets, whole.ports[0].received_packets, whole.protected),
            (15, 15, 15)
        );
        assert_eq!((whole.ports[0].system_calls, &whole.ports[0].device), (2, &drops(&[("sealed", 15)])));
        assert_eq!(whole.drops, drops(&[("replayed", 15), ("only_0", 1), ("only_1", 1)]));
    }
}
