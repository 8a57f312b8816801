//! `[[interface]]`: inside interfaces that certain tunnels have for themselves.

use std::collections::HashSet;
use std::net::IpAddr;

use convoy_port::{PortConfig, TunSettings};
use convoy_settings::{Checker, Text};
use toml::Spanned;

use super::TunnelConfig;
use super::file::{self, File};

/// Linux gives no IPv6 address to an interface whose MTU is less than IPv6's least (RFC 8200
/// section 5).
const LEAST_V6_MTU: u16 = 1280;
/// Interfaces, at most: a frame has 16 bits for the number, and 0 is the shared one.
const MOST: usize = u16::MAX as usize - 1;

/// The inside interface of certain tunnels: the kernel's routes decide what they protect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// The kernel's name of it.
    pub name: String,
    /// Addresses with prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its MTU in bytes; `None` is what its tunnels leave.
    pub mtu: Option<u16>,
    /// charon's number of it (`if_id_in` and `if_id_out` in swanctl.conf).
    pub if_id: Option<u32>,
    /// Packets that the kernel holds until the gateway reads them; `None` leaves what Linux chose.
    pub kernel_queue_packets: Option<u32>,
}

impl InterfaceConfig {
    fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            addresses: Vec::new(),
            mtu: None,
            if_id: None,
            kernel_queue_packets: None,
        }
    }

    /// Its port, which this worker reads, or all of them.
    pub fn port(&self, reader: Option<usize>) -> PortConfig {
        PortConfig {
            name: self.name.clone(),
            is_outside: false,
            addresses: self.addresses.clone(),
            settings: TunSettings {
                device: self.name.clone(),
                mtu: self.mtu,
                reader,
                kernel_queue_packets: self.kernel_queue_packets,
            }
            .into(),
        }
    }
}

/// All interfaces: those with a table, then those that only tunnels name.
pub(super) fn interfaces(
    c: &mut Checker<'_>,
    file: &File,
    tunnels: &[(&file::Tunnel, TunnelConfig)],
) -> Vec<InterfaceConfig> {
    c.unique(file.interface.iter().map(|entry| entry.name.as_ref()), "interface.name");
    let mut all: Vec<InterfaceConfig> =
        file.interface.iter().filter_map(|entry| interface(c, entry)).collect();
    let unread = file.interface.len() - all.len();
    for (entry, tunnel) in tunnels {
        let Some(name) = &tunnel.interface else { continue };
        if unread == 0 && !all.iter().any(|known| known.name == *name) {
            c.interface_is_tun(entry.interface.as_ref(), "tunnel.interface");
            all.push(InterfaceConfig::plain(name));
        }
    }
    differ_from_ports(c, file);
    if_ids_fit(c, file);
    if let Some(entry) = file.interface.last().filter(|_| all.len() > MOST) {
        c.add(
            &entry.at.span,
            "interface",
            format!("there are {} interfaces; at most {MOST} are possible", all.len()),
        );
    }
    all
}

fn interface(c: &mut Checker<'_>, file: &file::Interface) -> Option<InterfaceConfig> {
    let name = c.needed(&file.at, file.name.as_ref(), "interface.name", "\"ipsec-b\"");
    c.interface_is_tun(name, "interface.name");
    let name = c.interface(name, "interface.name");
    let texts = file.address.iter().flat_map(Spanned::get_ref);
    let mut address = |text: &Text| {
        let address = c.prefix(text, "interface.address")?;
        c.v6_is_possible(text, address.addr(), file.name.as_ref(), "interface.address");
        Some(address)
    };
    let addresses: Vec<_> = texts.filter_map(&mut address).collect();
    let mtu = file.mtu.as_ref().map(|mtu| c.in_range(Some(mtu), "interface.mtu", 1400, 576..=u16::MAX));
    let has_v6 = addresses.iter().any(|address| address.addr().is_ipv6());
    if let Some(written) = file.mtu.as_ref().filter(|_| has_v6 && mtu.is_some_and(|mtu| mtu < LEAST_V6_MTU)) {
        let what = "an interface with an IPv6 address needs an MTU of at least 1280 bytes; raise it, or remove the \
             IPv6 address";
        c.add(&written.span(), "interface.mtu", what);
    }
    let packets = (file.kernel_queue_packets.as_ref(), "interface.kernel_queue_packets");
    Some(InterfaceConfig {
        name: name?,
        addresses: addresses.iter().map(|address| (address.addr(), address.prefix_len())).collect(),
        mtu,
        if_id: file.if_id.as_ref().map(|if_id| *if_id.get_ref()),
        kernel_queue_packets: packets.0.map(|_| c.in_range(packets.0, packets.1, 500, 1..=100_000)),
    })
}

