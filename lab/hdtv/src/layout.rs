//! Splits a frame into packets. The split is the same for every frame, so it is computed once.

use std::ops::Range;

use rtp_types::RtpPacketBuilder;

use crate::format::{Format, Scan};
use crate::payload::{EXTENSION_BYTES, LINE_HEADER_BYTES, LineHeader};
use crate::split::Split;

/// Bytes of an RTP header without contributing sources.
pub(crate) const RTP_HEADER_BYTES: usize = 12;
/// The dynamic RTP payload type that SDP assigns to the format.
pub const PAYLOAD_TYPE: u8 = 96;
/// Bytes of a UDP header, which the limits of SMPTE ST 2110-10 include.
const UDP_HEADER_BYTES: usize = 8;
/// Largest IP packet in bytes with which datagrams keep to the standard limit.
const STANDARD_MTU: usize = 1500;
/// The standard UDP size limit in bytes (SMPTE ST 2110-10 section 6.3).
const STANDARD_UDP_BYTES: usize = 1460;
/// The extended UDP size limit in bytes (SMPTE ST 2110-10 section 6.4).
const EXTENDED_UDP_BYTES: usize = 8960;
/// Largest RTP packet in bytes.
const LARGEST_PACKET: usize = EXTENDED_UDP_BYTES - UDP_HEADER_BYTES;

/// No packets of this size can be laid out.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "an RTP packet of {packet_bytes} bytes is outside of what can be sent: {least} to {LARGEST_PACKET} bytes"
)]
pub struct LayoutError {
    packet_bytes: usize,
    least: usize,
}

/// The length of UDP datagrams that SMPTE ST 2110-10 allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramLimit {
    /// Length of the longest datagram in bytes, with the UDP header.
    pub udp_bytes: usize,
    /// Whether datagrams exceed the standard limit of 1460 bytes, so that the description must have
    /// MAXUDP.
    pub is_extended: bool,
}

impl DatagramLimit {
    /// The limit for IP packets of at most `mtu` bytes with headers of `ip_header_bytes`: up to
    /// 1460 bytes with an MTU of up to 1500, else up to 8960.
    pub fn of_mtu(mtu: usize, ip_header_bytes: usize) -> Self {
        let largest = if mtu <= STANDARD_MTU { STANDARD_UDP_BYTES } else { EXTENDED_UDP_BYTES };
        let udp_bytes = mtu.saturating_sub(ip_header_bytes).min(largest);
        Self { udp_bytes, is_extended: udp_bytes > STANDARD_UDP_BYTES }
    }

    /// Length of the longest RTP packet in bytes.
    pub fn packet_bytes(self) -> usize {
        self.udp_bytes.saturating_sub(UDP_HEADER_BYTES)
    }
}

/// One packet of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketPlan {
    header: Range<usize>,
    /// The bytes of the frame in memory that it carries.
    pub data: Range<usize>,
    /// The field that it carries data of.
    pub field: u8,
}

/// A frame split into packets as SMPTE ST 2110-20 section 6 allows: whole pixel groups of at most
/// three lines, without padding. The packets have one length wherever the lines can be divided so,
/// since the kernel can then take many of them as one message.
#[derive(Debug)]
pub struct Layout {
    packets: Vec<PacketPlan>,
    headers: Vec<u8>,
    packet_bytes: usize,
}

impl Layout {
    /// Lays out packets of at most `packet_bytes` bytes, which includes the RTP header but not
    /// UDP's.
    ///
    /// # Errors
    /// If there is no room for a pixel group, or if the packet exceeds the extended UDP size limit.
    pub fn new(format: &Format, packet_bytes: usize, ssrc: u32) -> Result<Self, LayoutError> {
        let least = RTP_HEADER_BYTES + EXTENSION_BYTES + LINE_HEADER_BYTES + format.pgroup().bytes;
        let refused = || LayoutError { packet_bytes, least };
        if packet_bytes > LARGEST_PACKET {
            return Err(refused());
        }
        let room = packet_bytes.saturating_sub(RTP_HEADER_BYTES + EXTENSION_BYTES);
        let split = Split::of(format, room).ok_or_else(refused)?;
        let mut layout = Self { packets: Vec::new(), headers: Vec::new(), packet_bytes: 0 };
        for field in 0..format.fields() {
            layout.lay_out_field(format, &split, field, ssrc);
        }
        layout.packet_bytes = layout.packets.iter().map(|plan| layout.len_of(plan)).max().unwrap_or(0);
        Ok(layout)
    }

