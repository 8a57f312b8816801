//! Work split into runs of packets with the same keys.

use convoy_ipsec::{CryptoPacket, Direction, SaIndex};

use crate::Submission;
use crate::interface::is_one_run;

/// With many SAs keys come from far: those of this many packets or trains ahead are prefetched,
const NEAR: usize = 3;
/// and this far ahead the entries that locate them.
const FAR: usize = 8;

/// Packets of one SA and direction.
pub(crate) struct JobRun<'a> {
    pub(crate) sa: SaIndex,
    pub(crate) direction: Direction,
    pub(crate) packets: &'a mut [CryptoPacket],
    pub(crate) ahead: Ahead,
}

/// SAs whose keys will be needed soon, and those whose keys will be needed after them.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    pub(crate) near: Option<WantedKeys>,
    pub(crate) far: Option<WantedKeys>,
}

/// An SA whose keys will be needed, for a packet with this many bytes to encrypt or to
/// authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WantedKeys {
    pub(crate) sa: SaIndex,
    pub(crate) len: u16,
}

impl WantedKeys {
    fn by(packet: &CryptoPacket) -> Self {
        Self { sa: packet.sa, len: packet.job.cipher_len.max(packet.job.auth_len) }
    }
}

impl Ahead {
    fn of<T>(rest: &[T], wanted: impl Fn(&T) -> Option<WantedKeys>) -> Self {
        Self { near: rest.get(NEAR - 1).and_then(&wanted), far: rest.get(FAR - 1).and_then(&wanted) }
    }

    fn or(self, other: Self) -> Self {
        Self { near: self.near.or(other.near), far: self.far.or(other.far) }
    }
}

/// Work processed together.
pub(crate) trait Work {
    /// Its runs, the same on each call.
    fn runs(&mut self) -> impl Iterator<Item = JobRun<'_>>;
}

impl Work for Submission {
    fn runs(&mut self) -> impl Iterator<Item = JobRun<'_>> {
        self.packets.runs()
    }
}

impl Work for [Submission] {
    fn runs(&mut self) -> impl Iterator<Item = JobRun<'_>> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let (first, behind) = std::mem::take(&mut rest).split_first_mut()?;
            rest = behind;
            let ahead = Ahead::of(rest, |submission| submission.packets.first().map(WantedKeys::by));
            Some(first.runs().map(move |run| JobRun { ahead: run.ahead.or(ahead), ..run }))
        })
        .flatten()
    }
}

impl Work for [CryptoPacket] {
    fn runs(&mut self) -> impl Iterator<Item = JobRun<'_>> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let (sa, direction) = rest.first().map(|packet| (packet.sa, packet.direction))?;
            let len = 1 + rest.windows(2).take_while(|pair| is_one_run(&pair[0], &pair[1])).count();
            let (packets, behind) = std::mem::take(&mut rest).split_at_mut(len);
            rest = behind;
            let ahead = Ahead::of(rest, |packet| Some(WantedKeys::by(packet)));
            Some(JobRun { sa, direction, packets, ahead })
        })
    }
}

#[cfg(test)]
mod tests {
    use convoy_packet::FramePool;

    use super::*;
    use crate::calibrate::sample_packet;

    fn packets(sas: &[u32]) -> Vec<CryptoPacket> {
        let mut pool = FramePool::new(sas.len(), 0);
        let transform = crate::transforms()[0];
        let packet = |sa: &u32| CryptoPacket { sa: SaIndex(*sa), ..sample_packet(&mut pool, transform, 64) };
        sas.iter().map(packet).collect()
    }

    fn seen(work: &mut (impl Work + ?Sized)) -> Vec<(u32, usize, Option<u32>)> {
        work.runs()
            .map(|run| (run.sa.0, run.packets.len(), run.ahead.near.map(|wanted| wanted.sa.0)))
            .collect()
    }

    #[test]
    fn packets_behind_one_another_with_the_same_keys_are_one_run() {
        let mut packets = packets(&[7, 7, 8, 7, 9, 9]);
        packets[5].direction = Direction::Open;
        let runs = [(7, 2, Some(9)), (8, 1, Some(9)), (7, 1, None), (9, 1, None), (9, 1, None)];
        assert_eq!(seen(&mut packets[..]), runs);
        assert!(seen(&mut packets[..0]).is_empty());
    }

    #[test]
    fn keys_are_wanted_some_packets_ahead_and_their_entries_earlier() {
        let mut packets = packets(&[0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let first = packets.runs().next().expect("there are packets").ahead;
        let wanted = |sa: usize| Some(WantedKeys { sa: SaIndex(sa as u32), len: 64 });
        assert_eq!((first.near, first.far), (wanted(NEAR), wanted(FAR)));
    }
}
