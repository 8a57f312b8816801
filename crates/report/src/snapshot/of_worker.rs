//! A worker's state as a snapshot.

use std::net::IpAddr;
use std::time::SystemTime;

use convoy_dataplane::ledger::Tally;
use convoy_dataplane::pipeline::Health;
use convoy_dataplane::worker::{Side, Worker};
use convoy_ipsec::{
    Action, AggregationCounts, DropCounters, PolicyView, ReassemblyCounts, SaDirection, SaProtocol, SaView,
};
use rustix::time::{ClockId, clock_gettime};

use super::counters::counts;
use super::{Drops, EngineRow, IptfsRow, PolicyRow, PortRow, SaRow, SchedulerRow, Snapshot, TunnelRow};

impl Snapshot {
    /// A worker's state without its SAs, tunnels and policies.
    pub fn of_all_but_lists(worker: &Worker, started: SystemTime) -> Self {
        let ipsec = worker.pipeline().ipsec();
        let counters = ipsec.counters();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_s: started
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64()),
            uptime_s: worker.pipeline().clock().now_ns() as f64 * 1e-9,
            engines: engines(worker),
            schedulers: vec![scheduler(worker)],
            ports: ports(worker),
            drops: rows(&counters.drops),
            protected: counters.protected,
            decrypted: counters.opened,
            handed_over: worker.handed_over(),
            counters: counts(&counters),
            iptfs_out: packed(&counters.aggregation),
            iptfs_in: unpacked(&counters.unpacking),
            ..Self::default()
        }
    }

    /// The totals of tunnels, two rows for each, and the name of the last of them.
    pub fn tunnel_rows<'a>(
        totals: impl Iterator<Item = (&'a str, &'a [Tally; 2])>,
        now_ns: u64,
    ) -> (Vec<TunnelRow>, Option<String>) {
        let (mut rows, mut last) = (Vec::new(), None);
        for (tunnel, [outbound, inbound]) in totals {
            rows.push(tunnel_row(tunnel, SaDirection::Outbound, outbound, now_ns));
            rows.push(tunnel_row(tunnel, SaDirection::Inbound, inbound, now_ns));
            last = Some(tunnel);
        }
        (rows, last.map(str::to_owned))
    }
}

fn rows(drops: &DropCounters) -> Drops {
    drops.met().map(|(reason, count)| (reason.name().to_owned(), count)).collect()
}

/// An SA as the worker found it.
pub struct SaNote {
    /// Its state and counts.
    pub view: SaView,
    /// The name of its tunnel, or the last that it had; empty if none is known.
    pub tunnel: String,
    /// charon's name of the CHILD_SA; empty with static keys.
    pub child: String,
    /// The engine that it is bound to, if it is.
    pub inline_by: String,
}

/// A policy as the worker found it, with the name of its tunnel if it has one.
pub struct PolicyNote {
    /// Its selectors, its action and its counts.
    pub view: PolicyView,
    /// charon's name of its CHILD_SA; empty with static keys.
    pub child: String,
    /// Further tunnels of the configuration whose networks its tunnel serves.
    pub others: Vec<String>,
}

/// The word for a direction.
pub fn direction(direction: SaDirection) -> &'static str {
    match direction {
        SaDirection::Outbound => "outbound",
        SaDirection::Inbound => "inbound",
    }
}

fn tunnel_row(tunnel: &str, way: SaDirection, tally: &Tally, now_ns: u64) -> TunnelRow {
    TunnelRow {
        tunnel: tunnel.to_owned(),
        direction: direction(way).to_owned(),
        packets: tally.packets,
        bytes: tally.bytes,
        drops: rows(&tally.drops),
        last_used_s: tally.last_used_ns.map(|used_ns| now_ns.saturating_sub(used_ns) as f64 * 1e-9),
    }
}

/// The row of an SA.
pub fn sa(note: SaNote) -> SaRow {
    let SaNote { view, tunnel, child, inline_by } = note;
    SaRow {
        worker: view.owner,
        tunnel,
        tunnel_id: view.tunnel.0,
        child,
        spi: view.name.spi,
        direction: direction(view.name.direction).to_owned(),
        protocol: match view.name.protocol {
            SaProtocol::Esp => "esp",
            SaProtocol::Ah => "ah",
        }
        .to_owned(),
        mode: super::configured::mode(view.mode).to_owned(),
        local: view.name.local.to_string(),
        local_port: view.encap.map(|encap| encap.local_port),
        remote: peer(view.name.remote),
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
        has_ended: view.usage.has_ended(),
        lifetime_part: lifetime_part(&view),
        inline_by,
        drops: rows(&view.drops),
        iptfs: view.aggregation.as_ref().map(packed).or(view.reassembly.as_ref().map(unpacked)),
    }
}

