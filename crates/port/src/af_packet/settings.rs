//! The `af_packet` port in the configuration.

use convoy_settings::Checker;

use super::AfPacket;
use crate::backend::{Backend, Context, Entry, Opened, PortTraits};
use crate::link::{LinkKeys, LinkSettings, traits};
use crate::{PortConfig, PortError, PortKind};

/// The settings of an `af_packet` port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfPacketSettings(LinkSettings);

impl Backend for AfPacketSettings {
    type Keys = LinkKeys;

    const TRAITS: PortTraits = traits();

    fn check(keys: &LinkKeys, entry: &Entry<'_>, c: &mut Checker<'_>) -> Self {
        Self(LinkSettings::check(PortKind::AfPacket, keys, entry, c))
    }

    fn interface(&self) -> Option<&str> {
        Some(&self.0.interface)
    }

    fn forwards(&self) -> bool {
        true
    }

    fn udp_port(&self) -> Option<u16> {
        Some(self.0.udp_port)
    }

    fn open(&self, port: &PortConfig, context: &Context) -> Result<Opened, PortError> {
        Ok(Opened::of(AfPacket::open(&self.0.config(port, context))?))
    }
}
