//! `[[tunnel]]` and `[[bypass]]` of a program that is no gateway: tunnels with static keys alone,
//! to peers with addresses that do not change.

use std::collections::HashSet;
use std::path::Path;

use convoy_ipsec::{Action, AdmittedAlgorithms, Policy, PolicyDirection, SaProtocol, Selector, TunnelId};
use convoy_settings::{Checker, ConfigErrors, Reader};
use toml::Spanned;
use toml::de::DeValue;
use zeroize::Zeroizing;

use super::file::{Bypass, Tunnel};
use super::keys::{keys_differ, spis_differ};
use super::overlap::selectors_are_reached;
use super::tunnel::{TunnelEnvironment, everything, tunnel};
use super::values::bypass;
use super::{TunnelConfig, keys_are_readable, opened, text_of};

/// The tables as written.
#[derive(Default)]
pub struct StaticTunnels {
    tunnel: Vec<Tunnel>,
    bypass: Vec<Bypass>,
}

impl StaticTunnels {
    /// The names of the tables.
    pub const TABLES: [&'static str; 2] = ["tunnel", "bypass"];

    /// Reads the tables with this name, which is one of [`TABLES`](Self::TABLES).
    pub fn read(&mut self, reader: &mut Reader<'_>, name: &str, value: Spanned<DeValue<'_>>) {
        match name {
            "tunnel" => self.tunnel = reader.list("tunnel", value),
            _ => self.bypass = reader.list("bypass", value),
        }
    }

    /// The tunnels and the selectors of what passes unprotected. Problems are reported to `c`, and
    /// so is what only a gateway has.
    pub fn check(
        &self,
        c: &mut Checker<'_>,
        admitted: AdmittedAlgorithms,
    ) -> (Vec<TunnelConfig>, Vec<Selector>) {
        c.unique(self.tunnel.iter().map(|tunnel| tunnel.name.as_ref()), "tunnel.name");
        spis_differ(c, &self.tunnel);
        let (by_if_id, has_charon) = (&HashSet::new(), false);
        let environment = TunnelEnvironment { ports: &[], groups: None, by_if_id, admitted, has_charon };
        let entries = self.tunnel.iter();
        let tunnels: Vec<_> =
            entries.filter_map(|entry| Some((entry, tunnel(c, entry, &environment)?))).collect();
        for (entry, tunnel) in &tunnels {
            needs_no_gateway(c, entry, tunnel);
        }
        let bypass: Vec<Selector> = self.bypass.iter().filter_map(|entry| bypass(c, entry)).collect();
        keys_differ(c, &tunnels);
        selectors_are_reached(c, &tunnels, &bypass, false);
        (tunnels.into_iter().map(|(_, tunnel)| tunnel).collect(), bypass)
    }
}

/// Reports what needs a gateway.
fn needs_no_gateway(c: &mut Checker<'_>, file: &Tunnel, tunnel: &TunnelConfig) {
    let span = file.name.as_ref().map_or_else(|| file.at.span.clone(), Spanned::span);
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
    if tunnel.mode == convoy_ipsec::Mode::Iptfs {
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
    if file.monitor.is_some() {
        add("tunnel.monitor", "it is only for a gateway");
    }
}

/// The policies of such tunnels: bypasses first, then the tunnels, whose ids are their places, by
/// priority, and then everything else, which passes unchanged.
pub fn static_policies(tunnels: &[TunnelConfig], bypass: &[Selector]) -> Vec<Policy> {
    let policy = |name: &str, priority, selector, action| Policy {
        name: name.to_owned(),
        priority,
        direction: PolicyDirection::Both,
        interface: 0,
        selector,
        action,
    };
    let first = bypass.iter().map(|selector| policy("bypass", 0, *selector, Action::Bypass));
    let mut all: Vec<Policy> = first.collect();
    for (at, tunnel) in tunnels.iter().enumerate() {
        let action = Action::Protect(TunnelId(at as u32));
        all.extend(tunnel.selectors().map(|pair| policy(&tunnel.name, tunnel.priority, pair, action)));
    }
    let rest = everything().into_iter().map(|side| Selector { local: side, remote: side });
    all.extend(rest.map(|selector| policy("the rest", u32::MAX, selector, Action::Bypass)));
    all
}

/// Reads a file and checks it by `parse`, which says whether it has keys: one with keys that others
/// than its owner may read is refused.
///
/// # Errors
/// [`ConfigErrors`]: those of `parse`, or that the file cannot be read or may be by others.
pub fn load_private<T>(
    path: &Path,
    parse: impl FnOnce(&str, &Zeroizing<String>) -> Result<(T, bool), ConfigErrors>,
) -> Result<T, ConfigErrors> {
    let name = path.display().to_string();
    let (text, mode) = text_of(path, opened(path)?)?;
    let (config, has_keys) = parse(&name, &text)?;
    if mode & 0o077 != 0 && has_keys {
        return Err(keys_are_readable(&name, mode));
    }
    Ok(config)
}
