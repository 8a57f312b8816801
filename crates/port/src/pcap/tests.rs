use super::*;

/// A capture of one packet, written by hand: header, record, Ethernet with a VLAN tag, 20 bytes of IPv4.
fn capture(link: u32, before: &[u8], original_extra: u32) -> Vec<u8> {
    let mut packet = before.to_vec();
    packet.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let mut file = 0xa1b2_c3d4u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0]);
    file.extend(link.to_le_bytes());
    file.extend([0; 8]);
    file.extend((packet.len() as u32).to_le_bytes());
    file.extend((packet.len() as u32 + original_extra).to_le_bytes());
    file.extend(packet);
    file
}

fn read(file: &[u8]) -> (Result<Vec<Vec<u8>>, String>, u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("in.pcap");
    std::fs::write(&path, file).expect("written");
    let mut port = match Pcap::open("inside", Some(&path), None) {
        Ok(port) => port,
        Err(error) => return (Err(error.to_string()), 0),
    };
    let mut pool = FramePool::new(4, 0);
    let mut burst = Vec::new();
    let result = port.receive(&mut pool, 10, &mut burst).map_err(|error| error.to_string());
    (result.map(|_| burst.iter().map(|frame| frame.to_vec()).collect()), port.counters().receive_dropped)
}

#[test]
fn ethernet_with_a_vlan_tag_and_raw_ip_give_the_same_packet() {
    let ethernet = [&[0; 12][..], &[0x81, 0, 0, 7, 8, 0]].concat();
    let tagged = read(&capture(1, &ethernet, 0)).0.expect("a packet");
    let raw = read(&capture(101, &[], 0)).0.expect("a packet");
    assert_eq!(tagged, raw);
    assert_eq!((raw.len(), raw[0].len()), (1, 20));
}

#[test]
fn what_is_cut_short_or_not_ip_is_counted() {
    assert_eq!(read(&capture(101, &[], 9)), (Ok(vec![]), 1));
    let arp = [&[0; 12][..], &[8, 6]].concat();
    assert_eq!(read(&capture(1, &arp, 0)), (Ok(vec![]), 1));
}

#[test]
fn a_file_that_is_no_capture_or_ends_early_is_an_error_with_its_packet() {
    assert!(
        read(b"not a capture at all, but long enough")
            .0
            .expect_err("no capture")
            .contains("neither pcap nor pcapng")
    );
    let whole = capture(101, &[], 0);
    let text = read(&whole[..whole.len() - 5]).0.expect_err("cut short");
    assert!(text.contains("packet 1"), "{text}");
}

#[test]
fn what_is_written_is_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out.pcap");
    let mut pool = FramePool::new(4, 0);
    let mut port = Pcap::open("outside", None, Some(&path)).expect("made");
    let packet = [&[0x45, 0, 0, 24][..], &[7; 20]].concat();
    let mut burst = vec![pool.take_filled(&packet, 0).expect("a frame")];
    port.send(&mut pool, &mut burst).expect("written");
    port.flush().expect("flushed");
    let mut port = Pcap::open("inside", Some(&path), None).expect("a capture");
    assert_eq!(port.receive(&mut pool, 4, &mut burst).expect("read"), 1);
    assert_eq!(burst[0][..], packet[..]);
    assert!(port.receive(&mut pool, 4, &mut burst).expect("read") == 0 && port.is_ended());
}
