//! Reading the capture.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;

use convoy_capture::{CaptureError, Packets, Reason, Unread};
use convoy_packet::FramePool;

/// Tailroom of a packet's frame in bytes: what ESP may add behind it.
const TAILROOM: usize = 320;

/// Where the demo's captured traffic is.
#[derive(Clone, Debug)]
pub enum DemoCapture {
    /// There is none; all packets are generated.
    Generated,
    /// The bytes of a capture file.
    Bytes(&'static [u8]),
    /// A file.
    File(PathBuf),
}

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

impl Captured {
    /// Reads a capture.
    ///
    /// # Errors
    /// [`CaptureError`] if the file cannot be opened or is no capture.
    pub(crate) fn read(capture: &DemoCapture) -> Result<Self, CaptureError> {
        match capture {
            DemoCapture::Generated => Ok(Self::default()),
            DemoCapture::Bytes(bytes) => Self::of(Packets::new("the built-in capture", *bytes)?),
            DemoCapture::File(path) => Self::of(Packets::<BufReader<File>>::open(path)?),
        }
    }

    fn of<R: Read>(mut reader: Packets<R>) -> Result<Self, CaptureError> {
        let (mut packets, pool) = (Vec::new(), FramePool::new(1, 1));
        while let Some(packet) = reader.next_packet()? {
            if packet.is_truncated() {
                reader.unread_mut().count(Reason::Truncated);
            } else if pool.size_for(packet.bytes.len(), TAILROOM).is_none() {
                reader.unread_mut().count(Reason::TooLarge);
            } else {
                packets.push(packet.bytes.to_vec());
            }
        }
        let damage = reader.damage().map(ToString::to_string);
        Ok(Self { packets, unreadable: reader.unread().clone(), damage })
    }
}
