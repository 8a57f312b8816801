//! A snapshot as OpenMetrics text, written by `prometheus-client`, the Prometheus project's own
//! library.

use convoy_ipsec::DropReason;
use convoy_report::snapshot::{
    COUNTERS, CharonRow, EngineRow, GuardRow, IptfsRow, NameRow, PortRow, SaRow, SchedulerRow, Snapshot,
    TunnelRow,
};
use prometheus_client::encoding::EncodeMetric;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Registry, Unit};

mod cluster;
mod family;
mod peers;
pub(super) mod sums;

use family::{
    Encoder, FamilyHead, Label, counters, family, gauges, infos, label, packets, seconds, single_counter,
    single_gauge,
};

/// The content type of [`write()`]'s output.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Writes a snapshot in the OpenMetrics text format; `per_tunnel` is
/// [`Config::metrics_per_tunnel`](convoy_config::Config::metrics_per_tunnel).
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut impl std::fmt::Write,
    snapshot: Snapshot,
    per_tunnel: Option<bool>,
) -> std::fmt::Result {
    let mut process = Registry::with_prefix("process");
    process.register_collector(Box::new(ProcessMetrics { started_s: snapshot.started_s }));
    let mut own = Registry::with_prefix("convoy");
    own.register_collector(Box::new(Collector { snapshot, per_tunnel }));
    encode_registry(out, &own)?;
    encode_registry(out, &process)?;
    encode_eof(out)
}

/// The metrics that Prometheus' own client libraries export of every process.
#[derive(Debug)]
struct ProcessMetrics {
    started_s: f64,
}

impl prometheus_client::collector::Collector for ProcessMetrics {
    fn encode(&self, mut encoder: Encoder<'_>) -> std::fmt::Result {
        let help = "When the gateway started, in seconds since 1970";
        let unit = Some(&Unit::Seconds);
        let gauge = ConstGauge::new(self.started_s);
        gauge.encode(encoder.encode_descriptor("start_time", help, unit, MetricType::Gauge)?)
    }
}

#[derive(Debug)]
struct Collector {
    snapshot: Snapshot,
    per_tunnel: Option<bool>,
}

impl prometheus_client::collector::Collector for Collector {
    fn encode(&self, mut encoder: Encoder<'_>) -> std::fmt::Result {
        let encoder = &mut encoder;
        let snapshot = &self.snapshot;
        let version = [label("version", &snapshot.version)];
        infos(encoder, "build", "The version of the program", [version])?;
        packets_in_all(encoder, snapshot)?;
        single_gauge(
            encoder,
            "silent_workers",
            "Workers that do not answer",
            snapshot.silent_workers.len() as f64,
        )?;
        named_peers(encoder, &snapshot.names)?;
        if let Some(row) = &snapshot.charon {
            way_to_charon(encoder, row)?;
        }
        if let Some(row) = &snapshot.cluster {
            cluster::cluster(encoder, row)?;
        }
        if let Some(row) = &snapshot.guard {
            guarded(encoder, row)?;
        }
        let help = "When this snapshot was taken, in seconds since 1970";
        single_gauge(encoder, "snapshot_timestamp_seconds", help, snapshot.taken_s)?;
        sums::sums(encoder, snapshot)?;
        if sums::has_each(self.per_tunnel, snapshot) {
            peers::usable(encoder, snapshot)?;
            peers::probes(encoder, &snapshot.monitors)?;
            peers::identities(encoder, snapshot)?;
            tunnels(encoder, &snapshot.tunnels)?;
            associations(encoder, &snapshot.sas)?;
        }
        engines(encoder, &snapshot.engines)?;
        ports(encoder, &snapshot.ports)?;
        workers(encoder, &snapshot.schedulers)
    }
}

fn named_peers(encoder: &mut Encoder<'_>, rows: &[NameRow]) -> std::fmt::Result {
    let labels = |row: &NameRow| [label("tunnel", &row.tunnel), label("name", &row.name)];
    let resolved = |row: &NameRow| f64::from(u8::from(row.address.is_some() && row.problem.is_empty()));
    let help = "1 if the last question for the name of a tunnel's peer brought its address";
    gauges(encoder, "peer_name_resolved", help, rows.iter().map(|row| (labels(row), resolved(row))))
}

