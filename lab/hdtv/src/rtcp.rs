//! RTCP (RFC 3550 section 6): reports of sender and receiver.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::RngExt;
use rtcp_types::{
    Bye, Compound, Packet, ReceiverReport, ReportBlock, RtcpPacketWriterExt, RtcpWriteError, Sdes, SdesChunk,
    SdesItem, SenderReport,
};

use crate::reception::ReceptionReport;

/// Mean interval between reports. RFC 3550 section 6.2 allows high-rate streams less than its
/// default of 5 s.
const INTERVAL: Duration = Duration::from_secs(1);
/// Seconds from NTP's epoch (1900) to Unix's (1970).
const NTP_TO_UNIX: u64 = 2_208_988_800;

/// A time in NTP format: seconds since 1900 in 32.32 fixed point.
pub fn ntp(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let fraction = (u64::from(since.subsec_nanos()) << 32) / 1_000_000_000;
    (since.as_secs() + NTP_TO_UNIX) << 32 | fraction
}

/// The middle 32 bits of an NTP time, in units of 1/65536 s. Report blocks refer to a report by
/// these.
pub const fn middle(ntp: u64) -> u32 {
    (ntp >> 16) as u32
}

/// Time until the next report, randomised so that the reports of many hosts do not coincide.
pub fn next_interval() -> Duration {
    INTERVAL.mul_f64(rand::rng().random_range(0.5..1.5))
}

/// A random CNAME, which reveals nothing about the host, as RFC 7022 recommends.
pub fn random_name() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// The sender information of a sender report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderInfo {
    /// Time of the report in NTP format.
    pub ntp: u64,
    /// That time on the RTP clock.
    pub timestamp: u32,
    /// Packets sent.
    pub packets: u32,
    /// Payload bytes sent.
    pub bytes: u32,
}

/// A report block about one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceptionBlock {
    /// SSRC of the source.
    pub source: u32,
    /// Its reception statistics.
    pub reception: ReceptionReport,
    /// Middle 32 bits of the NTP time of its last sender report; 0 without one.
    pub last_report: u32,
    /// Time since that report arrived, in 1/65536 s.
    pub since_report: u32,
}

/// Content of a compound packet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// SSRC and sender information, if a sender report is included.
    pub sent: Option<(u32, SenderInfo)>,
    /// Report blocks.
    pub heard: Vec<ReceptionBlock>,
    /// SSRCs that sent BYE.
    pub ended: Vec<u32>,
}

/// Writes a sender report with the CNAME, and a BYE at the end of the stream.
///
/// # Errors
/// If the name is longer than 255 bytes.
pub fn sender_report(
    ssrc: u32,
    sent: &SenderInfo,
    name: &str,
    is_end: bool,
) -> Result<Vec<u8>, RtcpWriteError> {
    let report = SenderReport::builder(ssrc)
        .ntp_timestamp(sent.ntp)
        .rtp_timestamp(sent.timestamp)
        .packet_count(sent.packets)
        .octet_count(sent.bytes);
    let mut compound = Compound::builder().add_packet(report).add_packet(names(ssrc, name));
    if is_end {
        compound = compound.add_packet(Bye::builder().add_source(ssrc));
    }
    write(&compound)
}

/// Writes a receiver report with the CNAME.
///
/// # Errors
/// If the name is longer than 255 bytes.
pub fn receiver_report(ssrc: u32, heard: &ReceptionBlock, name: &str) -> Result<Vec<u8>, RtcpWriteError> {
    let block = ReportBlock::builder(heard.source)
        .fraction_lost(heard.reception.fraction_lost)
        // The field is a signed 24-bit number; the crate takes it as unsigned.
        .cumulative_lost(heard.reception.lost.clamp(-0x80_0000, 0x7f_ffff) as u32 & 0xff_ffff)
        .extended_sequence_number(heard.reception.highest)
        .interarrival_jitter(heard.reception.jitter)
        .last_sender_report_timestamp(heard.last_report)
        .delay_since_last_sender_report_timestamp(heard.since_report);
    let report = ReceiverReport::builder(ssrc).add_report_block(block);
    write(&Compound::builder().add_packet(report).add_packet(names(ssrc, name)))
}

fn names(ssrc: u32, name: &str) -> rtcp_types::SdesBuilder<'_> {
    Sdes::builder().add_chunk(SdesChunk::builder(ssrc).add_item(SdesItem::builder(SdesItem::CNAME, name)))
}

fn write(packet: &impl RtcpPacketWriterExt) -> Result<Vec<u8>, RtcpWriteError> {
    let mut bytes = vec![0; packet.calculate_size()?];
    packet.write_into(&mut bytes)?;
    Ok(bytes)
}

/// Reads a compound packet; `None` if it is damaged.
pub fn read(bytes: &[u8]) -> Option<Control> {
    let mut control = Control::default();
    for packet in Compound::parse(bytes).ok()? {
        match packet.ok()? {
            Packet::Sr(report) => {
                let sent = SenderInfo {
                    ntp: report.ntp_timestamp(),
                    timestamp: report.rtp_timestamp(),
                    packets: report.packet_count(),
                    bytes: report.octet_count(),
                };
                control.sent = Some((report.ssrc(), sent));
                control.heard.extend(report.report_blocks().map(heard));
            }
            Packet::Rr(report) => control.heard.extend(report.report_blocks().map(heard)),
            Packet::Bye(bye) => control.ended.extend(bye.ssrcs()),
            _ => {}
        }
    }
    Some(control)
}

fn heard(block: ReportBlock<'_>) -> ReceptionBlock {
    let lost = (block.cumulative_lost() << 8).cast_signed() >> 8;
    ReceptionBlock {
        source: block.ssrc(),
        reception: ReceptionReport {
            fraction_lost: block.fraction_lost(),
            lost: i64::from(lost),
            highest: block.extended_sequence_number(),
            jitter: block.interarrival_jitter(),
        },
        last_report: block.last_sender_report_timestamp(),
        since_report: block.delay_since_last_sender_report_timestamp(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_senders_report_and_its_end_are_read_again() {
        let sent = SenderInfo { ntp: 0x1122_3344_5566_7788, timestamp: 9, packets: 10, bytes: 11 };
        let bytes = sender_report(0xabcd, &sent, "convoy", true).expect("short");
        assert_eq!(
            read(&bytes),
            Some(Control { sent: Some((0xabcd, sent)), heard: vec![], ended: vec![0xabcd] })
        );
        assert_eq!(middle(sent.ntp), 0x3344_5566);
    }

    #[test]
    fn a_receivers_report_is_read_again_also_with_more_received_than_sent() {
        for lost in [0, 77, -3] {
            let reception = ReceptionReport { fraction_lost: 3, lost, highest: 5, jitter: 6 };
            let heard = ReceptionBlock { source: 1, reception, last_report: 7, since_report: 8 };
            let bytes = receiver_report(2, &heard, "convoy").expect("short");
            assert_eq!(read(&bytes).expect("RTCP").heard, [heard]);
        }
    }

    #[test]
    fn ntp_begins_in_1900() {
        assert_eq!(ntp(UNIX_EPOCH + Duration::from_millis(500)), 2_208_988_800 << 32 | 1 << 31);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 200..205_u8) {
            read(&bytes);
            if bytes.len() > 4 {
                (bytes[0], bytes[1]) = (0x80 | bytes[0] & 3, kind);
                let words = bytes.len() as u16 / 4 - 1;
                bytes[2..4].copy_from_slice(&words.to_be_bytes());
                read(&bytes);
            }
        }
    }
}
