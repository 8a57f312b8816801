//! The packets of a stream: UDP between given addresses.

use std::net::{IpAddr, SocketAddr};

use convoy_packet::protocol::UDP;
use convoy_packet::{IpHeader, checksum, udp};

use crate::device::MeasureError;
use crate::family::Family;
use crate::lengths::Lengths;
use crate::stamp::Stamp;

/// Payload byte after the stamp.
const FILLER: u8 = 0x5c;

/// Source and destination of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The source.
    pub from: SocketAddr,
    /// The destination, of the same family.
    pub to: SocketAddr,
    /// Number of consecutive destination addresses, used in turn. With one tunnel per host, this is
    /// also the number of SAs.
    pub hosts: u16,
}

impl Flow {
    /// From one host to another.
    ///
    /// # Errors
    /// [`MeasureError::Invalid`] if their addresses are of two families.
    pub fn between(from: SocketAddr, to: SocketAddr) -> Result<Self, MeasureError> {
        if from.is_ipv4() != to.is_ipv4() {
            let what = format!(
                "{} and {} are of different families, so no packet can pass between them",
                from.ip(),
                to.ip()
            );
            return Err(MeasureError::Invalid(what));
        }
        Ok(Self { from, to, hosts: 1 })
    }

    /// The stream in the opposite direction.
    pub fn reversed(self) -> Self {
        Self { from: self.to, to: self.from, ..self }
    }

    /// The packets' address family.
    pub const fn family(&self) -> Family {
        Family::of(self.from.ip())
    }

    /// The destination address that is `host` after the first one.
    fn receiver(&self, host: u16) -> IpAddr {
        match self.to.ip() {
            IpAddr::V4(first) => IpAddr::V4(u32::from(first).wrapping_add(host.into()).into()),
            IpAddr::V6(first) => IpAddr::V6(u128::from(first).wrapping_add(host.into()).into()),
        }
    }
}

/// Packet templates of a stream, complete but for the stamps.
pub(crate) struct Packets {
    templates: Vec<Vec<u8>>,
}

/// Limit on the templates, so that they stay in the cache.
const MOST_TEMPLATES: usize = 4096;

impl Packets {
    /// Templates of a flow; all lengths must have room for a stamp.
    pub(crate) fn new(flow: Flow, lengths: Lengths) -> Self {
        let cycle = lengths.cycle();
        let hosts = usize::from(flow.hosts.max(1));
        // As many templates as it takes for every host to get every length, up to the limit.
        let count = (hosts * cycle.len()).min(MOST_TEMPLATES);
        let templates =
            (0..count).map(|at| packet(flow, (at % hosts) as u16, cycle[at % cycle.len()])).collect();
        Self { templates }
    }

    /// The packet with this number, without its stamp.
    #[inline]
    pub(crate) fn of(&self, sequence: u64) -> &[u8] {
        &self.templates[(sequence % self.templates.len() as u64) as usize]
    }
}

/// Builds a UDP packet with a checksum, since kernels and gateways merge only datagrams with one.
fn packet(flow: Flow, host: u16, length: u16) -> Vec<u8> {
    let mut bytes = vec![FILLER; usize::from(length)];
    let header = IpHeader::new(UDP, flow.from.ip(), flow.receiver(host));
    let at = header.header_len();
    header.write(&mut bytes);
    udp::write(&mut bytes[at..], flow.from.port(), flow.to.port());
    Stamp { stream: 0, sequence: 0, sent_ns: 0 }.write(&mut bytes);
    let pseudo = checksum::pseudo_header(&bytes, UDP, bytes.len() - at);
    udp::fill_checksum(&mut bytes[at..], pseudo);
    bytes
}

#[cfg(test)]
mod tests {
    use convoy_packet::{Layout, Udp};
    use proptest::prelude::*;

    use super::*;

    fn flow(from: &str, to: &str) -> Flow {
        let address = |text: &str| text.parse().expect("an address and a port");
        Flow { hosts: 3, ..Flow::between(address(from), address(to)).expect("of one family") }
    }

    fn flows() -> [Flow; 2] {
        [flow("10.1.0.9:9000", "10.2.0.255:9001"), flow("[fd00:1::9]:9000", "[fd00:2::ffff]:9001")]
    }

    #[test]
    fn packets_go_to_host_after_host_and_have_the_length_that_was_asked_for() {
        let receivers =
            [["10.2.0.255", "10.2.1.0", "10.2.1.1"], ["fd00:2::ffff", "fd00:2::1:0", "fd00:2::1:1"]];
        for (flow, receivers) in flows().into_iter().zip(receivers) {
            let packets = Packets::new(flow, Lengths::All(90));
            for (sequence, receiver) in receivers.into_iter().enumerate() {
                let packet = packets.of(sequence as u64);
                let layout = Layout::parse(packet).expect("whole");
                let addresses = (flow.from.ip(), receiver.parse().expect("an address"));
                assert_eq!((packet.len(), layout.addresses(packet)), (90, addresses));
                let datagram = Udp::parse(layout.body(packet)).expect("whole");
                assert_eq!((datagram.source_port(), datagram.destination_port()), (9000, 9001));
            }
        }
    }

    #[test]
    fn no_stream_goes_from_one_family_to_the_other() {
        let [v4, v6] = flows();
        assert!(Flow::between(v4.from, v6.to).is_err());
    }

    proptest! {
        #[test]
        fn the_checksum_is_right_whatever_the_stamp(stream: u32, sequence: u64, sent_ns: u64, length in 72u16..1500) {
            for flow in flows() {
                let mut packet = packet(flow, 0, length);
                for stamp in [Stamp { stream, sequence, sent_ns }, Stamp { stream: !stream, sequence: sequence / 3, sent_ns: 0 }] {
                    stamp.write(&mut packet);
                    let layout = Layout::parse(&packet).expect("whole");
                    let body = layout.body(&packet);
                    let datagram = Udp::parse(body).expect("whole");
                    let pseudo = checksum::pseudo_header(&packet, UDP, body.len());
                    prop_assert!(datagram.checksum() != 0 && datagram.is_checksum_valid(pseudo));
                    prop_assert_eq!(Stamp::read(&packet), Some(stamp));
                }
            }
        }
    }
}
