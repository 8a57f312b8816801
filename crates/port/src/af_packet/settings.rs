//! The `af_packet` port in the configuration.

use super::AfPacket;
use crate::backend::Opened;
use crate::link::{By, LinkConfig, LinkSettings};
use crate::{PortError, PortKind};

/// The settings of an `af_packet` port.
pub type AfPacketSettings = LinkSettings<PacketSockets>;

/// The transport of its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketSockets;

impl By for PacketSockets {
    const KIND: PortKind = PortKind::AfPacket;

    fn open(config: &LinkConfig) -> Result<Opened, PortError> {
        AfPacket::open(config).map(Opened::of)
    }
}
