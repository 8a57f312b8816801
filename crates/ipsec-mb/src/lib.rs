//! Safe bindings to Intel's ipsec-mb, for bursts of packets with different keys.
//!
//! A [`Manager`] is the library's state for one thread, and expands the keys of an SA into a
//! [`Key`]. Its [`JobBurst`] takes [`Job`]s, each a packet with the offsets of its parts: AEADs are
//! done at once by [`JobBurst::aead`], all others together by [`JobBurst::run`], which returns
//! [`Results`].
//!
//! If the library is not installed at build time, the crate is built without it, and
//! [`Manager::new`] says how to get it. All `unsafe` code is in `bound.rs` and `bound/`, over a C
//! shim that takes the layout of structures from the library's header.

use std::marker::PhantomData;

#[cfg(has_ipsec_mb)]
mod bound;
#[cfg(not(has_ipsec_mb))]
mod unbound;

#[cfg(has_ipsec_mb)]
pub use bound::{JobBurst, Key, Manager};
#[cfg(not(has_ipsec_mb))]
pub use unbound::{JobBurst, Key, Manager};

/// Room for a tag, in bytes: more than any algorithm here produces.
pub const TAG_BYTES: usize = 32;

/// The library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Why the library cannot be used.
    pub reason: String,
    /// How to solve it.
    pub remedy: String,
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.reason, self.remedy)
    }
}

impl std::error::Error for Unavailable {}

/// A cipher of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LibraryCipher {
    /// No encryption.
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

impl LibraryCipher {
    /// Whether it is an AEAD.
    pub const fn is_aead(self) -> bool {
        matches!(self, Self::Gcm | Self::Gmac | Self::ChaCha20Poly1305)
    }
}

/// An HMAC of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Hash {
    /// No HMAC, as for an AEAD.
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

/// A job in the shim's layout.
#[derive(Debug)]
#[repr(C)]
struct Descriptor {
    packet: *mut u8,
    /// Set when the job is added to a burst.
    key: *const u8,
    nonce: *const u8,
    aad: *const u8,
    /// In the packet, or null until the burst runs.
    tag: *mut u8,
    cipher_start: u32,
    cipher_len: u32,
    auth_start: u32,
    auth_len: u32,
    nonce_len: u8,
    aad_len: u8,
    state: u8,
    seal: u8,
    cipher: u8,
    key_len: u8,
    tag_len: u8,
    unused: u8,
}

/// A job's nonce and additional data. The library may read the whole arrays, but uses only the
/// given lengths.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'p> {
    /// The nonce or IV.
    pub nonce: &'p [u8; 16],
    /// Its length in bytes, 16 at most.
    pub nonce_len: u8,
    /// The additional authenticated data.
    pub aad: &'p [u8; 12],
    /// Its length in bytes, 12 at most.
    pub aad_len: u8,
}

/// One packet to process in place, with the offsets of its parts. All ranges are checked when the
/// job is made.
#[derive(Debug)]
#[cfg_attr(not(has_ipsec_mb), expect(dead_code, reason = "nothing can take it"))]
pub struct Job<'p> {
    descriptor: Descriptor,
    packet_len: usize,
    bytes: PhantomData<&'p mut [u8]>,
}

/// A part of a packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketSpan {
    /// Its position, in bytes from the packet's start.
    pub at: usize,
    /// Its length, in bytes.
    pub len: usize,
}

impl<'p> Job<'p> {
    /// A job on `packet`: the parts to encrypt or decrypt and to authenticate; nonce and additional
    /// data. `None` if a part lies outside the packet, or
    /// nonce or additional data are too long.
    #[inline]
    pub fn new(
        packet: &'p mut [u8],
        cipher: PacketSpan,
        auth: PacketSpan,
        inputs: Inputs<'p>,
    ) -> Option<Self> {
        let packet_len = packet.len();
        let is_inside = |span: PacketSpan| {
            span.at.checked_add(span.len).is_some_and(|end| end <= packet_len && end <= u32::MAX as usize)
        };
        let Inputs { nonce, nonce_len, aad, aad_len } = inputs;
        let is_good = is_inside(cipher)
            && is_inside(auth)
            && usize::from(nonce_len) <= nonce.len()
            && usize::from(aad_len) <= aad.len();
        let descriptor = Descriptor {
            packet: packet.as_mut_ptr(),
            key: std::ptr::null(),
            nonce: nonce.as_ptr(),
            aad: aad.as_ptr(),
            tag: std::ptr::null_mut(),
            cipher_start: cipher.at as u32,
            cipher_len: cipher.len as u32,
            auth_start: auth.at as u32,
            auth_len: auth.len as u32,
            nonce_len,
            aad_len,
            state: 0,
            seal: 0,
            cipher: 0,
            key_len: 0,
            tag_len: 0,
            unused: 0,
        };
        is_good.then_some(Self { descriptor, packet_len, bytes: PhantomData })
    }

    /// Sets the tag's place in the packet. The tag is written there; when an AEAD opens, it is
    /// compared there. AEADs require it.
    #[inline]
    #[must_use]
    pub fn with_tag_at(mut self, start: usize) -> Self {
        // Whether the whole tag lies inside the packet is checked once its length is known.
        self.descriptor.tag = self.descriptor.packet.wrapping_add(start.min(self.packet_len));
        self
    }

    /// Whether the packet has room for a tag of this length, in bytes, at the tag's place.
    #[inline]
    #[cfg_attr(not(has_ipsec_mb), expect(dead_code, reason = "nothing can take it"))]
    fn has_room_for(&self, tag_len: u8) -> bool {
        let Descriptor { tag, packet, .. } = self.descriptor;
        let start = (tag as usize).wrapping_sub(packet as usize);
        !tag.is_null() && start <= self.packet_len && self.packet_len - start >= usize::from(tag_len)
    }
}

/// Result of an AEAD's job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AeadResult {
    /// The tag was written, or is right.
    Done,
    /// The tag in the packet is wrong. The packet's bytes are decrypted.
    Mismatch,
}

/// Results of a burst's jobs, in the order in which they were pushed.
#[derive(Debug)]
pub struct Results<'m> {
    jobs: &'m [Descriptor],
    tags: &'m [[u8; TAG_BYTES]],
}

impl<'m> Results<'m> {
    /// Whether a job was done. If not, the library refused it, and its packet is unchanged.
    #[inline]
    pub fn is_done(&self, job: usize) -> bool {
        self.jobs.get(job).is_some_and(|job| job.state == 1)
    }

    /// The tag of a job that was done and has no place for it in its packet.
    #[inline]
    pub fn tag(&self, job: usize) -> Option<&'m [u8]> {
        let done = self.jobs.get(job).filter(|job| job.state == 1)?;
        self.tags.get(job)?.get(..usize::from(done.tag_len))
    }
}
