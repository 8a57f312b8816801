//! The gateway's replies, on the control connection.

use super::request::{GET_SPI, NAME, QUERY_POLICY, QUERY_SA};
use super::wire::{FieldReader, FieldWriter, Message};
use super::{DecodeError, MESSAGE_BYTES, TEXT_BYTES};

/// Set in a reply's kind.
const IS_REPLY: u16 = 0x80;
/// On the wire, for something that was never used.
const NEVER: u32 = u32::MAX;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyStatus {
    /// Done.
    Ok,
    /// Not done.
    Failed,
    /// There is no such SA or policy.
    NotFound,
    /// The gateway cannot do that; charon may find another way.
    NotSupported,
    /// Another gateway of its cluster leads: charon is not to run beside this one now.
    StandsBy,
}

impl ReplyStatus {
    pub(super) const fn number(self) -> u16 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::NotFound => 2,
            Self::NotSupported => 3,
            Self::StandsBy => 4,
        }
    }

    pub(super) const fn of_number(number: u16) -> Result<Self, DecodeError> {
        match number {
            0 => Ok(Self::Ok),
            1 => Ok(Self::Failed),
            2 => Ok(Self::NotFound),
            3 => Ok(Self::NotSupported),
            4 => Ok(Self::StandsBy),
            _ => Err(DecodeError::Field("status")),
        }
    }
}

/// The content of a successful reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyBody {
    /// Nothing.
    Done,
    /// To `GetSpi`.
    Spi(u32),
    /// To `QuerySa`.
    SaUse {
        /// Bytes, as its lifetime counts them.
        bytes: u64,
        /// Packets.
        packets: u64,
        /// Seconds since the last packet; `None` if there was none.
        idle_s: Option<u32>,
    },
    /// To `QueryPolicy`.
    PolicyUse {
        /// Seconds since the last packet; `None` if there was none.
        idle_s: Option<u32>,
    },
}

/// A request's outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CharonReply {
    /// Done.
    Good(ReplyBody),
    /// Not done.
    Refused {
        /// The kind of failure; never `Ok`.
        status: ReplyStatus,
        /// The reason, for charon's log.
        reason: String,
    },
}

impl CharonReply {
    /// Done, without content.
    pub const DONE: Self = Self::Good(ReplyBody::Done);

    /// Not done.
    pub fn refused(status: ReplyStatus, reason: impl Into<String>) -> Self {
        Self::Refused { status, reason: reason.into() }
    }

    /// As bytes, in answer to a request of this kind and number.
    pub fn encode(&self, kind: u16, id: u32) -> Message {
        let mut writer = FieldWriter::new(MESSAGE_BYTES, kind | IS_REPLY, id);
        let body = match self {
            Self::Refused { status, reason } => {
                writer.u16(status.number()).text(reason, TEXT_BYTES);
                return writer.finish();
            }
            Self::Good(body) => body,
        };
        writer.u16(ReplyStatus::Ok.number()).u16(0);
        match *body {
            ReplyBody::Done => {}
            ReplyBody::Spi(spi) => {
                writer.u32(spi);
            }
            ReplyBody::SaUse { bytes, packets, idle_s } => {
                writer.u64(bytes).u64(packets).u32(idle_s.unwrap_or(NEVER));
            }
            ReplyBody::PolicyUse { idle_s } => {
                writer.u32(idle_s.unwrap_or(NEVER));
            }
        }
        writer.finish()
    }

    /// From bytes, with the number of the request that it answers.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<(u32, Self), DecodeError> {
        let (kind, id, mut reader) = FieldReader::new(bytes)?;
        let request = kind & !IS_REPLY;
        if kind & IS_REPLY == 0 || !(GET_SPI..=NAME).contains(&request) {
            return Err(DecodeError::Kind(kind));
        }
        let status = ReplyStatus::of_number(reader.u16()?)?;
        let reason = reader.reason()?;
        let reply = match status {
            ReplyStatus::Ok if reason.is_empty() => Self::Good(read_body(request, &mut reader)?),
            ReplyStatus::Ok => return Err(DecodeError::Field("text")),
            status => Self::Refused { status, reason },
        };
        reader.end()?;
        Ok((id, reply))
    }
}

fn read_body(request: u16, reader: &mut FieldReader<'_>) -> Result<ReplyBody, DecodeError> {
    let idle = |seconds: u32| (seconds != NEVER).then_some(seconds);
    Ok(match request {
        GET_SPI => ReplyBody::Spi(reader.u32()?),
        QUERY_SA => {
            ReplyBody::SaUse { bytes: reader.u64()?, packets: reader.u64()?, idle_s: idle(reader.u32()?) }
        }
        QUERY_POLICY => ReplyBody::PolicyUse { idle_s: idle(reader.u32()?) },
        _ => ReplyBody::Done,
    })
}
