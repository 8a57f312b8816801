//! Splits a frame into packets. The split is the same for every frame, so it is computed once.

use std::ops::Range;

use rtp_types::RtpPacketBuilder;

use crate::format::{Format, Scan};
use crate::payload::{EXTENSION_BYTES, LINE_HEADER_BYTES, LineHeader};

/// Bytes of an RTP header without contributing sources.
pub(crate) const RTP_HEADER_BYTES: usize = 12;
/// The dynamic RTP payload type that SDP assigns to the format.
pub const PAYLOAD_TYPE: u8 = 96;
const PADDING_BIT: u8 = 0x20;
/// Largest payload of a UDP datagram over IPv4, in bytes.
const LARGEST_PACKET: usize = 65_507;

/// No packets of this size can be laid out.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("an RTP packet of {packet_bytes} bytes is outside of what can be sent: {least} to 65,507 bytes")]
pub struct LayoutError {
    packet_bytes: usize,
    least: usize,
}

/// One packet of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketPlan {
    header: Range<usize>,
    /// The bytes of the frame in memory that it carries.
    pub data: Range<usize>,
    /// Padding bytes after the data, so that the packet is as long as the others. The last padding
    /// byte holds their number (RFC 3550 section 5.1).
    pub padding: u8,
    /// The field that it carries data of.
    pub field: u8,
}

/// A frame split into packets of one length, but for the last one of a field, so that the kernel
/// can take many of them as one message.
#[derive(Debug)]
pub struct Layout {
    packets: Vec<PacketPlan>,
    headers: Vec<u8>,
    packet_bytes: usize,
}

impl Layout {
    /// Lays out packets of `packet_bytes` bytes, which includes the RTP header but not UDP's.
    ///
    /// # Errors
    /// If there is no room for a pixel group, or if the packet is too long for UDP.
    pub fn new(format: &Format, packet_bytes: usize, ssrc: u32) -> Result<Self, LayoutError> {
        let least = RTP_HEADER_BYTES + EXTENSION_BYTES + LINE_HEADER_BYTES + format.pgroup().bytes;
        if !(least..=LARGEST_PACKET).contains(&packet_bytes) {
            return Err(LayoutError { packet_bytes, least });
        }
        let mut layout = Self { packets: Vec::new(), headers: Vec::new(), packet_bytes };
        for field in 0..format.fields() {
            layout.lay_out_field(format, field, ssrc);
        }
        Ok(layout)
    }

    fn lay_out_field(&mut self, format: &Format, field: usize, ssrc: u32) {
        let group = format.pgroup();
        let (line_bytes, end) = (format.line_bytes(), format.line_start(field, format.field_lines()));
        let mut at = format.line_start(field, 0);
        while at < end {
            let start = at;
            let mut runs = Vec::new();
            let mut room = self.packet_bytes - RTP_HEADER_BYTES - EXTENSION_BYTES;
            while at < end && room >= LINE_HEADER_BYTES + group.bytes {
                let within = at % line_bytes;
                let fits = (room - LINE_HEADER_BYTES) / group.bytes * group.bytes;
                let bytes = fits.min(line_bytes - within);
                runs.push(LineHeader {
                    bytes: bytes as u16,
                    field: field as u8,
                    line: format.line_number(field, at / line_bytes - field * format.field_lines()) as u16,
                    pixel: (within / group.bytes * group.pixels) as u16,
                    has_more: true,
                });
                room -= LINE_HEADER_BYTES + bytes;
                at += bytes;
            }
            if let Some(last) = runs.last_mut() {
                last.has_more = false;
            }
            let padding = if at < end { room as u8 } else { 0 };
            let header = self.push_header(ssrc, &runs, at == end, padding);
            self.packets.push(PacketPlan { header, data: start..at, padding, field: field as u8 });
        }
    }

    fn push_header(&mut self, ssrc: u32, runs: &[LineHeader], is_last: bool, padding: u8) -> Range<usize> {
        let start = self.headers.len();
        let header: RtpPacketBuilder<&[u8], &[u8]> = RtpPacketBuilder::new();
        let header = header.payload_type(PAYLOAD_TYPE).marker_bit(is_last).ssrc(ssrc);
        header.write_into_vec_unchecked(&mut self.headers);
        if padding > 0 {
            self.headers[start] |= PADDING_BIT;
        }
        self.headers.extend([0; EXTENSION_BYTES]);
        runs.iter().for_each(|run| self.headers.extend(run.to_bytes()));
        start..self.headers.len()
    }

    /// The packets of a frame, in order.
    pub fn packets(&self) -> &[PacketPlan] {
        &self.packets
    }

    /// Length in bytes of every packet except the last of a field.
    pub fn packet_bytes(&self) -> usize {
        self.packet_bytes
    }

    /// Writes sequence numbers from `sequence` on, and the two fields' timestamps, into the
    /// headers.
    pub fn number(&mut self, packets: Range<usize>, sequence: u32, timestamps: [u32; 2]) {
        for (plan, sequence) in self.packets[packets].iter().zip((0..).map(|at| sequence.wrapping_add(at))) {
            let [high_0, high_1, low_0, low_1] = sequence.to_be_bytes();
            let header = &mut self.headers[plan.header.clone()];
            header[2..4].copy_from_slice(&[low_0, low_1]);
            header[4..8].copy_from_slice(&timestamps[usize::from(plan.field)].to_be_bytes());
            header[RTP_HEADER_BYTES..RTP_HEADER_BYTES + EXTENSION_BYTES].copy_from_slice(&[high_0, high_1]);
        }
    }

