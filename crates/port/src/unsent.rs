//! The packets that the system refused to send, with the reasons, for the owner of their SAs.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

use convoy_packet::protocol::{AH, ESP, UDP};
use convoy_packet::{Layout, udp};

/// Kinds of packets that are distinguished until they are taken; further ones are counted together.
const LIMIT: usize = 4_096;

/// The SA of refused packets, as far as their outer headers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnsentSa {
    /// Their destination.
    pub destination: IpAddr,
    /// The SPI of ESP or AH.
    pub spi: u32,
    /// Whether it is AH.
    pub is_ah: bool,
}

/// Packets that the system refused to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// `None` for packets other than ESP or AH, such as IKE messages, for later fragments, and if
    /// too many kinds were refused since the last call.
    pub sa: Option<UnsentSa>,
    /// The system's reason (`errno`).
    pub errno: i32,
    /// The number of packets.
    pub packets: u64,
}

/// What was refused since it was last taken.
#[derive(Debug, Default)]
pub(crate) struct UnsentPackets(HashMap<(Option<UnsentSa>, i32), u64>);

impl UnsentPackets {
    /// Counts a whole IP packet that the system refused.
    pub(crate) fn refused(&mut self, packet: &[u8], error: &io::Error) {
        self.count(packet, error.raw_os_error().unwrap_or(libc::EIO));
    }

    /// Counts a packet whose source is no address of the port's.
    pub(crate) fn not_from_here(&mut self, packet: &[u8]) {
        self.count(packet, libc::EADDRNOTAVAIL);
    }

    /// Counts a packet that is longer than its interface can send.
    pub(crate) fn too_long(&mut self, packet: &[u8]) {
        self.count(packet, libc::EMSGSIZE);
    }

    /// Counts a packet for which an interface's queue had no room.
    pub(crate) fn no_buffer(&mut self, packet: &[u8]) {
        self.count(packet, libc::ENOBUFS);
    }

    fn count(&mut self, packet: &[u8], errno: i32) {
        let key = (sa_of(packet), errno);
        let is_known = self.0.len() < LIMIT || self.0.contains_key(&key);
        *self.0.entry(if is_known { key } else { (None, errno) }).or_default() += 1;
    }

    /// Moves all of it to `unsent`.
    pub(crate) fn take(&mut self, unsent: &mut Vec<Unsent>) {
        let drained = self.0.drain();
        unsent.extend(drained.map(|((sa, errno), packets)| Unsent { sa, errno, packets }));
    }
}

/// The SA of a packet that is about to leave.
fn sa_of(packet: &[u8]) -> Option<UnsentSa> {
    let layout = Layout::parse(packet).ok()?;
    if layout.fragment.is_some_and(|fragment| fragment.offset > 0) {
        return None;
    }
    let (_, destination) = layout.addresses(packet);
    let body = packet.get(layout.payload..)?;
    let spi = match layout.protocol {
        // ESP in UDP; 0 in its place marks an IKE message (RFC 3948 section 2.2).
        UDP => body.get(udp::HEADER_BYTES..)?,
        ESP => body,
        AH => body.get(4..)?,
        _ => return None,
    };
    let spi = u32::from_be_bytes(*spi.first_chunk()?);
    (spi != 0).then_some(UnsentSa { destination, spi, is_ah: layout.protocol == AH })
}

#[cfg(test)]
mod tests {
    use convoy_packet::IpHeader;

    use super::*;

    /// A packet of `protocol` whose body is `body`.
    fn packet(protocol: u8, body: &[u8]) -> Vec<u8> {
        let header = IpHeader::new(protocol, [192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let mut packet = [&vec![0; header.header_len()], body].concat();
        header.write(&mut packet);
        packet
    }

    fn taken(unsent: &mut UnsentPackets) -> Vec<Unsent> {
        let mut all = Vec::new();
        unsent.take(&mut all);
        all.sort_by_key(|unsent| (unsent.sa.map(|sa| sa.spi), unsent.errno));
        all
    }

    #[test]
    fn refused_packets_are_counted_by_sa_and_error_until_they_are_taken() {
        let in_udp = [&[0x11, 0x94, 0x11, 0x94, 0, 16, 0, 0][..], &[0, 0, 0x10, 1, 0, 0, 0, 7]].concat();
        let ike = [&in_udp[..8], &[0; 8]].concat();
        let no_route = io::Error::from_raw_os_error(libc::ENETUNREACH);
        let mut unsent = UnsentPackets::default();
        unsent.refused(&packet(UDP, &in_udp), &no_route);
        unsent.refused(&packet(UDP, &in_udp), &no_route);
        unsent.too_long(&packet(ESP, &[0, 0, 0x10, 2, 0, 0, 0, 1]));
        unsent.not_from_here(&packet(AH, &[4, 4, 0, 0, 0, 0, 0x10, 3, 0, 0, 0, 1]));
        unsent.refused(&packet(UDP, &ike), &no_route);
        unsent.refused(&packet(ESP, &[1, 2]), &no_route);
        let destination = [192, 0, 2, 2].into();
        let of = |spi, is_ah, errno, packets| Unsent {
            sa: Some(UnsentSa { destination, spi, is_ah }),
            errno,
            packets,
        };
        let expected = [
            Unsent { sa: None, errno: libc::ENETUNREACH, packets: 2 },
            of(0x1001, false, libc::ENETUNREACH, 2),
            of(0x1002, false, libc::EMSGSIZE, 1),
            of(0x1003, true, libc::EADDRNOTAVAIL, 1),
        ];
        assert_eq!(taken(&mut unsent), expected);
        assert_eq!(taken(&mut unsent), []);
    }

    #[test]
    fn memory_is_bounded_and_no_packet_is_forgotten() {
        let mut unsent = UnsentPackets::default();
        for spi in 1..=LIMIT as u32 + 100 {
            unsent.too_long(&packet(ESP, &[spi.to_be_bytes(), [0; 4]].concat()));
        }
        let taken = taken(&mut unsent);
        assert_eq!(taken.len(), LIMIT + 1);
        assert_eq!(taken.iter().map(|unsent| unsent.packets).sum::<u64>(), LIMIT as u64 + 100);
    }
}
