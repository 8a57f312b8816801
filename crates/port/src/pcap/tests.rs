use super::*;

/// A capture of one packet, composed by hand: file header, record header, the link-layer header
/// `before`, 20 bytes of IPv4.
fn capture(link: u32, before: &[u8], original_extra: u32) -> Vec<u8> {
    let packet = [before, &PACKET].concat();
    let mut file = 0xa1b2_c3d4u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0]);
    file.extend(link.to_le_bytes());
    file.extend([0; 8]);
    file.extend((packet.len() as u32).to_le_bytes());
    file.extend((packet.len() as u32 + original_extra).to_le_bytes());
    file.extend(packet);
    file
}

const PACKET: [u8; 20] = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];

/// The packets read from a capture, and the port.
fn read_as(file: &[u8], change: impl Fn(Pcap) -> Pcap) -> Result<(Vec<Vec<u8>>, Pcap), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("in.pcap");
    std::fs::write(&path, file).expect("written");
    let mut port = change(Pcap::open("inside", Some(&path), None).map_err(|error| error.to_string())?);
    let mut pool = FramePool::new(4, 0);
    let mut burst = Vec::new();
    port.receive(&mut pool, 10, &mut burst).map_err(|error| error.to_string())?;
    Ok((burst.iter().map(|frame| frame.to_vec()).collect(), port))
}

fn read(file: &[u8]) -> (Vec<Vec<u8>>, Pcap) {
    read_as(file, |port| port).expect("a capture")
}

/// Why packets were skipped.
fn left_out(port: &Pcap) -> Vec<(Reason, u64)> {
    assert_eq!(port.counters().receive_dropped, port.unread().total());
    let by_device: u64 = port.device_counters().iter().map(|(_, count)| count).sum();
    assert_eq!(by_device, port.unread().total() + u64::from(port.damage().is_some()));
    port.unread().iter().collect()
}

#[test]
fn ethernet_with_a_vlan_tag_and_raw_ip_give_the_same_packet() {
    let ethernet = [&[0; 12][..], &[0x81, 0, 0, 7, 8, 0]].concat();
    for file in [capture(1, &ethernet, 0), capture(101, &[], 0)] {
        let (packets, port) = read(&file);
        assert_eq!((packets, left_out(&port)), (vec![PACKET.to_vec()], vec![]));
        assert!(port.is_ended() && port.damage().is_none());
    }
}

#[test]
fn what_cannot_be_handed_out_is_counted_by_reason() {
    let arp = [&[0; 12][..], &[8, 6]].concat();
    for (file, reason) in [
        (capture(101, &[], 9), Reason::Truncated),
        (capture(1, &arp, 0), Reason::NotIp),
        (capture(147, &[], 0), Reason::LinkType(147)),
    ] {
        let (packets, port) = read(&file);
        assert_eq!((packets, left_out(&port)), (vec![], vec![(reason, 1)]));
    }
}

#[test]
fn a_truncated_packet_is_filled_up_for_those_who_look_at_sizes() {
    let (packets, port) = read_as(&capture(101, &[], 9), Pcap::filling_up_truncated).expect("a capture");
    assert_eq!((packets, left_out(&port)), (vec![[&PACKET[..], &[0; 9]].concat()], vec![]));
    // Without complete IP headers, the packet's kind is unknown.
    let mut file = capture(101, &[], 0);
    file[24 + 8] = 19;
    file.pop();
    let (packets, port) = read_as(&file, Pcap::filling_up_truncated).expect("a capture");
    assert_eq!((packets, left_out(&port)), (vec![], vec![(Reason::Truncated, 1)]));
}

#[test]
fn a_packet_that_the_pool_has_no_frame_for_is_counted_as_too_large_and_not_as_something_else() {
    let len = 65_535 - 20;
    let mut file = capture(101, &[], 0);
    file[24 + 8..24 + 16].copy_from_slice([20 + len as u32; 2].map(u32::to_le_bytes).as_flattened());
    file[24 + 16 + 2..][..2].copy_from_slice(&65_535u16.to_be_bytes());
    file.resize(file.len() + len, 0);
    let (packets, port) = read(&file);
    assert_eq!((packets.len(), left_out(&port)), (0, vec![(Reason::TooLarge, 1)]));
}

#[test]
fn a_file_that_is_no_capture_is_an_error_and_one_that_ends_early_gives_what_it_has() {
    let error = read_as(b"not a capture at all, but long enough", |port| port).err().expect("no capture");
    assert!(error.contains("neither pcap nor pcapng"), "{error}");
    let whole = capture(101, &[], 0);
    let twice = [&whole[..], &whole[24..]].concat();
    let (packets, port) = read(&twice[..twice.len() - 5]);
    assert_eq!((packets.len(), left_out(&port)), (1, vec![]));
    assert_eq!(port.damage().map(|damage| damage.offset), Some(whole.len() as u64));
    assert!(port.is_ended());
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

#[test]
fn udp_over_ipv6_that_goes_outside_has_a_checksum_and_what_goes_inside_is_as_it_came() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out.pcap");
    let header = [&[0x60, 0, 0, 0, 0, 12, 17, 64][..], &[7; 32]].concat();
    let packet = [&header[..], &[0x11, 0x94, 0x11, 0x94, 0, 12, 0, 0, 1, 2, 3, 4]].concat();
    for is_outside in [true, false] {
        let mut pool = FramePool::new(4, 0);
        let mut port = Pcap::open("outside", None, Some(&path)).expect("made");
        if is_outside {
            port = port.completing_udp_checksums();
        }
        let mut burst = vec![pool.take_filled(&packet, 0).expect("a frame")];
        port.send(&mut pool, &mut burst).expect("written");
        port.flush().expect("flushed");
        let (packets, _) = read(&std::fs::read(&path).expect("written"));
        assert_eq!(packets[0][46..48] != [0, 0], is_outside);
        assert_eq!(packets[0] == packet, !is_outside);
    }
}
