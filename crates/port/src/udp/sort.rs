//! Sorts the packets of a burst by peer: packets to one peer then leave as runs, whatever was
//! between.

use convoy_packet::{Frame, ip, protocol};

/// A packet's addresses and the peer's port.
type Peer = (u128, u128, u16);

/// Sorts bursts. Keeps its room between calls.
#[derive(Default)]
pub(super) struct Sorter {
    peers: Vec<(Peer, usize)>,
    /// By packet: first the index of its peer, then its new position.
    places: Vec<usize>,
}

impl Sorter {
    /// Moves the packets to each peer together, in the order of the first of each. Those to one
    /// peer, and so those of one SA, keep their order. A burst with fragments, which do not show
    /// the peer's port, stays unchanged.
    pub(super) fn sort(&mut self, burst: &mut [Frame]) {
        if self.look(burst).is_none() || self.is_together() {
            return;
        }
        let mut start = 0;
        for (_, count) in &mut self.peers {
            (start, *count) = (start + *count, start);
        }
        for place in &mut self.places {
            let (_, next) = &mut self.peers[*place];
            (*place, *next) = (*next, *next + 1);
        }
        for at in 0..burst.len() {
            while self.places[at] != at {
                let place = self.places[at];
                burst.swap(at, place);
                self.places.swap(at, place);
            }
        }
    }

    /// Records the peer of each packet, and the number of packets of each; `None` if a packet does
    /// not show it.
    fn look(&mut self, burst: &[Frame]) -> Option<()> {
        self.peers.clear();
        self.places.clear();
        let mut last = 0;
        for frame in burst {
            let peer = peer_of(frame)?;
            if self.peers.get(last).is_none_or(|(own, _)| *own != peer) {
                last = self.peers.iter().position(|(own, _)| *own == peer).unwrap_or_else(|| {
                    self.peers.push((peer, 0));
                    self.peers.len() - 1
                });
            }
            self.peers[last].1 += 1;
            self.places.push(last);
        }
        Some(())
    }

    /// Whether no peer's packets have another's between them.
    fn is_together(&self) -> bool {
        let changes = self.places.windows(2).filter(|pair| pair[0] != pair[1]).count();
        changes < self.peers.len()
    }
}

/// The peer of a UDP datagram right behind its IP header.
fn peer_of(packet: &[u8]) -> Option<Peer> {
    let (is_v6, at) = match packet.first()? >> 4 {
        4 if packet.len() >= 28 => {
            let is_whole = packet[6] & 0x3f == 0 && packet[7] == 0;
            (false, (packet[0] == 0x45 && packet[9] == protocol::UDP && is_whole).then_some(22)?)
        }
        6 if packet.len() >= 48 => (true, (packet[6] == protocol::UDP).then_some(42)?),
        _ => return None,
    };
    let (source, destination) = ip::address_numbers(packet, is_v6);
    Some((source, destination, u16::from_be_bytes([packet[at], packet[at + 1]])))
}

#[cfg(test)]
mod tests {
    use convoy_packet::{FramePool, IpHeader, udp};
    use proptest::prelude::*;

    use super::*;

    fn packet(peer: u8, number: u8, is_v6: bool) -> Vec<u8> {
        let address = |last: u8| -> std::net::IpAddr {
            if is_v6 { std::net::Ipv6Addr::from(u128::from(last)).into() } else { [10, 0, 0, last].into() }
        };
        let header = IpHeader::new(protocol::UDP, address(100), address(peer / 2));
        let mut packet = vec![number; header.header_len() + 9];
        header.write(&mut packet);
        udp::write(&mut packet[header.header_len()..], 4_500, 4_500 + u16::from(peer % 2));
        packet
    }

    fn sorted(packets: &[Vec<u8>]) -> Vec<u8> {
        let mut pool = FramePool::new(64, 0);
        let mut burst: Vec<Frame> =
            packets.iter().map(|packet| pool.take_filled(packet, 0).expect("a frame")).collect();
        Sorter::default().sort(&mut burst);
        burst.iter().filter_map(|frame| frame.last().copied()).collect()
    }

    #[test]
    fn a_burst_with_a_fragment_keeps_its_order() {
        let mut packets: Vec<Vec<u8>> = (0..8).map(|at| packet(at % 2, at, false)).collect();
        assert_eq!(sorted(&packets), [0, 2, 4, 6, 1, 3, 5, 7]);
        packets[5][7] = 1;
        assert_eq!(sorted(&packets), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    proptest! {
        #[test]
        fn packets_of_one_peer_come_together_in_their_order(peers in prop::collection::vec(0..9_u8, 0..64), is_v6: bool) {
            let packets: Vec<Vec<u8>> =
                peers.iter().zip(0..).map(|(peer, at)| packet(*peer, at, is_v6)).collect();
            let first_of = |peer: u8| peers.iter().position(|other| *other == peer);
            let mut wanted: Vec<u8> = (0..peers.len() as u8).collect();
            wanted.sort_by_key(|at| first_of(peers[usize::from(*at)]));
            prop_assert_eq!(sorted(&packets), wanted);
        }
    }
}
