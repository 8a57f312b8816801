//! The gateway's events for charon, on the events connection.

use std::net::SocketAddr;

use super::policy::WireSelector;
use super::sa::SaProtocolId;
use super::wire::{FieldReader, FieldWriter, Message};
use super::{DecodeError, MESSAGE_BYTES};

const EXPIRE: u16 = 64;
const ACQUIRE: u16 = 65;
const MAPPING: u16 = 66;

/// An event; none is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaEvent {
    /// An SA reached a limit of its lifetime.
    Expire {
        /// Its SPI.
        spi: u32,
        /// ESP or AH.
        protocol: SaProtocolId,
        /// Where its packets go.
        destination: SocketAddr,
        /// Whether it has ended; otherwise it must be replaced.
        is_hard: bool,
    },
    /// A packet waits for an SA.
    Acquire {
        /// The policy's.
        reqid: u32,
        /// The resource that is to have an SA of its own (RFC 9611), where others have one; `None`
        /// is the first SA.
        resource: Option<u32>,
        /// The packet's source.
        source: WireSelector,
        /// Its destination.
        destination: WireSelector,
    },
    /// A peer behind a NAT has changed its address or port.
    Mapping {
        /// The SPI of the inbound SA.
        spi: u32,
        /// ESP or AH.
        protocol: SaProtocolId,
        /// Where its packets go: us.
        destination: SocketAddr,
        /// Their new source.
        source: SocketAddr,
    },
}

impl SaEvent {
    /// As bytes.
    pub fn encode(&self) -> Message {
        let new = |kind| FieldWriter::new(MESSAGE_BYTES, kind, 0);
        let mut writer;
        match self {
            Self::Expire { spi, protocol, destination, is_hard } => {
                writer = new(EXPIRE);
                writer.u32(*spi).u8(protocol.number()).u8(u8::from(*is_hard)).zeros(2).host(*destination);
            }
            Self::Acquire { reqid, resource, source, destination } => {
                writer = new(ACQUIRE);
                writer.u32(*reqid).resource(*resource);
                source.write(&mut writer);
                destination.write(&mut writer);
            }
            Self::Mapping { spi, protocol, destination, source } => {
                writer = new(MAPPING);
                writer.u32(*spi).u8(protocol.number()).zeros(3).host(*destination).host(*source);
            }
        }
        writer.finish()
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (kind, id, mut reader) = FieldReader::new(bytes)?;
        if id != 0 {
            return Err(DecodeError::Field("id"));
        }
        let event = match kind {
            EXPIRE => {
                let (spi, protocol) = (reader.u32()?, SaProtocolId::read(&mut reader)?);
                let is_hard = reader.flag("hard")?;
                reader.zeros(2)?;
                Self::Expire { spi, protocol, destination: reader.host()?, is_hard }
            }
            ACQUIRE => Self::Acquire {
                reqid: reader.u32()?,
                resource: reader.resource()?,
                source: WireSelector::read(&mut reader)?,
                destination: WireSelector::read(&mut reader)?,
            },
            MAPPING => {
                let (spi, protocol) = (reader.u32()?, SaProtocolId::read(&mut reader)?);
                reader.zeros(3)?;
                Self::Mapping { spi, protocol, destination: reader.host()?, source: reader.host()? }
            }
            _ => return Err(DecodeError::Kind(kind)),
        };
        reader.end()?;
        Ok(event)
    }
}
