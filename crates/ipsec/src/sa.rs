//! What both directions of an SA share: its checks, and the outer header.

use std::net::IpAddr;

use convoy_packet::protocol::{AH, ESP, UDP};
use convoy_packet::{FrameError, IpHeader, Layout, udp};

use crate::algorithm::{Cipher, Transform};
use crate::drops::DropReason;
use crate::sa_config::{OuterDf, SaConfig, SaEnds, SaProtocol, UdpEncap};
use crate::tos::{EcnMode, OuterDscp};

/// Why an SA cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaError {
    /// SPIs up to 255 are reserved (RFC 4303 section 2.1).
    #[error("SPI {spi:#010x} is reserved; take one above 0x000000ff")]
    ReservedSpi {
        /// The SPI.
        spi: u32,
    },
    /// The two ends are of different families.
    #[error("SA {spi:#010x}: local {local} and remote {remote} are of different families")]
    Families {
        /// The SPI.
        spi: u32,
        /// This side.
        local: IpAddr,
        /// The peer.
        remote: IpAddr,
    },
    /// The replay window is out of range.
    #[error("SA {spi:#010x}: a replay window of {window} packets; 0 (off) or 32 to 65536 are possible")]
    ReplayWindow {
        /// The SPI.
        spi: u32,
        /// What was asked.
        window: u32,
    },
    /// AH takes an integrity algorithm alone, and no UDP.
    #[error("SA {spi:#010x}: AH needs an integrity algorithm without cipher, and no UDP encapsulation")]
    Ah {
        /// The SPI.
        spi: u32,
    },
}

/// Checks what can be checked of an SA without knowing others.
pub(crate) fn validate(config: &SaConfig) -> Result<(), SaError> {
    let spi = config.spi;
    if spi < 256 {
        return Err(SaError::ReservedSpi { spi });
    }
    if config.local.is_ipv4() != config.remote.is_ipv4() {
        return Err(SaError::Families { spi, local: config.local, remote: config.remote });
    }
    if config.replay_window != 0 && !(32..=65_536).contains(&config.replay_window) {
        return Err(SaError::ReplayWindow { spi, window: config.replay_window });
    }
    let integrity_alone =
        matches!(config.keys.transform(), Transform::Chained { cipher: Cipher::Null, integrity: Some(_) });
    if config.protocol == SaProtocol::Ah && (!integrity_alone || config.encap.is_some()) {
        return Err(SaError::Ah { spi });
    }
    Ok(())
}

/// The IP protocol number of an IPsec protocol.
pub(crate) fn number_of(protocol: SaProtocol) -> u8 {
    match protocol {
        SaProtocol::Esp => ESP,
        SaProtocol::Ah => AH,
    }
}

/// Makes a frame error a reason to drop: the frame was too small for what the SA adds.
pub(crate) fn no_room(_: FrameError) -> DropReason {
    DropReason::NoRoom
}

/// Writes a UDP header at the start of `datagram`, over its whole length, with checksum 0: over IPv4 as RFC
/// 3948 section 2.1 has it, over IPv6 as RFC 6935 allows for tunnels.
pub(crate) fn write_udp(datagram: &mut [u8], ports: UdpEncap) {
    udp::write(datagram, ports.local_port, ports.remote_port);
}

/// The outer header of tunnel mode, kept per SA and written per packet.
#[derive(Clone, Debug)]
pub(crate) struct OuterHeader {
    /// Its identification is the next packet's; that matters only where it may be fragmented.
    ip: IpHeader,
    encap: Option<UdpEncap>,
    df: OuterDf,
    dscp: OuterDscp,
    ecn: EcnMode,
}

impl OuterHeader {
    pub(crate) fn new(config: &SaConfig) -> Self {
        let protocol = if config.encap.is_some() { UDP } else { number_of(config.protocol) };
        // Its hop limit is a system parameter (RFC 4301 section 5.1.2.1).
        let ip = IpHeader { identification: 1, ..IpHeader::new(protocol, config.local, config.remote) };
        let SaConfig { encap, df, dscp, ecn, .. } = *config;
        Self { ip, encap, df, dscp, ecn }
    }

    /// An end moved (NAT rebinding, MOBIKE).
    pub(crate) fn set_ends(&mut self, ends: &SaEnds) {
        (self.ip.source, self.ip.destination) = (ends.local, ends.remote);
        self.ip.protocol = if ends.encap.is_some() { UDP } else { ESP };
        self.encap = ends.encap;
    }

    /// Whether it is an IPv6 header.
    pub(crate) fn is_v6(&self) -> bool {
        self.ip.source.is_ipv6()
    }

    /// Bytes before the ESP or AH header.
    pub(crate) fn len(&self) -> usize {
        self.ip.header_len() + self.encap.map_or(0, |_| udp::HEADER_BYTES)
    }

    /// Writes the header at the start of `packet`, whose length is final.
    pub(crate) fn write(&mut self, packet: &mut [u8], inner: &Layout) {
        self.ip.traffic_class = crate::tos::encapsulate(inner.traffic_class, self.dscp, self.ecn);
        self.ip.dont_fragment = match self.df {
            OuterDf::Copy => inner.dont_fragment,
            OuterDf::Set => true,
            OuterDf::Clear => false,
        };
        self.ip.write(packet);
        // Linux puts its own in place of 0 in a packet that comes with its header (raw(7)), which AH would not survive.
        self.ip.identification = self.ip.identification.checked_add(1).unwrap_or(1);
        if let Some(ports) = self.encap {
            write_udp(&mut packet[self.ip.header_len()..], ports);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_outer_header_has_an_identification_of_0_which_linux_replaces_under_ah() {
        let ends = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().expect("an address"));
        let mut header = OuterHeader {
            ip: IpHeader { identification: 1, ..IpHeader::new(ESP, ends[0], ends[1]) },
            encap: None,
            df: OuterDf::Clear,
            dscp: OuterDscp::Copy,
            ecn: EcnMode::default(),
        };
        let mut packet = [0; 20];
        let inner = {
            header.ip.write(&mut packet);
            Layout::parse(&packet).expect("a packet")
        };
        for _ in 0..=u32::from(u16::MAX) + 1 {
            header.write(&mut packet, &inner);
            assert_ne!(packet[4..6], [0, 0]);
        }
    }
}
