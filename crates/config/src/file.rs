//! The file as written.

use std::collections::BTreeMap;

use convoy_engine::EngineKeys;
use convoy_port::PortEntry;
use convoy_settings::{OfKind, Problem, Reader, Source, Text, tables, unknown};
use serde::Deserialize;
use toml::Spanned;
use zeroize::Zeroizing;

use crate::Kinds;

/// A key in hexadecimal; wiped when dropped.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Secret(pub(super) Zeroizing<String>);

/// A word or a number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a word in quotes or a number")]
pub(super) enum WordOrNumber {
    /// A word.
    Word(String),
    /// A number.
    Number(i64),
}

/// One `[[engine]]`.
pub(super) type EngineEntry = OfKind<EngineCommon, EngineKeys>;

tables! {
    /// `[gateway]`.
    pub(super) Gateway {
        control: String,
        charon: String,
        charon_user: String,
        state: String,
        metrics: String,
        metrics_per_tunnel: bool,
        metrics_page: bool,
        workers: u16,
        mtu: u16,
        allow_weak: bool,
        fips: bool,
        check_icmp: bool,
        mss_clamp: WordOrNumber,
        flow_cache: usize,
        busy_poll_us: u16,
        moderation_us: u16,
        verify_one_in: u32,
        user: String,
        on_stop: String,
        guard: bool,
        route_table: u32,
        rule_priority: u32,
        mark: u32,
    }

    /// `[cluster]`.
    pub(super) Cluster {
        name: String,
        member: String,
        endpoints: Vec<Text>,
        ca: String,
        certificate: String,
        key: String,
        secret: String,
        addresses: Vec<Text>,
        priority: u32,
        lease_s: u32,
        rebalance_s: u32,
        inbound_reserve_ms: u32,
        tunnels: String,
        replay_after_takeover: String,
    }

    /// `[[group]]`.
    pub(super) Group {
        name: String,
        addresses: Vec<Text>,
    }

    /// `[scheduler]`.
    pub(super) Scheduler {
        policy: String,
        packet_size_threshold: toml::Value,
        full_queue: toml::Value,
        depth_unit: toml::Value,
        late_margin_us: u64,
        overtake: toml::Value,
        window: usize,
        window_min: usize,
        window_max: usize,
        max_wait_us: u64,
        byte_limit: u32,
        order: String,
        classes: usize,
        weights: Vec<u32>,
        dscp: BTreeMap<Text, Spanned<u8>>,
    }

    /// The keys common to all `[[engine]]`, beside `kind`.
    pub(super) EngineCommon {
        name: String,
        worker: u16,
    }

    /// `[dpdk]`.
    pub(super) Dpdk {
        arguments: Vec<Text>,
    }

    /// `[[bus]]`.
    pub(super) Bus {
        name: String,
        clock_mhz: f64,
        address_cycles: u32,
        width_bytes: u32,
        packet_bytes: u32,
    }

    /// `[[interface]]`.
    pub(super) Interface {
        name: String,
        address: Vec<Text>,
        mtu: u16,
        if_id: u32,
        kernel_queue_packets: u32,
    }

    /// `[[tunnel]]`.
    pub(super) Tunnel {
        name: String,
        interface: String,
        protocol: String,
        mode: String,
        local: String,
        remote: String,
        local_ts: Vec<Text>,
        remote_ts: Vec<Text>,
        esp_proposal: String,
        encap: String,
        remote_port: u16,
        roaming: bool,
        nat_keepalive: String,
        esn: bool,
        replay_window: u32,
        df: String,
        dscp: String,
        ecn: bool,
        tfc_bytes: u16,
        priority: u32,
        group: String,
        ;
        soft: Limits,
        hard: Limits,
        iptfs: Iptfs,
        monitor: Monitor,
        manual: Manual,
    }

    /// A tunnel's `soft` and `hard`.
    pub(super) Limits {
        bytes: u64,
        packets: u64,
        seconds: u64,
    }

    /// `[tunnel.iptfs]`.
    pub(super) Iptfs {
        drop_time: u32,
        reorder_window: u16,
        init_delay: u32,
        max_queue_size: u32,
        dont_frag: bool,
        pkt_size: u16,
        packet_rate: u32,
    }

    /// `[tunnel.monitor]`.
    pub(super) Monitor {
        ping: String,
        source: String,
        echo: bool,
        interval_ms: u32,
        lost_after_ms: u32,
    }

    /// `[tunnel.manual]`.
    pub(super) Manual {
        spi_in: u32,
        spi_out: u32,
        key_in: Secret,
        key_out: Secret,
        resources: u16,
    }

    /// `[[bypass]]`.
    pub(super) Bypass {
        local_ts: String,
        remote_ts: String,
    }
}

