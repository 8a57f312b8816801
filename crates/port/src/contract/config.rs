//! `[[port]]`: what all ports have, and the settings of each kind.

use std::net::IpAddr;

use convoy_settings::{Checker, OfKind, Spanned, Text, tables};
use ipnet::IpNet;

use super::backend::{CheckedPort, Opened, PortContext, PortSide, PortTraits};
use super::interface::PortError;
use super::kind::{PortKeys, PortKind, PortSettings};

tables! {
    /// The keys common to all ports, beside `kind`.
    pub PortCommon {
        name: String,
        side: String,
        address: Vec<Text>,
    }
}

/// One `[[port]]` as written.
pub type PortEntry = OfKind<PortCommon, PortKeys>;

/// One port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Unique.
    pub name: String,
    /// Whether it is on the protected side.
    pub is_outside: bool,
    /// Addresses with prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The settings of its kind.
    pub settings: PortSettings,
}

impl PortConfig {
    /// Checks a port's table; `None` if it does not even say which port it is.
    pub fn check(c: &mut Checker<'_>, entry: &PortEntry) -> Option<Self> {
        let common = &entry.common;
        let name = c.needed(&common.at, common.name.as_ref(), "port.name", "\"outside\"");
        let addresses: Vec<(&Text, IpNet)> = common
            .address
            .iter()
            .flat_map(Spanned::get_ref)
            .filter_map(|text| c.prefix(text, "port.address").map(|address| (text, address)))
            .collect();
        let keys = entry.kind.as_ref()?;
        let table = CheckedPort {
            at: &common.at,
            kind: entry.span(),
            has_address: common.address.as_ref().is_some_and(|list| !list.get_ref().is_empty()),
            addresses: &addresses,
        };
        let settings = keys.check(&table, c);
        let name = name?;
        Some(Self {
            name: name.get_ref().clone(),
            is_outside: side(c, common, name, keys.traits())?,
            addresses: addresses.iter().map(|(_, address)| (address.addr(), address.prefix_len())).collect(),
            settings,
        })
    }

    /// Its kind.
    pub fn kind(&self) -> PortKind {
        self.settings.kind()
    }

    /// The properties of its kind.
    pub fn traits(&self) -> &'static PortTraits {
        self.settings.traits()
    }

    /// Opens it.
    ///
    /// # Errors
    /// [`PortError`] names the port and what the system refused.
    pub fn open(&self, context: &PortContext) -> Result<Opened, PortError> {
        self.settings.open(self, context)
    }

    /// Its addresses without prefix lengths.
    pub(crate) fn plain_addresses(&self) -> Vec<IpAddr> {
        self.addresses.iter().map(|(address, _)| *address).collect()
    }
}

/// Whether it is outside, by its key, its kind, or its name.
fn side(c: &mut Checker<'_>, common: &PortCommon, name: &Text, traits: &PortTraits) -> Option<bool> {
    if let Some(text) = &common.side {
        return c.one_of(Some(text), "port.side", &[("inside", false), ("outside", true)]);
    }
    match (traits.side, name.get_ref().as_str()) {
        (PortSide::Inside, _) | (PortSide::AsNamed, "inside") => Some(false),
        (PortSide::Outside, _) | (PortSide::AsNamed, "outside") => Some(true),
        _ if common.at.unread.contains(&"side") => None,
        _ => {
            let what = "it is missing; add side = \"inside\" (plaintext) or side = \"outside\" (protected)";
            c.add(&name.span(), "port.side", what);
            None
        }
    }
}
