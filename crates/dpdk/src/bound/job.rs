//! A job: the work on one packet.

use std::ffi::c_void;

use super::ffi::*;
use super::session::Session;

/// Where the device reads or writes a packet's ICV.
#[derive(Clone, Copy, Debug)]
pub enum Icv {
    /// At this offset in the packet, where it is written or compared.
    At(usize),
    /// Outside the packet, for example because the device writes other bytes there. When opening,
    /// the ICV to compare with; when sealing, the ICV is [returned](super::Digest).
    Aside([u8; DIGEST_BYTES]),
}

/// The work on one packet. Offsets and lengths are in bytes; offsets count from the packet's start.
#[derive(Clone, Copy, Debug)]
pub struct DeviceJob {
    /// Offset and length of the part to encrypt or decrypt.
    pub cipher: (usize, usize),
    /// Offset and length of the part to authenticate; an AEAD uses `cipher` instead.
    pub auth: (usize, usize),
    /// Where the ICV is.
    pub icv: Icv,
    /// Nonce or IV; the cipher's length of it is used.
    pub nonce: [u8; NONCE_BYTES],
    /// Additional data; the session's length of it is used.
    pub aad: [u8; 12],
}

impl DeviceJob {
    /// The job in the shim's form for a packet of `len` bytes; `None` if a part lies outside the
    /// packet.
    #[inline]
    pub(super) fn describe(
        &self,
        session: &Session,
        packet: *mut u8,
        len: usize,
        cookie: u64,
    ) -> Option<RawJob> {
        let is_inside = |start: usize, count: usize| start.checked_add(count).is_some_and(|end| end <= len);
        let mut digest = [0; DIGEST_BYTES];
        let digest_at = match &self.icv {
            Icv::At(at) if is_inside(*at, session.suite.icv_len) => *at as u32,
            Icv::At(_) => return None,
            Icv::Aside(received) => {
                digest = *received;
                DIGEST_ASIDE
            }
        };
        // An operation has 16 bits for a length.
        if len > usize::from(u16::MAX)
            || !is_inside(self.cipher.0, self.cipher.1)
            || !is_inside(self.auth.0, self.auth.1)
        {
            return None;
        }
        let mut aad = [0; AAD_BYTES];
        aad[..self.aad.len()].copy_from_slice(&self.aad);
        Some(RawJob {
            packet,
            session: session.raw.as_ptr().cast::<c_void>(),
            cookie,
            packet_len: len as u32,
            cipher_start: self.cipher.0 as u32,
            cipher_len: self.cipher.1 as u32,
            auth_start: self.auth.0 as u32,
            auth_len: self.auth.1 as u32,
            digest_at,
            kind: u8::from(!session.suite.cipher.is_aead()),
            nonce: self.nonce,
            aad,
            digest,
        })
    }
}