/// All tables.
#[derive(Default)]
pub(super) struct File {
    pub(super) gateway: Gateway,
    pub(super) cluster: Option<Cluster>,
    pub(super) group: Vec<Group>,
    pub(super) scheduler: Scheduler,
    pub(super) engine: Vec<EngineEntry>,
    pub(super) dpdk: Dpdk,
    pub(super) bus: Vec<Bus>,
    pub(super) port: Vec<PortEntry>,
    pub(super) interface: Vec<Interface>,
    pub(super) tunnel: Vec<Tunnel>,
    pub(super) bypass: Vec<Bypass>,
}

impl File {
    /// The tables at top level.
    const TABLES: [&'static str; 11] = [
        "gateway",
        "cluster",
        "group",
        "scheduler",
        "engine",
        "dpdk",
        "bus",
        "port",
        "interface",
        "tunnel",
        "bypass",
    ];

    /// Every key of every table, without `[[bus]]`, which only simulated engines have.
    #[cfg(test)]
    pub(super) fn keys() -> impl Iterator<Item = &'static str> {
        use convoy_port::PortCommon;
        use convoy_settings::{Kind, Table};
        let tables = [
            Gateway::KEYS,
            Cluster::KEYS,
            Group::KEYS,
            Scheduler::KEYS,
            EngineCommon::KEYS,
            Dpdk::KEYS,
            PortCommon::KEYS,
            Interface::KEYS,
            Tunnel::KEYS,
            Limits::KEYS,
            Iptfs::KEYS,
            Monitor::KEYS,
            Manual::KEYS,
            Bypass::KEYS,
        ];
        let engines = convoy_engine::ENGINES.iter().map(|row| row.keys());
        let ports = convoy_port::PORTS.iter().map(|row| row.keys());
        tables.into_iter().chain(engines).chain(ports).flatten().copied().chain(["kind"])
    }

    /// Parses what is valid, and reports what is not.
    ///
    /// # Errors
    /// All TOML errors; nothing else is reported then.
    pub(super) fn read(source: &Source<'_>, kinds: &Kinds) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let (mut reader, tables) = Reader::new(source)?;
        let mut file = Self::default();
        for (key, value) in tables {
            match key.get_ref().as_ref() {
                "gateway" => file.gateway = reader.table("gateway", value).unwrap_or_default(),
                "cluster" => file.cluster = reader.table("cluster", value),
                "group" => file.group = reader.list("group", value),
                "scheduler" => file.scheduler = reader.table("scheduler", value).unwrap_or_default(),
                "engine" => file.engine = reader.list_of_kinds("engine", value, &kinds.engines),
                "dpdk" => file.dpdk = reader.table("dpdk", value).unwrap_or_default(),
                "bus" => file.bus = reader.list("bus", value),
                "port" => file.port = reader.list_of_kinds("port", value, &kinds.ports),
                "interface" => file.interface = reader.list("interface", value),
                "tunnel" => file.tunnel = reader.list("tunnel", value),
                "bypass" => file.bypass = reader.list("bypass", value),
                other => reader.add(&key.span(), other, &unknown("table", other, &Self::TABLES)),
            }
        }
        Ok((file, reader.into_problems()))
    }
}
