//! The `af_packet` port in the configuration.

use super::AfPacket;
use crate::PortError;
use crate::contract::Opened;
use crate::link::{By, LinkConfig, LinkSettings};

/// The settings of an `af_packet` port.
pub type AfPacketSettings = LinkSettings<PacketSockets>;

/// The transport of its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketSockets;

impl By for PacketSockets {
    const WORD: &'static str = "af_packet";

    fn open(config: &LinkConfig) -> Result<Opened, PortError> {
        let (queues, reopening) = AfPacket::open(config)?;
        Ok(Opened { reopening: Some(reopening), ..Opened::of(queues) })
    }
}
