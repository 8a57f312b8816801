//! Any file either is a capture or yields an error. A capture that is cut off yields the same
//! packets as the whole one, up to the cut.
#![no_main]

use convoy_capture::{Packets, is_capture};
use libfuzzer_sys::fuzz_target;

/// The bytes of each packet and the number of unusable packets; `None` if it is no capture.
fn read(file: &[u8]) -> Option<(Vec<Vec<u8>>, u64)> {
    let Ok(mut packets) = Packets::new("fuzz", file) else {
        return None;
    };
    assert!(is_capture(file));
    let mut all = Vec::new();
    while let Some(packet) = packets.next_packet().expect("memory does not fail") {
        assert!(matches!(packet.bytes[0] >> 4, 4 | 6) && packet.bytes.len() <= packet.original_len);
        all.push(packet.bytes.to_vec());
    }
    let unread = packets.unread();
    assert_eq!(unread.iter().map(|(_, count)| count).sum::<u64>(), unread.total());
    if let Some(damage) = packets.damage() {
        assert!(damage.offset <= file.len() as u64 && !damage.to_string().is_empty());
    }
    Some((all, unread.total()))
}

fuzz_target!(|file: &[u8]| {
    let Some((whole, unread)) = read(file) else { return };
    let cut = file.len() / 2;
    if let Some((part, part_unread)) = read(&file[..cut]) {
        assert!(whole.starts_with(&part) && part_unread <= unread);
    }
});
