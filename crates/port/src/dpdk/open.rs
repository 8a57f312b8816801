//! Opens a `dpdk` port: the device with a queue pair for each worker.

use std::net::IpAddr;
use std::sync::Arc;

use convoy_dpdk::{DpdkError, Eal, EthernetConfig, is_pci_address};

use super::DpdkSettings;
use super::heard::Heard;
use super::port::DpdkPort;
use crate::contract::{Opened, PortContext};
use crate::l2_host::{HostIdentity, L2Host, PortTakes};
use crate::{PortConfig, PortDescription, PortError};

/// What an operator can do about a missing device.
fn remedy(device: &str) -> &'static str {
    if is_pci_address(device) {
        "bind it to vfio-pci (dpdk-devbind.py --status shows what it is bound to), and build convoy with its driver (docs/reference/ports.md)"
    } else {
        "the name of a virtual device is a driver with a number and arguments, such as \
         net_af_packet0,iface=eth1; docs/reference/ports.md lists the built-in drivers and says how to add one"
    }
}

/// Opens the queues of a port.
pub(super) fn open(
    settings: &DpdkSettings,
    port: &PortConfig,
    context: &PortContext,
) -> Result<Opened, PortError> {
    let invalid = |reason: String| PortError::Invalid { port: port.name.clone(), reason };
    let eal = Eal::running().ok_or_else(|| invalid("DPDK was not started".to_owned()))?;
    let config = EthernetConfig {
        queues: context.workers,
        descriptors: settings.descriptors,
        mtu: context.mtu.into(),
        mac: settings.mac,
        all_groups: port.addresses.iter().any(|(address, _)| address.is_ipv6()),
    };
    let device = eal.ethernet(&settings.device, &config).map_err(|error| match error {
        DpdkError::Device { .. } => invalid(format!("{error}; {}", remedy(&settings.device))),
        error => invalid(error.to_string()),
    })?;
    let takes = if port.is_outside { PortTakes::Own } else { PortTakes::All };
    let gateways = [settings.gateway.map(IpAddr::from), settings.gateway_v6.map(IpAddr::from)];
    let gateways: Vec<IpAddr> = gateways.into_iter().flatten().collect();
    let identity = HostIdentity::new(device.mac, &port.addresses, &gateways, takes).map_err(invalid)?;
    let heard = Arc::new(Heard::new(device.queues.len()));
    let description = PortDescription { name: port.name.clone(), kind: port.kind(), mtu: config.mtu };
    let count = device.queues.len();
    let queues = device.queues.into_iter().enumerate().map(|(number, queue)| {
        let host = L2Host::new(identity.clone(), count);
        DpdkPort::new(description.clone(), host, queue, number, Arc::clone(&heard))
    });
    Ok(Opened::of(queues.collect()))
}
