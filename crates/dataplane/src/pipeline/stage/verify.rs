//! Packets that another engine computes again (`verify_one_in`), so that an engine which computes
//! wrongly is found: it is quarantined, and its train leaves as the other one has computed it.

use convoy_engine::keep_input;
use convoy_ipsec::{CryptoPacket, CryptoStatus, Direction};
use convoy_packet::FramePool;
use convoy_scheduler::TrainDispatch;

use super::CryptoStage;
use crate::pipeline::in_flight::TrainRecords;
use crate::pipeline::train::{OrderPosition, Train, is_pending};

/// Trains in the queues of engines whose input is kept, at most.
const MOST_KEPT: usize = 8;

/// Which trains are computed again, and the input of those that are under way.
pub(super) struct Verification {
    one_in: u64,
    /// Packets before the next train that is computed again.
    left: u64,
    kept: Vec<KeptTrain>,
}

/// The input of a train that an engine has in its queue.
struct KeptTrain {
    place: OrderPosition,
    engine: usize,
    copies: Vec<CryptoPacket>,
}

impl Verification {
    /// Of one packet in so many; of none with 0.
    pub(super) fn of_one_in(packets: u32) -> Option<Self> {
        (packets > 0).then(|| Self { one_in: packets.into(), left: 0, kept: Vec::new() })
    }

    /// Whether a train of so many packets is computed again: whole trains are, so fewer of the
    /// longer ones.
    pub(super) fn is_due(&mut self, packets: usize) -> bool {
        let packets = packets as u64;
        if let Some(left) = self.left.checked_sub(packets) {
            self.left = left;
            return false;
        }
        self.left = (self.one_in - 1) * packets;
        true
    }
}

/// Copies of packets that are laid out; none if frames are short.
fn copies(packets: &[CryptoPacket], pool: &mut FramePool) -> Vec<CryptoPacket> {
    // An engine may need as many for copies of its own.
    let has_frames = |packet: &CryptoPacket| pool.available(packet.frame.size()) > 2 * packets.len();
    if !packets.iter().all(|packet| is_pending(packet) && has_frames(packet)) {
        return Vec::new();
    }
    packets.iter().map(|packet| keep_input(packet, pool)).collect::<Option<_>>().unwrap_or_default()
}

/// Whether two engines have computed the same of one packet.
fn is_same(one: &CryptoPacket, other: &CryptoPacket) -> bool {
    let computed = |packet: &CryptoPacket| match packet.direction {
        Direction::Seal => packet.frame.len(),
        // What an engine leaves of the ICV is nothing that counts.
        Direction::Open => packet.job.icv_start.into(),
    };
    one.status == other.status
        && (one.status != CryptoStatus::Done
            || one.frame.get(..computed(one)) == other.frame.get(..computed(other)))
}

impl CryptoStage {
    /// What [`process_here`](Self::process_here) does, after which the packets are computed again
    /// if it is their turn.
    #[inline(never)]
    pub(super) fn process_verified(
        &mut self,
        now_ns: u64,
        given: TrainDispatch,
        packets: &mut [CryptoPacket],
        pool: &mut FramePool,
    ) -> bool {
        let is_due =
            self.verification.as_mut().is_some_and(|verification| verification.is_due(packets.len()));
        let copies = if is_due { copies(packets, pool) } else { Vec::new() };
        let is_done = self.process_here(now_ns, given, packets);
        if is_done && !copies.is_empty() {
            self.verify(now_ns, given.engine, packets, copies);
        }
        is_done
    }

    /// Keeps the input of a train that goes to an engine's queue and is to be computed again.
    pub(super) fn keep_to_verify(&mut self, train: &Train, engine: usize, pool: &mut FramePool) {
        let Some(Verification { kept, .. }) = &mut self.verification else { return };
        let copies = copies(&train.packets, pool);
        if copies.is_empty() {
            return;
        }
        if kept.len() == MOST_KEPT {
            kept.remove(0);
        }
        kept.push(KeptTrain { place: train.place, engine, copies });
    }

    /// Forgets what was kept of a train that another engine processes now.
    pub(super) fn forget_kept(&mut self, place: OrderPosition) {
        if let Some(Verification { kept, .. }) = &mut self.verification {
            kept.retain(|train| train.place != place);
        }
    }

    /// Has a train computed again that came out of an engine's queue, if its input was kept.
    pub(super) fn verify_done(&mut self, now_ns: u64, train: &mut Train) {
        let Some(Verification { kept, .. }) = &mut self.verification else { return };
        let Some(at) = kept.iter().position(|kept| kept.place == train.place) else { return };
        let KeptTrain { engine, copies, .. } = kept.swap_remove(at);
        self.verify(now_ns, engine, &mut train.packets, copies);
    }

    /// Has another engine on this core compute from these copies what `engine` has computed. If the
    /// results differ, known answers say which of the two is wrong; that one is quarantined, and
    /// the packets are as the other one has computed them.
    #[inline(never)]
    pub(super) fn verify(
        &mut self,
        now_ns: u64,
        engine: usize,
        packets: &mut [CryptoPacket],
        mut copies: Vec<CryptoPacket>,
    ) {
        if packets.len() != copies.len() {
            return;
        }
        let Some(other) = self.engines.verifier(engine, &copies) else { return };
        if let Some(in_place) = self.engines.in_place(other) {
            in_place.process(&mut copies);
        }
        let records = &mut TrainRecords { now_ns, trains: &mut self.scheduler, again: &mut self.again };
        if copies.iter().any(is_pending) {
            return self.engines.fail_in_place(other, &copies, records);
        }
        self.engines.note_verified(engine, packets.len() as u64);
        let differing = packets.iter().zip(&copies).find(|(one, copy)| !is_same(one, copy));
        let Some((packet, _)) = differing else { return };
        if self.engines.knows_answers(other, packet.sa) {
            self.engines.distrust(engine, other, "which gives", records);
            packets.swap_with_slice(&mut copies);
        } else {
            self.engines.distrust(other, engine, "and does not give", records);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_in_so_many_is_computed_again_whatever_the_trains() {
        for (one_in, len) in [(1, 1), (1, 64), (10, 1), (10, 7), (1_000, 32)] {
            let mut verification = Verification::of_one_in(one_in).expect("some are");
            let trains = 100_000;
            let again = (0..trains).filter(|_| verification.is_due(len)).count();
            let expected = trains / one_in as usize;
            assert!(again.abs_diff(expected) <= 1, "one in {one_in}, trains of {len}: {again} of {trains}");
        }
        assert!(Verification::of_one_in(0).is_none());
    }
}
