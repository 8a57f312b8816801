//! Packets of AEADs: the library writes or compares the ICV where it stands, so that nothing is arranged around a job.

use convoy_ipsec::{CryptoStatus, Prepared};
use convoy_ipsec_mb as mb;

use super::{MbKeys, inputs};

/// Bytes of the nonce of every AEAD here: salt and IV.
const NONCE_LEN: u8 = 12;

/// Adds a packet to the burst. Its status tells [`conclude`] whether it was added.
#[inline]
pub(super) fn give<'p>(
    burst: &mut mb::Burst<'_, 'p>,
    keys: &'p MbKeys,
    seal: bool,
    packet: &'p mut Prepared,
) {
    let Prepared { frame, job, status, .. } = packet;
    if let CryptoStatus::Refused(_) = status {
        return;
    }
    let cipher = (job.cipher_start.into(), job.cipher_len.into());
    let auth = (job.auth_start.into(), job.auth_len.into());
    let is_given = job.nonce_len == NONCE_LEN
        && mb::Job::new(frame, cipher, auth, inputs(job))
            .is_some_and(|given| burst.push(given.with_tag_at(job.icv_start.into()), &keys.key, seal));
    *status = if is_given { CryptoStatus::Done } else { CryptoStatus::Pending };
}

/// Writes a packet's status; `given` is the place of the next job in the burst. `false` if the library did not do it.
#[inline]
pub(super) fn conclude(packet: &mut Prepared, results: &mb::Results<'_>, given: &mut usize) -> bool {
    match packet.status {
        CryptoStatus::Pending => return false,
        CryptoStatus::Refused(_) => return true,
        CryptoStatus::Done | CryptoStatus::IcvMismatch => {}
    }
    let ended = results.ended(*given);
    *given += 1;
    packet.status = match ended {
        Some(mb::Ended::Done) => CryptoStatus::Done,
        Some(mb::Ended::Mismatch) => CryptoStatus::IcvMismatch,
        Some(mb::Ended::Refused) | None => CryptoStatus::Pending,
    };
    packet.status != CryptoStatus::Pending
}
