//! What a port at an Ethernet interface has in the configuration.

use convoy_settings::{Checker, tables};

use super::{LinkConfig, LinkTakes};
use crate::backend::{Context, Entry, PortTraits, Queues, Side};
use crate::{IKE_PORT, NATT_PORT, PortConfig, PortKind};

tables! {
    /// Its own keys.
    pub LinkKeys {
        interface: String,
        udp_port: u16,
    }
}

/// The settings of such a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkSettings {
    /// The kernel's name of the interface.
    pub(crate) interface: String,
    /// Its UDP port of ESP in UDP, where it is outside.
    pub(crate) udp_port: u16,
}

/// What holds for all such ports.
pub(crate) const fn traits() -> PortTraits {
    PortTraits {
        side: Side::AsNamed,
        carries_udp: true,
        carries_native: true,
        carries_ike: false,
        carries_v6: true,
        queues: Queues::EachWorker,
        hears_reports: true,
        is_engine: false,
        why_alone: None,
        // Networks that a reload adds go into maps of the kernel.
        system_calls: &[libc::SYS_bpf],
    }
}

impl LinkSettings {
    /// Checks what the file says of a port of this kind.
    pub(crate) fn check(kind: PortKind, keys: &LinkKeys, entry: &Entry<'_>, c: &mut Checker<'_>) -> Self {
        if entry.lacks("interface", keys.interface.is_some()) {
            let what = format!(
                "an {kind} port needs interface = \"eth1\", and address = [\"192.0.2.1\"], which the interface has"
            );
            entry.add(c, &what);
        }
        entry.check_socket_addresses(c);
        for (text, _) in entry.addresses.iter().filter(|(_, address)| address.addr().is_unspecified()) {
            let what = "list the address itself; only a port of kind \"udp\" can use all addresses";
            c.add(&text.span(), "port.address", what);
        }
        let udp_port = c.in_range(keys.udp_port.as_ref(), "port.udp_port", NATT_PORT, (1, u16::MAX));
        if let Some(text) = keys.udp_port.as_ref().filter(|_| udp_port == IKE_PORT) {
            c.add(&text.span(), "port.udp_port", "port 500 is for IKE and must not carry ESP (RFC 3948)");
        }
        c.interface_is_there(keys.interface.as_ref(), "port.interface");
        let interface = c.interface(keys.interface.as_ref(), "port.interface").unwrap_or_default();
        Self { interface, udp_port }
    }

    /// What a port with these settings is made from.
    pub(crate) fn config(&self, port: &PortConfig, context: &Context) -> LinkConfig {
        let takes = if port.is_outside {
            LinkTakes::Protected {
                addresses: port.plain_addresses(),
                udp_port: self.udp_port,
                // With charon, or beside a port over the kernel's sockets, somebody else has it.
                holds_port: context.ike_port.is_none() && context.is_only_outside,
            }
        } else {
            LinkTakes::Plaintext { networks: context.networks.clone() }
        };
        LinkConfig {
            name: port.name.clone(),
            kind: port.kind(),
            interface: self.interface.clone(),
            takes,
            mtu: port.is_outside.then_some(context.mtu.into()),
            queues: context.workers,
            reports: context.reports.clone(),
            mark: context.mark,
        }
    }
}
