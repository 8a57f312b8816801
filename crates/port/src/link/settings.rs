//! The configuration of a port at an Ethernet interface.

use std::fmt::Debug;

use convoy_settings::{Checker, tables};

use super::{Beside, LinkConfig, LinkTakes};
use crate::contract::{Backend, CheckedPort, Opened, PortContext, PortSide, PortTraits, QueueCount};
use crate::{IKE_PORT, NATT_PORT, PortConfig, PortError};

tables! {
    /// Its own keys.
    pub LinkKeys {
        interface: String,
        udp_port: u16,
    }
}

/// The transport of such a port's frames.
pub trait By: Default + Clone + PartialEq + Debug + Send + Sync + 'static {
    /// The word of the port's kind in the configuration.
    const WORD: &'static str;

    /// Opens the port's queues.
    ///
    /// # Errors
    /// Those of [`Backend::open`].
    fn open(config: &LinkConfig) -> Result<Opened, PortError>;
}

/// The settings of such a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSettings<B> {
    /// The kernel's name of the interface.
    interface: String,
    /// Its UDP port of ESP in UDP, if it is outside.
    udp_port: u16,
    by: B,
}

impl<B: By> Backend for LinkSettings<B> {
    type Keys = LinkKeys;

    const WORD: &'static str = B::WORD;

    const TRAITS: PortTraits = PortTraits {
        side: PortSide::AsNamed,
        carries_udp: true,
        carries_native: true,
        carries_ike: true,
        queues: QueueCount::EachWorker,
        hears_reports: true,
        is_engine: false,
        is_interface: false,
        uses_kernel_routes: true,
        is_beside_kernel: true,
        has_ike_socket: false,
        why_alone: None,
        // Networks added by a reload go into maps of the kernel.
        system_calls: &[libc::SYS_bpf],
    };

    fn check(keys: &LinkKeys, entry: &CheckedPort<'_>, c: &mut Checker<'_>) -> Self {
        let kind = B::WORD;
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
        let udp_port = c.in_range(keys.udp_port.as_ref(), "port.udp_port", NATT_PORT, 1..=u16::MAX);
        if let Some(text) = keys.udp_port.as_ref().filter(|_| udp_port == IKE_PORT) {
            c.add(&text.span(), "port.udp_port", "port 500 is for IKE and must not carry ESP (RFC 3948)");
        }
        c.interface_is_there(keys.interface.as_ref(), "port.interface");
        let interface = c.interface(keys.interface.as_ref(), "port.interface").unwrap_or_default();
        Self { interface, udp_port, by: B::default() }
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

    fn open(&self, port: &PortConfig, context: &PortContext) -> Result<Opened, PortError> {
        let takes = if port.is_outside {
            LinkTakes::Protected {
                addresses: port.plain_addresses(),
                udp_port: self.udp_port,
                beside: match context.ike_port {
                    Some(port) => Beside::Ike(port),
                    None if context.is_only_outside => Beside::Nobody,
                    None => Beside::Others,
                },
            }
        } else {
            LinkTakes::Plaintext { networks: context.networks.clone() }
        };
        B::open(&LinkConfig {
            name: port.name.clone(),
            kind: port.kind(),
            interface: self.interface.clone(),
            takes,
            mtu: port.is_outside.then_some(context.mtu.into()),
            queues: context.workers,
            reports: context.reports.clone(),
            mark: context.mark,
        })
    }
}
