//! ESP in UDP (RFC 3948): the payloads of datagrams on port 4500, and checksums behind a NAT.

use convoy_packet::protocol::{TCP, UDP};
use convoy_packet::{Udp, checksum, ip, tcp, udp};

/// The payload of a UDP datagram to the encapsulation port (RFC 3948 section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// ESP: the first four bytes are its SPI.
    Esp,
    /// IKE: four zero bytes stand where the SPI would.
    Ike,
    /// A keep-alive: one byte 0xff.
    Keepalive,
    /// Too short for any of these.
    Malformed,
}

/// The keep-alive's payload (RFC 3948 section 2.3).
pub const KEEPALIVE: [u8; 1] = [0xff];

/// The kind of a datagram's payload.
pub fn classify(payload: &[u8]) -> Carried {
    match payload {
        [0xff] => Carried::Keepalive,
        [0, 0, 0, 0, ..] => Carried::Ike,
        [_, _, _, _, rest @ ..] if rest.len() >= 4 => Carried::Esp,
        _ => Carried::Malformed,
    }
}

/// Recomputes the TCP or UDP checksum of a packet whose transport header is at `at`. A UDP checksum
/// of 0 in IPv4 stays: the sender did without. Bytes behind UDP's own length are no part of the
/// datagram (RFC 768, RFC 9868).
pub(crate) fn fix_checksum(packet: &mut [u8], at: usize, protocol: u8) {
    let rest = packet.len() - at;
    match protocol {
        TCP => {
            let pseudo = checksum::pseudo_header(packet, TCP, rest);
            tcp::fill_checksum(&mut packet[at..], pseudo);
        }
        UDP => {
            let Ok(datagram) = Udp::parse(&packet[at..]) else { return };
            if datagram.checksum() == 0 && !ip::is_v6(packet) {
                return;
            }
            let len = datagram.length().into();
            let pseudo = checksum::pseudo_header(packet, UDP, len);
            udp::fill_checksum(&mut packet[at..at + len], pseudo);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_distinguished_by_their_first_bytes() {
        assert_eq!(classify(&[0xff]), Carried::Keepalive);
        assert_eq!(classify(&[0, 0, 0, 0, 1, 2]), Carried::Ike);
        assert_eq!(classify(&[0, 0, 1, 0, 0, 0, 0, 1, 9]), Carried::Esp);
        assert_eq!(classify(&[0, 0, 1, 0, 0, 0]), Carried::Malformed);
        assert_eq!(classify(&[]), Carried::Malformed);
    }

    #[test]
    fn a_checksum_behind_a_nat_is_made_right_again() {
        // A DNS query over UDP, its checksum computed for 10.0.0.1 -> 10.0.0.2.
        let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0, 53, 0, 53, 0, 12, 1, 1, b'a', b'b', b'c', b'd']);
        fix_checksum(&mut packet, 20, UDP);
        let first = packet[26..28].to_vec();
        packet[15] = 9;
        fix_checksum(&mut packet, 20, UDP);
        let second = u16::from_be_bytes([packet[26], packet[27]]);
        assert_eq!(u16::from_be_bytes([first[0], first[1]]).wrapping_sub(second), 8);
        packet[26..28].fill(0);
        fix_checksum(&mut packet, 20, UDP);
        assert_eq!(packet[26..28], [0, 0]);
    }

    #[test]
    fn bytes_behind_a_datagram_are_not_in_its_checksum() {
        let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0, 53, 0, 53, 0, 12, 1, 1, b'a', b'b', b'c', b'd']);
        fix_checksum(&mut packet, 20, UDP);
        let mut longer = [&packet[..], &[7; 6]].concat();
        fix_checksum(&mut longer, 20, UDP);
        assert_eq!(longer[20..32], packet[20..]);
    }
}
