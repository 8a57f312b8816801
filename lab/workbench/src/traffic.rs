//! The demo's traffic: a capture of real programs, and seeded IMIX.

use std::net::Ipv4Addr;

use convoy_packet::protocol::UDP;
use convoy_packet::{IpHeader, Ipv4, Ipv6, ipv4, udp};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// The simple IMIX: lengths in bytes, IP header included, and their weights. The largest is reduced
/// to the demo's inner MTU, so that nothing is fragmented.
pub const IMIX: [(usize, u32); 3] = [(40, 7), (576, 4), (1400, 1)];
/// The DSCP of urgent packets: expedited forwarding (RFC 3246).
pub(crate) const URGENT_DSCP: u8 = 46;
/// The tunnel of urgent packets: all of it, since packets of an SA keep their order.
pub(crate) const URGENT_TUNNEL: usize = 0;
/// One in this many packets is from the capture.
const CAPTURE_EVERY: usize = 4;

/// The packets of one direction, which are sent in a loop.
#[derive(Debug)]
pub struct Traffic {
    packets: Vec<Vec<u8>>,
    /// Indices of each tunnel's packets, in order.
    of_tunnel: Vec<Vec<u32>>,
}

impl Traffic {
    fn new(packets: Vec<Vec<u8>>, tunnels: usize) -> Self {
        let mut of_tunnel = vec![Vec::new(); tunnels];
        for (at, packet) in packets.iter().enumerate() {
            let tunnel = tunnel_of_packet(packet).unwrap_or(0).min(tunnels - 1);
            of_tunnel[tunnel].push(at as u32);
        }
        Self { packets, of_tunnel }
    }

    /// The packet at an index.
    pub fn packet(&self, at: usize) -> &[u8] {
        &self.packets[at]
    }

    /// Makes the packets of [`URGENT_TUNNEL`] urgent.
    pub(crate) fn with_urgent(mut self) -> Self {
        for at in &self.of_tunnel[URGENT_TUNNEL] {
            convoy_packet::ip::set_traffic_class(&mut self.packets[*at as usize], URGENT_DSCP << 2);
        }
        self
    }

    /// Number of packets before they repeat.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Indices of one tunnel's packets, in order.
    pub(crate) fn of_tunnel(&self, tunnel: usize) -> &[u32] {
        &self.of_tunnel[tunnel]
    }

    /// Number of tunnels.
    pub(crate) fn tunnels(&self) -> usize {
        self.of_tunnel.len()
    }
}

/// The tunnel of a packet: the third byte of its IPv4 destination. The capture's IPv6 packets are
/// in tunnel 0.
pub(crate) fn tunnel_of_packet(packet: &[u8]) -> Option<usize> {
    match Ipv4::parse(packet) {
        Ok(ip) => Some(ip.destination().octets()[2].into()),
        Err(_) => Ipv6::parse(packet).ok().map(|_| 0),
    }
}

/// The traffic from site 1 to site 2, and back. `capture` holds whole IP packets; those from
/// 10.1.0.0/16 and fd00:1::/32 go in the first direction, others in the second.
pub(crate) fn both_ways(capture: Vec<Vec<u8>>, tunnels: usize, count: usize, seed: u64) -> [Traffic; 2] {
    mixed(capture, &IMIX, tunnels, count, seed)
}

/// As [`both_ways`], with lengths in bytes and their weights.
pub(crate) fn mixed(
    capture: Vec<Vec<u8>>,
    lengths: &[(usize, u32)],
    tunnels: usize,
    count: usize,
    seed: u64,
) -> [Traffic; 2] {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut there, mut back): (Vec<_>, Vec<_>) =
        capture.into_iter().partition(|packet| is_from_site_1(packet));
    there.reverse();
    back.reverse();
    [(1, there), (2, back)].map(|(from, mut captured)| {
        let packets = (0..count)
            .map(|at| {
                if at % CAPTURE_EVERY == 0
                    && let Some(packet) = captured.pop()
                {
                    return packet;
                }
                packet(&mut random, lengths, from, tunnels, at)
            })
            .collect();
        Traffic::new(packets, tunnels)
    })
}

/// Whether it is from site 1: by the second byte of an IPv4 source or the second group of an IPv6
/// source.
fn is_from_site_1(packet: &[u8]) -> bool {
    match Ipv4::parse(packet) {
        Ok(ip) => ip.source().octets()[1] == 1,
        Err(_) => Ipv6::parse(packet).is_ok_and(|ip| ip.source().segments()[1] == 1),
    }
}

/// A UDP packet with random length, host and tunnel.
fn packet(random: &mut StdRng, lengths: &[(usize, u32)], from: u8, tunnels: usize, id: usize) -> Vec<u8> {
    let mut draw = random.random_range(0..lengths.iter().map(|(_, weight)| weight).sum());
    let len = lengths
        .iter()
        .find(|(_, weight)| {
            let found = draw < *weight;
            draw = draw.wrapping_sub(*weight);
            found
        })
        .map_or(lengths[0].0, |(len, _)| *len);
    let tunnel = random.random_range(0..tunnels) as u8;
    let source = Ipv4Addr::new(10, from, tunnel, random.random_range(1..255));
    let destination = Ipv4Addr::new(10, 3 - from, tunnel, random.random_range(1..255));
    let (at, identification) = (ipv4::HEADER_BYTES, id as u16);
    let mut packet = vec![0; len];
    random.fill_bytes(&mut packet[at + udp::HEADER_BYTES..]);
    IpHeader { identification, ..IpHeader::new(UDP, source.into(), destination.into()) }.write(&mut packet);
    // The UDP checksum is omitted, as IPv4 permits; packets are compared byte for byte anyway.
    udp::write(&mut packet[at..], random.random_range(1024_u16..65535), 5004);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_traffic() {
        let [one, _] = both_ways(Vec::new(), 8, 500, 7);
        let [two, _] = both_ways(Vec::new(), 8, 500, 7);
        assert!((0..500).all(|at| one.packet(at) == two.packet(at)));
    }

    #[test]
    fn every_tunnel_has_packets_and_each_packet_is_its_own_tunnels() {
        let [traffic, _] = both_ways(Vec::new(), 8, 500, 7);
        for tunnel in 0..traffic.tunnels() {
            assert!(!traffic.of_tunnel(tunnel).is_empty());
            for at in traffic.of_tunnel(tunnel) {
                assert_eq!(tunnel_of_packet(traffic.packet(*at as usize)), Some(tunnel));
            }
        }
    }

    #[test]
    fn the_imix_has_its_three_lengths_in_seven_four_one() {
        let [traffic, _] = both_ways(Vec::new(), 4, 12_000, 1);
        let count = |len: usize| (0..traffic.len()).filter(|at| traffic.packet(*at).len() == len).count();
        assert!((6_500..7_500).contains(&count(40)));
        assert!((3_600..4_400).contains(&count(576)));
        assert!((800..1_200).contains(&count(1400)));
    }
}
