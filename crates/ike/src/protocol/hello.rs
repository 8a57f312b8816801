//! The first message in each direction on every connection.

use super::wire::{FieldReader, FieldWriter, Message};
use super::{DecodeError, MESSAGE_BYTES, NAME_BYTES, ReplyStatus, TEXT_BYTES, VERSION};

const HELLO: u16 = 1;
const WELCOME: u16 = 2;
/// "CNVY", so that a stranger is recognised at once.
const MAGIC: u32 = 0x5956_4e43;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Requests and replies; opened first.
    Control,
    /// Events to charon.
    Events,
    /// IKE datagrams both ways.
    Ike,
}

/// The client and its purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The purpose of the connection.
    pub role: Role,
    /// Random, drawn when the plugin is loaded: the same on all connections of one charon.
    pub session: u64,
    /// charon's version, for the log.
    pub charon: String,
}

/// The first strongSwan whose charon can negotiate IP-TFS (RFC 9347).
const IPTFS_SINCE: [u32; 3] = [6, 0, 2];

impl Hello {
    /// Whether this charon can negotiate IP-TFS, by its version.
    pub fn has_iptfs(&self) -> bool {
        let number = |part: &str| part.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
        let mut parts = self.charon.split('.').map(|part| number(part).unwrap_or(0_u32));
        [(); 3].map(|()| parts.next().unwrap_or(0)) >= IPTFS_SINCE
    }

    /// As bytes.
    pub fn encode(&self) -> Message {
        let mut writer = FieldWriter::new(MESSAGE_BYTES, HELLO, 0);
        let role = match self.role {
            Role::Control => 1,
            Role::Events => 2,
            Role::Ike => 3,
        };
        writer.u32(MAGIC).u16(VERSION).u8(role).u8(0).u64(self.session).text(&self.charon, NAME_BYTES);
        writer.finish()
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`DecodeError`]; of its variants `Version` is for a plugin that is newer or older.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (id, mut reader) = FieldReader::of_kind(bytes, HELLO)?;
        if id != 0 {
            return Err(DecodeError::Field("id"));
        }
        if reader.u32()? != MAGIC {
            return Err(DecodeError::Field("magic"));
        }
        let version = reader.u16()?;
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let role = match reader.u8()? {
            1 => Role::Control,
            2 => Role::Events,
            3 => Role::Ike,
            _ => return Err(DecodeError::Field("role")),
        };
        reader.zeros(1)?;
        let hello = Self { role, session: reader.u64()?, charon: reader.text("charon", NAME_BYTES)? };
        reader.end()?;
        Ok(hello)
    }
}

/// The gateway's answer to a [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// `Ok`, or why the connection is closed now.
    pub status: ReplyStatus,
    /// Random, drawn when the gateway starts: another one means that it has lost everything
    /// installed before.
    pub generation: u64,
    /// The gateway's UDP port for IKE, 500 as a rule.
    pub ike_port: u16,
    /// The gateway's UDP port for IKE and ESP behind a NAT, 4500 as a rule.
    pub natt_port: u16,
    /// The reason for a refusal, for charon's log.
    pub text: String,
}

impl Welcome {
    /// As bytes.
    pub fn encode(&self) -> Message {
        let mut writer = FieldWriter::new(MESSAGE_BYTES, WELCOME, 0);
        writer.u16(self.status.number()).u16(VERSION).u64(self.generation);
        writer.u16(self.ike_port).u16(self.natt_port).text(&self.text, TEXT_BYTES);
        writer.finish()
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (id, mut reader) = FieldReader::of_kind(bytes, WELCOME)?;
        if id != 0 {
            return Err(DecodeError::Field("id"));
        }
        let status = ReplyStatus::of_number(reader.u16()?)?;
        let version = reader.u16()?;
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let (generation, ike_port, natt_port) = (reader.u64()?, reader.u16()?, reader.u16()?);
        let welcome = Self { status, generation, ike_port, natt_port, text: reader.reason()? };
        reader.end()?;
        Ok(welcome)
    }
}
