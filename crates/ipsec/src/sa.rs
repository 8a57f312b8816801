//! What both directions of an SA share: its checks, and the outer header.

use std::net::IpAddr;

use convoy_packet::FrameError;

use crate::algorithm::{Cipher, Transform};
use crate::drops::DropReason;
use crate::fragment::write_ipv4_checksum;
use crate::layout::{AH, ESP, IPV6_HEADER, Layout, UDP};
use crate::sa_config::{OuterDf, SaConfig, SaProtocol, UdpEncap};
use crate::tos::{EcnMode, OuterDscp};

/// Length of a UDP header, in bytes.
pub(crate) const UDP_HEADER: usize = 8;
/// Length of an IPv4 header without options, in bytes.
pub(crate) const IPV4_HEADER: usize = 20;

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

/// Writes the total length into the header at the packet's start, and IPv4's checksum anew.
pub(crate) fn set_length(packet: &mut [u8]) {
    let len = packet.len();
    if packet[0] >> 4 == 4 {
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        let header = usize::from(packet[0] & 15) * 4;
        write_ipv4_checksum(&mut packet[..header]);
    } else {
        packet[4..6].copy_from_slice(&((len - IPV6_HEADER) as u16).to_be_bytes());
    }
}

/// Writes a UDP header at the start of `datagram`, over its whole length, with checksum 0: over IPv4 as RFC
/// 3948 section 2.1 has it, over IPv6 as RFC 6935 allows for tunnels.
pub(crate) fn write_udp(datagram: &mut [u8], ports: UdpEncap) {
    let len = datagram.len() as u16;
    datagram[0..2].copy_from_slice(&ports.local_port.to_be_bytes());
    datagram[2..4].copy_from_slice(&ports.remote_port.to_be_bytes());
    datagram[4..6].copy_from_slice(&len.to_be_bytes());
    datagram[6..8].fill(0);
}

/// Writes an IP header with all but its length and checksum at the start of `packet`, and returns its
/// length. The addresses are of one family.
pub(crate) fn write_ip(packet: &mut [u8], local: IpAddr, remote: IpAddr, protocol: u8) -> usize {
    packet[..if local.is_ipv6() { IPV6_HEADER } else { IPV4_HEADER }].fill(0);
    match (local, remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            packet[0] = 0x45;
            packet[8] = OUTER_HOPS;
            packet[9] = protocol;
            packet[12..16].copy_from_slice(&local.octets());
            packet[16..20].copy_from_slice(&remote.octets());
            IPV4_HEADER
        }
        (local, remote) => {
            let octets = |address: IpAddr| match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                IpAddr::V6(v6) => v6.octets(),
            };
            packet[0] = 0x60;
            packet[6] = protocol;
            packet[7] = OUTER_HOPS;
            packet[8..24].copy_from_slice(&octets(local));
            packet[24..40].copy_from_slice(&octets(remote));
            IPV6_HEADER
        }
    }
}

/// The outer header of tunnel mode, written once per SA and copied per packet.
#[derive(Clone, Debug)]
pub(crate) struct OuterHeader {
    bytes: [u8; IPV6_HEADER],
    len: usize,
    encap: Option<UdpEncap>,
    df: OuterDf,
    dscp: OuterDscp,
    ecn: EcnMode,
    /// IPv4 identification of the next packet; matters only where it may be fragmented.
    id: u16,
}

/// The TTL and hop limit of outer packets (RFC 4301 section 5.1.2.1: a system parameter).
const OUTER_HOPS: u8 = 64;

impl OuterHeader {
    pub(crate) fn new(config: &SaConfig) -> Self {
        let mut bytes = [0; IPV6_HEADER];
        let protocol = if config.encap.is_some() { UDP } else { number_of(config.protocol) };
        let len = write_ip(&mut bytes, config.local, config.remote, protocol);
        let SaConfig { encap, df, dscp, ecn, .. } = *config;
        Self { bytes, len, encap, df, dscp, ecn, id: 0 }
    }

    /// The peer's end moved (NAT rebinding, MOBIKE); the family stays.
    pub(crate) fn set_remote(&mut self, remote: IpAddr, port: Option<u16>) {
        match remote {
            IpAddr::V4(v4) if self.len == IPV4_HEADER => self.bytes[16..20].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) if self.len == IPV6_HEADER => self.bytes[24..40].copy_from_slice(&v6.octets()),
            _ => return,
        }
        if let (Some(ports), Some(port)) = (self.encap.as_mut(), port) {
            ports.remote_port = port;
        }
    }

    /// Whether it is an IPv6 header.
    pub(crate) fn is_v6(&self) -> bool {
        self.len == IPV6_HEADER
    }

    /// Bytes before the ESP or AH header.
    pub(crate) fn len(&self) -> usize {
        self.len + self.encap.map_or(0, |_| UDP_HEADER)
    }

    /// Writes the header at the start of `packet`, whose length is final.
    pub(crate) fn write(&mut self, packet: &mut [u8], inner: &Layout) {
        packet[..self.len].copy_from_slice(&self.bytes[..self.len]);
        let octet = crate::tos::encapsulate(inner.octet, self.dscp, self.ecn);
        if self.len == IPV4_HEADER {
            packet[1] = octet;
            let keep = match self.df {
                OuterDf::Copy => inner.dont_fragment,
                OuterDf::Set => true,
                OuterDf::Clear => false,
            };
            packet[4..6].copy_from_slice(&self.id.to_be_bytes());
            packet[6] = if keep { 0x40 } else { 0 };
            self.id = self.id.wrapping_add(1);
        } else {
            packet[0] = 0x60 | octet >> 4;
            packet[1] = octet << 4;
        }
        if let Some(ports) = self.encap {
            write_udp(&mut packet[self.len..], ports);
        }
        set_length(packet);
    }
}
