//! A train: what an engine gets in one submission, and what the stage knows of its packets.

use convoy_engine::{RunTemplate, lay_out};
use convoy_ipsec::{CryptoPacket, CryptoStatus, SaIndex};

use super::iv_source::IvSource;

/// The position of a train in the order. Its packets have consecutive positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderPosition {
    /// The SA's stream for a multi-packet, the direction's for a train of many SAs.
    pub(super) stream: u32,
    /// The position of its first packet.
    pub(super) first: u64,
}

impl OrderPosition {
    /// Whether it belongs to an SA's stream.
    pub(super) fn is_of_sa(self) -> bool {
        self.stream >= DIRECTIONS
    }
}

/// Streams before those of SAs: one for each direction.
const DIRECTIONS: u32 = 2;

/// The stream of an SA's multi-packets.
pub(super) fn stream_of(sa: SaIndex) -> u32 {
    sa.0 + DIRECTIONS
}

/// Packets of one direction that go to an engine together: a multi-packet of one SA, or a burst of
/// many SAs.
pub(super) struct Train {
    pub(super) place: OrderPosition,
    pub(super) packets: Vec<CryptoPacket>,
    /// Templates that lay out packets that have numbers but are still raw; otherwise empty.
    pub(super) templates: Vec<RunTemplate>,
}

impl Train {
    /// The SA of all packets; `None` if there are several.
    pub(super) fn sa(&self) -> Option<SaIndex> {
        let first = self.packets.first()?.sa;
        self.packets.iter().all(|packet| packet.sa == first).then_some(first)
    }

    /// Whether its packets have no sequence numbers yet: no engine has had them.
    pub(super) fn is_without_numbers(&self) -> bool {
        self.templates.is_empty() && self.packets.iter().any(CryptoPacket::is_raw)
    }

    /// Lays out raw packets that have numbers.
    pub(super) fn lay_out(&mut self, ivs: &mut IvSource) {
        if !self.templates.is_empty() {
            lay_out(&self.templates, &mut self.packets, &mut |iv| ivs.fill(iv));
            self.templates.clear();
        }
    }

    /// Keeps the first `at` packets and returns the others as a train. All must be laid out.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let place = OrderPosition { first: self.place.first + at as u64, ..self.place };
        let packets = if at < self.packets.len() { self.packets.split_off(at) } else { Vec::new() };
        Self { place, packets, templates: Vec::new() }
    }

    /// The number of packets, from the first, that have the same key.
    pub(super) fn run_len<K: PartialEq>(&self, key: impl Fn(&CryptoPacket) -> K) -> usize {
        let first = self.packets.first().map(&key);
        self.packets.iter().take_while(|packet| Some(key(packet)) == first).count()
    }
}

/// Whether a packet is still unprocessed, so that an engine is to process it.
pub(super) fn is_pending(packet: &CryptoPacket) -> bool {
    packet.status == CryptoStatus::Pending
}

/// The algorithms of all SAs of a direction, so that no packet need be inspected if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Algorithms {
    /// There is no SA.
    #[default]
    None,
    /// All SAs have this one.
    One(u16),
    /// SAs have several, or some are processed by the device of a port.
    Several,
}

impl Algorithms {
    /// With one more SA.
    pub(super) fn with(self, algorithm: u16, is_bound: bool) -> Self {
        match self {
            Self::None if !is_bound => Self::One(algorithm),
            Self::One(one) if one == algorithm && !is_bound => self,
            _ => Self::Several,
        }
    }
}

/// The SAs that occur in a burst.
#[derive(Default)]
pub(super) struct SeenSas {
    /// For each SA, the latest burst that contains it.
    latest: Vec<u64>,
    burst: u64,
}

impl SeenSas {
    pub(super) fn begin(&mut self) {
        self.burst += 1;
    }

    /// Whether this is the burst's first packet of the SA.
    pub(super) fn is_new(&mut self, sa: SaIndex) -> bool {
        let at = sa.0 as usize;
        if self.latest.len() <= at {
            self.latest.resize(at + 1, 0);
        }
        std::mem::replace(&mut self.latest[at], self.burst) != self.burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sas_have_one_algorithm_until_another_comes_or_a_port_does_one() {
        let one = Algorithms::None.with(3, false).with(3, false);
        assert_eq!(one, Algorithms::One(3));
        assert_eq!(one.with(4, false), Algorithms::Several);
        assert_eq!(one.with(3, true), Algorithms::Several);
        assert_eq!(Algorithms::None.with(3, true), Algorithms::Several);
        assert_eq!(one.with(4, false).with(3, false), Algorithms::Several);
    }
}
