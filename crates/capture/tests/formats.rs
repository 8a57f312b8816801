//! Captures in all formats, composed byte by byte here or written by Wireshark's tools.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use convoy_capture::{Damage, Packets, Reason, Writer};
use proptest::prelude::*;

/// A packet: bytes from the IP header on, original length, time.
type Read = (Vec<u8>, usize, Option<Duration>);

/// All packets of a file, the counts of unusable ones, and the damage that ended it.
fn read(file: &[u8]) -> (Vec<Read>, Vec<(Reason, u64)>, Option<Damage>) {
    let mut packets = Packets::new("test", file).expect("a capture");
    let mut all = Vec::new();
    while let Some(packet) = packets.next_packet().expect("memory does not fail") {
        all.push((packet.bytes.to_vec(), packet.original_len, packet.time));
    }
    assert!(packets.is_ended() && packets.next_packet().is_ok_and(|next| next.is_none()));
    (all, packets.unread().iter().collect(), packets.damage().cloned())
}

/// An IPv4 packet of `len` bytes.
fn ip(number: u8, len: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, number, 0, 0, 64, 59, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.resize(len, number);
    packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    packet
}

/// Three packets and their times.
fn content() -> Vec<(Duration, Vec<u8>)> {
    let at = |micros| Duration::from_secs(1_700_000_000) + Duration::from_micros(micros);
    vec![(at(1), ip(1, 20)), (at(250_000), ip(2, 1401)), (at(250_000), ip(3, 333))]
}

fn whole() -> Vec<Read> {
    content().into_iter().map(|(time, packet)| (packet.clone(), packet.len(), Some(time))).collect()
}

/// Writes integers in one byte order.
#[derive(Clone, Copy, Debug)]
struct To {
    big: bool,
}