fn way_to_charon(encoder: &mut Encoder<'_>, row: &CharonRow) -> std::fmt::Result {
    let connected = f64::from(u8::from(row.is_connected));
    single_gauge(encoder, "charon_connected", "1 while a charon is connected", connected)?;
    single_counter(encoder, "charon_acquires", "Requests for SAs sent to charon", row.acquires)?;
    let help = "Requests for SAs that could not be delivered to charon";
    single_counter(encoder, "charon_acquires_lost", help, row.acquires_lost)?;
    let help = "IKE messages lost because the socket of charon was full or closed";
    single_counter(encoder, "charon_ike_lost_messages", help, row.ike_lost)?;
    let help = "Events (lifetimes, changed peer addresses) that are not yet delivered to charon";
    single_gauge(encoder, "charon_waiting_events", help, row.events_waiting as f64)
}

fn guarded(encoder: &mut Encoder<'_>, row: &GuardRow) -> std::fmt::Result {
    let dropped = [("inbound", row.dropped_inbound), ("outbound", row.dropped_outbound)];
    let dropped = dropped.map(|(direction, count)| ([label("direction", direction)], count));
    let help = "Packets of the tunnels' networks that the kernel would have forwarded past the tunnels";
    counters(encoder, "guard_dropped_packets", help, dropped)
}

fn packets_in_all(encoder: &mut Encoder<'_>, snapshot: &Snapshot) -> std::fmt::Result {
    let totals = [
        ("protected_packets", "Packets prepared for encryption", snapshot.protected),
        ("decrypted_packets", "Packets decrypted and delivered", snapshot.decrypted),
        (
            "handed_over_packets",
            "Packets that one worker received and passed to another",
            snapshot.handed_over,
        ),
    ];
    for (name, help, count) in totals {
        single_counter(encoder, name, help, count)?;
    }
    for row in COUNTERS {
        let count = snapshot.counters.get(row.name).copied().unwrap_or_default();
        single_counter(encoder, row.name, row.help, count)?;
    }
    let ways = [("outbound", &snapshot.iptfs_out), ("inbound", &snapshot.iptfs_in)];
    let each = |value: fn(&IptfsRow) -> u64| ways.map(|(way, row)| ([label("direction", way)], value(row)));
    let help = "Inner packets of IP-TFS tunnels";
    counters(encoder, "iptfs_inner_packets", help, each(|row| row.inner_packets))?;
    let help = "Outer packets of IP-TFS tunnels";
    counters(encoder, "iptfs_outer_packets", help, each(|row| row.outer_packets))?;
    let help = "Inner packets of IP-TFS tunnels that were split over several outer packets";
    counters(encoder, "iptfs_split_packets", help, each(|row| row.split_packets))?;
    let help = "Padding bytes of IP-TFS tunnels with a constant rate";
    single_counter(encoder, "iptfs_padding_bytes", help, snapshot.iptfs_out.padding_bytes)?;
    let help = "Outer packets that IP-TFS tunnels with a constant rate did not send in time";
    single_counter(encoder, "iptfs_missed_packets", help, snapshot.iptfs_out.missed_packets)?;
    let help = "Outer packets of IP-TFS tunnels that did not arrive in time";
    single_counter(encoder, "iptfs_missing_packets", help, snapshot.iptfs_in.missing_packets)?;
    // Also reasons without drops: a rate needs a beginning.
    let drops = DropReason::ALL.iter().map(|reason| {
        let count = snapshot.drops.get(reason.name()).copied().unwrap_or_default();
        ([label("reason", reason)], count)
    });
    counters(encoder, "dropped_packets", "Dropped packets by reason", drops)
}

