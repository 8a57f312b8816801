//! HMACs (RFC 2403, 2404, 4868) with the key's two blocks hashed once per SA.

use convoy_ipsec::{CryptoJob, CryptoPacket, CryptoStatus, Integrity};
use hmac::digest::Output;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;

use super::chained::on_good;
use super::keys::{authenticated, part, part_mut};

/// An integrity algorithm with one key, over a batch's packets that are still good.
pub(super) trait Authenticate: Send + Sync {
    fn seal(&self, packets: &mut [CryptoPacket]);
    fn verify(&self, packets: &mut [CryptoPacket]);
}

/// `None` for an invalid key.
pub(super) fn expand_integrity(integrity: Integrity, key: &[u8]) -> Option<Box<dyn Authenticate>> {
    let icv_len = integrity.row().icv_len;
    match integrity {
        Integrity::HmacMd5_96 => HmacKeys::<Hmac<Md5>>::expand(key, icv_len),
        Integrity::HmacSha1_96 => HmacKeys::<Hmac<Sha1>>::expand(key, icv_len),
        Integrity::HmacSha256_128 => HmacKeys::<Hmac<Sha256>>::expand(key, icv_len),
        Integrity::HmacSha384_192 => HmacKeys::<Hmac<Sha384>>::expand(key, icv_len),
        Integrity::HmacSha512_256 => HmacKeys::<Hmac<Sha512>>::expand(key, icv_len),
    }
}

struct HmacKeys<M> {
    /// The state behind the key's blocks; each packet starts from a copy.
    keyed: M,
    icv_len: usize,
}

impl<M: Mac + KeyInit + Clone + Send + Sync + 'static> HmacKeys<M> {
    fn expand(key: &[u8], icv_len: usize) -> Option<Box<dyn Authenticate>> {
        let keyed = <M as KeyInit>::new_from_slice(key).ok()?;
        Some(Box::new(Self { keyed, icv_len }))
    }

    fn icv(&self, job: &CryptoJob, frame: &[u8]) -> Option<Output<M>> {
        let mut mac = self.keyed.clone();
        mac.update(authenticated(job, frame)?);
        if let Some(esn_high) = job.esn_high {
            mac.update(&esn_high);
        }
        Some(mac.finalize().into_bytes())
    }
}

/// AH authenticates its own header, with the ICV in it counted as zeros (RFC 4302 section
/// 3.3.3.1.2).
fn blank_icv(job: &CryptoJob, frame: &mut [u8], icv_len: usize) -> Option<()> {
    let end = u32::from(job.auth_start) + u32::from(job.auth_len);
    if (u32::from(job.auth_start)..end).contains(&job.icv_start.into()) {
        part_mut(frame, job.icv_start, icv_len)?.fill(0);
    }
    Some(())
}

impl<M: Mac + KeyInit + Clone + Send + Sync + 'static> Authenticate for HmacKeys<M> {
    fn seal(&self, packets: &mut [CryptoPacket]) {
        on_good(packets, |packet| {
            blank_icv(&packet.job, &mut packet.frame, self.icv_len)?;
            let icv = self.icv(&packet.job, &packet.frame)?;
            part_mut(&mut packet.frame, packet.job.icv_start, self.icv_len)?
                .copy_from_slice(&icv[..self.icv_len]);
            Some(CryptoStatus::Done)
        });
    }

    fn verify(&self, packets: &mut [CryptoPacket]) {
        on_good(packets, |packet| {
            let at = packet.job.icv_start;
            let mut received = Output::<M>::default();
            let received = &mut received[..self.icv_len];
            received.copy_from_slice(part(&packet.frame, at, self.icv_len)?);
            blank_icv(&packet.job, &mut packet.frame, self.icv_len)?;
            let icv = self.icv(&packet.job, &packet.frame)?;
            part_mut(&mut packet.frame, at, self.icv_len)?.copy_from_slice(received);
            let is_same: bool = icv[..self.icv_len].ct_eq(received).into();
            Some(if is_same { CryptoStatus::Done } else { CryptoStatus::IcvMismatch })
        });
    }
}