impl To {
    fn n32(self, number: u32) -> [u8; 4] {
        if self.big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn n16(self, number: u16) -> [u8; 2] {
        if self.big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    /// A pcapng block.
    fn block(self, kind: u32, body: &[&[u8]]) -> Vec<u8> {
        let mut body = body.concat();
        body.resize(body.len().next_multiple_of(4), 0);
        let len = self.n32(body.len() as u32 + 12);
        [&self.n32(kind)[..], &len, &body, &len].concat()
    }

    fn section(self) -> Vec<u8> {
        let versions = [self.n16(1), self.n16(0)];
        self.block(0x0a0d_0d0a, &[&self.n32(0x1a2b_3c4d), versions.as_flattened(), &[0xff; 8]])
    }

    fn interface(self, link: u16, snap_len: u32, resolution: u8, offset_s: u8) -> Vec<u8> {
        let resolution = [&self.n16(9)[..], &self.n16(1), &[resolution, 0, 0, 0]].concat();
        let mut offset = [0; 8];
        offset[if self.big { 7 } else { 0 }] = offset_s;
        let offset = [&self.n16(14)[..], &self.n16(8), &offset].concat();
        let start = [&self.n16(link)[..], &[0; 2], &self.n32(snap_len)].concat();
        self.block(1, &[&start, &resolution, &offset, &[0; 4]])
    }

    fn enhanced(self, interface: u32, units: u64, packet: &[u8], original_len: usize) -> Vec<u8> {
        let time = [(units >> 32) as u32, units as u32];
        let numbers = [interface, time[0], time[1], packet.len() as u32, original_len as u32];
        self.block(6, &[numbers.map(|number| self.n32(number)).as_flattened(), packet])
    }

    fn simple(self, packet: &[u8], original_len: usize) -> Vec<u8> {
        self.block(3, &[&self.n32(original_len as u32), packet])
    }

    /// An obsolete Packet Block.
    fn packet_block(self, interface: u16, units: u64, packet: &[u8], original_len: usize) -> Vec<u8> {
        let time = [(units >> 32) as u32, units as u32];
        let numbers = [time[0], time[1], packet.len() as u32, original_len as u32];
        let drops = self.n16(7);
        let numbers = numbers.map(|number| self.n32(number));
        self.block(2, &[&self.n16(interface), &drops, numbers.as_flattened(), packet])
    }
}

const BOTH: [To; 2] = [To { big: false }, To { big: true }];

/// A pcap file of link type 101 with this magic number and length of record headers.
fn pcap(to: To, magic: u32, record_header_bytes: usize) -> Vec<u8> {
    let mut file = to.n32(magic).to_vec();
    file.extend([to.n16(2), to.n16(4)].as_flattened());
    file.extend([0; 8]);
    // The upper half of the last field announces a frame check sequence of 4 bytes.
    file.extend([to.n32(65_535), to.n32(0x4400_0065)].as_flattened());
    for (time, packet) in content() {
        let fraction = if magic == 0xa1b2_3c4d { time.subsec_nanos() } else { time.subsec_micros() };
        let len = packet.len() as u32;
        file.extend([time.as_secs() as u32, fraction, len, len].map(|number| to.n32(number)).as_flattened());
        file.resize(file.len() + record_header_bytes - 16, 0xee);
        file.extend(packet);
    }
    file
}

#[test]
fn every_kind_of_pcap_gives_the_same_packets() {
    for to in BOTH {
        assert_eq!(read(&pcap(to, 0xa1b2_c3d4, 16)), (whole(), vec![], None), "{to:?}");
        assert_eq!(read(&pcap(to, 0xa1b2_3c4d, 16)), (whole(), vec![], None), "{to:?}, nanoseconds");
    }
    assert_eq!(read(&pcap(BOTH[0], 0xa1b2_cd34, 24)), (whole(), vec![], None), "modified");
    let mut writer = Writer::new(Vec::new()).expect("memory does not fail");
    for (time, packet) in content() {
        writer.write(time, &packet).expect("memory does not fail");
    }
    assert_eq!(read(&writer.into_inner()), (whole(), vec![], None), "written by the writer");
}

#[test]
fn every_packet_block_of_pcapng_is_read_in_both_orders_of_bytes() {
    for to in BOTH {
        let micros = |time: Duration| time.as_micros() as u64;
        let [(first_at, first), (second_at, second), (_, third)] = content().try_into().expect("three");
        let file = [
            to.section(),
            to.interface(101, 0, 6, 0),
            to.enhanced(0, micros(first_at), &first, 20),
            // Blocks that are skipped: interface statistics, name resolution, an unknown type.
            to.block(5, &[&[0; 12]]),
            to.block(4, &[&[0; 4]]),
            to.block(0x7777, &[&[1; 40]]),
            to.packet_block(0, micros(second_at), &second, 1401),
            to.simple(&third, 333),
        ];
        let (mut packets, unread, damage) = read(&file.concat());
        assert_eq!(packets.pop(), Some((third, 333, None)), "{to:?}: its block has no time");
        assert_eq!((&packets[..], unread, damage), (&whole()[..2], vec![], None), "{to:?}");
    }
}

#[test]
fn interfaces_have_links_units_and_snap_lengths_of_their_own() {
    for to in BOTH {
        let ethernet = [&[2; 12][..], &[0x81, 0, 0, 5, 8, 0], &ip(1, 60)].concat();
        let cooked = [&[8, 0][..], &[0; 18], &ip(2, 70)].concat();
        let file = [
            to.section(),
            to.interface(1, 0, 9, 0),
            to.interface(276, 0, 0x80 | 10, 100),
            to.enhanced(1, 7 << 10 | 512, &cooked, 90),
            to.enhanced(0, 8_000_000_001, &ethernet, 78),
            // A new section in the other byte order, in which interfaces are numbered again.
            To { big: !to.big }.section(),
            To { big: !to.big }.interface(101, 48, 6, 0),
            To { big: !to.big }.simple(&ip(3, 200)[..48], 200),
        ];
        let (packets, unread, damage) = read(&file.concat());
        assert_eq!((unread, damage), (vec![], None));
        let expected = [
            (ip(2, 70), 70, Some(Duration::from_millis(107_500))),
            (ip(1, 60), 60, Some(Duration::from_nanos(8_000_000_001))),
            (ip(3, 200)[..48].to_vec(), 200, None),
        ];
        assert_eq!(packets, expected, "{to:?}");
    }
}

#[test]
fn what_cannot_be_used_is_counted_and_the_rest_is_read() {
    let to = BOTH[0];
    let good = to.enhanced(0, 0, &ip(1, 20), 20);
    let mut malformed = to.enhanced(0, 0, &ip(1, 20), 20);
    malformed[20] = 200;
    let file = [
        to.section(),
        to.interface(101, 0, 6, 0),
        to.interface(0, 0, 6, 0),
        to.interface(127, 0, 6, 0),
        good.clone(),
        to.enhanced(3, 0, &ip(1, 20), 20),
        malformed,
        // Shorter than the 4 bytes of the address family.
        to.enhanced(1, 0, &[2, 0, 0], 3),
        to.enhanced(1, 0, &[], 0),
        to.enhanced(2, 0, &ip(1, 20), 20),
        to.packet_block(0, 0, &[0x55; 20], 20),
        good,
    ];
    let (packets, unread, damage) = read(&file.concat());
    let reasons = [
        (Reason::NotIp, 1),
        (Reason::HeaderCutOff, 2),
        (Reason::LinkType(127), 1),
        (Reason::UnknownInterface, 1),
        (Reason::MalformedBlock, 1),
    ];
    assert_eq!((packets.len(), &unread[..], damage), (2, &reasons[..], None));
}

/// Offset of each record in a file of three packets, and of the file's end.
fn records(file: &[u8], first_at: usize, len_of: impl Fn(&[u8]) -> usize) -> Vec<usize> {
    let mut starts = vec![first_at];
    while let Some(at) = starts.last().copied().filter(|at| *at < file.len()) {
        starts.push(at + len_of(&file[at..]));
    }
    starts
}

#[test]
fn a_capture_that_is_cut_off_anywhere_gives_what_came_before_and_says_where() {
    let u32_at = |record: &[u8], at: usize| {
        u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes")) as usize
    };
    let classic = pcap(BOTH[0], 0xa1b2_c3d4, 16);
    let starts = records(&classic, 24, |record| 16 + u32_at(record, 8));
    let mut blocks = [BOTH[0].section(), BOTH[0].interface(101, 0, 6, 0)].concat();
    let blocks_at = blocks.len();
    for (time, packet) in content() {
        blocks.extend(BOTH[0].enhanced(0, time.as_micros() as u64, &packet, packet.len()));
    }
    let block_starts = records(&blocks, blocks_at, |block| u32_at(block, 4));
    for (file, starts) in [(classic, starts), (blocks, block_starts)] {
        for end in starts[0]..=file.len() {
            let (packets, unread, damage) = read(&file[..end]);
            let complete = starts.iter().filter(|start| **start <= end).count() - 1;
            assert_eq!((&packets[..], unread), (&whole()[..complete], vec![]), "cut at {end}");
            if starts.contains(&end) {
                assert_eq!(damage, None, "cut at {end}, where a record ends");
            } else {
                let damage = damage.expect("cut off");
                assert_eq!(damage.offset, starts[complete] as u64, "cut at {end}");
                assert!(damage.to_string().contains(&format!("ends at byte {end}")), "{damage}");
            }
        }
    }
}

#[test]
fn a_damaged_capture_gives_what_came_before_and_says_what_is_wrong() {
    let classic = pcap(BOTH[0], 0xa1b2_c3d4, 16);
    // Corrupt the second record's captured length.
    let mut file = classic.clone();
    file[24 + 16 + 20 + 8..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let (packets, _, damage) = read(&file);
    let damage = damage.expect("damaged").to_string();
    assert_eq!(packets[..], whole()[..1]);
    assert!(damage.contains("byte 60: a record has 4294967295 bytes"), "{damage}");
    let to = BOTH[0];
    let start = [to.section(), to.interface(101, 0, 6, 0), to.enhanced(0, 0, &ip(1, 20), 20)].concat();
    for (len_at, len, what) in [
        (4, 8, "a block has 8 bytes"),
        (4, 53, "a block has 53 bytes"),
        (4, u32::MAX, "a block has 4294967295 bytes"),
        (48, 60, "a block has 52 bytes, but its trailing length is 60"),
    ] {
        let mut block = to.enhanced(0, 0, &ip(2, 20), 20);
        block[len_at..len_at + 4].copy_from_slice(&u32::to_le_bytes(len));
        let (packets, _, damage) = read(&[&start[..], &block].concat());
        let damage = damage.expect("damaged").to_string();
        assert_eq!(packets.len(), 1);
        assert!(damage.contains(&format!("byte {}: {what}", start.len())), "{damage}");
    }
}

#[test]
fn what_is_no_capture_is_reported_what_it_is() {
    for (file, what) in [
        (&b""[..], "it is empty"),
        (b"0.5 1 2 3 4 5\n", "it begins with the bytes 30 2e 35 20"),
        (&[0x1f, 0x8b, 8, 0, 0, 0][..], "compressed by gzip"),
        (&pcap(BOTH[0], 0xa1b2_c3d4, 16)[..23], "it ends inside its header"),
    ] {
        let error = Packets::new("a.pcap", file).err().expect("refused").to_string();
        assert!(error.starts_with("a.pcap: neither pcap nor pcapng: ") && error.contains(what), "{error}");
    }
    assert!(
        Packets::open("/nowhere.pcap".as_ref())
            .is_err_and(|error| error.to_string().contains("/nowhere.pcap"))
    );
}

/// Runs a tool of Wireshark or tcpdump in a folder and returns its output.
fn tool(folder: &Path, command: &str) -> String {
    let mut words = command.split(' ');
    let name = words.next().expect("a command");
    let output = Command::new(name).args(words).current_dir(folder).output();
    let output =
        output.unwrap_or_else(|error| panic!("{name}: {error}; scripts/install.sh test installs it"));
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_wiresharks_tools_write_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("raw.pcap"), pcap(BOTH[0], 0xa1b2_c3d4, 16)).expect("writable");
    let of = |name: &str| read(&std::fs::read(at(name)).expect("written"));
    for format in ["pcap", "nsecpcap", "modpcap", "pcapng"] {
        tool(folder.path(), &format!("editcap -F {format} raw.pcap again"));
        assert_eq!(of("again"), (whole(), vec![], None), "{format}");
        tool(folder.path(), &format!("editcap -F {format} -s 96 raw.pcap snapped"));
        let snapped: Vec<Read> = whole()
            .into_iter()
            .map(|(packet, len, time)| (packet[..packet.len().min(96)].to_vec(), len, time))
            .collect();
        assert_eq!(of("snapped"), (snapped, vec![], None), "{format}");
    }
    // Two interfaces with different link types in one file.
    let mut ethernet = pcap(BOTH[0], 0xa1b2_c3d4, 16)[..24].to_vec();
    ethernet[20] = 1;
    let frame = [&[2; 12][..], &[8, 0], &ip(9, 50)].concat();
    ethernet.extend([1_800_000_000u32, 5, 64, 64].map(u32::to_le_bytes).as_flattened());
    ethernet.extend(&frame);
    std::fs::write(at("ethernet.pcap"), ethernet).expect("writable");
    tool(folder.path(), "mergecap -F pcapng -w merged raw.pcap ethernet.pcap");
    let (packets, unread, damage) = of("merged");
    let last = (ip(9, 50), 50, Some(Duration::new(1_800_000_000, 5_000)));
    assert_eq!((packets, unread, damage), ([whole(), vec![last]].concat(), vec![], None));
}

#[test]
fn what_the_writer_writes_tcpdump_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::new(Vec::new()).expect("memory does not fail");
    for (time, packet) in content() {
        writer.write(time, &packet).expect("memory does not fail");
    }
    std::fs::write(folder.path().join("a.pcap"), writer.into_inner()).expect("writable");
    let reported = tool(folder.path(), "tcpdump -n -tt -r a.pcap");
    let lines: Vec<&str> = reported.lines().collect();
    assert_eq!(lines.len(), 3, "{reported}");
    assert!(lines[1].starts_with("1700000000.250000 IP 10.0.0.1 > 10.0.0.2"), "{reported}");
}

proptest! {
    #[test]
    fn any_bytes_behind_any_start_are_read_or_refused(
        kind in 0usize..6, bytes in proptest::collection::vec(any::<u8>(), 0..300),
        at in any::<prop::sample::Index>(), flip: u8,
    ) {
        let start = match kind {
            0 => pcap(BOTH[0], 0xa1b2_c3d4, 16),
            1 => pcap(BOTH[1], 0xa1b2_3c4d, 16),
            2 => pcap(BOTH[0], 0xa1b2_cd34, 24)[..24].to_vec(),
            3 | 4 => {
                let to = BOTH[kind - 3];
                let [_, (_, packet), _] = content().try_into().expect("three");
                [to.section(), to.interface(0, 0, 6, 0), to.simple(&packet, 1401), to.packet_block(0, 9, &packet, 7)].concat()
            }
            _ => Vec::new(),
        };
        let mut file = [start, bytes].concat();
        if !file.is_empty() {
            let at = at.index(file.len());
            file[at] ^= flip;
        }
        if let Ok(mut packets) = Packets::new("any", &file[..]) {
            while let Some(packet) = packets.next_packet().expect("memory does not fail") {
                prop_assert!(!packet.bytes.is_empty() && packet.bytes.len() <= packet.original_len);
            }
            prop_assert!(packets.damage().is_none_or(|damage| damage.offset <= file.len() as u64));
        }
    }
}