fn tunnels(encoder: &mut Encoder<'_>, rows: &[TunnelRow]) -> std::fmt::Result {
    let labels = |row: &TunnelRow| [label("tunnel", &row.tunnel), label("direction", &row.direction)];
    let each = |value: fn(&TunnelRow) -> u64| rows.iter().map(move |row| (labels(row), value(row)));
    counters(encoder, "tunnel_packets", "Packets of a tunnel, over all its SAs", each(|row| row.packets))?;
    counters(encoder, "tunnel_bytes", "Bytes of a tunnel, over all its SAs", each(|row| row.bytes))?;
    let drops = rows.iter().flat_map(|row| {
        row.drops.iter().map(move |(reason, count)| {
            let [tunnel, direction] = labels(row);
            ([tunnel, direction, label("reason", reason)], *count)
        })
    });
    counters(encoder, "tunnel_dropped_packets", "Dropped packets of a tunnel, over all its SAs", drops)
}

/// The identity of an SA in the gateway (RFC 4301 section 4.1), and its tunnel.
fn sa(row: &SaRow) -> [Label; 5] {
    [
        label("tunnel", &row.tunnel),
        label("direction", &row.direction),
        label("protocol", &row.protocol),
        label("spi", format_args!("{:#010x}", row.spi)),
        label("remote", &row.remote),
    ]
}

fn associations(encoder: &mut Encoder<'_>, rows: &[SaRow]) -> std::fmt::Result {
    let port = |port: Option<u16>| port.map_or_else(String::new, |port| port.to_string());
    let more = |row: &SaRow| {
        [
            label("child", &row.child),
            label("worker", row.worker),
            label("mode", &row.mode),
            label("local", &row.local),
            label("local_port", port(row.local_port)),
            label("remote_port", port(row.remote_port)),
            label("transform", &row.transform),
        ]
    };
    infos(encoder, "sa", "Installed SAs", rows.iter().map(|row| (sa(row), more(row))))?;
    let each = |value: fn(&SaRow) -> f64| rows.iter().map(move |row| (sa(row), value(row)));
    gauges(encoder, "sa_age_seconds", "Time since an SA was installed", each(|row| row.age_s))?;
    let used = rows.iter().filter_map(|row| Some((sa(row), row.last_used_s?)));
    gauges(encoder, "sa_idle_seconds", "Time since an SA's last packet", used)?;
    let path_mtus = rows.iter().filter_map(|row| Some((sa(row), f64::from(row.path_mtu?))));
    gauges(
        encoder,
        "sa_path_mtu_bytes",
        "Largest outer packet that the path to the peer carries",
        path_mtus,
    )?;
    let parts = rows.iter().filter_map(|row| Some((sa(row), row.lifetime_part?)));
    let part = "Used part of an SA's hard lifetime, or of its sequence numbers if that is more";
    gauges(encoder, "sa_lifetime_used_ratio", part, parts)?;
    let sequence = "Last sequence number sent, or highest received";
    gauges(encoder, "sa_sequence_number", sequence, each(|row| row.sequence as f64))?;
    let left = "Sequence numbers that an outbound SA has left before it stops";
    gauges(encoder, "sa_sequence_numbers_left", left, rows.iter().filter_map(numbers_left))
}

/// How many sequence numbers an outbound SA has left.
fn numbers_left(row: &SaRow) -> Option<([Label; 5], f64)> {
    let last = if row.esn { u64::MAX } else { u32::MAX.into() };
    (row.direction == "outbound").then(|| (sa(row), last.saturating_sub(row.sequence) as f64))
}

fn workers(encoder: &mut Encoder<'_>, rows: &[SchedulerRow]) -> std::fmt::Result {
    let worker = |row: &SchedulerRow| [label("worker", row.worker)];
    let spent = rows.iter().map(|row| (worker(row), ConstCounter::new(row.cpu_s)));
    let spending = FamilyHead {
        name: "worker_cpu_seconds",
        help: "CPU time of the worker's thread",
        kind: ConstCounter::<f64>::TYPE,
    };
    family(encoder, spending, spent)?;
    let waits = rows.iter().map(|row| (worker(row), seconds(&row.wait_ns)));
    let waiting = FamilyHead {
        name: "window_wait_seconds",
        help: "Time that packets spent in the window",
        kind: MetricType::Histogram,
    };
    family(encoder, waiting, waits)?;
    let sizes = rows.iter().map(|row| (worker(row), row.window as f64));
    gauges(encoder, "window_size_packets", "Current size of the window", sizes)
}

