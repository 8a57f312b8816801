//! The configuration of `convoy nic`: the card as an interface of the kernel.

use std::net::IpAddr;
use std::path::Path;

use convoy_ipsec::{Action, Mode, Policy, PolicyDirection, SaProtocol, Selector, TunnelId};
use convoy_settings::{
    Checker, ConfigErrors, HostEnvironment, Problem, Reader, Severity, Source, Text, in_order, tables,
    unknown,
};

use super::file::{self, Bypass};
use super::keys::{keys_differ, spis_differ};
use super::overlap::selectors_are_reached;
use super::tunnel::{TunnelEnvironment, everything, is_set, tunnel};
use super::values::bypass;
use super::{ThisMachine, TunnelConfig, keys_are_readable, opened, text_of};

/// The interface's name unless it is given.
const DEVICE: &str = "grip0";

tables! {
    /// `[nic]`.
    pub(super) NicKeys {
        interface: String,
        device: String,
        address: Vec<Text>,
        function: String,
        checksum: bool,
        allow_weak: bool,
    }
}

/// A valid configuration.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// The card's line: a Linux interface that is up and has no addresses of the kernel's.
    pub interface: String,
    /// The name of the interface that the kernel gets.
    pub device: String,
    /// Its addresses, each with the length of its network's prefix in bits.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The only function of the card's slots, by the card's number; `None` leaves the choice to the
    /// SAs.
    pub function: Option<u8>,
    /// Whether the card fills in and verifies checksums.
    pub checksum: bool,
    /// Tunnels, in order; each has static keys.
    pub tunnels: Vec<TunnelConfig>,
    /// Selectors, local and remote, of traffic that passes unprotected; they precede all tunnels.
    pub bypass: Vec<Selector>,
    /// Warnings: what is valid, but probably a mistake.
    pub warnings: Vec<Problem>,
}

impl NicConfig {
    /// Reads and checks the file for this machine. One that others than its owner may read is
    /// refused.
    ///
    /// # Errors
    /// [`ConfigErrors`], all of them, each with file, line and key.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let name = path.display().to_string();
        let (text, mode) = text_of(path, opened(path)?)?;
        let config = Self::parse_at(&name, &text, &ThisMachine)?;
        if mode & 0o077 != 0 && !config.tunnels.is_empty() {
            return Err(keys_are_readable(&name, mode));
        }
        Ok(config)
    }

    /// Checks a configuration given as text; `name` replaces the file's in errors.
    ///
    /// # Errors
    /// Those of [`load`](Self::load).
    pub fn parse_at(name: &str, text: &str, environment: &dyn HostEnvironment) -> Result<Self, ConfigErrors> {
        let source = Source::new(name, text);
        let (file, problems) = File::read(&source).map_err(ConfigErrors)?;
        let mut checker = Checker::new(&source, environment, problems);
        let config = file.check(&mut checker);
        let problems = in_order(checker.into_problems());
        match config {
            Some(config) if problems.iter().all(|problem| problem.severity == Severity::Warning) => {
                Ok(Self { warnings: problems, ..config })
            }
            _ => Err(ConfigErrors(problems)),
        }
    }

    /// Its policies: bypasses first, then the tunnels, whose ids are their places, by priority, and
    /// then everything else, which passes unchanged.
    pub fn policies(&self) -> Vec<Policy> {
        let policy = |name: &str, priority, selector, action| Policy {
            name: name.to_owned(),
            priority,
            direction: PolicyDirection::Both,
            interface: 0,
            selector,
            action,
        };
        let first = self.bypass.iter().map(|selector| policy("bypass", 0, *selector, Action::Bypass));
        let mut all: Vec<Policy> = first.collect();
        for (at, tunnel) in self.tunnels.iter().enumerate() {
            let action = Action::Protect(TunnelId(at as u32));
            all.extend(tunnel.selectors().map(|pair| policy(&tunnel.name, tunnel.priority, pair, action)));
        }
        let rest = everything().into_iter().map(|side| Selector { local: side, remote: side });
        all.extend(rest.map(|selector| policy("the rest", u32::MAX, selector, Action::Bypass)));
        all
    }
}

