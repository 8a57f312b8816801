//! From what the file says to what it means: every value checked, every error kept.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use convoy_ipsec::{
    EcnMode, KeyMaterial, Lifetime, Limits, Mode, OuterDf, OuterDscp, Proposal, SaProtocol, TrafficSelector,
};
use convoy_port::PortKind;
use convoy_scheduler::{CLASSES, ClassDiscipline, Policy, SchedulerConfig, WINDOW_MAX};
use toml::Spanned;

use super::error::{ConfigErrors, Problem, Source};
use super::file::{self, EngineKindName, Text};
use super::{BusConfig, Config, EngineConfig, ManualKeys, ModelConfig, PortConfig, TunnelConfig};

/// Port of ESP in UDP (RFC 3948).
const NAT_PORT: u16 = 4500;

/// Collects problems while values are read.
struct Checker<'a> {
    source: &'a Source<'a>,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn add(&mut self, span: &Range<usize>, key: &str, what: impl Display) {
        self.problems.push(self.source.problem(span, key, &what.to_string(), true));
    }

    /// Reads a value from its text.
    fn read<T: FromStr<Err: Display>>(&mut self, text: &Text, key: &str) -> Option<T> {
        match text.get_ref().parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(&text.span(), key, error);
                None
            }
        }
    }

    fn address(&mut self, text: &Text, key: &str) -> Option<IpAddr> {
        let address = text.get_ref().parse().ok();
        if address.is_none() {
            let what = format!("{:?} is no IP address, such as 192.0.2.1 or 2001:db8::1", text.get_ref());
            self.add(&text.span(), key, what);
        }
        address
    }

    /// One of a few words.
    fn one_of<T: Copy>(&mut self, text: Option<&Text>, key: &str, words: &[(&str, T)]) -> T {
        let Some(text) = text else { return words[0].1 };
        if let Some((_, value)) = words.iter().find(|(word, _)| word == text.get_ref()) {
            return *value;
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.add(&text.span(), key, format!("unknown {:?}; one of {}", text.get_ref(), known.join(", ")));
        words[0].1
    }

    fn in_range<T: PartialOrd + Display + Copy>(
        &mut self,
        value: Option<&Spanned<T>>,
        key: &str,
        default: T,
        (least, most): (T, T),
    ) -> T {
        let Some(value) = value else { return default };
        let number = *value.get_ref();
        if number < least || number > most {
            self.add(&value.span(), key, format!("{number} is out of range; {least} to {most} are possible"));
        }
        number
    }

    fn unique<'b>(&mut self, names: impl Iterator<Item = &'b Text>, key: &str) {
        let mut seen = HashMap::new();
        for name in names {
            if seen.insert(name.get_ref().clone(), ()).is_some() {
                let what = format!("{:?} is there twice; names must differ", name.get_ref());
                self.add(&name.span(), key, what);
            }
        }
    }
}

/// Checks a whole file.
pub(super) fn check(file: file::File, source: &Source<'_>) -> Result<Config, ConfigErrors> {
    let mut checker = Checker { source, problems: Vec::new() };
    let c = &mut checker;
    c.unique(file.tunnel.iter().map(|tunnel| &tunnel.name), "tunnel.name");
    c.unique(file.port.iter().map(|port| &port.name), "port.name");
    c.unique(file.engine.iter().filter_map(|engine| engine.name.as_ref()), "engine.name");
    c.unique(file.bus.iter().map(|bus| &bus.name), "bus.name");
    distinct_spis(c, &file.tunnel);
    let buses = buses(c, &file.bus);
    let metrics = file.gateway.metrics.as_ref().and_then(|text| c.read(text, "gateway.metrics"));
    let words = [("per-sa", true), ("none", false)];
    let ordered = c.one_of(file.scheduler.order.as_ref(), "scheduler.order", &words);
    let config = Config {
        control: file.gateway.control.into(),
        metrics,
        workers: c.in_range(file.gateway.workers.as_ref(), "gateway.workers", 1, (1, 1)),
        mtu: c.in_range(file.gateway.mtu.as_ref(), "gateway.mtu", 1500, (576, 9400)),
        scheduler: scheduler(c, &file.scheduler),
        ordered,
        engines: engines(c, &file.engine, &buses),
        buses,
        ports: file.port.iter().filter_map(|entry| port(c, entry)).collect(),
        tunnels: {
            let allow_weak = file.gateway.allow_weak;
            file.tunnel.into_iter().filter_map(|entry| tunnel(c, entry, allow_weak)).collect()
        },
        bypass: file
            .bypass
            .iter()
            .filter_map(|entry| {
                let local = c.read(&entry.local_ts, "bypass.local_ts");
                local.zip(c.read(&entry.remote_ts, "bypass.remote_ts"))
            })
            .collect(),
    };
    if checker.problems.is_empty() { Ok(config) } else { Err(ConfigErrors(checker.problems)) }
}

