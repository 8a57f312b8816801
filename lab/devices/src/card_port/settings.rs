//! The `card` port in the configuration.

use std::net::{Ipv4Addr, Ipv6Addr};

use convoy_card::Checks;
use convoy_packet::MacAddress;
use convoy_settings::{Checker, tables};

use super::filter::{self, FilterKeys};
use super::signature::{self, SignatureKeys};
use convoy_port::l2_host::keys::{check_addresses, gateway, gateway_v6, mac};
use convoy_port::{
    Backend, CheckedPort, Opened, PortConfig, PortContext, PortError, PortSide, PortTraits, QueueCount,
};

tables! {
    /// Its own keys.
    pub CardKeys {
        interface: String,
        gateway: String,
        gateway_v6: String,
        mac: String,
        function: String,
        checksum: bool,
        filter_default: String,
        interrupt_frames: u16,
        interrupt_us: u32,
        ;;
        filter: FilterKeys,
        signature: SignatureKeys,
    }
}

/// The settings of a `card` port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardSettings {
    /// The kernel's name of the interface that is its line.
    pub interface: String,
    /// The router to what is not on its line.
    pub gateway: Option<Ipv4Addr>,
    /// The router of IPv6.
    pub gateway_v6: Option<Ipv6Addr>,
    /// Its Ethernet address; by default derived.
    pub mac: Option<MacAddress>,
    /// What the card does besides cryptography.
    pub checks: Checks,
    /// The only function of its slots, by the card's number; `None` leaves the choice to the SAs.
    pub function: Option<u8>,
    /// When the card interrupts; `None` for the driver's default.
    pub interrupts: Option<InterruptSettings>,
}

/// When the card interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptSettings {
    /// After so many frames that it has read or written.
    pub frames: u16,
    /// At the latest so long after the first of them, in microseconds at the card's routed clock.
    pub us: u32,
}

impl Backend for CardSettings {
    type Keys = CardKeys;

    const WORD: &'static str = "card";

    const TRAITS: PortTraits = PortTraits {
        side: PortSide::Outside,
        carries_udp: true,
        carries_native: true,
        carries_ike: true,
        queues: QueueCount::One,
        hears_reports: false,
        is_engine: true,
        is_interface: false,
        uses_kernel_routes: false,
        is_beside_kernel: false,
        has_ike_socket: false,
        why_alone: Some("it carries both ESP in UDP and native ESP"),
        system_calls: &[],
    };

    fn check(keys: &CardKeys, entry: &CheckedPort<'_>, c: &mut Checker<'_>) -> Self {
        check_addresses(entry, c);
        if entry.lacks_address() || entry.lacks("interface", keys.interface.is_some()) {
            let what = "a card port needs interface = \"eth1\", its line, and address = [\"192.0.2.1/24\"]";
            entry.add(c, what);
        }
        c.interface_is_there(keys.interface.as_ref(), "port.interface");
        Self {
            interface: c.interface(keys.interface.as_ref(), "port.interface").unwrap_or_default(),
            gateway: keys.gateway.as_ref().and_then(|text| gateway(c, text)),
            gateway_v6: keys.gateway_v6.as_ref().and_then(|text| gateway_v6(c, text)),
            mac: keys.mac.as_ref().and_then(|text| mac(c, text)),
            checks: checks(keys, c),
            function: keys
                .function
                .as_ref()
                .and_then(|text| c.one_of(Some(text), "port.function", &convoy_card::PROPOSALS)),
            interrupts: interrupts(keys, c),
        }
    }

    fn interface(&self) -> Option<&str> {
        Some(&self.interface)
    }

    fn take_over(&mut self, new: &Self) {
        self.checks.clone_from(&new.checks);
    }

    #[cfg(feature = "card")]
    fn packet_chunks(&self, mtu: u16) -> usize {
        super::port::nic_settings(self.function, mtu.into(), self.interrupts).packet_chunks()
    }

    fn open(&self, port: &PortConfig, context: &PortContext) -> Result<Opened, PortError> {
        open(self, port, context)
    }
}

/// The default of `interrupt_frames`.
const INTERRUPT_FRAMES: u16 = 8;
/// The default of `interrupt_us`.
const INTERRUPT_US: u32 = 5;

fn interrupts(keys: &CardKeys, c: &mut Checker<'_>) -> Option<InterruptSettings> {
    let (frames, us) = (keys.interrupt_frames.as_ref(), keys.interrupt_us.as_ref());
    (frames.is_some() || us.is_some()).then(|| InterruptSettings {
        frames: c.in_range(frames, "port.interrupt_frames", INTERRUPT_FRAMES, 1..=64),
        us: c.in_range(us, "port.interrupt_us", INTERRUPT_US, 1..=1_000),
    })
}

fn checks(keys: &CardKeys, c: &mut Checker<'_>) -> Checks {
    let [outbound, inbound] = filter::tables(&keys.filter, keys.filter_default.as_ref(), c);
    let checksum = keys.checksum.as_ref().is_some_and(|checksum| *checksum.get_ref());
    Checks { outbound, inbound, checksum, signatures: signature::table(&keys.signature, c) }
}

#[cfg(feature = "card")]
fn open(settings: &CardSettings, port: &PortConfig, context: &PortContext) -> Result<Opened, PortError> {
    use std::net::IpAddr;

    use super::{CardConfig, CardPort};
    let gateways = [settings.gateway.map(IpAddr::from), settings.gateway_v6.map(IpAddr::from)];
    let opened = CardPort::open(&CardConfig {
        name: port.name.clone(),
        interface: settings.interface.clone(),
        mac: settings.mac,
        addresses: port.addresses.clone(),
        gateways: gateways.into_iter().flatten().collect(),
        checks: settings.checks.clone(),
        mtu: context.mtu.into(),
        function: settings.function,
        interrupts: settings.interrupts,
    })?;
    let device = Box::new(opened.control());
    Ok(Opened { device: Some(device), ..Opened::of(vec![opened]) })
}

#[cfg(not(feature = "card"))]
fn open(_: &CardSettings, port: &PortConfig, _: &PortContext) -> Result<Opened, PortError> {
    let reason =
        "this program was built without the card; build it with --features card (docs/lab/devices.md)";
    Err(PortError::Invalid { port: port.name.clone(), reason: reason.to_owned() })
}
