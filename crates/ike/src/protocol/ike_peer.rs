//! Who the peer of a tunnel is, as IKE has found out.

use super::wire::{FieldReader, FieldWriter};
use super::{DecodeError, NAME_BYTES};

/// Key exchanges of one IKE_SA, at most: the first, and seven additional ones (RFC 9370).
pub const KEY_EXCHANGES: usize = 8;

/// The peer of a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IkePeer {
    /// Its identity, as charon prints it; with EAP that of EAP.
    pub identity: String,
    /// Its virtual IPs, separated by spaces.
    pub virtual_ips: String,
    /// How keys were exchanged, by IANA's numbers of IKEv2's transform type 4, in order; 0 is none.
    pub key_exchanges: [u16; KEY_EXCHANGES],
}

impl IkePeer {
    /// Whether anything is known.
    pub fn is_known(&self) -> bool {
        *self != Self::default()
    }

    pub(super) fn write(&self, writer: &mut FieldWriter) {
        for number in self.key_exchanges {
            writer.u16(number);
        }
        writer.text(&self.identity, NAME_BYTES).text(&self.virtual_ips, NAME_BYTES);
    }

    pub(super) fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let mut key_exchanges = [0; KEY_EXCHANGES];
        for number in &mut key_exchanges {
            *number = reader.u16()?;
        }
        let identity = reader.text("identity", NAME_BYTES)?;
        Ok(Self { identity, virtual_ips: reader.text("virtual IPs", NAME_BYTES)?, key_exchanges })
    }
}
