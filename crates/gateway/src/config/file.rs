//! The file as it is written. Unknown keys are errors.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use zeroize::Zeroizing;

use super::error::{Problem, Source};

pub(super) type Text = Spanned<String>;

/// A key in hexadecimal; wiped when dropped.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Secret(pub(super) Zeroizing<String>);

#[derive(Default)]
pub(super) struct File {
    pub(super) gateway: Gateway,
    pub(super) scheduler: Scheduler,
    pub(super) engine: Vec<Engine>,
    pub(super) bus: Vec<Bus>,
    pub(super) port: Vec<Port>,
    pub(super) tunnel: Vec<Tunnel>,
    pub(super) bypass: Vec<Bypass>,
}

impl File {
    /// Reads what can be understood. Each table is read on its own, so that an error in one hides none in others.
    pub(super) fn read(source: &Source<'_>) -> (Self, Vec<Problem>) {
        let (table, errors) = DeTable::parse_recoverable(source.text());
        let mut file = Self::default();
        let mut tables =
            Tables { source, problems: errors.iter().map(|error| source.toml_problem(error)).collect() };
        if !tables.problems.is_empty() {
            return (file, tables.problems);
        }
        for (key, value) in table.into_inner() {
            match key.get_ref().as_ref() {
                "gateway" => file.gateway = tables.one(value).unwrap_or_default(),
                "scheduler" => file.scheduler = tables.one(value).unwrap_or_default(),
                "engine" => file.engine = tables.list("engine", value),
                "bus" => file.bus = tables.list("bus", value),
                "port" => file.port = tables.list("port", value),
                "tunnel" => file.tunnel = tables.list("tunnel", value),
                "bypass" => file.bypass = tables.list("bypass", value),
                other => {
                    let what = "unknown; there are [gateway], [scheduler], [[engine]], [[bus]], [[port]], \
                                [[tunnel]] and [[bypass]]";
                    tables.problems.push(source.problem(&key.span(), other, what));
                }
            }
        }
        (file, tables.problems)
    }
}

/// Reads tables and keeps what was wrong with them.
struct Tables<'a> {
    source: &'a Source<'a>,
    problems: Vec<Problem>,
}

impl Tables<'_> {
    fn one<T: DeserializeOwned>(&mut self, value: Spanned<DeValue<'_>>) -> Option<T> {
        let read = T::deserialize(ValueDeserializer::from(value));
        read.map_err(|error| self.problems.push(self.source.toml_problem(&error))).ok()
    }

    fn list<T: DeserializeOwned>(&mut self, name: &str, value: Spanned<DeValue<'_>>) -> Vec<T> {
        let span = value.span();
        let DeValue::Array(items) = value.into_inner() else {
            let what = format!("there may be several; write [[{name}]], with two brackets");
            self.problems.push(self.source.problem(&span, name, &what));
            return Vec::new();
        };
        items.into_iter().filter_map(|item| self.one(item)).collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Gateway {
    pub(super) control: String,
    pub(super) charon: Option<Text>,
    pub(super) metrics: Option<Text>,
    pub(super) workers: Option<Spanned<u16>>,
    pub(super) mtu: Option<Spanned<u16>>,
    pub(super) allow_weak: bool,
    pub(super) check_icmp: bool,
}

impl Default for Gateway {
    fn default() -> Self {
        let control = "/run/convoy/control.sock".to_owned();
        Self {
            control,
            charon: None,
            metrics: None,
            workers: None,
            mtu: None,
            allow_weak: false,
            check_icmp: true,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Scheduler {
    pub(super) policy: Option<Text>,
    pub(super) packet_size_threshold: Option<Spanned<u32>>,
    pub(super) window: Option<Spanned<usize>>,
    pub(super) window_min: Option<Spanned<usize>>,
    pub(super) window_max: Option<Spanned<usize>>,
    pub(super) max_wait_us: Option<Spanned<u64>>,
    pub(super) byte_limit: Option<Spanned<u32>>,
    pub(super) order: Option<Text>,
    pub(super) classes: Option<Spanned<usize>>,
    pub(super) weights: Option<Spanned<Vec<u32>>>,
    pub(super) dscp: BTreeMap<Text, Spanned<u8>>,
}

/// The kinds of engine that can be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKindName {
    /// One packet at a time, on the worker's core.
    Software,
    /// Intel ipsec-mb.
    Multibuffer,
    /// A modelled accelerator.
    Model,
    /// The verilated card; only in a build with it.
    Card,
}

impl EngineKindName {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Software, Self::Multibuffer, Self::Model, Self::Card];
}

impl fmt::Display for EngineKindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Software => "software",
            Self::Multibuffer => "multibuffer",
            Self::Model => "model",
            Self::Card => "card",
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Engine {
    pub(super) kind: Text,
    pub(super) name: Option<Text>,
    pub(super) core: Option<Spanned<usize>>,
    pub(super) worker: Option<Spanned<u16>>,
    pub(super) depth: Option<Spanned<usize>>,
    pub(super) t_init_us: Option<Spanned<f64>>,
    pub(super) t_block_ns: Option<Spanned<f64>>,
    pub(super) bus: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bus {
    pub(super) name: Text,
    pub(super) cycle_ns: Spanned<f64>,
    #[serde(default)]
    pub(super) address_cycles: u32,
    pub(super) width_bytes: Spanned<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Port {
    pub(super) name: Text,
    pub(super) kind: Text,
    pub(super) side: Option<Text>,
    pub(super) device: Option<Text>,
    #[serde(default)]
    pub(super) address: Vec<Text>,
    pub(super) udp_port: Option<Spanned<u16>>,
    pub(super) interface: Option<Text>,
    pub(super) gateway: Option<Text>,
    pub(super) mac: Option<Text>,
    pub(super) read: Option<Text>,
    pub(super) write: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tunnel {
    pub(super) name: Text,
    pub(super) protocol: Option<Text>,
    pub(super) mode: Option<Text>,
    pub(super) local: Text,
    pub(super) remote: Text,
    pub(super) local_ts: Spanned<Vec<Text>>,
    pub(super) remote_ts: Spanned<Vec<Text>>,
    pub(super) esp_proposal: Text,
    pub(super) encap: Option<Text>,
    pub(super) remote_port: Option<Spanned<u16>>,
    #[serde(default)]
    pub(super) esn: bool,
    pub(super) replay_window: Option<Spanned<u32>>,
    pub(super) df: Option<Text>,
    pub(super) dscp: Option<Text>,
    pub(super) ecn: Option<Spanned<bool>>,
    pub(super) tfc_bytes: Option<Spanned<u16>>,
    pub(super) priority: Option<u32>,
    pub(super) soft: Option<Spanned<Limits>>,
    pub(super) hard: Option<Spanned<Limits>>,
    pub(super) manual: Option<Manual>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limits {
    pub(super) bytes: Option<u64>,
    pub(super) packets: Option<u64>,
    pub(super) seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manual {
    pub(super) spi_in: Spanned<u32>,
    pub(super) spi_out: Spanned<u32>,
    pub(super) key_in: Spanned<Secret>,
    pub(super) key_out: Spanned<Secret>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bypass {
    pub(super) local_ts: Text,
    pub(super) remote_ts: Text,
}
