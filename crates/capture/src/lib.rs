//! Captures: the IP packets of pcap and pcapng files, and pcap files of IP packets.
//!
//! [`Packets`] is the one reader of captures that convoy has. It takes pcap in either order of
//! bytes, with microseconds or nanoseconds, and pcapng with any number of sections and interfaces;
//! it strips the link's own header ([`Packet`]). Memory does not grow with the file.
//!
//! Captures in the wild are seldom perfect. A record that cannot be used is counted by its reason
//! ([`Unread`]) and reading goes on. A file that is cut off or damaged ends there,
//! [`Packets::damage`] says at which byte, and all that came before it has been handed out. A
//! packet that a snap length truncated is handed out with its [original
//! length](Packet::original_len): whether that is enough is for the caller to say.
//!
//! `pcap-parser` decodes headers and blocks. The framing is done here, since only so the place of a
//! damage is known, a block that does not parse can be passed over, and a length out of a broken
//! file allocates nothing.
//!
//! ```
//! use convoy_capture::{Packets, Writer};
//! use std::time::Duration;
//!
//! let mut writer = Writer::new(Vec::new())?;
//! let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
//! writer.write(Duration::from_secs(7), &packet)?;
//! let file = writer.into_inner();
//! let mut packets = Packets::new("memory", &file[..])?;
//! let read = packets.next_packet()?.expect("it was written");
//! assert_eq!((read.bytes, read.original_len, read.time), (&packet[..], 20, Some(Duration::from_secs(7))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod framing;
mod link;
mod packets;
mod pcap;
mod pcapng;
mod unread;
mod write;

pub use framing::Damage;
pub use packets::{CaptureError, Packet, Packets, is_capture};
pub use unread::{Reason, Unread};
pub use write::Writer;
