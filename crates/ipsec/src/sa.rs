//! Validation that both directions of an SA share.

use std::net::IpAddr;

use convoy_packet::protocol::{AH, ESP};
use convoy_packet::{FrameError, udp};

use crate::algorithm::{Cipher, Transform};
use crate::drops::DropReason;
use crate::sa_config::{Mode, SaConfig, SaProtocol, UdpEncap};

/// Why an SA is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaError {
    /// SPIs up to 255 are reserved (RFC 4303 section 2.1).
    #[error("SPI {spi:#010x} is reserved; use one above 0x000000ff")]
    ReservedSpi {
        /// The SPI.
        spi: u32,
    },
    /// The two ends are of different families.
    #[error("SA {spi:#010x}: local {local} and remote {remote} are of different families")]
    Families {
        /// The SPI.
        spi: u32,
        /// Our end.
        local: IpAddr,
        /// The peer.
        remote: IpAddr,
    },
    /// The replay window is out of range.
    #[error("SA {spi:#010x}: the replay window must be 0 (off) or 32 to 65536 packets, not {window}")]
    ReplayWindow {
        /// The SPI.
        spi: u32,
        /// The configured size.
        window: u32,
    },
    /// AGGFRAG is a payload of ESP.
    #[error("SA {spi:#010x}: AH has no AGGFRAG mode; use ESP")]
    IptfsProtocol {
        /// The SPI.
        spi: u32,
    },
    /// AH takes an integrity algorithm alone, and no UDP.
    #[error(
        "SA {spi:#010x}: AH needs an integrity algorithm and no cipher, and cannot be encapsulated in UDP"
    )]
    Ah {
        /// The SPI.
        spi: u32,
    },
}

/// Checks an SA by itself, without knowledge of others.
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
    if config.protocol == SaProtocol::Ah && config.mode == Mode::Iptfs {
        return Err(SaError::IptfsProtocol { spi });
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

/// Converts a frame error to a drop reason: the frame was too small for what the SA adds.
pub(crate) fn no_room(_: FrameError) -> DropReason {
    DropReason::NoRoom
}

/// Writes a UDP header at the start of `datagram`, over its whole length, with checksum 0: over
/// IPv4 as RFC 3948 section 2.1 has it, over IPv6 as RFC 6935 allows for tunnels.
pub(crate) fn write_udp(datagram: &mut [u8], ports: UdpEncap) {
    udp::write(datagram, ports.local_port, ports.remote_port);
}
