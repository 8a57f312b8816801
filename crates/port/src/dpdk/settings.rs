//! The `dpdk` port in the configuration.

use std::net::{Ipv4Addr, Ipv6Addr};

use convoy_packet::MacAddress;
use convoy_settings::{Checker, Text, tables};

use crate::contract::{Backend, CheckedPort, Opened, PortContext, PortSide, PortTraits, QueueCount};
use crate::l2_host::keys::{check_addresses, gateway, gateway_v6, mac};
use crate::{PortConfig, PortError};

/// The longest name of a `net_ring` device, in bytes: the driver names its rings after it, and
/// DPDK's names of rings are short.
const LONGEST_RING_NAME: usize = 17;
/// Frames that a queue holds each way, by default.
const DESCRIPTORS: u32 = 1024;

tables! {
    /// Its own keys.
    pub DpdkKeys {
        device: String,
        gateway: String,
        gateway_v6: String,
        mac: String,
        descriptors: u32,
    }
}

/// The settings of a `dpdk` port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DpdkSettings {
    /// DPDK's name of the device, with its arguments if DPDK is to create it
    /// (`net_af_packet0,iface=eth1`), or a PCI address.
    pub device: String,
    /// The router to what is not on its link.
    pub gateway: Option<Ipv4Addr>,
    /// The router of IPv6.
    pub gateway_v6: Option<Ipv6Addr>,
    /// Its Ethernet address; by default the device's own.
    pub mac: Option<MacAddress>,
    /// Frames that each queue holds, each way.
    pub descriptors: u32,
}

impl Backend for DpdkSettings {
    type Keys = DpdkKeys;

    const WORD: &'static str = "dpdk";

    const TRAITS: PortTraits = PortTraits {
        side: PortSide::AsNamed,
        carries_udp: true,
        carries_native: true,
        carries_ike: true,
        queues: QueueCount::EachWorker,
        hears_reports: false,
        is_engine: false,
        is_interface: false,
        uses_kernel_routes: false,
        is_beside_kernel: false,
        has_ike_socket: false,
        why_alone: Some("it carries both ESP in UDP and native ESP"),
        // The calls of virtual devices are among those of every gateway; others are accessed
        // through their registers.
        system_calls: &[],
    };

    fn check(keys: &DpdkKeys, entry: &CheckedPort<'_>, c: &mut Checker<'_>) -> Self {
        check_addresses(entry, c);
        if entry.lacks_address() || entry.lacks("device", keys.device.is_some()) {
            let what = "a dpdk port needs device = \"0000:1a:00.0\", or a virtual device such as \"net_af_packet0,iface=eth1\", and \
                        address = [\"192.0.2.1/24\"]";
            entry.add(c, what);
        }
        if let Some(text) = &keys.device {
            device_name(c, text);
        }
        Self {
            device: keys.device.as_ref().map(|text| text.get_ref().clone()).unwrap_or_default(),
            gateway: keys.gateway.as_ref().and_then(|text| gateway(c, text)),
            gateway_v6: keys.gateway_v6.as_ref().and_then(|text| gateway_v6(c, text)),
            mac: keys.mac.as_ref().and_then(|text| mac(c, text)),
            descriptors: c.in_range(keys.descriptors.as_ref(), "port.descriptors", DESCRIPTORS, 64..=16_384),
        }
    }

    fn dpdk_device(&self) -> Option<&str> {
        Some(&self.device)
    }

    fn forwards(&self) -> bool {
        true
    }

    fn open(&self, port: &PortConfig, context: &PortContext) -> Result<Opened, PortError> {
        open(self, port, context)
    }
}

fn device_name(c: &mut Checker<'_>, text: &Text) {
    let name = text.get_ref().split(',').next().unwrap_or_default();
    if name.is_empty() {
        let what = "name a device, \"0000:1a:00.0\" or \"net_af_packet0,iface=eth1\"";
        c.add(&text.span(), "port.device", what);
    } else if name.starts_with("net_ring") && name.len() > LONGEST_RING_NAME {
        let what = format!(
            "{name:?} has {} characters, and the name of a net_ring device has at most {LONGEST_RING_NAME}; \
             write \"net_ring0\"",
            name.len()
        );
        c.add(&text.span(), "port.device", what);
    }
}

#[cfg(feature = "dpdk")]
use super::open::open;

#[cfg(not(feature = "dpdk"))]
fn open(_: &DpdkSettings, port: &PortConfig, _: &PortContext) -> Result<Opened, PortError> {
    let reason = "this program was built without DPDK; build it with --features dpdk and DPDK 22.11 or later \
        (docs/reference/ports.md)";
    Err(PortError::Invalid { port: port.name.clone(), reason: reason.to_owned() })
}
