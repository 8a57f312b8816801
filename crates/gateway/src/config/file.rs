//! The file as it is written. Unknown keys are errors.

use std::fmt;

use serde::Deserialize;
use toml::Spanned;
use zeroize::Zeroizing;

pub(super) type Text = Spanned<String>;

/// A key in hexadecimal; wiped when dropped.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Secret(pub(super) Zeroizing<String>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) gateway: Gateway,
    #[serde(default)]
    pub(super) scheduler: Scheduler,
    #[serde(default)]
    pub(super) engine: Vec<Engine>,
    #[serde(default)]
    pub(super) bus: Vec<Bus>,
    #[serde(default)]
    pub(super) port: Vec<Port>,
    #[serde(default)]
    pub(super) tunnel: Vec<Tunnel>,
    #[serde(default)]
    pub(super) bypass: Vec<Bypass>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Gateway {
    pub(super) control: String,
    pub(super) metrics: Option<Text>,
    pub(super) workers: Option<Spanned<u16>>,
    pub(super) mtu: Option<Spanned<u16>>,
    pub(super) allow_weak: bool,
}

impl Default for Gateway {
    fn default() -> Self {
        let control = "/run/convoy/control.sock".to_owned();
        Self { control, metrics: None, workers: None, mtu: None, allow_weak: false }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Scheduler {
    pub(super) policy: Option<Text>,
    pub(super) packet_size_threshold: Option<u32>,
    pub(super) window: Option<Spanned<usize>>,
    pub(super) window_min: Option<Spanned<usize>>,
    pub(super) window_max: Option<Spanned<usize>>,
    pub(super) max_wait_us: u64,
    pub(super) byte_limit: Option<Spanned<u32>>,
    pub(super) order: Option<Text>,
    pub(super) weights: Option<Spanned<Vec<u32>>>,
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
}

impl EngineKindName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Software, Self::Multibuffer, Self::Model];
}

impl fmt::Display for EngineKindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Software => "software",
            Self::Multibuffer => "multibuffer",
            Self::Model => "model",
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Engine {
    pub(super) kind: Text,
    pub(super) name: Option<Text>,
    pub(super) core: Option<usize>,
    pub(super) depth: Option<usize>,
    pub(super) t_init_us: Option<f64>,
    pub(super) t_block_ns: Option<f64>,
    pub(super) bus: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bus {
    pub(super) name: Text,
    pub(super) cycle_ns: f64,
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
    pub(super) device: Option<String>,
    #[serde(default)]
    pub(super) address: Vec<Text>,
    pub(super) udp_port: Option<u16>,
    pub(super) read: Option<String>,
    pub(super) write: Option<String>,
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
    pub(super) remote_port: Option<u16>,
    #[serde(default)]
    pub(super) esn: bool,
    pub(super) replay_window: Option<Spanned<u32>>,
    pub(super) df: Option<Text>,
    pub(super) dscp: Option<Text>,
    pub(super) ecn: Option<bool>,
    pub(super) tfc_bytes: Option<u16>,
    pub(super) priority: Option<u32>,
    pub(super) soft: Option<Limits>,
    pub(super) hard: Option<Limits>,
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
