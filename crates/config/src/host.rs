//! Requirements on the machine that concern no single port or engine: the gateway's user, and the
//! MTU of its links.

use convoy_settings::{Checker, Interface, Spanned};

use super::file::File;
use super::{Config, PortConfig};
use convoy_process::privileges::user_is_missing;

/// Checks the whole configuration against the machine.
pub(super) fn host_fits(c: &mut Checker<'_>, file: &File, config: &Config) {
    let gateway = &file.gateway;
    for (key, user) in [("gateway.user", &gateway.user), ("gateway.charon_user", &gateway.charon_user)] {
        if let Some(user) = user
            && c.environment().has_user(user.get_ref()) == Some(false)
        {
            c.add(&user.span(), key, user_is_missing(user.get_ref()));
        }
    }
    // If some ports are invalid, indices do not match.
    if file.port.len() == config.ports.len() {
        links_are_wide(c, file, config);
    }
}

/// Warns of outside links whose MTU is below the gateway's.
fn links_are_wide(c: &mut Checker<'_>, file: &File, config: &Config) {
    let mut narrow: Vec<(std::ops::Range<usize>, Interface)> = Vec::new();
    let outside = file.port.iter().zip(&config.ports).filter(|(_, port)| port.is_outside);
    for (entry, port) in outside {
        let interfaces = c.interfaces().unwrap_or_default();
        let links = interfaces.iter().filter(|link| is_of(link, port, config));
        for link in links.filter(|link| link.mtu < config.mtu.into()) {
            let at = file.gateway.mtu.as_ref().map_or_else(|| entry.span(), Spanned::span);
            if narrow.iter().all(|(_, known)| known.name != link.name) {
                narrow.push((at, link.clone()));
            }
        }
    }
    for (at, Interface { name, mtu, .. }) in narrow {
        let what = format!(
            "protected packets of up to {} bytes exceed the MTU of interface {name}, which is {mtu}; write mtu \
             = {mtu} in [gateway], or run: ip link set {name} mtu {}",
            config.mtu, config.mtu
        );
        c.warn(&at, "gateway.mtu", what);
    }
}

/// Whether an outside port sends by this link: the one that it names, or the one that has its
/// addresses.
fn is_of(link: &Interface, port: &PortConfig, config: &Config) -> bool {
    if let Some(name) = port.settings.interface() {
        return link.name == name;
    }
    let has = |address| link.networks.iter().any(|network| network.addr() == address);
    port.addresses.iter().any(|(address, _)| {
        has(*address) || (address.is_unspecified() && config.tunnels.iter().any(|tunnel| has(tunnel.local)))
    })
}
