//! The maximum segment size of TCP connections through tunnels.

use super::*;
use convoy_packet::protocol::{FRAGMENT, TCP};
use convoy_packet::tcp;

/// The MTU of the inside interface.
const INSIDE: u16 = 1_400;

/// Two gateways that lower the size.
fn pair(link: &Link, clamp: &MssClamp) -> [Gateway; 2] {
    let mut both = link.pair();
    both.iter_mut().for_each(|gateway| gateway.ipsec.tables.config.mss_clamp = clamp.clone());
    both
}

fn auto() -> MssClamp {
    MssClamp::Auto(vec![INSIDE])
}

/// A segment from behind the first gateway that announces `mss`.
fn segment(is_v6: bool, flags: u8, mss: u16) -> Vec<u8> {
    let ends = if is_v6 { ["2001:db8:1::5", "2001:db8:2::9"] } else { ["10.1.0.5", "10.2.0.9"] };
    let [source, destination] = ends.map(|text| text.parse().expect(text));
    let header = IpHeader::new(TCP, source, destination);
    let at = header.header_len();
    let mut packet = vec![0; at + tcp::HEADER_BYTES];
    packet[at..at + 4].copy_from_slice(&[0x9c, 0x40, 1, 0xbb]);
    packet.extend([2, 4]);
    packet.extend(mss.to_be_bytes());
    packet[at + 12] = 6 << 4;
    packet[at + tcp::FLAGS_AT] = flags;
    header.write(&mut packet);
    let pseudo = checksum::pseudo_header(&packet, TCP, packet.len() - at);
    tcp::fill_checksum(&mut packet[at..], pseudo);
    packet
}

/// What a packet announces; fails if its checksum is wrong.
fn announced(packet: &[u8]) -> u16 {
    let at = Layout::parse(packet).expect("well-formed").payload;
    let pseudo = checksum::pseudo_header(packet, TCP, packet.len() - at);
    assert_eq!(checksum::of(&packet[at..], pseudo), 0, "its checksum");
    u16::from_be_bytes([packet[at + 22], packet[at + 23]])
}

#[test]
fn a_syn_is_lowered_to_the_inside_mtu_on_the_way_out_and_on_the_way_in() {
    for mode in [Mode::Tunnel, Mode::Iptfs] {
        for (is_v6, decrement_ttl) in [(false, false), (false, true), (true, false), (true, true)] {
            let link = Link { mode, decrement_ttl, ..Link::default() };
            let fits = if is_v6 { INSIDE - 60 } else { INSIDE - 40 };
            for flags in [tcp::SYN, tcp::SYN | tcp::ACK] {
                for clamping in [0, 1] {
                    let mut both = link.pair();
                    both[clamping].ipsec.tables.config.mss_clamp = auto();
                    let [a, b] = &mut both;
                    let plain = [segment(is_v6, flags, 1_460), segment(is_v6, flags, 500)];
                    let outer = if mode == Mode::Iptfs { a.send_packed(&plain) } else { a.send(&plain) };
                    let came: Vec<u16> = b.receive(&outer).iter().map(|packet| announced(packet)).collect();
                    assert_eq!(came, [fits, 500], "{mode:?}, {is_v6}, {decrement_ttl}, {flags}, {clamping}");
                    both.iter_mut().for_each(Gateway::assert_no_leak);
                }
            }
        }
    }
}

#[test]
fn a_tunnel_with_less_room_than_the_inside_interface_decides() {
    let link = Link { mtu: 1_000, ..Link::default() };
    for clamping in [0, 1] {
        let mut both = link.pair();
        both[clamping].ipsec.tables.config.mss_clamp = auto();
        let [a, b] = &mut both;
        let outer = a.send(&[segment(false, tcp::SYN, 1_460), segment(true, tcp::SYN, 1_440)]);
        let came: Vec<u16> = b.receive(&outer).iter().map(|packet| announced(packet)).collect();
        assert!((900..1_000 - 20 - 8 - 40).contains(&came[0]), "{came:?}");
        assert_eq!(came[1], 1_220, "IPv6 keeps 1280 bytes on any path");
    }
}

#[test]
fn a_number_is_the_size_whatever_the_mtu() {
    let [mut a, mut b] = pair(&Link::default(), &MssClamp::To(1_200));
    let outer = a.send(&[segment(false, tcp::SYN, 1_460), segment(true, tcp::SYN, 1_460)]);
    let came: Vec<u16> = b.receive(&outer).iter().map(|packet| announced(packet)).collect();
    assert_eq!(came, [1_200, 1_200]);
}

#[test]
fn what_begins_no_connection_or_is_not_plain_stays_as_it_is() {
    let [mut a, mut b] = pair(&Link::default(), &auto());
    let later = segment(false, tcp::ACK | tcp::PSH, 1_460);
    let mut piece = segment(false, tcp::SYN, 1_460);
    // More fragments follow.
    piece[6] = 0x20;
    convoy_packet::ipv4::fill_checksum(&mut piece);
    let mut atomic = segment(true, tcp::SYN, 1_460);
    atomic.splice(40..40, [TCP, 0, 0, 0, 0, 0, 0, 9]);
    atomic[6] = FRAGMENT;
    ip::set_length(&mut atomic);
    let mut with_options = segment(true, tcp::SYN, 1_460);
    with_options.splice(40..40, [TCP, 0, 1, 4, 0, 0, 0, 0]);
    with_options[6] = 60;
    ip::set_length(&mut with_options);
    let mut truncated = segment(false, tcp::SYN, 1_460);
    truncated.truncate(truncated.len() - 2);
    ip::set_length(&mut truncated);
    for packet in [later, piece, atomic, with_options, truncated] {
        let outer = a.send(std::slice::from_ref(&packet));
        assert_eq!(b.receive(&outer), [packet]);
    }
    let [mut a, mut b] = Link::default().pair();
    let outer = a.send(&[segment(false, tcp::SYN, 1_460)]);
    assert_eq!(announced(&b.receive(&outer)[0]), 1_460, "without clamping");
}

#[test]
fn a_syn_between_other_packets_of_its_flow_leaves_the_order_and_the_rest_alone() {
    let [mut a, mut b] = pair(&Link::default(), &auto());
    let data = segment(false, tcp::ACK, 1_460);
    let syn = segment(false, tcp::SYN, 1_460);
    let outer = a.send(&[data.clone(), data.clone(), syn, data.clone(), data.clone()]);
    let came = b.receive(&outer);
    assert_eq!((came.len(), announced(&came[2])), (5, INSIDE - 40));
    assert!([0, 1, 3, 4].iter().all(|at| came[*at] == data));
}