/// An interface is neither a port's device nor a port's name.
fn differ_from_ports(c: &mut Checker<'_>, file: &File) {
    let device = |entry: &convoy_port::PortEntry| {
        let keys = entry.kind.as_ref()?.of::<TunSettings>()?;
        keys.device.as_ref().map(|text| text.get_ref().clone())
    };
    let ports: Vec<(Option<String>, Option<String>)> = file
        .port
        .iter()
        .map(|entry| (entry.common.name.as_ref().map(|name| name.get_ref().clone()), device(entry)))
        .collect();
    let own = file.interface.iter().filter_map(|entry| Some((entry.name.as_ref()?, "interface.name")));
    let named = file.tunnel.iter().filter_map(|entry| Some((entry.interface.as_ref()?, "tunnel.interface")));
    let mut clash = |(text, key): (&Text, &str)| {
        let word = text.get_ref();
        for (name, device) in &ports {
            if device.as_ref() == Some(word) || name.as_ref() == Some(word) {
                let what = format!(
                    "{word:?} is a [[port]], which tunnels without an interface share; choose another name, such as \"ipsec-b\""
                );
                c.add(&text.span(), key, what);
            }
        }
    };
    own.chain(named).for_each(&mut clash);
}

/// The names of the interfaces whose children charon chooses by a number.
pub(super) fn by_if_id(file: &File) -> HashSet<&str> {
    let chosen = file.interface.iter().filter(|entry| entry.if_id.is_some());
    chosen.filter_map(|entry| Some(entry.name.as_ref()?.get_ref().as_str())).collect()
}

/// `if_id` is charon's, and tells interfaces apart.
fn if_ids_fit(c: &mut Checker<'_>, file: &File) {
    let key = "interface.if_id";
    let mut seen = HashSet::new();
    for entry in &file.interface {
        let Some(if_id) = &entry.if_id else { continue };
        if *if_id.get_ref() == 0 {
            c.add(&if_id.span(), key, "charon uses 0 for \"no interface\"; choose another number");
        } else if !seen.insert(*if_id.get_ref()) {
            c.add(
                &if_id.span(),
                key,
                format!("another [[interface]] already has the number {}", if_id.get_ref()),
            );
        }
        let has_charon = file.gateway.charon.is_some() || file.gateway.at.unread.contains(&"charon");
        c.only(
            entry.if_id.as_ref(),
            has_charon,
            key,
            "it is only used with charon; add charon = \"/run/convoy/charon.sock\" to [gateway]",
        );
    }
}

/// The interface of a tunnel that has a header of its own: with static keys any, with charon's
/// those `by_if_id`.
pub(super) fn tunnel_interface(
    c: &mut Checker<'_>,
    file: &file::Tunnel,
    has_keys: bool,
    is_transport: bool,
    by_if_id: &HashSet<&str>,
) -> Option<String> {
    let key = "tunnel.interface";
    let name = c.interface(file.interface.as_ref(), key)?;
    let what = "charon chooses the interface of a child by if_id_in and if_id_out of swanctl.conf; give \
                [[interface]] that number as if_id";
    c.only(file.interface.as_ref(), has_keys || by_if_id.contains(&*name), key, what);
    let what = "transport mode carries only packets of the host itself; use mode = \"tunnel\" or \"iptfs\"";
    c.only(file.interface.as_ref(), !is_transport, key, what);
    Some(name)
}
