//! The file as it is written. Each key is read by itself, so that what is wrong with one hides nothing of the others.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use zeroize::Zeroizing;

use super::error::{Problem, Source};
use super::suggest::{nearest, unknown};

pub(super) type Text = Spanned<String>;

/// A key in hexadecimal; wiped when dropped.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Secret(pub(super) Zeroizing<String>);

/// Reads tables and keeps what is wrong with them.
struct Reader<'a> {
    source: &'a Source<'a>,
    problems: Vec<Problem>,
}

/// One table while it is read: what is left in it is unknown.
struct Entries<'a, 'r, 't> {
    reader: &'a mut Reader<'r>,
    path: &'a str,
    left: DeTable<'t>,
    unread: Vec<&'static str>,
}

/// Where a table stands in the file.
#[derive(Default)]
pub(super) struct At {
    pub(super) span: Range<usize>,
    /// Keys that are there, but misspelt or so wrong that they could not be read; that was told.
    pub(super) unread: Vec<&'static str>,
}

/// A table of the file.
trait Table: Sized {
    /// The keys that may stand in it.
    const KEYS: &'static [&'static str];

    /// Takes each key out.
    fn take(entries: &mut Entries<'_, '_, '_>) -> Self;

    /// Where it stands.
    fn at(&mut self) -> &mut At;
}

/// Declares tables: each key and what it holds, and behind `with` the tables inside. A key that is not in the file, or is
/// wrong there, is `None`; what must be there is the checker's to say.
macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident { $($key:ident: $kind:ty,)* } with { $($inner:ident: $table:ty,)* })*) => { $(
        $(#[$doc])*
        #[derive(Default)]
        pub(super) struct $name {
            pub(super) at: At,
            $(pub(super) $key: Option<Spanned<$kind>>,)*
            $(pub(super) $inner: Option<$table>,)*
        }

        impl Table for $name {
            const KEYS: &'static [&'static str] = &[$(stringify!($key),)* $(stringify!($inner),)*];

            fn take(entries: &mut Entries<'_, '_, '_>) -> Self {
                Self {
                    at: At::default(),
                    $($key: entries.value(stringify!($key)),)*
                    $($inner: entries.table(stringify!($inner)),)*
                }
            }

            fn at(&mut self) -> &mut At {
                &mut self.at
            }
        }
    )* };
}

tables! {
    /// `[gateway]`.
    Gateway {
        control: String,
        charon: String,
        state: String,
        metrics: String,
        workers: u16,
        mtu: u16,
        allow_weak: bool,
        check_icmp: bool,
        flow_cache: usize,
        user: String,
        route_table: u32,
        rule_priority: u32,
        mark: u32,
    } with {}

    /// `[scheduler]`.
    Scheduler {
        policy: String,
        packet_size_threshold: u32,
        full_queue: String,
        depth_unit: String,
        late_margin_us: u64,
        overtake: bool,
        window: usize,
        window_min: usize,
        window_max: usize,
        max_wait_us: u64,
        byte_limit: u32,
        order: String,
        classes: usize,
        weights: Vec<u32>,
        dscp: BTreeMap<Text, Spanned<u8>>,
    } with {}

    /// `[[engine]]`.
    Engine {
        kind: String,
        name: String,
        core: usize,
        worker: u16,
        depth: usize,
        t_init_us: f64,
        t_block_ns: f64,
        bus: String,
    } with {}

    /// `[[bus]]`.
    Bus {
        name: String,
        clock_mhz: f64,
        address_cycles: u32,
        width_bytes: u32,
        packet_bytes: u32,
    } with {}

    /// `[[port]]`.
    Port {
        name: String,
        kind: String,
        side: String,
        device: String,
        mtu: u16,
        address: Vec<Text>,
        udp_port: u16,
        interface: String,
        gateway: String,
        mac: String,
        read: String,
        write: String,
    } with {}

    /// `[[tunnel]]`.
    Tunnel {
        name: String,
        protocol: String,
        mode: String,
        local: String,
        remote: String,
        local_ts: Vec<Text>,
        remote_ts: Vec<Text>,
        esp_proposal: String,
        encap: String,
        remote_port: u16,
        esn: bool,
        replay_window: u32,
        df: String,
        dscp: String,
        ecn: bool,
        tfc_bytes: u16,
        priority: u32,
    } with {
        soft: Limits,
        hard: Limits,
        manual: Manual,
    }

    /// A tunnel's `soft` and `hard`.
    Limits {
        bytes: u64,
        packets: u64,
        seconds: u64,
    } with {}

    /// `[tunnel.manual]`.
    Manual {
        spi_in: u32,
        spi_out: u32,
        key_in: Secret,
        key_out: Secret,
    } with {}

    /// `[[bypass]]`.
    Bypass {
        local_ts: String,
        remote_ts: String,
    } with {}
}

