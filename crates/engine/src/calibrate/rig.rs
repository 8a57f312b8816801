//! An engine under measurement: one burst goes through it repeatedly.

use convoy_ipsec::{CryptoPacket, Direction, KeyMaterial, Transform};
use convoy_packet::FramePool;

use super::{CALIBRATION_SA, sample_packet};
use crate::{Completion, Engine, Submission};

/// What a packet gains before sealing: padding length and next header, in bytes.
const TRAILER: usize = 2;

/// An engine with a key and a burst of equal packets, for benchmarks.
pub struct Rig<'e> {
    engine: &'e mut dyn Engine,
    packets: Vec<CryptoPacket>,
    completions: Vec<Completion>,
}

impl<'e> Rig<'e> {
    /// A burst of this many packets of this many bytes.
    ///
    /// # Panics
    /// If the engine does not support the transform, or a packet does not fit a small frame.
    pub fn new(engine: &'e mut dyn Engine, transform: Transform, burst: usize, bytes: usize) -> Self {
        let key = (0..transform.key_material_len()).map(|at| at as u8).collect();
        let keys = KeyMaterial::new(transform, key).expect("a key of the transform's own length");
        engine.install_key(CALIBRATION_SA, &keys).expect("the engine claims the transform");
        let mut pool = FramePool::new(burst, 0);
        let packets = (0..burst).map(|_| sample_packet(&mut pool, transform, bytes + TRAILER)).collect();
        Self { engine, packets, completions: Vec::with_capacity(1) }
    }

    /// The burst.
    pub fn packets(&self) -> &[CryptoPacket] {
        &self.packets
    }

    /// Seals the burst once in place, as a gateway does with a train on its own core; `false` if
    /// the engine [has no such interface](crate::EngineQueue::in_place).
    pub fn run_in_place(&mut self) -> bool {
        let Some(in_place) = self.engine.in_place() else { return false };
        in_place.process(&mut self.packets);
        true
    }

    /// Seals the burst once through the engine's queue; returns the engine's own time, in ns.
    ///
    /// # Panics
    /// If the engine refuses the burst.
    pub fn run(&mut self) -> Option<u64> {
        let packets = std::mem::take(&mut self.packets);
        let submission = Submission::new(0, CALIBRATION_SA, Direction::Seal, packets);
        self.engine.submit(submission).expect("an idle engine has room");
        loop {
            self.engine.poll(&mut self.completions);
            if let Some(done) = self.completions.pop() {
                self.packets = done.submission.packets;
                return done.service_ns;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use convoy_ipsec::{Aead, CryptoStatus, KeyBits};

    use super::*;
    use crate::Software;

    #[test]
    fn the_same_burst_goes_through_again_and_again() {
        let mut engine = Software::new("software");
        let transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B128, icv: 16 });
        let mut rig = Rig::new(&mut engine, transform, 3, 64);
        for _ in 0..2 {
            assert!(rig.run().is_some());
            assert_eq!(rig.packets().len(), 3);
            assert!(rig.packets().iter().all(|packet| packet.status == CryptoStatus::Done));
        }
        rig.packets.iter_mut().for_each(|packet| packet.status = CryptoStatus::Pending);
        assert!(rig.run_in_place());
        assert!(rig.packets().iter().all(|packet| packet.status == CryptoStatus::Done));
    }
}
