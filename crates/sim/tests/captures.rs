//! Captures, written here and read back.

use std::path::PathBuf;
use std::time::Duration;

use convoy_sim::{Capture, CaptureLength, Packet, ToSa, Traffic, TrafficError};
use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};

/// A TCP packet with so much payload, to 10.0.0.`host`.
fn tcp(host: u8, payload: u8) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40 + payload, 0, 0, 0, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 0, 0, host];
    packet.extend([0, 80, 0, 90, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
    packet.resize(packet.len() + usize::from(payload), 0);
    packet
}

/// Three packets at 1 s, 1.000007 s and 1.5 s, and something that is not IP.
fn content() -> Vec<(u64, Vec<u8>)> {
    vec![(1_000_000, tcp(9, 100)), (1_000_007, tcp(3, 0)), (1_000_008, vec![0; 30]), (1_500_000, tcp(9, 7))]
}

fn expected() -> Vec<Packet> {
    let packet = |payload_bytes, sa, gap_us: u64| Packet {
        payload_bytes,
        sa,
        class: 0,
        gap_ticks: gap_us * 1_000_000,
    };
    vec![packet(100, 0, 0), packet(0, 1, 7), packet(7, 0, 499_993)]
}

struct Written {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn written(bytes: &[u8]) -> Written {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("capture");
    std::fs::write(&path, bytes).expect("written");
    Written { _folder: folder, path }
}

fn pcap() -> Vec<u8> {
    let header = PcapHeader { datalink: DataLink::RAW, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(Vec::new(), header).expect("a header");
    for (time_us, data) in content() {
        let packet = PcapPacket::new(Duration::from_micros(time_us), data.len() as u32, &data);
        writer.write_packet(&packet).expect("written");
    }
    writer.into_writer()
}

/// With timestamps in units of 10^-`resolution` s; none is the default of a microsecond.
fn pcapng(resolution: Option<u8>) -> Vec<u8> {
    let mut writer = PcapNgWriter::new(Vec::new()).expect("a header");
    let options = resolution.map(InterfaceDescriptionOption::IfTsResol).into_iter().collect();
    let interface = InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 0, options };
    writer.write_pcapng_block(interface).expect("written");
    for (time_us, data) in content() {
        let units = if resolution == Some(9) { time_us * 1000 } else { time_us };
        let block = EnhancedPacketBlock {
            interface_id: 0,
            // The library writes and reads units as if they were nanoseconds.
            timestamp: Duration::from_nanos(units),
            original_len: data.len() as u32,
            data: data.into(),
            options: Vec::new(),
        };
        writer.write_pcapng_block(block).expect("written");
    }
    writer.into_inner()
}

fn read(mut capture: Capture) -> Result<(Vec<Packet>, u64), TrafficError> {
    let packets: Result<Vec<_>, _> = std::iter::from_fn(|| capture.next_packet().transpose()).collect();
    Ok((packets?, capture.skipped()))
}

#[test]
fn pcap_and_pcapng_give_sizes_destinations_and_times() {
    for (bytes, skipped) in [(pcap(), 1), (pcapng(None), 1), (pcapng(Some(6)), 1), (pcapng(Some(9)), 1)] {
        let file = written(&bytes);
        let capture = Capture::open(&file.path, CaptureLength::Payload).expect("a capture");
        let (packets, left_out) = read(capture).expect("whole");
        assert_eq!(packets, expected());
        // pcapng's own blocks are no packets.
        assert!(left_out >= skipped);
    }
}

#[test]
fn policies_say_the_sa_and_leave_packets_out() {
    let file = written(&pcap());
    let classify = |header: &convoy_sim::Header| {
        (header.payload_bytes > 0).then_some(ToSa { sa: header.payload_bytes * 2, class: 3 })
    };
    let capture =
        Capture::open_with(&file.path, CaptureLength::Packet, Box::new(classify)).expect("a capture");
    let (packets, skipped) = read(capture).expect("whole");
    let of = |packet: &Packet| (packet.payload_bytes, packet.sa, packet.class);
    assert_eq!(packets.iter().map(of).collect::<Vec<_>>(), [(100, 200, 3), (7, 14, 3)]);
    assert_eq!(skipped, 2);
}

#[test]
fn what_is_no_capture_is_refused_and_a_cut_one_says_where() {
    let file = written(b"no capture at all, only text");
    let Err(error) = Capture::open(&file.path, CaptureLength::Payload) else { panic!("refused") };
    assert!(error.what.contains("neither pcap nor pcapng"), "{error}");
    let mut bytes = pcap();
    bytes.truncate(bytes.len() - 3);
    let file = written(&bytes);
    let capture = Capture::open(&file.path, CaptureLength::Payload).expect("its start is whole");
    let error = read(capture).expect_err("cut");
    assert!(error.place.ends_with("packet 4"), "{error}");
    assert!(Capture::open("/nowhere".as_ref(), CaptureLength::Payload).is_err());
}
