//! Verification of a device's claims before it gets a packet: each transform once in both
//! directions, compared with the reference.
//!
//! The claims are the driver's, and the library behind it may support less: OpenSSL 3 has DES in a
//! provider that is not always loaded.

use convoy_dpdk::{Device, DpdkError};
use convoy_ipsec::{CryptoPacket, CryptoStatus, Direction, KeyMaterial, SaIndex, Transform};
use convoy_packet::FramePool;

use super::core::CryptodevState;
use crate::software::KeyTable;
use crate::{Outcome, Submission, sample_packet};

/// Bytes of a test packet.
const BYTES: usize = 256;
const SA: SaIndex = SaIndex(0);

/// The transforms of `claimed` for which the device agrees with the reference.
pub(super) fn tried(device: &'static Device, claimed: Vec<Transform>) -> Result<Vec<Transform>, DpdkError> {
    let mut core = CryptodevState::new("trial", device)?;
    let mut pool = FramePool::new(4, 0);
    Ok(claimed.into_iter().filter(|transform| is_right(&mut core, *transform, &mut pool)).collect())
}

/// Whether a packet sealed by `core` is as the reference has it, and opens again.
pub(super) fn is_right(core: &mut CryptodevState, transform: Transform, pool: &mut FramePool) -> bool {
    let key = (0..transform.key_material_len()).map(|at| (at * 29 + 5) as u8).collect();
    let Ok(keys) = KeyMaterial::new(transform, key) else { return false };
    let mut reference = KeyTable::default();
    let is_taken = core.keys.install(SA, &keys).is_ok() && reference.install("trial", SA, &keys).is_ok();
    let is_same = is_taken && compare(core, &reference, transform, pool).is_some();
    core.keys.remove(SA);
    is_same
}

fn compare(
    core: &mut CryptodevState,
    reference: &KeyTable,
    transform: Transform,
    pool: &mut FramePool,
) -> Option<()> {
    let sample = |pool: &mut FramePool| {
        let mut packet = sample_packet(pool, transform, BYTES);
        packet.sa = SA;
        packet
    };
    let plain = sample(pool);
    let mut expected = sample(pool);
    reference.get(SA)?.run(Direction::Seal, std::slice::from_mut(&mut expected));
    let mut sealed = through(core, Direction::Seal, sample(pool))?;
    (sealed.frame[..] == expected.frame[..]).then_some(())?;
    sealed.direction = Direction::Open;
    let opened = through(core, Direction::Open, sealed)?;
    let open_len = usize::from(opened.job.icv_start);
    (opened.frame[..open_len] == plain.frame[..open_len]).then_some(())
}

/// One packet through the device; `None` if it fails or does not respond.
fn through(core: &mut CryptodevState, direction: Direction, packet: CryptoPacket) -> Option<CryptoPacket> {
    core.submit(Submission::new(0, SA, direction, vec![packet]));
    let (mut came, left) = (None, core.left());
    core.finish(|back| came = Some(back));
    let back = came.filter(|back| back.outcome == Outcome::Done && core.left() == left)?;
    let packet = back.submission.packets.into_iter().next()?;
    (packet.status == CryptoStatus::Done).then_some(packet)
}
