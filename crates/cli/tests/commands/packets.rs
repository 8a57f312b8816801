//! Packets and captures of them.

/// A UDP packet from one site to the other, with varying lengths.
pub(crate) fn packet(at: usize) -> Vec<u8> {
    packet_of(at, at * 7 % 1300)
}

/// A UDP packet from one site to the other, with a payload of `bytes`.
pub(crate) fn packet_of(at: usize, bytes: usize) -> Vec<u8> {
    let payload = vec![at as u8; bytes];
    let (udp_len, len) = (8 + payload.len() as u16, 28 + payload.len() as u16);
    let mut packet = vec![0x45, 0, 0, 0, 0, at as u8, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1];
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    let sum = packet.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u32>();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([0x10, 0, 0x20, 0]);
    packet.extend(udp_len.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

/// A capture of raw IP packets in the classic pcap format.
pub(crate) fn capture(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file: Vec<u8> =
        [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101].into_iter().flat_map(u32::to_le_bytes).collect();
    for packet in packets {
        let len = packet.len() as u32;
        file.extend([0, 0, len, len].into_iter().flat_map(u32::to_le_bytes));
        file.extend(packet);
    }
    file
}