/// What a peer sends is told apart by its SPI alone, at one address and protocol of ours.
fn distinct_spis(c: &mut Checker<'_>, tunnels: &[file::Tunnel]) {
    let mut seen: HashMap<(u32, &str, bool), &str> = HashMap::new();
    for tunnel in tunnels {
        let Some(manual) = &tunnel.manual else { continue };
        let is_ah = tunnel.protocol.as_ref().is_some_and(|protocol| protocol.get_ref() == "ah");
        let spi = *manual.spi_in.get_ref();
        let name = tunnel.name.get_ref().as_str();
        if let Some(other) = seen.insert((spi, tunnel.local.get_ref(), is_ah), name) {
            let what = format!("SPI {spi:#010x} is also that of tunnel {other:?}; inbound SPIs must differ");
            c.add(&manual.spi_in.span(), "tunnel.manual.spi_in", what);
        }
    }
}

fn scheduler(c: &mut Checker<'_>, file: &file::Scheduler) -> SchedulerConfig {
    let mut policy = Policy::default();
    if let Some(text) = &file.policy {
        policy = c.read(text, "scheduler.policy").unwrap_or_default();
    }
    if let (Policy::PacketSize(threshold), Some(bytes)) = (&mut policy, file.packet_size_threshold) {
        *threshold = bytes;
    }
    let range = (1, WINDOW_MAX);
    let window = c.in_range(file.window.as_ref(), "scheduler.window", 32, range);
    let least = c.in_range(file.window_min.as_ref(), "scheduler.window_min", 1, range);
    let most = c.in_range(file.window_max.as_ref(), "scheduler.window_max", WINDOW_MAX, range);
    if let (Some(text), true) = (&file.window_min, least > most) {
        c.add(&text.span(), "scheduler.window_min", "it is above window_max");
    }
    let is_adaptive = file.window_min.is_some() || file.window_max.is_some();
    let (mut classes, mut discipline) = (1, ClassDiscipline::Strict);
    if let Some(text) = &file.weights {
        let given = text.get_ref();
        if given.is_empty() || given.len() > CLASSES {
            c.add(&text.span(), "scheduler.weights", "give 1 to 8 weights, that of the highest class first");
        } else {
            let mut weights = [0; CLASSES];
            weights[..given.len()].copy_from_slice(given);
            (classes, discipline) = (given.len(), ClassDiscipline::Weighted(weights));
        }
    }
    SchedulerConfig {
        policy,
        window,
        max_wait: file.max_wait_us * 1000,
        byte_limit: c.in_range(file.byte_limit.as_ref(), "scheduler.byte_limit", 65_536, (1, u32::MAX)),
        classes,
        discipline,
        adaptive: is_adaptive.then_some((least, most)),
        correct: true,
    }
}

fn buses(c: &mut Checker<'_>, file: &[file::Bus]) -> HashMap<String, BusConfig> {
    let mut buses = HashMap::new();
    for bus in file {
        if *bus.width_bytes.get_ref() == 0 {
            c.add(&bus.width_bytes.span(), "bus.width_bytes", "a bus moves at least 1 byte a cycle");
        }
        let config = BusConfig {
            cycle_ns: bus.cycle_ns,
            address_cycles: bus.address_cycles,
            width_bytes: *bus.width_bytes.get_ref(),
        };
        buses.insert(bus.name.get_ref().clone(), config);
    }
    buses
}

fn engines(
    c: &mut Checker<'_>,
    file: &[file::Engine],
    buses: &HashMap<String, BusConfig>,
) -> Vec<EngineConfig> {
    let kinds = EngineKindName::ALL.map(|kind| (kind.to_string(), kind));
    let kinds: Vec<(&str, EngineKindName)> =
        kinds.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    let mut engines = Vec::new();
    for (at, engine) in file.iter().enumerate() {
        let kind = c.one_of(Some(&engine.kind), "engine.kind", &kinds);
        if let Some(bus) = engine.bus.as_ref().filter(|bus| !buses.contains_key(bus.get_ref())) {
            c.add(&bus.span(), "engine.bus", "there is no [[bus]] of this name");
        }
        let model = (kind == EngineKindName::Model).then(|| ModelConfig {
            t_init_ns: engine.t_init_us.map_or(ModelConfig::default().t_init_ns, |us| us * 1000.0),
            t_block_ns: engine.t_block_ns.unwrap_or(ModelConfig::default().t_block_ns),
            depth: engine.depth.unwrap_or(ModelConfig::default().depth),
            bus: engine.bus.as_ref().map(|bus| bus.get_ref().clone()),
        });
        if model.is_none()
            && (engine.t_init_us.is_some() || engine.t_block_ns.is_some() || engine.bus.is_some())
        {
            let what = "t_init_us, t_block_ns and bus are for kind \"model\"; other engines are measured";
            c.add(&engine.kind.span(), "engine.kind", what);
        }
        let name = engine.name.as_ref().map_or_else(|| format!("{kind}{at}"), |name| name.get_ref().clone());
        engines.push(EngineConfig { name, kind, core: engine.core, model });
    }
    engines
}

