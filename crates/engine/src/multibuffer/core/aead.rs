//! Packets of AEADs: the library processes each at once, and writes or compares the ICV in place,
//! so that nothing is arranged around a job.

use convoy_ipsec::{CryptoPacket, CryptoStatus};
use convoy_ipsec_mb as mb;

use super::inputs;

/// Bytes of the nonce of every AEAD here: salt and IV.
const NONCE_LEN: u8 = 12;

/// Processes packets of one SA. `false` if the library cannot process some of them, which are left
/// pending.
#[inline]
pub(super) fn process(
    burst: &mut mb::JobBurst<'_, '_>,
    key: &mb::Key,
    seal: bool,
    packets: &mut [CryptoPacket],
) -> bool {
    let mut are_done = true;
    for CryptoPacket { frame, job, status, .. } in packets {
        if let CryptoStatus::Refused(_) = status {
            continue;
        }
        let cipher = mb::PacketSpan { at: job.cipher_start.into(), len: job.cipher_len.into() };
        let auth = mb::PacketSpan { at: job.auth_start.into(), len: job.auth_len.into() };
        let ended = if job.nonce_len == NONCE_LEN {
            mb::Job::new(frame, cipher, auth, inputs(job))
                .and_then(|given| burst.aead(given.with_tag_at(job.icv_start.into()), key, seal))
        } else {
            None
        };
        *status = match ended {
            Some(mb::AeadResult::Done) => CryptoStatus::Done,
            Some(mb::AeadResult::Mismatch) => CryptoStatus::IcvMismatch,
            None => CryptoStatus::Pending,
        };
        are_done &= ended.is_some();
    }
    are_done
}
