//! A source is accepted once two packets with consecutive sequence numbers came from one address
//! (RFC 3550 appendix A.1), so that stray packets start no stream.

use std::net::SocketAddr;

/// Packets of a source that are kept until it is accepted; they may arrive in any order.
const KEPT_PACKETS: usize = 64;

/// A source on probation, with its packets.
#[derive(Debug)]
struct Candidate {
    ssrc: u32,
    from: SocketAddr,
    /// Sequence number and bytes of each packet, in the order of arrival.
    packets: Vec<(u16, Vec<u8>)>,
}

/// Decides whether a source is accepted.
#[derive(Debug, Default)]
pub(super) struct Probation(Option<Candidate>);

impl Probation {
    /// Records a packet. If its source is now accepted, returns that source's earlier packets.
    pub(super) fn note(
        &mut self,
        ssrc: u32,
        from: SocketAddr,
        number: u16,
        packet: &[u8],
    ) -> Option<Vec<Vec<u8>>> {
        let is_same = |candidate: &Candidate| (candidate.ssrc, candidate.from) == (ssrc, from);
        let mut candidate =
            self.0.take().filter(is_same).unwrap_or(Candidate { ssrc, from, packets: Vec::new() });
        let is_next = |(other, _): &(u16, Vec<u8>)| matches!(number.wrapping_sub(*other), 1 | u16::MAX);
        if candidate.packets.iter().any(is_next) {
            return Some(candidate.packets.into_iter().map(|(_, packet)| packet).collect());
        }
        if candidate.packets.len() >= KEPT_PACKETS {
            candidate.packets.remove(0);
        }
        candidate.packets.push((number, packet.to_vec()));
        self.0 = Some(candidate);
        None
    }
}