fn engines(encoder: &mut Encoder<'_>, rows: &[EngineRow]) -> std::fmt::Result {
    let each = |value: fn(&EngineRow) -> u64| rows.iter().map(move |row| (engine(row), value(row)));
    let gauge = |value: fn(&EngineRow) -> f64| rows.iter().map(move |row| (engine(row), value(row)));
    counters(encoder, "engine_packets", "Packets completed", each(|row| row.packets))?;
    counters(encoder, "engine_multi_packets", "Multi-packets completed", each(|row| row.multi_packets))?;
    counters(encoder, "engine_failures", "Times that the engine was quarantined", each(|row| row.failures))?;
    counters(
        encoder,
        "engine_retried_packets",
        "Packets that other engines processed again",
        each(|row| row.retried_packets),
    )?;
    counters(
        encoder,
        "engine_verified_packets",
        "Packets of the engine that another one computed again",
        each(|row| row.verified_packets),
    )?;
    gauges(
        encoder,
        "engine_up",
        "1 while the engine is in use, 0 while it is quarantined",
        gauge(|row| f64::from(u8::from(row.down.is_empty()))),
    )?;
    gauges(
        encoder,
        "engine_queued_multi_packets",
        "Multi-packets in the queue of the engine",
        gauge(|row| row.queued as f64),
    )?;
    gauges(encoder, "engine_predicted_ns", "Mean predicted finishing time", gauge(|row| row.predicted_ns))?;
    gauges(
        encoder,
        "engine_prediction_error_ns",
        "Mean absolute error of the predicted finishing time",
        gauge(|row| row.prediction_error_ns),
    )?;
    let sizes = rows.iter().map(|row| (engine(row), packets(&row.packets_per_multi_packet)));
    let size = FamilyHead {
        name: "engine_multi_packet_size",
        help: "Packets per multi-packet",
        kind: MetricType::Histogram,
    };
    family(encoder, size, sizes)
}

fn engine(row: &EngineRow) -> [Label; 2] {
    [label("engine", &row.name), label("worker", row.worker)]
}

fn ports(encoder: &mut Encoder<'_>, rows: &[PortRow]) -> std::fmt::Result {
    let each =
        |value: fn(&PortRow) -> u64| rows.iter().map(move |row| ([label("port", &row.name)], value(row)));
    counters(encoder, "port_received_packets", "Packets received", each(|row| row.received_packets))?;
    counters(encoder, "port_received_bytes", "Bytes received", each(|row| row.received_bytes))?;
    counters(encoder, "port_sent_packets", "Packets sent", each(|row| row.sent_packets))?;
    counters(encoder, "port_sent_bytes", "Bytes sent", each(|row| row.sent_bytes))?;
    counters(
        encoder,
        "port_receive_dropped",
        "Received packets that could not be passed on",
        each(|row| row.receive_dropped),
    )?;
    counters(encoder, "port_send_dropped", "Packets that could not be sent", each(|row| row.send_dropped))?;
    counters(encoder, "port_system_calls", "System calls", each(|row| row.system_calls))?;
    let device = rows.iter().flat_map(|row| {
        let labels = |counter: &String| [label("port", &row.name), label("counter", counter)];
        row.device.iter().map(move |(counter, count)| (labels(counter), *count))
    });
    let is_up = |row: &PortRow| f64::from(u8::from(row.missing.is_empty()));
    let ports = rows.iter().map(|row| ([label("port", &row.name)], is_up(row)));
    gauges(encoder, "port_up", "0 while the port waits for its interface or an address, else 1", ports)?;
    let links = rows.iter().filter_map(|row| Some(([label("interface", &row.name)], f64::from(row.link?))));
    gauges(encoder, "interface_up", "1 while the tunnels' own interface is up, else 0", links)?;
    counters(encoder, "port_device", "Counters of a port's device", device)
}