/// All tables.
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
    /// What may stand at the top.
    const TABLES: [&'static str; 7] = ["gateway", "scheduler", "engine", "bus", "port", "tunnel", "bypass"];

    /// Every key of every table.
    #[cfg(test)]
    pub(super) fn keys() -> impl Iterator<Item = &'static str> {
        let tables = [
            Gateway::KEYS,
            Scheduler::KEYS,
            Engine::KEYS,
            Bus::KEYS,
            Port::KEYS,
            Tunnel::KEYS,
            Limits::KEYS,
            Manual::KEYS,
            Bypass::KEYS,
        ];
        tables.into_iter().flatten().copied()
    }

    /// Reads what can be understood, and says what cannot.
    ///
    /// # Errors
    /// All that keeps the text from being TOML; then nothing else is told.
    pub(super) fn read(source: &Source<'_>) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let (table, errors) = DeTable::parse_recoverable(source.text());
        if !errors.is_empty() {
            return Err(errors.iter().map(|error| source.toml_problem(error)).collect());
        }
        let (mut file, mut reader) = (Self::default(), Reader { source, problems: Vec::new() });
        for (key, value) in table.into_inner() {
            match key.get_ref().as_ref() {
                "gateway" => file.gateway = reader.table("gateway", value).unwrap_or_default(),
                "scheduler" => file.scheduler = reader.table("scheduler", value).unwrap_or_default(),
                "engine" => file.engine = reader.list("engine", value),
                "bus" => file.bus = reader.list("bus", value),
                "port" => file.port = reader.list("port", value),
                "tunnel" => file.tunnel = reader.list("tunnel", value),
                "bypass" => file.bypass = reader.list("bypass", value),
                other => reader.add(&key.span(), other, &unknown("table", other, &Self::TABLES)),
            }
        }
        Ok((file, reader.problems))
    }
}

impl Reader<'_> {
    fn add(&mut self, span: &Range<usize>, key: &str, what: &str) {
        self.problems.push(self.source.problem(span, key, what));
    }

    fn table<T: Table>(&mut self, path: &str, value: Spanned<DeValue<'_>>) -> Option<T> {
        let span = value.span();
        let DeValue::Table(left) = value.into_inner() else {
            let name = path.rsplit('.').next().unwrap_or(path);
            self.add(&span, path, &format!("it is a table; write [{path}], or {name} = {{ ... }}"));
            return None;
        };
        let mut entries = Entries { reader: self, path, left, unread: Vec::new() };
        let mut table = T::take(&mut entries);
        let Entries { left, mut unread, .. } = entries;
        unread.extend(left.keys().filter_map(|key| nearest(key.get_ref(), T::KEYS)));
        *table.at() = At { span, unread };
        for (key, _) in left {
            let what = unknown("key", key.get_ref(), T::KEYS);
            self.add(&key.span(), &format!("{path}.{}", key.get_ref()), &what);
        }
        Some(table)
    }

    fn list<T: Table>(&mut self, name: &str, value: Spanned<DeValue<'_>>) -> Vec<T> {
        let span = value.span();
        let DeValue::Array(items) = value.into_inner() else {
            self.add(&span, name, &format!("there may be several; write [[{name}]], with two brackets"));
            return Vec::new();
        };
        items.into_iter().filter_map(|item| self.table(name, item)).collect()
    }
}

impl Entries<'_, '_, '_> {
    fn value<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<Spanned<T>> {
        let value = self.left.remove(key)?;
        let span = value.span();
        match Spanned::deserialize(ValueDeserializer::from(value)) {
            Ok(read) => Some(read),
            Err(error) => {
                let path = format!("{}.{key}", self.path);
                self.reader.add(&error.span().unwrap_or(span), &path, error.message().trim());
                self.unread.push(key);
                None
            }
        }
    }

    fn table<T: Table>(&mut self, key: &'static str) -> Option<T> {
        let value = self.left.remove(key)?;
        let table = self.reader.table(&format!("{}.{key}", self.path), value);
        if table.is_none() {
            self.unread.push(key);
        }
        table
    }
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