/// A peer's address, which may not be known yet.
/// The address of a peer that is not known.
pub(super) const UNKNOWN: &str = "unknown";

fn peer(address: IpAddr) -> String {
    if address.is_unspecified() { UNKNOWN.to_owned() } else { address.to_string() }
}

/// Only an outbound SA ends with its sequence numbers.
fn lifetime_part(view: &SaView) -> Option<f64> {
    let last = if view.esn { u64::MAX } else { u32::MAX.into() };
    let numbers = view.sequence as f64 / last as f64;
    let numbers = (view.name.direction == SaDirection::Outbound).then_some(numbers);
    view.usage.hard_part(view.age_ns).into_iter().chain(numbers).reduce(f64::max)
}

fn packed(counts: &AggregationCounts) -> IptfsRow {
    IptfsRow {
        inner_packets: counts.packets,
        outer_packets: counts.payloads + counts.all_padding,
        split_packets: counts.continued,
        padding_bytes: counts.padding,
        padding_packets: counts.all_padding,
        missed_packets: counts.missed,
        ..IptfsRow::default()
    }
}

fn unpacked(counts: &ReassemblyCounts) -> IptfsRow {
    IptfsRow {
        inner_packets: counts.packets,
        outer_packets: counts.payloads,
        split_packets: counts.joined,
        reordered_packets: counts.reordered,
        missing_packets: counts.missing,
        ..IptfsRow::default()
    }
}

/// The row of a policy.
pub fn policy(PolicyNote { view, child, others }: PolicyNote) -> PolicyRow {
    PolicyRow {
        name: view.policy.name,
        child,
        others,
        tunnel_id: match view.policy.action {
            Action::Protect(tunnel) => Some(tunnel.0),
            Action::Bypass | Action::Discard => None,
        },
        priority: view.policy.priority,
        local: view.policy.selector.local.to_string(),
        remote: view.policy.selector.remote.to_string(),
        action: match view.policy.action {
            Action::Protect(_) => "protect",
            Action::Bypass => "bypass",
            Action::Discard => "discard",
        }
        .to_owned(),
        packets: view.packets,
        bytes: view.bytes,
    }
}

fn engines(worker: &Worker) -> Vec<EngineRow> {
    let stage = worker.pipeline().stage();
    let engines = stage.engines();
    let snapshot = stage.snapshot();
    let row = |(at, engine): (usize, convoy_scheduler::EngineSnapshot)| {
        let (description, counters) = (engines.description(at), engines.counters(at));
        EngineRow {
            worker: worker.pipeline().ipsec().tables.worker(),
            name: engine.name,
            kind: description.kind.to_string(),
            is_model: description.is_model,
            down: match engines.health(at) {
                Health::Up => String::new(),
                Health::Down { reason, .. } => reason.clone(),
            },
            packets: counters.packets,
            multi_packets: counters.trains,
            queued: engine.queued,
            failures: counters.failures,
            retried_packets: counters.retried_packets,
            verified_packets: counters.verified,
            packets_per_multi_packet: (&engine.packets_per_multi_packet).into(),
            completed: engine.completed,
            predicted_ns: engine.predicted_ticks,
            measured_ns: engine.measured_ticks,
            prediction_error_ns: engine.error_ticks,
        }
    };
    snapshot.engines.into_iter().enumerate().map(row).collect()
}

fn scheduler(worker: &Worker) -> SchedulerRow {
    let snapshot = worker.pipeline().stage().snapshot();
    SchedulerRow {
        worker: worker.pipeline().ipsec().tables.worker(),
        cpu_s: cpu_seconds(),
        window: snapshot.window,
        waiting: snapshot.waiting,
        wait_ns: (&snapshot.wait).into(),
    }
}

/// CPU time of the calling thread: a worker's state is taken on its own.
fn cpu_seconds() -> f64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 * 1e-9
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
            link: None,
            missing: Vec::new(),
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
                .map(|(name, count)| (name.into_owned(), count))
                .collect(),
        }
    })
    .collect()
}
