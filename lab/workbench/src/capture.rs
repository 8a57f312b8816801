//! Reading the capture.

use std::path::Path;

use convoy_capture::Unread;
use convoy_packet::FramePool;
use convoy_port::{Pcap, Port, PortError};

/// The packets of a capture that the demo can use.
#[derive(Default)]
pub(crate) struct Captured {
    /// Whole IP packets, in order.
    pub(crate) packets: Vec<Vec<u8>>,
    /// Unusable packets, by reason.
    pub(crate) unreadable: Unread,
    /// Where it is truncated or damaged, if it is; the rest was not read.
    pub(crate) damage: Option<String>,
}

/// Reads a capture.
///
/// # Errors
/// [`PortError`] if the file cannot be opened or is no capture.
pub(crate) fn read_capture(path: &Path) -> Result<Captured, PortError> {
    let mut port = Pcap::open("capture", Some(path), None)?;
    let mut pool = FramePool::new(64, 64);
    let (mut packets, mut burst) = (Vec::new(), Vec::new());
    while port.receive(&mut pool, 64, &mut burst)? > 0 {
        packets.extend(burst.iter().map(|frame| frame.to_vec()));
        pool.give_back_burst(&mut burst);
    }
    Ok(Captured { packets, unreadable: port.unread(), damage: port.damage().map(ToString::to_string) })
}
