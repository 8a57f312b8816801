//! The configuration of `convoy-lab nic`: the card as an interface of the kernel.

use std::net::IpAddr;
use std::path::Path;

use convoy_config::{StaticTunnels, ThisMachine, TunnelConfig, load_private, static_policies};
use convoy_ipsec::{AdmittedAlgorithms, Policy, Selector};
use convoy_settings::{
    Checker, ConfigErrors, HostEnvironment, Problem, Reader, Severity, Source, Spanned, Text, in_order,
    tables, unknown,
};

/// The interface's name unless it is given.
const DEVICE: &str = "grip0";

tables! {
    /// `[nic]`.
    pub(crate) NicKeys {
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
        load_private(path, |name, text| {
            let config = Self::parse_at(name, text, &ThisMachine)?;
            let has_keys = !config.tunnels.is_empty();
            Ok((config, has_keys))
        })
    }

    /// Checks a configuration given as text; `name` replaces the file's in errors.
    ///
    /// # Errors
    /// Those of [`load`](Self::load).
    pub fn parse_at(name: &str, text: &str, environment: &dyn HostEnvironment) -> Result<Self, ConfigErrors> {
        let source = Source::new(name, text);
        let (file, problems) = NicFile::read(&source).map_err(ConfigErrors)?;
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
        static_policies(&self.tunnels, &self.bypass)
    }
}

/// The file as written.
#[derive(Default)]
struct NicFile {
    nic: NicKeys,
    tunnels: StaticTunnels,
}

impl NicFile {
    const TABLES: [&'static str; 3] = ["nic", "tunnel", "bypass"];

    fn read(source: &Source<'_>) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let (mut reader, tables) = Reader::new(source)?;
        let mut file = Self::default();
        for (key, value) in tables {
            match key.get_ref().as_ref() {
                "nic" => file.nic = reader.table("nic", value).unwrap_or_default(),
                name if StaticTunnels::TABLES.contains(&name) => file.tunnels.read(&mut reader, name, value),
                other => reader.add(&key.span(), other, &unknown("table", other, &Self::TABLES)),
            }
        }
        Ok((file, reader.into_problems()))
    }

    fn check(&self, c: &mut Checker<'_>) -> Option<NicConfig> {
        let nic = &self.nic;
        let interface = c.needed(&nic.at, nic.interface.as_ref(), "nic.interface", "\"eth1\"");
        c.interface_is_there(interface, "nic.interface");
        let addresses = nic.address.iter().flat_map(Spanned::get_ref);
        let addresses = addresses.filter_map(|text| c.prefix(text, "nic.address"));
        let addresses = addresses.map(|address| (address.addr(), address.prefix_len())).collect();
        let is_set = |key: &Option<Spanned<bool>>| key.as_ref().is_some_and(|value| *value.get_ref());
        let (tunnels, bypass) = self.tunnels.check(
            c,
            match is_set(&nic.allow_weak) {
                true => AdmittedAlgorithms::All,
                false => AdmittedAlgorithms::Strong,
            },
        );
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
                .and_then(|text| c.one_of(Some(text), "nic.function", &convoy_card::PROPOSALS)),
            checksum: is_set(&nic.checksum),
            tunnels,
            bypass,
            warnings: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests;
