//! Safe bindings to Intel's ipsec-mb, for bursts of packets of one key.
//!
//! Built without the library where it is not installed; then [`Manager::new`] says how to get it. All `unsafe` is in
//! `bound.rs`, over a C shim whose structures come from the library's own header.

#[cfg(has_ipsec_mb)]
mod bound;
#[cfg(not(has_ipsec_mb))]
mod unbound;

#[cfg(has_ipsec_mb)]
pub use bound::{Key, Manager};
#[cfg(not(has_ipsec_mb))]
pub use unbound::{Key, Manager};

/// The longest tag, in bytes.
pub const TAG_BYTES: usize = 64;

/// The library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
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

/// One packet's job: bytes to be worked on in place, and where the parts stand. All ranges are checked when it is made.
#[derive(Debug)]
#[repr(C)]
pub struct Job<'a> {
    packet: *mut u8,
    cipher_start: u32,
    cipher_len: u32,
    auth_start: u32,
    auth_len: u32,
    nonce: [u8; 16],
    aad: [u8; 12],
    nonce_len: u8,
    aad_len: u8,
    is_done: u8,
    reserved: u8,
    tag: [u8; TAG_BYTES],
    bytes: std::marker::PhantomData<&'a mut [u8]>,
}

impl<'a> Job<'a> {
    /// A job on `packet`: what is ciphered and what is hashed, as (start, length) in bytes; nonce and additional data.
    /// `None` if a part does not lie inside the packet, or nonce or data are too long.
    pub fn new(
        packet: &'a mut [u8],
        (cipher_start, cipher_len): (usize, usize),
        (auth_start, auth_len): (usize, usize),
        nonce: &[u8],
        aad: &[u8],
    ) -> Option<Self> {
        packet.get(cipher_start..cipher_start.checked_add(cipher_len)?)?;
        packet.get(auth_start..auth_start.checked_add(auth_len)?)?;
        let mut job = Self {
            cipher_start: u32::try_from(cipher_start).ok()?,
            cipher_len: u32::try_from(cipher_len).ok()?,
            auth_start: u32::try_from(auth_start).ok()?,
            auth_len: u32::try_from(auth_len).ok()?,
            packet: packet.as_mut_ptr(),
            nonce: [0; 16],
            aad: [0; 12],
            nonce_len: nonce.len() as u8,
            aad_len: aad.len() as u8,
            is_done: 0,
            reserved: 0,
            tag: [0; TAG_BYTES],
            bytes: std::marker::PhantomData,
        };
        job.nonce.get_mut(..nonce.len())?.copy_from_slice(nonce);
        job.aad.get_mut(..aad.len())?.copy_from_slice(aad);
        Some(job)
    }

    /// The tag, once [`Manager::process`] has done the job; `None` before, or if the library refused it.
    pub fn tag(&self) -> Option<&[u8; TAG_BYTES]> {
        (self.is_done == 1).then_some(&self.tag)
    }
}