    /// A packet's RTP header and payload header.
    pub fn header(&self, plan: &PacketPlan) -> &[u8] {
        &self.headers[plan.header.clone()]
    }

    /// A packet's length in bytes.
    pub fn len_of(&self, plan: &PacketPlan) -> usize {
        plan.header.len() + plan.data.len() + usize::from(plan.padding)
    }

    /// Writes a packet into one buffer: header, pixels of `frame`, padding.
    pub fn write(&self, plan: &PacketPlan, frame: &[u8], packet: &mut Vec<u8>) {
        packet.clear();
        packet.extend(self.header(plan));
        packet.extend(&frame[plan.data.clone()]);
        packet.extend(padding(plan.padding));
    }
}

/// The bytes of a padding of this length.
pub(crate) fn padding(bytes: u8) -> &'static [u8] {
    /// For each length, zeros and then the length itself.
    const PADDINGS: [[u8; 32]; 32] = {
        let mut paddings = [[0; 32]; 32];
        let mut bytes = 1;
        while bytes < 32 {
            paddings[bytes][bytes - 1] = bytes as u8;
            bytes += 1;
        }
        paddings
    };
    &PADDINGS[usize::from(bytes)][..usize::from(bytes)]
}

/// The largest bursts, in packets, that SMPTE ST 2110-21 allows its narrow and wide senders.
pub(crate) fn burst_limits(format: &Format, packets: usize) -> (usize, usize) {
    // Active part of a frame period of a raster format: 720 of 750 lines, or 1080 of 1125.
    const ACTIVE: f64 = 0.96;
    let each_second = packets as f64 * format.rate.hz();
    let active = if format.scan == Scan::Progressive || format.height == 1080 { ACTIVE } else { 1.0 };
    let narrow = (each_second / (43_200.0 * active)) as usize;
    let wide = (each_second / 21_600.0) as usize;
    (narrow.max(4), wide.max(16))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rtp_types::RtpPacket;

    use super::*;
    use crate::format::{Depth, LineNumbers, Sampling};
    use crate::payload::Payload;

    #[test]
    fn a_720p_frame_is_some_200_jumbo_packets_as_in_the_paper() {
        let format: Format = "720p60".parse().expect("a name");
        let packets = |mtu: usize| Layout::new(&format, mtu - 28, 1).expect("fits").packets().len();
        assert_eq!((packets(9000), packets(1500)), (207, 1274));
    }

    #[test]
    fn what_has_no_room_for_a_pixel_is_refused() {
        let format: Format = "720p60".parse().expect("a name");
        assert!(Layout::new(&format, 23, 1).is_err() && Layout::new(&format, 24, 1).is_ok());
        let error = Layout::new(&format, 65_508, 1).expect_err("too long").to_string();
        assert!(error.contains("24 to 65,507"), "{error}");
    }

    fn any_format() -> impl Strategy<Value = Format> {
        let sampling = prop_oneof![Just(Sampling::Ycbcr422), Just(Sampling::Rgb)];
        let depth = prop_oneof![Just(Depth::Eight), Just(Depth::Ten)];
        let numbers = prop_oneof![Just(LineNumbers::Field), Just(LineNumbers::Frame)];
        (1..40_usize, 1..12_usize, any::<bool>(), sampling, depth, numbers).prop_map(
            |(groups, lines, fields, sampling, depth, numbers)| {
                let scan = if fields { 'i' } else { 'p' };
                let name = format!("{}x{}{scan}50", groups * 4, lines * 2);
                let format: Format = name.parse().expect("a name");
                format.with_sampling(sampling).with_depth(depth).with_line_numbers(numbers)
            },
        )
    }

    proptest! {
        #[test]
        fn packets_hold_every_pixel_once_and_are_of_one_length(
            format in any_format(), room in 0..400_usize, sequence in any::<u32>(),
        ) {
            let packet_bytes = 20 + format.pgroup().bytes + room;
            let mut layout = Layout::new(&format, packet_bytes, 7).expect("fits");
            layout.number(0..layout.packets().len(), sequence, [100, 200]);
            let frame: Vec<u8> = (0..format.frame_bytes()).map(|at| (at * 7 % 251) as u8).collect();
            let (mut again, mut seen) = (vec![0; frame.len()], 0);
            let mut bytes = Vec::new();
            for (at, plan) in layout.packets().iter().enumerate() {
                layout.write(plan, &frame, &mut bytes);
                prop_assert_eq!(bytes.len(), layout.len_of(plan));
                let packet = RtpPacket::parse(&bytes).expect("RTP");
                let payload = Payload::parse(&format, packet.payload()).expect("RFC 4175");
                let number = u32::from(payload.extension()) << 16 | u32::from(packet.sequence_number());
                prop_assert_eq!(number, sequence.wrapping_add(at as u32));
                prop_assert_eq!(packet.timestamp(), [100, 200][usize::from(plan.field)]);
                let is_last = plan.data.end == format.line_start(usize::from(plan.field), format.field_lines());
                prop_assert_eq!(packet.marker_bit(), is_last);
                prop_assert!(bytes.len() == packet_bytes || is_last && bytes.len() < packet_bytes);
                prop_assert_eq!(payload.one_range(), Some(plan.data.clone()));
                for run in payload.runs() {
                    again[run.frame..run.frame + run.bytes]
                        .copy_from_slice(&packet.payload()[run.payload..run.payload + run.bytes]);
                    seen += run.bytes;
                }
            }
            prop_assert_eq!(seen, frame.len());
            prop_assert_eq!(again, frame);
        }
    }
}
