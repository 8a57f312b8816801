//! Captures that the tests write and read back; the formats themselves are tested in
//! `convoy-capture`.

use std::path::PathBuf;
use std::time::Duration;

use convoy_capture::{Reason, Writer};
use convoy_sim::{Capture, CaptureLength, Packet, ToSa, TraceFile, Traffic, TrafficError, by_destination};

/// A TCP packet with this much payload, to 10.0.0.`host`.
fn tcp(host: u8, payload: u8) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40 + payload, 0, 0, 0, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 0, 0, host];
    packet.extend([0, 80, 0, 90, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
    packet.resize(packet.len() + usize::from(payload), 0);
    packet
}

/// Three packets at 1 s, 1.000007 s and 1.5 s, and one that is not IP.
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
    let mut writer = Writer::new(Vec::new()).expect("a header");
    for (time_us, packet) in content() {
        writer.write(Duration::from_micros(time_us), &packet).expect("written");
    }
    writer.into_inner()
}

/// The same capture with a snap length: only this many bytes of each packet.
fn snapped(snap_len: usize) -> Vec<u8> {
    let whole = pcap();
    let (mut file, mut at) = (whole[..24].to_vec(), 24);
    while at < whole.len() {
        let len = u32::from_le_bytes(whole[at + 8..at + 12].try_into().expect("four bytes")) as usize;
        let kept = len.min(snap_len);
        file.extend(&whole[at..at + 8]);
        file.extend((kept as u32).to_le_bytes());
        file.extend(&whole[at + 12..at + 16 + kept]);
        at += 16 + len;
    }
    file
}

fn open(file: &Written) -> Capture {
    Capture::open(&file.path, CaptureLength::Payload, by_destination()).expect("a capture")
}

fn read(capture: &mut Capture) -> Result<Vec<Packet>, TrafficError> {
    std::iter::from_fn(|| capture.next_packet().transpose()).collect()
}

#[test]
fn a_capture_gives_sizes_destinations_and_times() {
    let file = written(&pcap());
    let mut capture = open(&file);
    assert_eq!(read(&mut capture).expect("whole"), expected());
    assert_eq!(capture.unread().iter().collect::<Vec<_>>(), [(Reason::NotIp, 1)]);
    assert_eq!((capture.without_sa(), capture.damage()), (0, None));
}

#[test]
fn what_a_snap_length_leaves_of_a_packet_is_enough_for_its_original_size() {
    // IP headers, and the first bytes of the TCP headers.
    for snap_len in [24, 40, 60] {
        let file = written(&snapped(snap_len));
        assert_eq!(read(&mut open(&file)).expect("whole"), expected(), "{snap_len}");
    }
    let file = written(&snapped(16));
    let mut capture = open(&file);
    assert_eq!(read(&mut capture).expect("whole"), []);
    let reasons = [(Reason::NotIp, 1), (Reason::HeaderCutOff, 3)];
    assert_eq!(capture.unread().iter().collect::<Vec<_>>(), reasons);
}

#[test]
fn policies_say_the_sa_and_leave_packets_out() {
    let file = written(&pcap());
    let classify = |header: &convoy_sim::Header| {
        (header.payload_bytes > 0).then_some(ToSa { sa: header.payload_bytes * 2, class: 3 })
    };
    let mut capture =
        Capture::open(&file.path, CaptureLength::Packet, Box::new(classify)).expect("a capture");
    let packets = read(&mut capture).expect("whole");
    let of = |packet: &Packet| (packet.payload_bytes, packet.sa, packet.class);
    assert_eq!(packets.iter().map(of).collect::<Vec<_>>(), [(100, 200, 3), (7, 14, 3)]);
    assert_eq!((capture.without_sa(), capture.unread().total()), (1, 1));
}

#[test]
fn what_is_no_capture_is_refused_and_a_cut_one_gives_what_came_before() {
    let file = written(b"no capture at all, only text");
    let Err(error) = Capture::open(&file.path, CaptureLength::Payload, by_destination()) else {
        panic!("refused")
    };
    assert!(error.what.contains("neither pcap nor pcapng"), "{error}");
    let mut bytes = pcap();
    let last_at = bytes.len() - tcp(9, 7).len() - 16;
    bytes.truncate(bytes.len() - 3);
    let file = written(&bytes);
    let mut capture = open(&file);
    assert_eq!(read(&mut capture).expect("what is there"), expected()[..2]);
    let damage = capture.damage().expect("cut off");
    assert!(damage.contains(&format!("byte {last_at}")) && damage.contains("capture"), "{damage}");
    assert!(Capture::open("/nowhere".as_ref(), CaptureLength::Payload, by_destination()).is_err());
}

#[test]
fn a_trace_is_reported_by_how_it_begins() {
    let capture = written(&pcap());
    let text = written(b"0.5 1 2 3 4 5\n");
    let open = |file: &Written| {
        TraceFile::open(&file.path, CaptureLength::Payload, by_destination()).expect("a trace")
    };
    assert!(matches!(open(&capture), TraceFile::Capture(_)));
    assert!(matches!(open(&text), TraceFile::Text(_)));
    let packets = |mut trace: TraceFile| {
        let mut packets = Vec::new();
        trace.fill(&mut packets, 10).expect("good");
        packets.len()
    };
    assert_eq!((packets(open(&capture)), packets(open(&text))), (3, 1));
}
