//! One packet's job.

use std::ffi::c_void;

use super::ffi::*;
use super::session::Session;

/// Where a packet's ICV stands for the device.
#[derive(Clone, Copy, Debug)]
pub enum Icv {
    /// In the packet: it is written there, or compared with what stands there.
    At(usize),
    /// Not in the packet, as where the device finds something else in its place: what is compared
    /// with this when opening, and [returned](super::Digest) when sealing.
    Aside([u8; DIGEST_BYTES]),
}

/// What is to be done to one packet. Places and lengths are in bytes from the packet's start.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Start and length of what is ciphered.
    pub cipher: (usize, usize),
    /// Start and length of what is authenticated; an AEAD's is what it ciphers.
    pub auth: (usize, usize),
    /// Where the ICV stands.
    pub icv: Icv,
    /// The nonce or IV, of the cipher's length.
    pub nonce: [u8; NONCE_BYTES],
    /// Additional data, of the session's length.
    pub aad: [u8; 12],
}

impl Job {
    /// For a packet of `len` bytes at `packet`; `None` if a part does not lie inside it.
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
        // An operation's length is 16 bits.
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
