//! A port's device's work on a packet beside carrying it.

/// What a device does to a packet on its way out, or did on its way in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// Nothing: the bytes are as they seem.
    #[default]
    None,
    /// Outbound: still plaintext; the port's device seals it in flight. The last bytes, as many as
    /// the ICV has, are room for it.
    Seal {
        /// The SA's number at the device.
        sa: u32,
        /// Where the ESP header stands, in bytes from the packet's start.
        esp_start: u16,
        /// The upper half of an extended sequence number; only with ESN.
        seq_high: Option<[u8; 4]>,
    },
    /// Inbound: opened and authenticated by the port's device; the ICV's bytes at the end mean
    /// nothing.
    Opened {
        /// The SA's number at the device.
        sa: u32,
    },
}

impl Offload {
    /// Whether the packet is plaintext that must not leave as it is.
    pub const fn is_unsealed(self) -> bool {
        matches!(self, Self::Seal { .. })
    }
}
