//! What is known of an SA beside its state.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::drops::SaDrops;
use crate::sa::algorithm::Transform;
use crate::sa::config::{Mode, NatKeepalive, SaConfig, UdpEncap};
use crate::sa::id::{SaDirection, SaProtocol};
use crate::sa::lifetime::Usage;

/// The identity of an SA, in readable form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaName {
    /// Its SPI.
    pub spi: u32,
    /// Its direction.
    pub direction: SaDirection,
    /// ESP or AH.
    pub protocol: SaProtocol,
    /// Our outer address.
    pub local: IpAddr,
    /// The peer's outer address.
    pub remote: IpAddr,
}

impl SaName {
    /// The name of the SA that `config` describes.
    pub fn of(config: &SaConfig) -> Self {
        let SaConfig { spi, direction, protocol, local, remote, .. } = *config;
        Self { spi, direction, protocol, local, remote }
    }

    /// The outer source and destination of its packets.
    pub fn ends(&self) -> (IpAddr, IpAddr) {
        match self.direction {
            SaDirection::Outbound => (self.local, self.remote),
            SaDirection::Inbound => (self.remote, self.local),
        }
    }
}

impl fmt::Display for SaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            SaProtocol::Esp => "ESP",
            SaProtocol::Ah => "AH",
        };
        let (direction, arrow) = match self.direction {
            SaDirection::Outbound => ("outbound", "->"),
            SaDirection::Inbound => ("inbound", "<-"),
        };
        write!(f, "{direction} {protocol} SA {:#010x} ({} {arrow} {})", self.spi, self.local, self.remote)
    }
}

/// What the packet path knows of an SA beside its state; nothing secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SaFacts {
    pub(crate) name: SaName,
    pub(crate) mode: Mode,
    pub(crate) roams: bool,
    pub(crate) encap: Option<UdpEncap>,
    pub(crate) nat_keepalive: NatKeepalive,
    pub(crate) transform: Transform,
    pub(crate) esn: bool,
    pub(crate) tfc_bytes: u16,
}

impl SaFacts {
    pub(crate) fn of(config: &SaConfig) -> Self {
        let SaConfig { mode, roams, encap, nat_keepalive, esn, tfc_bytes, .. } = *config;
        let (name, transform) = (SaName::of(config), config.keys.transform());
        Self { name, mode, roams, encap, nat_keepalive, transform, esn, tfc_bytes }
    }

    /// The peer's end; port 0 where nothing is encapsulated.
    pub(crate) fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.name.remote, self.encap.map_or(0, |encap| encap.remote_port))
    }
}

/// The cold state that both directions share.
pub(crate) struct SaCommon {
    pub(crate) facts: SaFacts,
    /// The tunnel's number.
    pub(crate) tunnel: u32,
    /// Copied to every packet in flight, so that one which outlives its SA is not taken for its
    /// successor's.
    pub(crate) generation: u32,
    /// Lifetime limits and what was reported of them. The amounts used are in the hot state.
    pub(crate) usage: Usage,
    pub(crate) drops: SaDrops,
    /// Whether only packets in flight refer to it any more: its SPI may be reused.
    pub(crate) is_withdrawn: bool,
}
