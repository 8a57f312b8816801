//! The `af_xdp` port in the configuration.

use convoy_settings::{Checker, tables};

use super::{AfXdp, AfXdpConfig, AfXdpTakes};
use crate::backend::{Backend, Context, Entry, Opened, PortTraits, Queues, Side};
use crate::{IKE_PORT, NATT_PORT, PortConfig, PortError};

tables! {
    /// Its own keys.
    pub AfXdpKeys {
        interface: String,
        udp_port: u16,
    }
}

/// The settings of an `af_xdp` port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfXdpSettings {
    /// The kernel's name of the interface.
    pub interface: String,
    /// Its UDP port of ESP in UDP, where it is outside.
    pub udp_port: u16,
}

impl Backend for AfXdpSettings {
    type Keys = AfXdpKeys;

    const TRAITS: PortTraits = PortTraits {
        side: Side::AsNamed,
        carries_udp: true,
        carries_native: true,
        carries_ike: false,
        queues: Queues::EachWorker,
        hears_reports: true,
        is_engine: false,
        why_alone: None,
        system_calls: &[],
    };

    fn check(keys: &AfXdpKeys, entry: &Entry<'_>, c: &mut Checker<'_>) -> Self {
        if entry.lacks("interface", keys.interface.is_some()) {
            entry.add(c, "an af_xdp port needs interface = \"eth1\", and address = [\"192.0.2.1\"], which the interface has");
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
        let interface = c.interface(keys.interface.as_ref(), "port.interface").unwrap_or_default();
        Self { interface, udp_port }
    }

    fn interface(&self) -> Option<&str> {
        Some(&self.interface)
    }

    fn forwards(&self) -> bool {
        true
    }

    fn udp_port(&self) -> Option<u16> {
        Some(self.udp_port)
    }

    fn open(&self, port: &PortConfig, context: &Context) -> Result<Opened, PortError> {
        let takes = if port.is_outside {
            AfXdpTakes::Protected {
                addresses: port.plain_addresses(),
                udp_port: self.udp_port,
                // With charon, or beside a port over the kernel's sockets, somebody else has it.
                holds_port: context.ike_port.is_none() && context.is_only_outside,
            }
        } else {
            AfXdpTakes::Plaintext { networks: context.networks.clone() }
        };
        let queues = AfXdp::open(&AfXdpConfig {
            name: port.name.clone(),
            interface: self.interface.clone(),
            takes,
            mtu: port.is_outside.then_some(context.mtu.into()),
            queues: context.workers,
            reports: context.reports.clone(),
            mark: context.mark,
        })?;
        Ok(Opened::of(queues))
    }
}
