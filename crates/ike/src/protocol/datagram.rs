//! IKE datagrams, on the IKE connection.

use std::net::SocketAddr;

use super::wire::{FieldReader, FieldWriter, Message};
use super::{DATAGRAM_BYTES, DecodeError};

const DATAGRAM: u16 = 96;

/// A UDP datagram from or to port 500 or 4500, with its payload as it is on the wire: from or to
/// 4500 it begins with the non-ESP marker (RFC 3948 section 2.2), which charon adds and strips
/// itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// What follows the UDP header; at most 65,535 bytes.
    pub payload: Vec<u8>,
}

impl Datagram {
    /// Encodes it.
    pub fn encode(&self) -> Message {
        let payload = &self.payload[..self.payload.len().min(DATAGRAM_BYTES - 48)];
        let mut writer = FieldWriter::new(48 + payload.len(), DATAGRAM, 0);
        writer.host(self.source).host(self.destination).bytes(payload);
        writer.finish()
    }

    /// Decodes it.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (id, mut reader) = FieldReader::of_kind(bytes, DATAGRAM)?;
        if id != 0 {
            return Err(DecodeError::Field("id"));
        }
        let (source, destination, payload) = (reader.host()?, reader.host()?, reader.rest());
        if payload.len() > DATAGRAM_BYTES - 48 {
            return Err(DecodeError::Field("payload"));
        }
        Ok(Self { source, destination, payload: payload.to_vec() })
    }
}
