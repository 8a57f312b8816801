//! What `convoy show` and the metrics tell of a running gateway: plain structs, nothing secret.

use std::collections::HashMap;
use std::time::Duration;

use convoy_ipsec::{DropCounters, TunnelId};
use convoy_scheduler::Histogram;
use serde::{Deserialize, Serialize};

use crate::pipeline::Health;
use crate::worker::{Side, Worker};

/// A gateway at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Seconds since it started.
    pub uptime_s: f64,
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
    pub drops: Vec<(String, u64)>,
    /// Packets prepared for sealing.
    pub protected: u64,
    /// Packets opened and delivered.
    pub opened: u64,
    /// Packets that one worker received and another served.
    pub handed_over: u64,
}

/// One SA.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SaRow {
    /// Its tunnel's name.
    pub tunnel: String,
    /// The worker that it belongs to.
    pub worker: u16,
    /// SPI, direction, protocol, endpoints.
    pub name: String,
    /// `tunnel` or `transport`.
    pub mode: String,
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
    /// Its age in seconds.
    pub age_s: f64,
    /// The port whose device seals or opens its packets in flight; empty if engines do.
    pub in_flight_by: String,
    /// Dropped packets by reason.
    pub drops: Vec<(String, u64)>,
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
    pub device: Vec<(String, u64)>,
}

fn rows(drops: &DropCounters) -> Vec<(String, u64)> {
    drops.met().map(|(reason, count)| (reason.name().to_owned(), count)).collect()
}

impl Snapshot {
    /// A worker's state; `names` are the tunnels'.
    pub fn of(worker: &Worker, names: &HashMap<TunnelId, String>, uptime: Duration) -> Self {
        let ipsec = worker.pipeline().ipsec();
        let counters = ipsec.counters();
        Self {
            uptime_s: uptime.as_secs_f64(),
            sas: sas(worker, names),
            policies: policies(worker),
            engines: engines(worker),
            schedulers: vec![scheduler(worker)],
            ports: ports(worker),
            drops: rows(&counters.drops),
            protected: counters.protected,
            opened: counters.opened,
            handed_over: worker.handed_over(),
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
            for (reason, count) in other.drops {
                match whole.drops.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, sum)) => *sum += count,
                    None => whole.drops.push((reason, count)),
                }
            }
        }
        whole
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
        for ((_, sum), (_, count)) in self.device.iter_mut().zip(&more.device) {
            *sum += count;
        }
    }
}

fn sas(worker: &Worker, names: &HashMap<TunnelId, String>) -> Vec<SaRow> {
    let own = worker.pipeline().ipsec().worker();
    let views = worker.pipeline().ipsec().sas().filter(|view| view.owner == own);
    let stage = worker.pipeline().stage();
    let by = |engine: usize| stage.fleet().description(engine).name.clone();
    let row = |view: convoy_ipsec::SaView| SaRow {
        worker: own,
        tunnel: names.get(&view.tunnel).cloned().unwrap_or_default(),
        name: view.name.to_string(),
        mode: match view.mode {
            convoy_ipsec::Mode::Tunnel => "tunnel",
            convoy_ipsec::Mode::Transport => "transport",
        }
        .to_owned(),
        encap: if view.encap.is_some() { "udp" } else { "none" }.to_owned(),
        transform: view.transform.to_string(),
        esn: view.esn,
        replay_window: view.replay.map(|replay| replay.size),
        packets: view.usage.packets(),
        bytes: view.usage.bytes(),
        sequence: view.sequence,
        age_s: view.age_ns as f64 * 1e-9,
        in_flight_by: stage.bound_to(view.index).map(by).unwrap_or_default(),
        drops: rows(&view.drops),
    };
    views.map(row).collect()
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
        let one = |worker: u16, count: u64| Snapshot {
            sas: vec![SaRow { worker, packets: count, ..SaRow::default() }],
            policies: vec![PolicyRow { packets: count, ..PolicyRow::default() }],
            ports: vec![PortRow { received_packets: count, system_calls: 1, ..PortRow::default() }],
            drops: vec![("replayed".to_owned(), count), (format!("only {worker}"), 1)],
            protected: count,
            ..Snapshot::default()
        };
        let whole = Snapshot::merge(vec![one(0, 10), one(1, 5)]);
        assert_eq!(whole.sas.iter().map(|sa| (sa.worker, sa.packets)).collect::<Vec<_>>(), [(0, 10), (1, 5)]);
        assert_eq!(
            (whole.policies[0].packets, whole.ports[0].received_packets, whole.protected),
            (15, 15, 15)
        );
        assert_eq!(whole.ports[0].system_calls, 2);
        let drops: Vec<(&str, u64)> =
            whole.drops.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(drops, [("replayed", 15), ("only 0", 1), ("only 1", 1)]);
    }
}