fn port(c: &mut Checker<'_>, file: &file::Port) -> Option<PortConfig> {
    let kinds = [
        ("tun", PortKind::Tun),
        ("udp", PortKind::Udp),
        ("raw", PortKind::Raw),
        ("pcap", PortKind::Pcap),
        ("memory", PortKind::Memory),
    ];
    let kind = c.one_of(Some(&file.kind), "port.kind", &kinds);
    let by_kind = match kind {
        PortKind::Tun => Some(false),
        PortKind::Udp | PortKind::Raw => Some(true),
        PortKind::Pcap | PortKind::Memory => match file.name.get_ref().as_str() {
            "inside" => Some(false),
            "outside" => Some(true),
            _ => None,
        },
    };
    let side = file
        .side
        .as_ref()
        .map(|text| c.one_of(Some(text), "port.side", &[("inside", false), ("outside", true)]));
    let Some(is_outside) = side.or(by_kind) else {
        let what = "is it plaintext or protected? Add side = \"inside\" or side = \"outside\"";
        c.add(&file.name.span(), "port.side", what);
        return None;
    };
    let addresses = file.address.iter().filter_map(|text| address_with_prefix(c, text)).collect();
    Some(PortConfig {
        name: file.name.get_ref().clone(),
        kind,
        is_outside,
        device: file.device.clone(),
        addresses,
        udp_port: file.udp_port.unwrap_or(NAT_PORT),
        files: (file.read.clone().map(Into::into), file.write.clone().map(Into::into)),
    })
}

fn address_with_prefix(c: &mut Checker<'_>, text: &Text) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.get_ref().split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text.get_ref().as_str(), None),
    };
    let parsed = address.parse::<IpAddr>().ok().and_then(|address| {
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok()).filter(|bits| *bits <= most)?;
        Some((address, bits))
    });
    if parsed.is_none() {
        let what = format!("{:?} is no address, such as 10.1.0.1/24 or 2001:db8::1/64", text.get_ref());
        c.add(&text.span(), "port.address", what);
    }
    parsed
}

fn tunnel(c: &mut Checker<'_>, file: file::Tunnel, allow_weak: bool) -> Option<TunnelConfig> {
    let protocols = [("esp", SaProtocol::Esp), ("ah", SaProtocol::Ah)];
    let protocol = c.one_of(file.protocol.as_ref(), "tunnel.protocol", &protocols);
    let mode = c.one_of(
        file.mode.as_ref(),
        "tunnel.mode",
        &[("tunnel", Mode::Tunnel), ("transport", Mode::Transport)],
    );
    let encaps = [("auto", None), ("udp", Some(true)), ("none", Some(false))];
    let encap = c.one_of(file.encap.as_ref(), "tunnel.encap", &encaps);
    let dfs = [("copy", OuterDf::Copy), ("set", OuterDf::Set), ("clear", OuterDf::Clear)];
    let df = c.one_of(file.df.as_ref(), "tunnel.df", &dfs);
    let dscp = match file.dscp.as_ref().map(|text| (text, text.get_ref().as_str())) {
        None | Some((_, "copy")) => OuterDscp::Copy,
        Some((text, number)) => match number.parse().ok().filter(|value| *value < 64) {
            Some(value) => OuterDscp::Set(value),
            None => {
                c.add(&text.span(), "tunnel.dscp", "\"copy\" or a number from \"0\" to \"63\" is possible");
                OuterDscp::Copy
            }
        },
    };
    let replay_window = c.in_range(file.replay_window.as_ref(), "tunnel.replay_window", 1024, (0, 65_536));
    if let Some(text) = file.replay_window.as_ref().filter(|_| (1..32).contains(&replay_window)) {
        c.add(&text.span(), "tunnel.replay_window", "0 (no check) or 32 to 65536 packets are possible");
    }
    let (local, remote) = (c.address(&file.local, "tunnel.local"), c.address(&file.remote, "tunnel.remote"));
    if let (Some(local), Some(remote)) = (local, remote)
        && local.is_ipv4() != remote.is_ipv4()
    {
        c.add(&file.remote.span(), "tunnel.remote", format!("it is not of the family of local = {local}"));
    }
    let local_ts = selectors(c, &file.local_ts, "tunnel.local_ts");
    let remote_ts = selectors(c, &file.remote_ts, "tunnel.remote_ts");
    let proposal = proposal(c, &file, protocol, allow_weak);
    let is_encapsulated = encap.unwrap_or(protocol == SaProtocol::Esp);
    if let Some(text) = file.encap.as_ref().filter(|_| protocol == SaProtocol::Ah && is_encapsulated) {
        c.add(&text.span(), "tunnel.encap", "AH cannot travel in UDP; use \"none\"");
    }
    let manual = file.manual.zip(proposal).and_then(|(manual, proposal)| keys(c, &manual, proposal));
    let proposal = proposal?;
    Some(TunnelConfig {
        name: file.name.get_ref().clone(),
        protocol,
        mode,
        local: local?,
        remote: remote?,
        local_ts,
        remote_ts,
        proposal,
        is_encapsulated,
        remote_port: file.remote_port.unwrap_or(NAT_PORT),
        esn: file.esn || proposal.esn,
        replay_window,
        lifetime: Lifetime { soft: limits(file.soft), hard: limits(file.hard) },
        df,
        dscp,
        ecn: if file.ecn.unwrap_or(true) { EcnMode::Normal } else { EcnMode::Compatibility },
        tfc_bytes: file.tfc_bytes.unwrap_or(0),
        priority: file.priority.unwrap_or(1000),
        manual,
    })
}

