//! The `udp` port in the configuration.

use convoy_settings::{Checker, tables};

use super::{UdpConfig, UdpQueue};
use crate::contract::{Backend, CheckedPort, Opened, PortContext, PortSide, PortTraits, QueueCount};
use crate::{IKE_PORT, NATT_PORT, PortConfig, PortError};

tables! {
    /// Its own keys.
    pub UdpKeys {
        udp_port: u16,
    }
}

/// The settings of a `udp` port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSettings {
    /// Its UDP port of ESP in UDP.
    pub udp_port: u16,
}

impl Backend for UdpSettings {
    type Keys = UdpKeys;

    const WORD: &'static str = "udp";

    const TRAITS: PortTraits = PortTraits {
        side: PortSide::Outside,
        carries_udp: true,
        carries_native: false,
        carries_ike: true,
        queues: QueueCount::EachWorker,
        hears_reports: true,
        is_engine: false,
        is_interface: false,
        uses_kernel_routes: true,
        is_beside_kernel: false,
        has_ike_socket: true,
        why_alone: None,
        system_calls: &[],
    };

    fn check(keys: &UdpKeys, entry: &CheckedPort<'_>, c: &mut Checker<'_>) -> Self {
        entry.check_socket_addresses(c);
        let udp_port = c.in_range(keys.udp_port.as_ref(), "port.udp_port", NATT_PORT, 1..=u16::MAX);
        if let Some(text) = keys.udp_port.as_ref().filter(|_| udp_port == IKE_PORT) {
            c.add(&text.span(), "port.udp_port", "port 500 is for IKE and must not carry ESP (RFC 3948)");
        }
        Self { udp_port }
    }

    fn udp_port(&self) -> Option<u16> {
        Some(self.udp_port)
    }

    fn open(&self, port: &PortConfig, context: &PortContext) -> Result<Opened, PortError> {
        let queues = UdpQueue::bind(&UdpConfig {
            name: port.name.clone(),
            addresses: port.plain_addresses(),
            ports: std::iter::once(self.udp_port).chain(context.ike_port).collect(),
            mtu: context.mtu,
            own_ports: context.has_own_ports.then(|| self.udp_port.saturating_add(1)),
            queues: context.workers,
            offloads: true,
            reports: context.reports.clone(),
            mark: context.mark,
        })?;
        let why_not = queues.first().and_then(UdpQueue::why_not_steered);
        let note = why_not.map(|error| {
            format!(
                "the kernel cannot deliver packets to the worker of their SA, so workers \
                 pass them on: {error}"
            )
        });
        Ok(Opened { note, ..Opened::of(queues) })
    }
}