#[cfg(test)]
mod tests {
    use convoy_report::snapshot::Buckets;

    use super::*;

    #[test]
    fn a_snapshot_becomes_metrics_with_their_labels() {
        let engine = EngineRow {
            name: "software0".to_owned(),
            packets: 12,
            packets_per_multi_packet: Buckets {
                buckets: vec![(Some(1), 2), (Some(2), 5), (None, 1)],
                sum: 20,
            },
            ..EngineRow::default()
        };
        let port = PortRow {
            name: "outside".to_owned(),
            device: [("encrypted".to_owned(), 5)].into(),
            link: Some(true),
            ..PortRow::default()
        };
        let snapshot = Snapshot {
            engines: vec![engine],
            ports: vec![port],
            drops: [("replayed".to_owned(), 3)].into(),
            charon: Some(CharonRow { is_connected: true, acquires_lost: 9, ..CharonRow::default() }),
            silent_workers: vec![1],
            schedulers: vec![SchedulerRow {
                cpu_s: 2.5,
                wait_ns: Buckets { buckets: vec![(Some(1), 4), (Some(512), 1)], sum: 300 },
                ..SchedulerRow::default()
            }],
            ..Snapshot::default()
        };
        assert_lines(
            &snapshot,
            &[
                "# TYPE convoy_engine_packets counter",
                "convoy_engine_packets_total{engine=\"software0\",worker=\"0\"} 12",
                "# TYPE convoy_engine_multi_packet_size histogram",
                "convoy_engine_multi_packet_size_bucket{le=\"2.0\",engine=\"software0\",worker=\"0\"} 7",
                "convoy_engine_multi_packet_size_bucket{le=\"+Inf\",engine=\"software0\",worker=\"0\"} 8",
                "convoy_engine_multi_packet_size_sum{engine=\"software0\",worker=\"0\"} 20.0",
                "convoy_window_wait_seconds_bucket{le=\"5.12e-7\",worker=\"0\"} 5",
                "convoy_window_wait_seconds_count{worker=\"0\"} 5",
                "convoy_worker_cpu_seconds_total{worker=\"0\"} 2.5",
                "convoy_dropped_packets_total{reason=\"replayed\"} 3",
                "convoy_port_device_total{port=\"outside\",counter=\"encrypted\"} 5",
                "convoy_interface_up{interface=\"outside\"} 1.0",
                "convoy_engine_up{engine=\"software0\",worker=\"0\"} 1.0",
                "convoy_silent_workers 1.0",
                "convoy_charon_connected 1.0",
                "convoy_charon_acquires_lost_total 9",
                "# EOF",
            ],
        );
    }

    fn text(snapshot: &Snapshot) -> String {
        let mut text = String::new();
        write(&mut text, snapshot.clone(), None).expect("a string takes whatever is written");
        text
    }

    pub(super) fn assert_lines(snapshot: &Snapshot, lines: &[&str]) {
        let text = text(snapshot);
        for line in lines {
            assert!(text.lines().any(|found| found == *line), "{line} is missing in:\n{text}");
        }
    }

