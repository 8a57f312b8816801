//! The `tun` port in the configuration.

use convoy_settings::{Checker, tables};

use super::{Tun, TunConfig};
use crate::contract::Reopening;
use crate::contract::{Backend, CheckedPort, Opened, PortContext, PortSide, PortTraits, QueueCount};
use crate::{PortConfig, PortError};

/// Linux gives no IPv6 address to an interface whose MTU is less than IPv6's least (RFC 8200
/// section 5).
const LEAST_V6_MTU: u16 = 1280;

tables! {
    /// Its own keys.
    pub TunKeys {
        device: String,
        mtu: u16 => "; outside ports use mtu of [gateway]",
        kernel_queue_packets: u32,
    }
}

/// The settings of a `tun` port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunSettings {
    /// The kernel's name of the device.
    pub device: String,
    /// Its MTU in bytes; `None` is what the tunnels leave.
    pub mtu: Option<u16>,
    /// The worker that alone reads it, if it is the interface of certain tunnels: without a link
    /// until one of them can send.
    pub reader: Option<usize>,
    /// Packets that the kernel holds until the gateway reads them; `None` leaves what Linux chose.
    pub kernel_queue_packets: Option<u32>,
}

impl Backend for TunSettings {
    type Keys = TunKeys;

    const WORD: &'static str = "tun";

    const TRAITS: PortTraits = PortTraits {
        side: PortSide::Inside,
        carries_udp: false,
        carries_native: false,
        carries_ike: false,
        queues: QueueCount::EachWorker,
        hears_reports: false,
        is_engine: false,
        is_interface: true,
        uses_kernel_routes: false,
        is_beside_kernel: false,
        has_ike_socket: false,
        why_alone: None,
        system_calls: &[],
    };

    fn check(keys: &TunKeys, entry: &CheckedPort<'_>, c: &mut Checker<'_>) -> Self {
        if entry.lacks("device", keys.device.is_some()) {
            entry.add(c, "a tun port needs device = \"convoy0\"");
        }
        c.interface_is_tun(keys.device.as_ref(), "port.device");
        for (text, address) in entry.addresses {
            c.v6_is_possible(text, address.addr(), keys.device.as_ref(), "port.address");
        }
        let has_v6 = entry.addresses.iter().any(|(_, address)| address.addr().is_ipv6());
        if let Some(mtu) =
            keys.mtu.as_ref().filter(|mtu| has_v6 && (576..LEAST_V6_MTU).contains(mtu.get_ref()))
        {
            let what = "an interface with an IPv6 address needs an MTU of at least 1280 bytes; raise it, or \
                remove the IPv6 address";
            c.add(&mtu.span(), "port.mtu", what);
        }
        Self {
            reader: None,
            device: c.interface(keys.device.as_ref(), "port.device").unwrap_or_default(),
            mtu: keys.mtu.as_ref().map(|mtu| c.in_range(Some(mtu), "port.mtu", LEAST_V6_MTU, 576..=u16::MAX)),
            kernel_queue_packets: keys
                .kernel_queue_packets
                .as_ref()
                .map(|packets| c.in_range(Some(packets), "port.kernel_queue_packets", 500, 1..=100_000)),
        }
    }

    fn interface(&self) -> Option<&str> {
        Some(&self.device)
    }

    fn routed_interface(&self) -> Option<&str> {
        Some(&self.device)
    }

    fn mtu(&self) -> Option<u16> {
        self.mtu
    }

    fn open(&self, port: &PortConfig, context: &PortContext) -> Result<Opened, PortError> {
        let config = TunConfig {
            name: port.name.clone(),
            device: self.device.clone(),
            addresses: port.addresses.clone(),
            mtu: context.inner_mtu,
            kernel_queue_packets: self.kernel_queue_packets,
            queues: context.workers,
            joins_packets: true,
            has_link: self.reader.is_none(),
            reader: self.reader,
        };
        let queues = Tun::open(&config)?;
        let reopening = Some(Reopening::Tun(Tun::files(&queues, &config)));
        Ok(Opened { reopening, ..Opened::of(queues) })
    }
}
