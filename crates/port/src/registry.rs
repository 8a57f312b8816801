//! The kinds of port: one row each. Everything else about a kind is in the file of its [`Backend`].

use std::fmt;

use convoy_settings::Checker;

use crate::af_packet::AfPacketSettings;
use crate::af_xdp::AfXdpSettings;
use crate::backend::{Backend, Context, Entry, Opened, PortTraits};
use crate::card::CardSettings;
use crate::dpdk::DpdkSettings;
use crate::pcap::PcapSettings;
use crate::raw::RawSettings;
use crate::tun::TunSettings;
use crate::udp::UdpSettings;
use crate::{PortConfig, PortError};

/// Declares the kinds: each with its word in the configuration, and the type of its settings.
macro_rules! registry {
    ($($(#[$doc:meta])* $kind:ident $word:literal => $settings:ident,)*) => {
        /// The kind of a port.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum PortKind {
            $($(#[$doc])* $kind,)*
            /// In-process queues, for tests and the demo; no configuration names it.
            Memory,
        }

        impl PortKind {
            /// Those that a configuration can name, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Its word in the configuration.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                    Self::Memory => "memory",
                }
            }

            /// The properties of the kind.
            pub const fn traits(self) -> &'static PortTraits {
                match self {
                    $(Self::$kind => &$settings::TRAITS,)*
                    Self::Memory => &crate::memory::TRAITS,
                }
            }
        }

        /// The settings of a port, by its kind.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum PortSettings { $($(#[$doc])* $kind($settings),)* }

        impl PortSettings {
            /// The kind.
            pub const fn kind(&self) -> PortKind {
                match self { $(Self::$kind(_) => PortKind::$kind,)* }
            }

            /// The properties of its kind.
            pub const fn traits(&self) -> &'static PortTraits {
                self.kind().traits()
            }

            /// The kernel's interface that it creates or uses.
            pub fn interface(&self) -> Option<&str> {
                match self { $(Self::$kind(settings) => settings.interface(),)* }
            }

            /// These settings with those of `new` that a running port takes over.
            pub fn reloaded(&self, new: &Self) -> Self {
                let mut all = self.clone();
                match (&mut all, new) {
                    $((Self::$kind(old), Self::$kind(new)) => old.take_over(new),)*
                    _ => {}
                }
                all
            }

            /// The device for which DPDK has to be started.
            pub fn dpdk_device(&self) -> Option<&str> {
                match self { $(Self::$kind(settings) => settings.dpdk_device(),)* }
            }

            /// The kernel's interface into which the networks behind the tunnels are routed.
            pub fn routed_interface(&self) -> Option<&str> {
                match self { $(Self::$kind(settings) => settings.routed_interface(),)* }
            }

            /// Whether it carries packets that the kernel does not forward, so that the gateway
            /// counts their hops.
            pub fn forwards(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.forwards(),)* }
            }

            /// Its MTU in bytes, where it has one of its own.
            pub fn mtu(&self) -> Option<u16> {
                match self { $(Self::$kind(settings) => settings.mtu(),)* }
            }

            /// What it takes of the process's packet memory for frames of its own, in chunks, with
            /// packets of up to `mtu` bytes.
            pub fn packet_chunks(&self, mtu: u16) -> usize {
                match self { $(Self::$kind(settings) => settings.packet_chunks(mtu),)* }
            }

            /// Its UDP port of ESP in UDP, where it has one of its own.
            pub fn udp_port(&self) -> Option<u16> {
                match self { $(Self::$kind(settings) => settings.udp_port(),)* }
            }

            pub(crate) fn open(&self, port: &PortConfig, context: &Context) -> Result<Opened, PortError> {
                match self { $(Self::$kind(settings) => settings.open(port, context),)* }
            }
        }

        convoy_settings::kinds! {
            /// The keys of a port as configured, by its kind.
            pub enum PortKeys like "udp" {
                $($(#[$doc])* $kind $word => <$settings as Backend>::Keys,)*
            }
        }

        impl PortKeys {
            /// The properties of its kind.
            pub const fn traits(&self) -> &'static PortTraits {
                match self { $(Self::$kind(_) => &$settings::TRAITS,)* }
            }

            pub(crate) fn check(&self, entry: &Entry<'_>, c: &mut Checker<'_>) -> PortSettings {
                match self { $(Self::$kind(keys) => PortSettings::$kind($settings::check(keys, entry, c)),)* }
            }
        }
    };
}

registry! {
    /// A Linux TUN interface.
    Tun "tun" => TunSettings,
    /// ESP in UDP, port 4500.
    Udp "udp" => UdpSettings,
    /// IP protocols 50 and 51.
    Raw "raw" => RawSettings,
    /// An Ethernet interface, by AF_XDP.
    AfXdp "af_xdp" => AfXdpSettings,
    /// An Ethernet interface, by packet sockets.
    AfPacket "af_packet" => AfPacketSettings,
    /// An Ethernet device of DPDK's.
    Dpdk "dpdk" => DpdkSettings,
    /// Reads one capture and writes another.
    Pcap "pcap" => PcapSettings,
    /// The card: Ethernet on an interface, ESP encrypted and decrypted inline.
    Card "card" => CardSettings,
}

impl fmt::Display for PortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