fn proposal(
    c: &mut Checker<'_>,
    file: &file::Tunnel,
    protocol: SaProtocol,
    allow_weak: bool,
) -> Option<Proposal> {
    let span = file.esp_proposal.span();
    let proposal: Proposal = c.read(&file.esp_proposal, "tunnel.esp_proposal")?;
    if protocol == SaProtocol::Esp && proposal.transform.is_weak() && !allow_weak {
        let what = format!(
            "{proposal} is weak (no encryption, no integrity, or a broken algorithm); take aes128gcm16, or set \
             allow_weak = true in [gateway]"
        );
        c.add(&span, "tunnel.esp_proposal", what);
    }
    let is_integrity_alone = proposal.transform.cipher_key_len() == 0;
    if protocol == SaProtocol::Ah && !is_integrity_alone {
        c.add(&span, "tunnel.esp_proposal", "AH takes an integrity algorithm alone, such as sha256");
    }
    Some(proposal)
}

fn selectors(c: &mut Checker<'_>, list: &Spanned<Vec<Text>>, key: &str) -> Vec<TrafficSelector> {
    if list.get_ref().is_empty() {
        c.add(&list.span(), key, "it is empty; name at least one, such as 10.1.0.0/24");
    }
    list.get_ref().iter().filter_map(|text| c.read(text, key)).collect()
}

fn limits(file: Option<file::Limits>) -> Limits {
    let file = file.unwrap_or_default();
    let time_ns = file.seconds.map(|seconds| seconds.saturating_mul(1_000_000_000));
    Limits { bytes: file.bytes, packets: file.packets, time_ns }
}

fn keys(c: &mut Checker<'_>, file: &file::Manual, proposal: Proposal) -> Option<ManualKeys> {
    for (spi, key) in [(&file.spi_in, "tunnel.manual.spi_in"), (&file.spi_out, "tunnel.manual.spi_out")] {
        if *spi.get_ref() < 256 {
            let what = format!("SPI {:#010x} is reserved; take one above 0x000000ff", spi.get_ref());
            c.add(&spi.span(), key, what);
        }
    }
    let mut material = |secret: &Spanned<file::Secret>, key: &str| {
        let bytes = match hex::decode(secret.get_ref().0.as_str()) {
            Ok(bytes) => bytes,
            Err(error) => {
                c.add(&secret.span(), key, format!("no hexadecimal number: {error}"));
                return None;
            }
        };
        KeyMaterial::new(proposal.transform, bytes)
            .map_err(|error| c.add(&secret.span(), key, format!("{proposal}: {error}")))
            .ok()
    };
    let keys_in = material(&file.key_in, "tunnel.manual.key_in");
    let keys_out = material(&file.key_out, "tunnel.manual.key_out");
    Some(ManualKeys {
        spi_in: *file.spi_in.get_ref(),
        spi_out: *file.spi_out.get_ref(),
        keys_in: keys_in?,
        keys_out: keys_out?,
    })
}
