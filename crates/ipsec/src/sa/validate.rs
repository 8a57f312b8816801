//! Validation that both directions of an SA share.

use std::net::IpAddr;

use crate::sa::algorithm::{Cipher, Transform};
use crate::sa::config::{Mode, SaConfig};
use crate::sa::id::SaProtocol;

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
