//! The `pcap` port in the configuration.

use std::path::PathBuf;

use convoy_settings::{Checker, Text, tables};

use super::Pcap;
use crate::contract::{Backend, CheckedPort, Opened, PortContext, PortSide, PortTraits, QueueCount};
use crate::{PortConfig, PortError};

tables! {
    /// Its own keys.
    pub PcapKeys {
        read: String,
        write: String,
    }
}

/// The settings of a `pcap` port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PcapSettings {
    /// The capture that is received.
    pub read: Option<PathBuf>,
    /// The capture to which is written what is sent.
    pub write: Option<PathBuf>,
}

impl Backend for PcapSettings {
    type Keys = PcapKeys;

    const WORD: &'static str = "pcap";

    const TRAITS: PortTraits = PortTraits {
        side: PortSide::AsNamed,
        carries_udp: true,
        carries_native: true,
        carries_ike: false,
        queues: QueueCount::One,
        hears_reports: false,
        is_engine: false,
        is_interface: false,
        uses_kernel_routes: false,
        is_beside_kernel: false,
        has_ike_socket: false,
        why_alone: None,
        system_calls: &[],
    };

    fn check(keys: &PcapKeys, entry: &CheckedPort<'_>, c: &mut Checker<'_>) -> Self {
        if entry.lacks("read", keys.read.is_some()) && entry.lacks("write", keys.write.is_some()) {
            entry.add(c, "a pcap port needs read = \"A.pcap\", write = \"B.pcap\", or both");
        }
        let path = |text: &Option<Text>| text.as_ref().map(|text| text.get_ref().into());
        Self { read: path(&keys.read), write: path(&keys.write) }
    }

    fn open(&self, port: &PortConfig, _: &PortContext) -> Result<Opened, PortError> {
        let pcap = Pcap::open(&port.name, self.read.as_deref(), self.write.as_deref())?;
        Ok(Opened::of(vec![if port.is_outside { pcap.completing_udp_checksums() } else { pcap }]))
    }
}