/// The file as written.
#[derive(Default)]
struct File {
    nic: NicKeys,
    tunnel: Vec<file::Tunnel>,
    bypass: Vec<Bypass>,
}

impl File {
    fn read(source: &Source<'_>) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let (mut reader, tables) = Reader::new(source)?;
        let mut file = Self::default();
        for (key, value) in tables {
            match key.get_ref().as_ref() {
                "nic" => file.nic = reader.table("nic", value).unwrap_or_default(),
                "tunnel" => file.tunnel = reader.list("tunnel", value),
                "bypass" => file.bypass = reader.list("bypass", value),
                other => {
                    reader.add(&key.span(), other, &unknown("table", other, &["nic", "tunnel", "bypass"]));
                }
            }
        }
        Ok((file, reader.into_problems()))
    }

    fn check(&self, c: &mut Checker<'_>) -> Option<NicConfig> {
        let nic = &self.nic;
        c.unique(self.tunnel.iter().map(|tunnel| tunnel.name.as_ref()), "tunnel.name");
        spis_differ(c, &self.tunnel);
        let interface = c.needed(&nic.at, nic.interface.as_ref(), "nic.interface", "\"eth1\"");
        c.interface_is_there(interface, "nic.interface");
        let addresses = nic.address.iter().flat_map(toml::Spanned::get_ref);
        let addresses = addresses.filter_map(|text| c.prefix(text, "nic.address"));
        let addresses = addresses.map(|address| (address.addr(), address.prefix_len())).collect();
        let allow_weak = is_set(nic.allow_weak.as_ref(), false);
        let environment = TunnelEnvironment { ports: &[], groups: None, allow_weak, has_charon: false };
        let entries = self.tunnel.iter();
        let tunnels: Vec<_> =
            entries.filter_map(|entry| Some((entry, self::tunnel(c, entry, &environment)?))).collect();
        for (entry, tunnel) in &tunnels {
            is_supported(c, entry, tunnel);
        }
        let bypass: Vec<Selector> = self.bypass.iter().filter_map(|entry| bypass(c, entry)).collect();
        keys_differ(c, &tunnels);
        selectors_are_reached(c, &tunnels, &bypass, false);
        Some(NicConfig {
            interface: c.interface(nic.interface.as_ref(), "nic.interface")?,
            device: nic
                .device
                .as_ref()
                .map_or_else(|| Some(DEVICE.to_owned()), |text| c.interface(Some(text), "nic.device"))?,
            addresses,
            function: nic
                .function
                .as_ref()
                .and_then(|text| c.one_of(Some(text), "nic.function", &convoy_port::CARD_FUNCTIONS)),
            checksum: is_set(nic.checksum.as_ref(), false),
            tunnels: tunnels.into_iter().map(|(_, tunnel)| tunnel).collect(),
            bypass,
            warnings: Vec::new(),
        })
    }
}

/// Reports what needs a gateway.
fn is_supported(c: &mut Checker<'_>, file: &file::Tunnel, tunnel: &TunnelConfig) {
    let span = file.name.as_ref().map_or_else(|| file.at.span.clone(), toml::Spanned::span);
    let mut add = |key: &str, what: &str| c.add(&span, key, what);
    if !tunnel.has_static_keys() {
        add("tunnel.manual", "the interface has static keys alone; add [tunnel.manual], or run a gateway");
    }
    if tunnel.manual.len() > 1 {
        add("tunnel.manual.resources", "there is one worker; remove it, or run a gateway");
    }
    if tunnel.protocol == SaProtocol::Ah {
        add("tunnel.protocol", "the card has no AH; use esp, or run a gateway");
    }
    if tunnel.mode == Mode::Iptfs {
        add("tunnel.mode", "it is only for a gateway; use tunnel or transport");
    }
    if tunnel.remote_name.is_some() {
        add("tunnel.remote", "names are only for a gateway; write the peer's address");
    }
    if tunnel.roams {
        add("tunnel.roaming", "it is only for a gateway");
    }
    if tunnel.interface.is_some() {
        add("tunnel.interface", "it is only for a gateway");
    }
}
