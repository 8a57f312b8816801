//! A source is believed once two of its packets in sequence came from one address (RFC 3550
//! appendix A.1): whoever sends single packets to the port begins no stream.

use std::net::SocketAddr;

/// Packets of a source that are kept until it is believed: those at its beginning may come in any
/// order.
const KEPT_PACKETS: usize = 64;

/// The source that may be next, and its packets.
#[derive(Debug)]
struct Candidate {
    ssrc: u32,
    from: SocketAddr,
    /// Their numbers, and what is in them, in the order of arrival.
    packets: Vec<(u16, Vec<u8>)>,
}

/// Decides about sources.
#[derive(Debug, Default)]
pub(super) struct Probation(Option<Candidate>);

impl Probation {
    /// Takes note of a packet. If its source is to be believed from now on, returns the packets of
    /// it that came before.
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
