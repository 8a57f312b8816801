//! A snapshot as OpenMetrics text, written by `prometheus-client`, the Prometheus project's own library.

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;

use crate::snapshot::{Buckets, EngineRow, PortRow, SaRow, SchedulerRow, Snapshot};

/// What [`text`] is, for HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A snapshot in the OpenMetrics text format.
pub fn text(snapshot: &Snapshot) -> String {
    let mut registry = Registry::with_prefix("convoy");
    registry.register_collector(Box::new(Collector(snapshot.clone())));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes whatever is written");
    text
}

#[derive(Debug)]
struct Collector(Snapshot);

type Encoder<'a> = prometheus_client::encoding::DescriptorEncoder<'a>;

/// One family: each label set with its value.
fn family<L: EncodeLabelSet, M: EncodeMetric>(
    encoder: &mut Encoder<'_>,
    (name, help, kind): (&str, &str, MetricType),
    rows: impl IntoIterator<Item = (L, M)>,
) -> std::fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, metric) in rows {
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn counters<L: EncodeLabelSet>(
    encoder: &mut Encoder<'_>,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = (L, u64)>,
) -> std::fmt::Result {
    let rows = rows.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value)));
    family(encoder, (name, help, ConstCounter::<u64>::TYPE), rows)
}

fn gauges<L: EncodeLabelSet>(
    encoder: &mut Encoder<'_>,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = (L, f64)>,
) -> std::fmt::Result {
    let rows = rows.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value)));
    family(encoder, (name, help, ConstGauge::<f64>::TYPE), rows)
}

/// A histogram by powers of two, in the unit that its values times `unit` are in.
#[derive(Debug)]
struct Distribution<'a> {
    values: &'a Buckets,
    unit: f64,
    /// Exponents of the least and of the largest bound. They never change, so that scrapes can be compared.
    exponents: (u32, u32),
}

impl EncodeMetric for Distribution<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let (least, most) = self.exponents;
        let mut buckets: Vec<(f64, u64)> =
            (least..=most).map(|k| ((1_u64 << k) as f64 * self.unit, 0)).collect();
        buckets.push((f64::MAX, 0));
        for (bound, count) in &self.values.buckets {
            let exponent = bound.map_or(u32::MAX, u64::ilog2).clamp(least, most + 1);
            buckets[(exponent - least) as usize].1 += count;
        }
        let count = self.values.buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(self.values.sum as f64 * self.unit, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// Times that are counted in ns, in buckets from 256 ns to 0.27 s.
fn seconds(values: &Buckets) -> Distribution<'_> {
    Distribution { values, unit: 1e-9, exponents: (8, 28) }
}

/// Packets of multi-packets, which have at most 1,024.
fn packets(values: &Buckets) -> Distribution<'_> {
    Distribution { values, unit: 1.0, exponents: (0, 10) }
}

impl prometheus_client::collector::Collector for Collector {
    fn encode(&self, mut encoder: Encoder<'_>) -> std::fmt::Result {
        let encoder = &mut encoder;
        let Snapshot { sas, engines: rows, ports: port_rows, drops, schedulers, .. } = &self.0;
        engines(encoder, rows)?;
        ports(encoder, port_rows)?;
        associations(encoder, sas)?;
        let drops = drops.iter().map(|(reason, count)| ([("reason", reason.clone())], *count));
        counters(encoder, "dropped_packets", "Dropped packets by reason", drops)?;
        let worker = |row: &SchedulerRow| ("worker", row.worker.to_string());
        let waits = schedulers.iter().map(|row| ([worker(row)], seconds(&row.wait_ns)));
        let wait = ("window_wait_seconds", "Time in the window", MetricType::Histogram);
        family(encoder, wait, waits)?;
        let windows = schedulers.iter().map(|row| ([worker(row)], row.window as f64));
        gauges(encoder, "window_size_packets", "The window", windows)
    }
}

