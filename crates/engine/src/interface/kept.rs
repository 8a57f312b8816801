//! Copies of input that an engine may lose.

use convoy_ipsec::{CryptoPacket, CryptoStatus};
use convoy_packet::FramePool;

/// A copy of a packet that is not sealed or opened yet, in a frame of the same size and with the
/// same room at both ends: what a worker keeps if an engine [needs
/// it](super::EngineDescription::needs_input_kept). `None` if the pool has no such frame.
pub fn keep_input(packet: &CryptoPacket, pool: &mut FramePool) -> Option<CryptoPacket> {
    let mut frame = pool.take(packet.frame.size())?;
    frame.reset(packet.frame.headroom()).ok()?;
    frame.append(packet.frame.len()).ok()?.copy_from_slice(&packet.frame);
    frame.set_received_ns(packet.frame.received_ns());
    Some(CryptoPacket {
        frame,
        job: packet.job,
        status: CryptoStatus::Pending,
        sa: packet.sa,
        direction: packet.direction,
        class: packet.class,
        context: packet.context,
    })
}
