//! Messages between charon's plugin and the gateway; `charon/PROTOCOL.md` has the layout.
//!
//! Each message is one datagram of a `SOCK_SEQPACKET` socket. Decoding accepts any bytes without a
//! panic, allocates no more than the message has, and accepts exactly what encoding produces.

mod datagram;
mod event;
mod hello;
mod ike_peer;
mod ike_report;
mod policy;
mod record;
mod reply;
mod request;
mod sa;
mod wire;

pub use datagram::Datagram;
pub use event::SaEvent;
pub use hello::{Hello, Role, Welcome};
pub use ike_peer::{IkePeer, KEY_EXCHANGES};
pub use ike_report::{IkeReport, ReportKind};
pub use policy::{PolicyClass, PolicyKind, PolicyRef, PolicySpec, WirePolicyDirection, WireSelector};
pub use record::SaRecord;
pub use reply::{CharonReply, ReplyBody, ReplyStatus};
pub use request::CharonRequest;
pub use sa::{AddSa, Dscp, EncapMode, IptfsOptions, Lifetimes, SaProtocolId, UpdateSa, WireSaId, WireSaKeys};
pub use wire::Message;

/// Version of the protocol. A gateway and a plugin of different versions disconnect with a message.
pub const VERSION: u16 = 4;
/// The longest message on the control and events connections, in bytes.
pub const MESSAGE_BYTES: usize = 1024;
/// The longest message on the IKE connection, in bytes: a header and a UDP datagram.
pub const DATAGRAM_BYTES: usize = 48 + 65_535;
/// The longest cipher or integrity key, in bytes.
pub const KEY_BYTES: usize = 128;
/// The longest name or version, in bytes.
pub const NAME_BYTES: usize = 128;
/// The longest reason, in bytes.
pub const TEXT_BYTES: usize = 256;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The message ends within a field.
    #[error("the message ends too early")]
    Short,
    /// Bytes follow the last field.
    #[error("{0} bytes follow the message")]
    Long(usize),
    /// An unexpected kind of message.
    #[error("message kind {0} is unknown, or not for this connection")]
    Kind(u16),
    /// A field has an invalid value.
    #[error("field `{0}` has an unknown value")]
    Field(&'static str),
    /// The other side speaks another version.
    #[error("protocol version {0} is not supported; this side speaks version {VERSION}")]
    Version(u16),
}

#[cfg(test)]
mod tests;
