//! The `raw` port in the configuration.

use convoy_settings::{Checker, tables};

use super::Raw;
use crate::contract::{Backend, CheckedPort, Opened, PortContext, PortSide, PortTraits, QueueCount};
use crate::taken::raw_protocol_taken;
use crate::{PortConfig, PortError};

tables! {
    /// It has no keys of its own.
    pub RawKeys {}
}

/// The settings of a `raw` port: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawSettings;

impl Backend for RawSettings {
    type Keys = RawKeys;

    const WORD: &'static str = "raw";

    const TRAITS: PortTraits = PortTraits {
        side: PortSide::Outside,
        carries_udp: false,
        carries_native: true,
        carries_ike: false,
        queues: QueueCount::EachWorker,
        hears_reports: true,
        is_engine: false,
        is_interface: false,
        uses_kernel_routes: true,
        is_beside_kernel: false,
        has_ike_socket: false,
        why_alone: None,
        system_calls: &[],
    };

    fn check(_: &RawKeys, entry: &CheckedPort<'_>, c: &mut Checker<'_>) -> Self {
        entry.check_socket_addresses(c);
        for (text, _) in entry.addresses.iter().filter(|(_, address)| address.addr().is_unspecified()) {
            let what = "list the address itself; only a port of kind \"udp\" can use all addresses";
            c.add(&text.span(), "port.address", what);
        }
        Self
    }

    /// The kernel delivers every packet to all raw sockets of its protocol, so it would let two
    /// gateways share an address.
    fn open(&self, port: &PortConfig, context: &PortContext) -> Result<Opened, PortError> {
        let addresses = port.plain_addresses();
        let taken = addresses.iter().find_map(|address| Some((address, raw_protocol_taken(*address)?)));
        if let Some((address, protocol)) = taken {
            let reason = format!(
                "another program, perhaps another gateway, uses IP protocol {protocol} at {address}; stop it \
                 (`ss -lwnp` names it)"
            );
            return Err(PortError::Invalid { port: port.name.clone(), reason });
        }
        let PortContext { reports, mtu, workers, mark, .. } = context;
        Ok(Opened::of(Raw::bind(&port.name, &addresses, reports, (*mtu).into(), *workers, *mark)?))
    }
}
