//! The short way through the crypto stage: a burst for which there is nothing to schedule is done where it lies.

use convoy_ipsec::{CryptoStatus, Prepared};
use convoy_scheduler::DoneInPlace;

use super::stage::{CryptoStage, Released};

/// Bursts between two whose time is measured: reading the clock twice costs as much as a short packet's look-ups.
const MEASURED_EVERY: u32 = 16;

/// What all SAs of a direction have in common, so that no packet need be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Algorithms {
    /// There is no SA.
    #[default]
    None,
    /// All have this one.
    One(u16),
    /// They have several, or some are done by the device of a port.
    Several,
}

impl Algorithms {
    /// With one SA more.
    pub(super) fn with(self, algorithm: u16, is_bound: bool) -> Self {
        match self {
            Self::None if !is_bound => Self::One(algorithm),
            Self::One(one) if one == algorithm && !is_bound => self,
            _ => Self::Several,
        }
    }
}

impl CryptoStage {
    /// Does a burst of one direction at once and appends it to `released`, if engines on this core alone come into question for
    /// it and nothing is inside that a packet could overtake. Otherwise `packets` are left to [`push`](Self::push); so are those
    /// that an engine did not do, which has failed then.
    pub fn process_in_place(&mut self, now_ns: u64, packets: &mut Vec<Prepared>, released: &mut Released) {
        if self.inside > 0 || packets.is_empty() {
            return;
        }
        let Some(algorithm) = self.common_algorithm(packets) else { return };
        let blocks = packets.iter().map(|packet| u64::from(packet.job.blocks())).sum();
        let Some((engine, predicted)) = self.scheduler.in_place_choice(algorithm, blocks) else { return };
        let is_measured = self.unmeasured == 0;
        let Some(in_place) = self.engines.in_place(engine) else { return };
        let began_ns = if is_measured { self.clock.now_ns() } else { 0 };
        in_place.process(packets);
        let measured = is_measured.then(|| self.clock.now_ns() - began_ns);
        if packets.iter().any(|packet| packet.status == CryptoStatus::Pending) {
            self.engines.fail_in_place(now_ns, engine, packets, &mut self.retry, &mut self.reports);
            return;
        }
        self.unmeasured = if is_measured { MEASURED_EVERY - 1 } else { self.unmeasured - 1 };
        let bytes = packets.iter().map(|packet| packet.frame.len() as u64).sum();
        let count = packets.len() as u32;
        self.scheduler.note_in_place(&DoneInPlace {
            engine,
            algorithm,
            packets: count,
            bytes,
            predicted,
            measured,
        });
        let service_ns = measured.unwrap_or(predicted);
        self.inline_ns += service_ns;
        self.engines.note_in_place(engine, count.into(), service_ns);
        released.of(packets[0].direction).append(packets);
    }

    /// The algorithm of all packets, if they have one and none was done before it came.
    fn common_algorithm(&self, packets: &[Prepared]) -> Option<u16> {
        let direction = packets.first()?.direction;
        match self.algorithms_of[direction as usize] {
            Algorithms::None => None,
            Algorithms::One(algorithm) => Some(algorithm),
            Algorithms::Several => {
                let of = |packet: &Prepared| {
                    let sa = self.sas.get(packet.sa.0 as usize)?.as_ref()?;
                    let is_open = sa.bound_to.is_none() && packet.status == CryptoStatus::Pending;
                    is_open.then_some(sa.algorithm)
                };
                let first = of(packets.first()?)?;
                packets.iter().all(|packet| of(packet) == Some(first)).then_some(first)
            }
        }
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
