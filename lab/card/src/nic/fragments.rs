//! In how many frames a packet leaves, where the card cuts it for its line (`fragment.sv`).

use convoy_packet::ethernet::{self, HEADER_BYTES};
use convoy_packet::{Ethernet, Ipv4, ipv4};

/// The number of frames in which the card sends `frame`, whose IP header has its length as on the
/// line, if that carries packets of up to `line_mtu` bytes.
pub(super) fn frames(frame: &[u8], line_mtu: Option<u16>) -> u32 {
    let Some(mtu) = line_mtu.map(usize::from) else { return 1 };
    let header = || {
        let is_ip = Ethernet::parse(frame).ok()?.ethertype() == ethernet::IPV4;
        Ipv4::parse_quoted(&frame[HEADER_BYTES..]).ok().filter(|_| is_ip)
    };
    let Some(packet) = header() else { return 1 };
    let total = usize::from(packet.total_length());
    if total <= mtu || packet.dont_fragment() || packet.header_len() != ipv4::HEADER_BYTES {
        return 1;
    }
    let step = (mtu - ipv4::HEADER_BYTES) & !7;
    (total - ipv4::HEADER_BYTES).div_ceil(step) as u32
}
