//! The writer of packets with comments: pcapng with link type raw IP and nanoseconds.

use std::io::{self, Write};
use std::time::Duration;

use crate::link::RAW;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const OPTION_COMMENT: u16 = 1;
const OPTION_NAME: u16 = 2;
const OPTION_RESOLUTION: u16 = 9;
/// Timestamps are in 10^-9 s.
const NANOSECONDS: u8 = 9;

/// Writes a pcapng file (draft-ietf-opsawg-pcapng) of raw IP packets with comments, which Wireshark
/// shows and filters by (`frame.comment`).
pub struct AnnotatedWriter<W>(W);

/// One packet of a pcapng file.
#[derive(Clone, Copy, Debug)]
pub struct Annotated<'a> {
    /// Its interface, by its place among those of the file.
    pub interface: u32,
    /// Its time since 1970.
    pub time: Duration,
    /// The packet from its IP header on, perhaps only its beginning.
    pub bytes: &'a [u8],
    /// The length of all of it, in bytes.
    pub original_len: usize,
    /// The comment; empty for none.
    pub comment: &'a str,
}

impl<W: Write> AnnotatedWriter<W> {
    /// Writes the file's header and the interfaces of these names.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn new<'a>(sink: W, interfaces: impl IntoIterator<Item = &'a str>) -> io::Result<Self> {
        let mut writer = Self(sink);
        let mut header = BYTE_ORDER_MAGIC.to_le_bytes().to_vec();
        header.extend([1u16, 0].map(u16::to_le_bytes).as_flattened());
        // The section's length is not known in advance.
        header.extend(u64::MAX.to_le_bytes());
        writer.block(SECTION_HEADER, &header)?;
        for name in interfaces {
            let mut body = [RAW, 0].map(u16::to_le_bytes).as_flattened().to_vec();
            // No limit of the packets' lengths.
            body.extend([0; 4]);
            option(&mut body, OPTION_NAME, name.as_bytes());
            option(&mut body, OPTION_RESOLUTION, &[NANOSECONDS]);
            option(&mut body, 0, &[]);
            writer.block(INTERFACE_DESCRIPTION, &body)?;
        }
        Ok(writer)
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn write(&mut self, packet: &Annotated<'_>) -> io::Result<()> {
        let time_ns = packet.time.as_nanos() as u64;
        let words = [
            packet.interface,
            (time_ns >> 32) as u32,
            time_ns as u32,
            packet.bytes.len() as u32,
            packet.original_len as u32,
        ];
        let mut body = words.map(u32::to_le_bytes).as_flattened().to_vec();
        body.extend(packet.bytes);
        pad(&mut body);
        if !packet.comment.is_empty() {
            option(&mut body, OPTION_COMMENT, packet.comment.as_bytes());
            option(&mut body, 0, &[]);
        }
        self.block(ENHANCED_PACKET, &body)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let len = (body.len() as u32 + 12).to_le_bytes();
        self.0.write_all(&kind.to_le_bytes())?;
        self.0.write_all(&len)?;
        self.0.write_all(body)?;
        self.0.write_all(&len)
    }

    /// Returns the sink, which may hold unflushed data.
    pub fn into_inner(self) -> W {
        self.0
    }
}

/// Appends an option; a value longer than its length field can say is cut.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(u16::MAX.into())];
    body.extend([code, value.len() as u16].map(u16::to_le_bytes).as_flattened());
    body.extend(value);
    pad(body);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packets;

    #[test]
    fn what_is_written_is_read_again_with_its_time_and_length() {
        let mut writer = AnnotatedWriter::new(Vec::new(), ["tun0", "udp"]).expect("a vector");
        let mut packet = [0; 41];
        packet[..20].copy_from_slice(&[0x45, 0, 0, 41, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let time = Duration::from_nanos(1_700_000_000_123_456_789);
        let one =
            Annotated { interface: 1, time, bytes: &packet, original_len: 41, comment: "dropped: replayed" };
        writer.write(&one).expect("a vector");
        writer.write(&Annotated { bytes: &packet[..30], comment: "", ..one }).expect("a vector");
        let file = writer.into_inner();
        assert!(file.windows(17).any(|part| part == b"dropped: replayed"));
        let mut packets = Packets::new("memory", &file[..]).expect("pcapng");
        for len in [41, 30] {
            let read = packets.next_packet().expect("no error").expect("a packet");
            assert_eq!((read.bytes, read.original_len, read.time), (&packet[..len], 41, Some(time)));
        }
        assert!(packets.next_packet().expect("no error").is_none());
        assert!(packets.damage().is_none());
    }
}