    #[test]
    fn an_sa_is_reported_with_all_that_it_has_and_its_tunnel_by_labels_that_survive_it() {
        let drops: convoy_report::snapshot::Drops = [("replayed".to_owned(), 3)].into();
        let sa = SaRow {
            tunnel: "site/net".to_owned(),
            child: "net".to_owned(),
            spi: 0x1001,
            direction: "inbound".to_owned(),
            protocol: "esp".to_owned(),
            mode: "tunnel".to_owned(),
            local: "2001:db8::1".to_owned(),
            local_port: Some(4500),
            remote: "2001:db8::2".to_owned(),
            remote_port: Some(1024),
            transform: "aes128gcm16".to_owned(),
            sequence: 77,
            path_mtu: Some(1300),
            lifetime_part: Some(0.25),
            age_s: 1.5,
            last_used_s: Some(0.25),
            ..SaRow::default()
        };
        let silent = SaRow { spi: 0x1002, last_used_s: None, ..sa.clone() };
        let tunnel = TunnelRow {
            tunnel: "site/net".to_owned(),
            direction: "inbound".to_owned(),
            packets: 10,
            bytes: 1000,
            drops,
            last_used_s: Some(0.25),
        };
        let snapshot = Snapshot {
            version: "1.2.3".to_owned(),
            started_s: 1_700_000_000.5,
            sas: vec![sa, silent],
            tunnels: vec![tunnel],
            protected: 4,
            decrypted: 5,
            handed_over: 6,
            iptfs_out: IptfsRow {
                inner_packets: 44,
                outer_packets: 2,
                padding_bytes: 9,
                ..IptfsRow::default()
            },
            iptfs_in: IptfsRow { inner_packets: 22, missing_packets: 3, ..IptfsRow::default() },
            ..Snapshot::default()
        };
        let spi =
            r#"tunnel="site/net",direction="inbound",protocol="esp",spi="0x00001001",remote="2001:db8::2""#;
        assert_lines(
            &snapshot,
            &[
                r#"convoy_build_info{version="1.2.3"} 1"#,
                "process_start_time_seconds 1700000000.5",
                r#"convoy_tunnel_packets_total{tunnel="site/net",direction="inbound"} 10"#,
                r#"convoy_tunnel_bytes_total{tunnel="site/net",direction="inbound"} 1000"#,
                r#"convoy_tunnel_dropped_packets_total{tunnel="site/net",direction="inbound",reason="replayed"} 3"#,
                &format!(
                    r#"convoy_sa_info{{{spi},child="net",worker="0",mode="tunnel",local="2001:db8::1",local_port="4500",remote_port="1024",transform="aes128gcm16"}} 1"#
                ),
                &format!("convoy_sa_age_seconds{{{spi}}} 1.5"),
                &format!("convoy_sa_idle_seconds{{{spi}}} 0.25"),
                &format!("convoy_sa_sequence_number{{{spi}}} 77.0"),
                &format!("convoy_sa_path_mtu_bytes{{{spi}}} 1300.0"),
                &format!("convoy_sa_lifetime_used_ratio{{{spi}}} 0.25"),
                "convoy_protected_packets_total 4",
                "convoy_decrypted_packets_total 5",
                "convoy_handed_over_packets_total 6",
                r#"convoy_iptfs_inner_packets_total{direction="outbound"} 44"#,
                r#"convoy_iptfs_inner_packets_total{direction="inbound"} 22"#,
                r#"convoy_iptfs_outer_packets_total{direction="outbound"} 2"#,
                "convoy_iptfs_padding_bytes_total 9",
                "convoy_iptfs_missing_packets_total 3",
                r#"convoy_dropped_packets_total{reason="integrity_failed"} 0"#,
            ],
        );
        assert_eq!(text(&snapshot).matches("convoy_sa_idle_seconds{").count(), 1, "one was never used");
    }

    #[test]
    fn an_outbound_sa_tells_how_many_sequence_numbers_are_left() {
        let sent = SaRow { direction: "outbound".to_owned(), sequence: 4_294_967_290, ..SaRow::default() };
        let row = |spi, esn| SaRow { spi, esn, ..sent.clone() };
        let received = SaRow { direction: "inbound".to_owned(), ..row(3, false) };
        let text =
            text(&Snapshot { sas: vec![row(1, false), row(2, true), received], ..Snapshot::default() });
        let left: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("convoy_sa_sequence_numbers_left{"))
            .filter_map(|line| line.split("} ").nth(1))
            .collect();
        assert_eq!(left, ["5.0", "18446744069414585000.0"]);
    }

    #[test]
    fn a_name_with_a_quote_ends_no_label() {
        let tunnel = TunnelRow { tunnel: "a \"b\" \\ c\nd".to_owned(), ..TunnelRow::default() };
        let snapshot = Snapshot { tunnels: vec![tunnel], ..Snapshot::default() };
        assert_lines(&snapshot, &[r#"convoy_tunnel_packets_total{tunnel="a \"b\" \\ c\nd",direction=""} 0"#]);
    }
}