fn engines(encoder: &mut Encoder<'_>, rows: &[EngineRow]) -> std::fmt::Result {
    let each = |value: fn(&EngineRow) -> u64| rows.iter().map(move |row| (engine(row), value(row)));
    let gauge = |value: fn(&EngineRow) -> f64| rows.iter().map(move |row| (engine(row), value(row)));
    counters(encoder, "engine_packets", "Packets done", each(|row| row.packets))?;
    counters(encoder, "engine_multi_packets", "Multi-packets done", each(|row| row.multi_packets))?;
    counters(encoder, "engine_failures", "Times taken out", each(|row| row.failures))?;
    counters(
        encoder,
        "engine_redone_packets",
        "Packets done again elsewhere",
        each(|row| row.redone_packets),
    )?;
    gauges(encoder, "engine_up", "1 while in use", gauge(|row| f64::from(u8::from(row.down.is_empty()))))?;
    gauges(encoder, "engine_queued_multi_packets", "Queue depth", gauge(|row| row.queued as f64))?;
    gauges(encoder, "engine_predicted_ns", "Mean predicted finishing time", gauge(|row| row.predicted_ns))?;
    gauges(
        encoder,
        "engine_prediction_error_ns",
        "Mean absolute error of the predicted finishing time",
        gauge(|row| row.prediction_error_ns),
    )?;
    let sizes = rows.iter().map(|row| (engine(row), packets(&row.packets_per_multi_packet)));
    let size = ("engine_multi_packet_size", "Packets of multi-packets", MetricType::Histogram);
    family(encoder, size, sizes)
}

fn engine(row: &EngineRow) -> [(&'static str, String); 2] {
    [("engine", row.name.clone()), ("worker", row.worker.to_string())]
}

fn ports(encoder: &mut Encoder<'_>, rows: &[PortRow]) -> std::fmt::Result {
    let each =
        |value: fn(&PortRow) -> u64| rows.iter().map(move |row| ([("port", row.name.clone())], value(row)));
    counters(encoder, "port_received_packets", "Packets received", each(|row| row.received_packets))?;
    counters(encoder, "port_received_bytes", "Bytes received", each(|row| row.received_bytes))?;
    counters(encoder, "port_sent_packets", "Packets sent", each(|row| row.sent_packets))?;
    counters(encoder, "port_sent_bytes", "Bytes sent", each(|row| row.sent_bytes))?;
    counters(encoder, "port_receive_dropped", "Arrived and dropped", each(|row| row.receive_dropped))?;
    counters(encoder, "port_send_dropped", "Could not leave", each(|row| row.send_dropped))?;
    counters(encoder, "port_system_calls", "System calls", each(|row| row.system_calls))?;
    let device = rows.iter().flat_map(|row| {
        let labels = |counter: &String| [("port", row.name.clone()), ("counter", counter.clone())];
        row.device.iter().map(move |(counter, count)| (labels(counter), *count))
    });
    counters(encoder, "port_device", "What a port's device has counted", device)
}

fn associations(encoder: &mut Encoder<'_>, rows: &[SaRow]) -> std::fmt::Result {
    let labels = |row: &SaRow| [("tunnel", row.tunnel.clone()), ("sa", row.name.clone())];
    counters(encoder, "sa_packets", "Packets of an SA", rows.iter().map(|row| (labels(row), row.packets)))?;
    counters(encoder, "sa_bytes", "Bytes of an SA", rows.iter().map(|row| (labels(row), row.bytes)))?;
    let drops = rows.iter().flat_map(|row| {
        row.drops.iter().map(|(reason, count)| {
            let [tunnel, sa] = labels(row);
            ([tunnel, sa, ("reason", reason.clone())], *count)
        })
    });
    counters(encoder, "sa_dropped_packets", "Dropped packets of an SA by reason", drops)
}

#[cfg(test)]
mod tests {
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
            device: vec![("sealed".to_owned(), 5)],
            ..PortRow::default()
        };
        let snapshot = Snapshot {
            engines: vec![engine],
            ports: vec![port],
            drops: vec![("replayed".to_owned(), 3)],
            schedulers: vec![SchedulerRow {
                wait_ns: Buckets { buckets: vec![(Some(1), 4), (Some(512), 1)], sum: 300 },
                ..SchedulerRow::default()
            }],
            ..Snapshot::default()
        };
        let text = text(&snapshot);
        for line in [
            "# TYPE convoy_engine_packets counter",
            "convoy_engine_packets_total{engine=\"software0\",worker=\"0\"} 12",
            "# TYPE convoy_engine_multi_packet_size histogram",
            "convoy_engine_multi_packet_size_bucket{le=\"2.0\",engine=\"software0\",worker=\"0\"} 7",
            "convoy_engine_multi_packet_size_bucket{le=\"+Inf\",engine=\"software0\",worker=\"0\"} 8",
            "convoy_engine_multi_packet_size_sum{engine=\"software0\",worker=\"0\"} 20.0",
            "convoy_window_wait_seconds_bucket{le=\"5.12e-7\",worker=\"0\"} 5",
            "convoy_window_wait_seconds_count{worker=\"0\"} 5",
            "convoy_dropped_packets_total{reason=\"replayed\"} 3",
            "convoy_port_device_total{port=\"outside\",counter=\"sealed\"} 5",
            "convoy_engine_up{engine=\"software0\",worker=\"0\"} 1.0",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
        }
    }
}
