//! A packet's job in a device's format, and what has to be restored afterwards.
//!
//! A device authenticates one contiguous part of a packet. Where the packet is different, it is
//! rearranged before and restored afterwards: the upper half of an extended sequence number
//! replaces the ICV, AH's ICV is blanked, and GMAC's additional data is put before what it
//! authenticates.

use convoy_dpdk::{DIGEST_BYTES, DeviceCipher, DeviceJob, Digest, Icv};
use convoy_ipsec::{AAD_BYTES, CryptoJob, CryptoPacket, Direction};

use super::keys::SaSessions;

/// Bytes of the upper half of an extended sequence number.
const ESN_HIGH: usize = 4;

/// What was changed in a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum ArrangedPacket {
    /// Nothing.
    AsItStands,
    /// The ICV's place holds something else; these bytes were there.
    IcvAside {
        received: Digest,
        /// The packet's length.
        len: usize,
    },
    /// Additional data is before what is authenticated; these bytes were there.
    AadBefore {
        was: [u8; AAD_BYTES],
        /// Bytes prepended to the packet.
        prepended: usize,
    },
}

/// The job of a packet, and what was changed in it. `None`, and the packet unchanged, if this
/// device cannot process it.
pub(super) fn arrange(sa: &SaSessions, packet: &mut CryptoPacket) -> Option<(DeviceJob, ArrangedPacket)> {
    let job = packet.job;
    let cipher = sa.suite.cipher;
    let has_nonce = cipher == DeviceCipher::Null || job.nonce().len() == cipher.nonce_len();
    if !has_nonce
        || usize::from(job.cipher_len) % cipher.block_len() != 0
        || !is_inside(packet, sa.suite.icv_len)
    {
        return None;
    }
    match cipher {
        DeviceCipher::Gcm | DeviceCipher::ChaCha20Poly1305 => {
            Some((plain_job(&job), ArrangedPacket::AsItStands))
        }
        DeviceCipher::Gmac => aad_before(packet),
        _ => chained(sa, packet),
    }
}

fn is_inside(packet: &CryptoPacket, icv_len: usize) -> bool {
    let job = &packet.job;
    let end = |start: u16, len: usize| usize::from(start) + len;
    let parts = [
        end(job.cipher_start, job.cipher_len.into()),
        end(job.auth_start, job.auth_len.into()),
        end(job.icv_start, icv_len),
    ];
    parts.into_iter().all(|end| end <= packet.frame.len())
}

fn plain_job(job: &CryptoJob) -> DeviceJob {
    DeviceJob {
        cipher: (job.cipher_start.into(), job.cipher_len.into()),
        auth: (job.auth_start.into(), job.auth_len.into()),
        icv: Icv::At(job.icv_start.into()),
        nonce: job.nonce,
        aad: job.aad,
    }
}

fn chained(sa: &SaSessions, packet: &mut CryptoPacket) -> Option<(DeviceJob, ArrangedPacket)> {
    let job = packet.job;
    let has_hash = sa.suite.hash != convoy_dpdk::DeviceHash::None;
    let (icv, end) = (usize::from(job.icv_start), usize::from(job.auth_start) + usize::from(job.auth_len));
    let icv_is_inside = has_hash && (usize::from(job.auth_start)..end).contains(&icv);
    let esn_high = job.esn_high.filter(|_| has_hash);
    if has_hash && job.auth_len == 0 && esn_high.is_none() {
        // Nothing to hash: no packet of ESP or AH is like this, and devices return anything for it.
        return None;
    }
    if sa.suite.cipher != DeviceCipher::Null && job.cipher_len == 0 {
        // ESP always encrypts a trailer. crypto_aesni_mb reads memory without end instead, on
        // processors with AVX2 and without AVX-512.
        return None;
    }
    if !icv_is_inside && esn_high.is_none() {
        return Some((plain_job(&job), ArrangedPacket::AsItStands));
    }
    let (icv_len, len) = (sa.suite.icv_len, packet.frame.len());
    let mut received = [0; DIGEST_BYTES];
    received[..icv_len].copy_from_slice(&packet.frame[icv..icv + icv_len]);
    if icv_is_inside {
        // AH's ICV counts as zeros under itself (RFC 4302 section 3.3.3.1.2).
        packet.frame[icv..icv + icv_len].fill(0);
    }
    let mut made = plain_job(&job);
    if let Some(high) = esn_high {
        if len < end + ESN_HIGH && packet.frame.append(end + ESN_HIGH - len).is_err() {
            packet.frame[icv..icv + icv_len].copy_from_slice(&received[..icv_len]);
            return None;
        }
        packet.frame[end..end + ESN_HIGH].copy_from_slice(&high);
        made.auth.1 += ESN_HIGH;
    }
    made.icv = Icv::Aside(received);
    Some((made, ArrangedPacket::IcvAside { received, len }))
}

fn aad_before(packet: &mut CryptoPacket) -> Option<(DeviceJob, ArrangedPacket)> {
    let mut made = plain_job(&packet.job);
    let (aad_len, start) = (packet.job.aad().len(), made.auth.0);
    let prepended = aad_len.saturating_sub(start);
    packet.frame.prepend(prepended).ok()?;
    let at = start + prepended - aad_len;
    let mut was = [0; AAD_BYTES];
    was[..aad_len].copy_from_slice(&packet.frame[at..at + aad_len]);
    packet.frame[at..at + aad_len].copy_from_slice(&packet.job.aad[..aad_len]);
    made.auth = (at, made.auth.1 + aad_len);
    made.icv = Icv::At(usize::from(packet.job.icv_start) + prepended);
    Some((made, ArrangedPacket::AadBefore { was, prepended }))
}

/// Undoes [`arrange`], and puts the ICV in its place.
pub(super) fn put_back(
    arranged: &ArrangedPacket,
    direction: Direction,
    icv_len: usize,
    digest: Option<&Digest>,
    packet: &mut CryptoPacket,
) {
    match arranged {
        ArrangedPacket::AsItStands => {}
        ArrangedPacket::IcvAside { received, len } => {
            packet.frame.truncate(*len);
            let icv = usize::from(packet.job.icv_start);
            let stands = digest.filter(|_| direction == Direction::Seal).unwrap_or(received);
            packet.frame[icv..icv + icv_len].copy_from_slice(&stands[..icv_len]);
        }
        ArrangedPacket::AadBefore { was, prepended } => {
            let aad_len = packet.job.aad().len();
            let at = usize::from(packet.job.auth_start) + prepended - aad_len;
            packet.frame[at..at + aad_len].copy_from_slice(&was[..aad_len]);
            // As long as it was prepended.
            let _ = packet.frame.trim_front(*prepended);
        }
    }
}
