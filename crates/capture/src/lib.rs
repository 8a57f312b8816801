//! Reads the IP packets of pcap and pcapng files, and writes IP packets to pcap files.
//!
//! [`Packets`] reads captures. It detects the format: pcap in either byte order, with microseconds
//! or nanoseconds, and pcapng with any number of sections and interfaces. Each [`CapturedPacket`]
//! starts at its IP header, as the link-layer header is removed. Memory use does not depend on the
//! size of the file. [`Writer`] writes pcap with link type raw IP, [`AnnotatedWriter`] pcapng with
//! comments.
//!
//! Real captures are often imperfect. A record that cannot be used is counted by its [`Reason`] in
//! [`Unread`], and reading goes on with the next one. A file that is cut off or corrupt ends at
//! that record, and [`Packets::damage`] gives the offset; all packets before it are returned. A
//! packet that was truncated by a snap length is returned with its [original
//! length](CapturedPacket::original_len), and the caller decides whether its bytes are enough.
//!
//! `pcap-parser` decodes headers and blocks. The framing is done in this crate, so that the offset
//! of damage is known, a block that does not parse can be skipped, and a corrupt length allocates
//! nothing.
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

mod annotated;
mod framing;
mod link;
mod packets;
mod pcap;
mod pcapng;
mod unread;
mod write;

pub use annotated::{Annotated, AnnotatedWriter};
pub use framing::Damage;
pub use packets::{CaptureError, CapturedPacket, Packets, compression, is_capture};
pub use unread::{Reason, Unread};
pub use write::Writer;
