//! How charon's negotiations go: why one fails, or that one has no answer.

use std::net::SocketAddr;

use super::wire::{FieldReader, FieldWriter};
use super::{DecodeError, NAME_BYTES};

/// A report of one negotiation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IkeReport {
    /// Later ones have higher numbers, in whatever order they come.
    pub number: u32,
    /// What happened.
    pub kind: ReportKind,
    /// The other end of IKE.
    pub peer: SocketAddr,
    /// The connection's name in swanctl.conf; empty while a responder does not know it.
    pub connection: String,
}

/// What happened in a negotiation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportKind {
    /// The peer has answered a message that had been sent again.
    Answered,
    /// The peer sent an error notify (RFC 7296 section 3.10.1).
    Received {
        /// The exchange's type.
        exchange: u8,
        /// The notify's.
        notify: u16,
    },
    /// charon sent one.
    Sent {
        /// The exchange's type.
        exchange: u8,
        /// The notify's.
        notify: u16,
    },
    /// A message was sent again, as there was no answer.
    NoAnswer {
        /// How often.
        again: u16,
    },
    /// There was none to the last one either.
    GaveUp,
    /// The peer's name does not resolve.
    NoAddress,
    /// The peer's certificate has expired.
    CertificateExpired {
        /// Its subject.
        subject: String,
    },
    /// It is revoked.
    CertificateRevoked {
        /// Its subject.
        subject: String,
    },
    /// It is not trusted: no issuer, or a policy that it violates.
    CertificateUntrusted {
        /// Its subject.
        subject: String,
    },
}

impl ReportKind {
    /// Kind, exchange type and detail on the wire.
    const fn numbers(&self) -> [u16; 3] {
        match self {
            Self::Answered => [0, 0, 0],
            Self::Received { exchange, notify } => [1, *exchange as u16, *notify],
            Self::Sent { exchange, notify } => [2, *exchange as u16, *notify],
            Self::NoAnswer { again } => [3, 0, *again],
            Self::GaveUp => [4, 0, 0],
            Self::NoAddress => [5, 0, 0],
            Self::CertificateExpired { .. } => [6, 0, 0],
            Self::CertificateRevoked { .. } => [7, 0, 0],
            Self::CertificateUntrusted { .. } => [8, 0, 0],
        }
    }

    fn subject(&self) -> &str {
        match self {
            Self::CertificateExpired { subject }
            | Self::CertificateRevoked { subject }
            | Self::CertificateUntrusted { subject } => subject,
            _ => "",
        }
    }
}

impl IkeReport {
    pub(super) fn write(&self, writer: &mut FieldWriter) {
        let [kind, exchange, detail] = self.kind.numbers();
        writer.u32(self.number).u8(kind as u8).u8(exchange as u8).u16(detail).host(self.peer);
        writer.text(&self.connection, NAME_BYTES).text(self.kind.subject(), NAME_BYTES);
    }

    pub(super) fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let (number, kind, exchange, detail) = (reader.u32()?, reader.u8()?, reader.u8()?, reader.u16()?);
        let peer = reader.host()?;
        let connection = reader.text("connection", NAME_BYTES)?;
        let subject = reader.text("subject", NAME_BYTES)?;
        let kind = match kind {
            0 => ReportKind::Answered,
            1 => ReportKind::Received { exchange, notify: detail },
            2 => ReportKind::Sent { exchange, notify: detail },
            3 => ReportKind::NoAnswer { again: detail },
            4 => ReportKind::GaveUp,
            5 => ReportKind::NoAddress,
            6 => ReportKind::CertificateExpired { subject: subject.clone() },
            7 => ReportKind::CertificateRevoked { subject: subject.clone() },
            8 => ReportKind::CertificateUntrusted { subject: subject.clone() },
            _ => return Err(DecodeError::Field("what")),
        };
        let [_, own_exchange, own_detail] = kind.numbers();
        if exchange != own_exchange as u8 || detail != own_detail || subject != kind.subject() {
            return Err(DecodeError::Field("what"));
        }
        Ok(Self { number, kind, peer, connection })
    }
}
