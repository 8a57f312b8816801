//! Safe bindings to Intel's ipsec-mb, for bursts of packets, each under its own key.
//!
//! Built without the library where it is not installed; then [`Manager::new`] says how to get it. All `unsafe` is in
//! `bound.rs`, over a C shim whose structures come from the library's own header.

use std::marker::PhantomData;

#[cfg(has_ipsec_mb)]
mod bound;
#[cfg(not(has_ipsec_mb))]
mod unbound;

#[cfg(has_ipsec_mb)]
pub use bound::{Burst, Key, Manager};
#[cfg(not(has_ipsec_mb))]
pub use unbound::{Burst, Key, Manager};

/// Room for a tag, in bytes: more than any algorithm here gives.
pub const TAG_BYTES: usize = 32;

/// The library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Why.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.reason, self.remedy)
    }
}

impl std::error::Error for Unavailable {}

/// A cipher of the library's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Cipher {
    /// None.
    Null = 0,
    /// AES-GCM.
    Gcm = 1,
    /// AES-GMAC.
    Gmac = 2,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305 = 3,
    /// AES-CBC.
    Cbc = 4,
    /// AES-CTR with a whole counter block.
    Ctr = 5,
    /// 3DES-CBC.
    TripleDes = 6,
    /// DES-CBC.
    Des = 7,
}

/// An HMAC of the library's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Hash {
    /// None, or the AEAD's own.
    None = 0,
    /// HMAC-MD5.
    Md5 = 1,
    /// HMAC-SHA-1.
    Sha1 = 2,
    /// HMAC-SHA-256.
    Sha256 = 3,
    /// HMAC-SHA-384.
    Sha384 = 4,
    /// HMAC-SHA-512.
    Sha512 = 5,
}

/// A job as the shim takes it.
#[derive(Debug)]
#[repr(C)]
struct Descriptor {
    packet: *mut u8,
    /// Set when it is pushed.
    key: *const u8,
    cipher_start: u32,
    cipher_len: u32,
    auth_start: u32,
    auth_len: u32,
    nonce: [u8; 16],
    aad: [u8; 12],
    nonce_len: u8,
    aad_len: u8,
    is_done: u8,
    seal: u8,
    tag: [u8; TAG_BYTES],
}

/// One packet's job: bytes to be worked on in place, and where the parts stand. All ranges are checked when it is made.
#[derive(Debug)]
pub struct Job<'p> {
    #[cfg_attr(not(has_ipsec_mb), expect(dead_code, reason = "nothing can take it"))]
    descriptor: Descriptor,
    bytes: PhantomData<&'p mut [u8]>,
}

impl<'p> Job<'p> {
    /// A job on `packet`: what is ciphered and what is hashed, as (start, length) in bytes; nonce and additional data.
    /// `None` if a part does not lie inside the packet, or nonce or data are too long.
    pub fn new(
        packet: &'p mut [u8],
        (cipher_start, cipher_len): (usize, usize),
        (auth_start, auth_len): (usize, usize),
        nonce: &[u8],
        aad: &[u8],
    ) -> Option<Self> {
        packet.get(cipher_start..cipher_start.checked_add(cipher_len)?)?;
        packet.get(auth_start..auth_start.checked_add(auth_len)?)?;
        let mut descriptor = Descriptor {
            packet: packet.as_mut_ptr(),
            key: std::ptr::null(),
            cipher_start: u32::try_from(cipher_start).ok()?,
            cipher_len: u32::try_from(cipher_len).ok()?,
            auth_start: u32::try_from(auth_start).ok()?,
            auth_len: u32::try_from(auth_len).ok()?,
            nonce: [0; 16],
            aad: [0; 12],
            nonce_len: nonce.len() as u8,
            aad_len: aad.len() as u8,
            is_done: 0,
            seal: 0,
            tag: [0; TAG_BYTES],
        };
        descriptor.nonce.get_mut(..nonce.len())?.copy_from_slice(nonce);
        descriptor.aad.get_mut(..aad.len())?.copy_from_slice(aad);
        Some(Self { descriptor, bytes: PhantomData })
    }
}

/// What became of a burst's jobs, in the order in which they were pushed.
#[derive(Debug)]
pub struct Tags<'m>(&'m [Descriptor]);

impl<'m> Tags<'m> {
    /// The tag of one job; `None` if the library refused the job, whose packet is then as it was.
    pub fn get(&self, job: usize) -> Option<&'m [u8; TAG_BYTES]> {
        self.0.get(job).filter(|job| job.is_done == 1).map(|job| &job.tag)
    }
}
