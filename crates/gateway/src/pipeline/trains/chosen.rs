//! Who gets a burst, by what it is made of.

use convoy_ipsec::{Prepared, SaIndex};
use convoy_packet::FramePool;
use convoy_scheduler::{Burst, GivenTrain, Input, TrainChoice, TrainPart};

use super::Algorithms;
use crate::pipeline::stage::CryptoStage;

/// Algorithms that a train may have; a burst with more is scheduled.
const PARTS: usize = 4;

/// Which SAs a burst has.
#[derive(Default)]
pub(super) struct SeenSas {
    /// By SA, the latest burst that had it.
    latest: Vec<u64>,
    burst: u64,
}

impl SeenSas {
    fn begin(&mut self) {
        self.burst += 1;
    }

    /// Whether the burst had no packet of this SA before.
    fn is_new(&mut self, sa: SaIndex) -> bool {
        let at = sa.0 as usize;
        if self.latest.len() <= at {
            self.latest.resize(at + 1, 0);
        }
        std::mem::replace(&mut self.latest[at], self.burst) != self.burst
    }
}

/// The only part of a train whose packets have one algorithm.
fn one_part(algorithm: u16, packets: &[Prepared]) -> TrainPart {
    let mut part = TrainPart { algorithm, blocks: 0, changes: 0, sas: 0 };
    let mut last = packets.first().map(|packet| packet.sa);
    for packet in packets {
        part.blocks += u64::from(packet.blocks());
        part.changes += u64::from(Some(packet.sa) != last);
        last = Some(packet.sa);
    }
    part
}

/// A choice that is to be carried out.
pub(super) struct Given {
    pub(super) train: GivenTrain,
    pub(super) wait: u64,
    pub(super) is_here: bool,
}

/// Who gets a train.
pub(super) enum Chosen {
    Engine(Given),
    /// The window gets its packets.
    Window,
    /// Nobody has room now.
    Nobody,
}

impl CryptoStage {
    /// The engine for a train, if there is one now.
    pub(super) fn choose(
        &mut self,
        now_ns: u64,
        packets: &[Prepared],
        input: Input,
        pool: &FramePool,
    ) -> Chosen {
        let mut parts = [TrainPart { algorithm: 0, blocks: 0, changes: 0, sas: 0 }; PARTS];
        let Some(parts) = self.parts_of(packets, &mut parts) else { return Chosen::Window };
        let burst = Burst { parts, packets: packets.len(), input, are_trains_out: self.trains.packets > 0 };
        let (engine, wait, predicted, is_here) = match self.scheduler.train_choice(now_ns, &burst) {
            TrainChoice::Schedule => return Chosen::Window,
            TrainChoice::Wait => return Chosen::Nobody,
            TrainChoice::Here { engine, processing } => (engine, 0, processing, true),
            TrainChoice::Elsewhere { engine, wait, processing } => (engine, wait, processing, false),
        };
        // The window cuts a multi-packet to the frames that there are for copies of it.
        if !is_here && self.engines.can_submit(engine, pool, packets) < packets.len() {
            return Chosen::Window;
        }
        let algorithm = if let [one] = parts { Some(one.algorithm) } else { None };
        let bytes = packets.iter().map(|packet| packet.frame.len() as u64).sum();
        let train = GivenTrain { engine, algorithm, packets: packets.len() as u32, bytes, predicted };
        Chosen::Engine(Given { train, wait, is_here })
    }

    /// The parts of a train by algorithm. `None` if it has too many, or packets that a port's device does.
    fn parts_of<'a>(
        &mut self,
        packets: &[Prepared],
        parts: &'a mut [TrainPart; PARTS],
    ) -> Option<&'a [TrainPart]> {
        let used = match self.algorithms_of[packets.first()?.direction as usize] {
            Algorithms::One(algorithm) => {
                parts[0] = one_part(algorithm, packets);
                1
            }
            _ => self.several_parts(packets, parts)?,
        };
        if self.counts_sas {
            self.trains.seen.begin();
            for packet in packets {
                let algorithm = self.sas.get(packet.sa.0 as usize)?.as_ref()?.algorithm;
                let part = parts[..used].iter_mut().find(|part| part.algorithm == algorithm)?;
                part.sas += u64::from(self.trains.seen.is_new(packet.sa));
            }
        }
        Some(&parts[..used])
    }

    /// Fills `parts`; how many there are.
    fn several_parts(&self, packets: &[Prepared], parts: &mut [TrainPart; PARTS]) -> Option<usize> {
        let (mut used, mut last) = (0, packets.first()?.sa);
        for packet in packets {
            let sa = self.sas.get(packet.sa.0 as usize)?.as_ref()?;
            if sa.bound_to.is_some() {
                return None;
            }
            let at = parts[..used].iter().position(|part| part.algorithm == sa.algorithm).unwrap_or(used);
            let part = parts.get_mut(at)?;
            if at == used {
                *part = TrainPart { algorithm: sa.algorithm, blocks: 0, changes: 0, sas: 0 };
                used += 1;
            }
            part.blocks += u64::from(packet.blocks());
            part.changes += u64::from(packet.sa != last);
            last = packet.sa;
        }
        Some(used)
    }
}
