//! Families of metrics: each label set with its value.

use std::fmt::Display;

use convoy_report::snapshot::Buckets;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};

/// A label and its value.
pub(super) type Label = (&'static str, String);

/// Creates a label; `prometheus-client` writes values unescaped, so that is done here.
pub(super) fn label(name: &'static str, value: impl Display) -> Label {
    (name, value.to_string().replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n"))
}

pub(super) type Encoder<'a> = prometheus_client::encoding::DescriptorEncoder<'a>;

/// What is said once of a family.
pub(super) struct FamilyHead<'a> {
    pub(super) name: &'a str,
    pub(super) help: &'a str,
    pub(super) kind: MetricType,
}

/// One family: each label set with its value.
pub(super) fn family<L: EncodeLabelSet, M: EncodeMetric>(
    encoder: &mut Encoder<'_>,
    head: FamilyHead<'_>,
    rows: impl IntoIterator<Item = (L, M)>,
) -> std::fmt::Result {
    let FamilyHead { name, help, kind } = head;
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, metric) in rows {
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

pub(super) fn counters<L: EncodeLabelSet>(
    encoder: &mut Encoder<'_>,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = (L, u64)>,
) -> std::fmt::Result {
    let rows = rows.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value)));
    family(encoder, FamilyHead { name, help, kind: ConstCounter::<u64>::TYPE }, rows)
}

pub(super) fn gauges<L: EncodeLabelSet>(
    encoder: &mut Encoder<'_>,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = (L, f64)>,
) -> std::fmt::Result {
    let rows = rows.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value)));
    family(encoder, FamilyHead { name, help, kind: ConstGauge::<f64>::TYPE }, rows)
}

/// A histogram by powers of two; `unit` is the factor to the metric's unit.
#[derive(Debug)]
pub(super) struct Distribution<'a> {
    values: &'a Buckets,
    unit: f64,
    /// Exponents of the smallest and the largest bound. They never change, so that scrapes can be
    /// compared.
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

/// Times counted in ns, in buckets from 256 ns to 0.27 s.
pub(super) fn seconds(values: &Buckets) -> Distribution<'_> {
    Distribution { values, unit: 1e-9, exponents: (8, 28) }
}

/// Packets of multi-packets, which have at most 1,024.
pub(super) fn packets(values: &Buckets) -> Distribution<'_> {
    Distribution { values, unit: 1.0, exponents: (0, 10) }
}

pub(super) fn infos<L: EncodeLabelSet>(
    encoder: &mut Encoder<'_>,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = L>,
) -> std::fmt::Result {
    let none: [Label; 0] = [];
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Info)?;
    rows.into_iter().try_for_each(|labels| family.encode_family(&none)?.encode_info(&labels))
}

/// A gauge of the gateway as a whole.
pub(super) fn single_gauge(
    encoder: &mut Encoder<'_>,
    name: &str,
    help: &str,
    value: f64,
) -> std::fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, ConstGauge::<f64>::TYPE)?)
}

/// A counter of the gateway as a whole.
pub(super) fn single_counter(
    encoder: &mut Encoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> std::fmt::Result {
    ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, ConstCounter::<u64>::TYPE)?)
}
