//! AEADs, one packet at a time: AES-GCM calls the library's functions directly, the others go
//! through the shim.

use std::ptr::NonNull;

use super::{JobBurst, Key, RawKey, RawManager};
use crate::{AeadResult, Descriptor, Job, LibraryCipher};

/// Length of the longest AEAD tag, in bytes.
const LONGEST_TAG: usize = 16;
#[repr(C)]
struct RawContext {
    _opaque: [u8; 0],
}

/// The library's `aes_gcm_enc_dec_t`. Its first argument is the expanded key, which is the first
/// member of the shim's structure.
type Gcm = unsafe extern "C" fn(
    key: *const RawKey,
    context: *mut RawContext,
    out: *mut u8,
    from: *const u8,
    len: u64,
    nonce: *const u8,
    aad: *const u8,
    aad_len: u64,
    tag: *mut u8,
    tag_len: u64,
);

unsafe extern "C" {
    fn convoy_mb_context(manager: *mut RawManager) -> *mut RawContext;
    fn convoy_mb_wipe(manager: *mut RawManager);
    fn convoy_mb_gcm(manager: *const RawManager, key_len: u32, seal: u32) -> Gcm;
    fn convoy_mb_aead(manager: *mut RawManager, job: *mut Descriptor);
}

/// State of one manager for AEADs.
#[derive(Debug)]
pub(super) struct Aeads {
    manager: NonNull<RawManager>,
    context: *mut RawContext,
    /// Functions for opening and for sealing, each for keys of 16, 24 and 32 bytes.
    gcm: [[Gcm; 3]; 2],
    /// Whether the context may hold keystream.
    is_used: bool,
}

impl Aeads {
    /// The state for a manager.
    ///
    /// # Safety
    /// The manager must outlive it.
    pub(super) unsafe fn new(manager: NonNull<RawManager>) -> Self {
        // SAFETY: the manager is alive, and the shim has a function for each of these lengths.
        let gcm = |seal| [16, 24, 32].map(|len| unsafe { convoy_mb_gcm(manager.as_ptr(), len, seal) });
        // SAFETY: the manager is alive.
        let context = unsafe { convoy_mb_context(manager.as_ptr()) };
        Self { manager, context, gcm: [gcm(0), gcm(1)], is_used: false }
    }

    /// Wipes the context, which holds keystream.
    #[inline]
    pub(super) fn wipe(&mut self) {
        if std::mem::take(&mut self.is_used) {
            // SAFETY: the manager is alive.
            unsafe { convoy_mb_wipe(self.manager.as_ptr()) };
        }
    }
}

impl JobBurst<'_, '_> {
    /// Seals or opens with an AEAD, in place. When sealing, writes the tag to its place in the
    /// packet; when opening, compares it. Returns `None` without any effect if the tag's place is
    /// not inside the packet or the key is not an AEAD's.
    #[inline]
    pub fn aead(&mut self, job: Job<'_>, key: &Key, seal: bool) -> Option<AeadResult> {
        if !job.has_room_for(key.tag_len) {
            return None;
        }
        let Job { descriptor, .. } = job;
        let aeads = &mut self.manager.aeads;
        aeads.is_used = true;
        if key.cipher != LibraryCipher::Gcm {
            return key.cipher.is_aead().then(|| by_shim(aeads, descriptor.under(key, seal)));
        }
        let by_length = &aeads.gcm[usize::from(seal)];
        let gcm = match key.len {
            16 => by_length[0],
            24 => by_length[1],
            _ => by_length[2],
        };
        let mut computed = [0; LONGEST_TAG];
        let tag = if seal { descriptor.tag } else { computed.as_mut_ptr() };
        // SAFETY: the ranges were checked against the packet when the job was made, and the tag's
        // place above; `computed` has room for any tag. Nonce and additional data are borrowed,
        // with as many bytes as the library reads. The key is alive and was expanded for AES-GCM
        // with this length. The context belongs to the manager, which is exclusively borrowed. The
        // call keeps no pointer.
        unsafe {
            let body = descriptor.packet.add(descriptor.cipher_start as usize);
            gcm(
                key.raw.as_ptr(),
                aeads.context,
                body,
                body,
                descriptor.cipher_len.into(),
                descriptor.nonce,
                descriptor.aad,
                descriptor.aad_len.into(),
                tag,
                key.tag_len.into(),
            );
        }
        if seal {
            return Some(AeadResult::Done);
        }
        // SAFETY: the tag's place was checked above, and the packet is borrowed.
        let received = unsafe { std::slice::from_raw_parts(descriptor.tag, key.tag_len.into()) };
        Some(if is_equal(&computed, received) { AeadResult::Done } else { AeadResult::Mismatch })
    }
}

/// Does AES-GMAC and ChaCha20-Poly1305.
fn by_shim(aeads: &mut Aeads, mut job: Descriptor) -> AeadResult {
    // SAFETY: as for AES-GCM; `Descriptor` has the layout of the shim's structure.
    unsafe { convoy_mb_aead(aeads.manager.as_ptr(), &raw mut job) };
    if job.state == 1 { AeadResult::Done } else { AeadResult::Mismatch }
}

/// Compares in constant time. Tags have 8, 12 or 16 bytes, nearly always 16.
#[inline]
fn is_equal(computed: &[u8; LONGEST_TAG], received: &[u8]) -> bool {
    if let Ok(received) = <[u8; LONGEST_TAG]>::try_from(received) {
        return u128::from_ne_bytes(*computed) ^ u128::from_ne_bytes(received) == 0;
    }
    let words = computed.as_chunks::<4>().0.iter().zip(received.as_chunks::<4>().0);
    let difference =
        words.fold(0, |sum, (one, other)| sum | (u32::from_ne_bytes(*one) ^ u32::from_ne_bytes(*other)));
    difference == 0
}