    fn lay_out_field(&mut self, format: &Format, split: &Split, field: usize, ssrc: u32) {
        let end = format.line_start(field, format.field_lines());
        let mut at = format.line_start(field, 0);
        while at < end {
            let data = at..split.end_of_packet(format, at).min(end);
            at = data.end;
            let runs = runs(format, field, data.clone());
            let header = self.push_header(ssrc, &runs, at == end);
            self.packets.push(PacketPlan { header, data, field: field as u8 });
        }
    }

    fn push_header(&mut self, ssrc: u32, runs: &[LineHeader], is_last: bool) -> Range<usize> {
        let start = self.headers.len();
        let header: RtpPacketBuilder<&[u8], &[u8]> = RtpPacketBuilder::new();
        let header = header.payload_type(PAYLOAD_TYPE).marker_bit(is_last).ssrc(ssrc);
        header.write_into_vec_unchecked(&mut self.headers);
        self.headers.extend([0; EXTENSION_BYTES]);
        runs.iter().for_each(|run| self.headers.extend(run.to_bytes()));
        start..self.headers.len()
    }

    /// The packets of a frame, in order.
    pub fn packets(&self) -> &[PacketPlan] {
        &self.packets
    }

    /// Length in bytes of the longest packet.
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
        plan.header.len() + plan.data.len()
    }

    /// Writes a packet into one buffer: header, then pixels of `frame`.
    pub fn write(&self, plan: &PacketPlan, frame: &[u8], packet: &mut Vec<u8>) {
        packet.clear();
        packet.extend(self.header(plan));
        packet.extend(&frame[plan.data.clone()]);
    }
}

/// The headers of a packet that carries these bytes of a field: one for each line.
fn runs(format: &Format, field: usize, data: Range<usize>) -> Vec<LineHeader> {
    let (group, line_bytes) = (format.pgroup(), format.line_bytes());
    let mut runs = Vec::new();
    let mut at = data.start;
    while at < data.end {
        let within = at % line_bytes;
        let bytes = (line_bytes - within).min(data.end - at);
        runs.push(LineHeader {
            bytes: bytes as u16,
            field: field as u8,
            line: format.line_number(field, at / line_bytes - field * format.field_lines()) as u16,
            pixel: (within / group.bytes * group.pixels) as u16,
            has_more: at + bytes < data.end,
        });
        at += bytes;
    }
    runs
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
    fn datagrams_keep_to_the_limits_of_st_2110_10() {
        let limit =
            |mtu, ip| (DatagramLimit::of_mtu(mtu, ip).udp_bytes, DatagramLimit::of_mtu(mtu, ip).is_extended);
        assert_eq!([limit(1500, 20), limit(1500, 40)], [(1460, false); 2]);
        assert_eq!([limit(9000, 20), limit(9000, 40), limit(65_535, 20)], [(8960, true); 3]);
        assert_eq!([limit(1400, 20), limit(3000, 40)], [(1380, false), (2960, true)]);
        assert_eq!(DatagramLimit::of_mtu(20, 40).packet_bytes(), 0);
    }

    #[test]
    fn a_720p_frame_is_three_lines_or_half_a_line_a_packet() {
        let format: Format = "720p60".parse().expect("a name");
        let packets = |mtu: usize| {
            let layout =
                Layout::new(&format, DatagramLimit::of_mtu(mtu, 20).packet_bytes(), 1).expect("fits");
            (layout.packets().len(), layout.packet_bytes())
        };
        assert_eq!((packets(9000), packets(1500)), ((240, 7680 + 32), (1440, 1280 + 20)));
    }

    #[test]
    fn what_has_no_room_for_a_pixel_is_refused() {
        let format: Format = "720p60".parse().expect("a name");
        assert!(Layout::new(&format, 23, 1).is_err() && Layout::new(&format, 24, 1).is_ok());
        let error = Layout::new(&format, 8953, 1).expect_err("too long").to_string();
        assert!(error.contains("24 to 8952"), "{error}");
    }

    fn any_format() -> impl Strategy<Value = Format> {
        let sampling = prop_oneof![Just(Sampling::Ycbcr422), Just(Sampling::Ycbcr444), Just(Sampling::Rgb)];
        let depth = prop_oneof![Just(Depth::Eight), Just(Depth::Ten), Just(Depth::Twelve)];
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
        fn packets_hold_every_pixel_once_and_at_most_three_lines(
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
                prop_assert!(bytes.len() <= layout.packet_bytes() && bytes.len() <= packet_bytes);
                prop_assert!(payload.runs().count() <= 3 && packet.padding().is_none());
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
