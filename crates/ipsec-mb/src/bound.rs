//! Safe bindings to the C shim over ipsec-mb.

#![allow(unsafe_code)]

mod aead;
mod prefetch;

use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::ptr::{NonNull, null};

use aead::Aeads;

use crate::{Descriptor, Hash, Job, LibraryCipher, Results, TAG_BYTES, Unavailable};

#[repr(C)]
struct RawManager {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawKey {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn convoy_mb_new(why: *mut *const c_char) -> *mut RawManager;
    fn convoy_mb_free(manager: *mut RawManager);
    fn convoy_mb_built_version() -> *const c_char;
    fn convoy_mb_version() -> *const c_char;
    fn convoy_mb_arch(manager: *const RawManager) -> *const c_char;
    fn convoy_mb_has_vector_des(manager: *const RawManager) -> c_int;
    fn convoy_mb_key_new(
        manager: *mut RawManager,
        cipher: u32,
        hash: u32,
        tag_len: u32,
        bytes: *const u8,
        len: u32,
        auth: *const u8,
        auth_len: u32,
    ) -> *mut RawKey;
    fn convoy_mb_key_free(key: *mut RawKey);
    fn convoy_mb_process(manager: *mut RawManager, jobs: *mut Descriptor, count: usize);
    fn convoy_mb_floor(
        manager: *mut RawManager,
        key: *const RawKey,
        memory: *mut u8,
        stride: usize,
        count: usize,
        head: u32,
        len: u32,
    );
}

/// The library's state for one thread, which processes bursts.
#[derive(Debug)]
pub struct Manager {
    raw: NonNull<RawManager>,
    aeads: Aeads,
    /// Kept between bursts, so that none allocates.
    jobs: Vec<Descriptor>,
    /// One for each job.
    tags: Vec<[u8; TAG_BYTES]>,
}

// SAFETY: the manager is plain memory without ties to a thread, and `&mut self` makes its use
// exclusive. The pointers in `jobs` are only used through a `JobBurst`, which borrows what they
// point to.
unsafe impl Send for Manager {}

/// An SA's keys, expanded; wiped when dropped.
#[derive(Debug)]
pub struct Key {
    raw: NonNull<RawKey>,
    cipher: LibraryCipher,
    len: u8,
    tag_len: u8,
    /// End of the part that is read for every packet, as an offset in bytes.
    end: u16,
}

// SAFETY: a key is plain memory that is not changed after it was made.
unsafe impl Send for Key {}

/// Jobs that are processed together. AEADs gain nothing from that and are done [at
/// once](Self::aead); all others wait for [`run`](Self::run).
#[derive(Debug)]
pub struct JobBurst<'m, 'p> {
    manager: &'m mut Manager,
    packets: PhantomData<(&'p mut [u8], &'p Key)>,
}

fn text(pointer: *const c_char) -> String {
    // SAFETY: all callers pass string literals of the library or of the shim.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// The major version, within which the library's binary interface is stable.
fn major(version: &str) -> &str {
    version.trim_start_matches('v').split('.').next().unwrap_or("")
}

/// Whether the lengths, in bytes, are valid for the algorithms, as the shim requires.
fn fits(cipher: LibraryCipher, hash: Hash, tag_len: usize, key_len: usize, auth_len: usize) -> bool {
    let is_key = match cipher {
        LibraryCipher::Null => key_len == 0,
        LibraryCipher::Gcm | LibraryCipher::Gmac | LibraryCipher::Cbc | LibraryCipher::Ctr => {
            matches!(key_len, 16 | 24 | 32)
        }
        LibraryCipher::ChaCha20Poly1305 => key_len == 32,
        LibraryCipher::TripleDes => key_len == 24,
        LibraryCipher::Des => key_len == 8,
    };
    let is_tag = match (cipher, hash) {
        (LibraryCipher::Gcm, Hash::None) => matches!(tag_len, 8 | 12 | 16),
        (LibraryCipher::Gmac | LibraryCipher::ChaCha20Poly1305, Hash::None) => tag_len == 16,
        (LibraryCipher::Gcm | LibraryCipher::Gmac | LibraryCipher::ChaCha20Poly1305, _) => false,
        (_, Hash::None) => tag_len == 0,
        (_, Hash::Md5 | Hash::Sha1) => tag_len == 12,
        (_, Hash::Sha256) => tag_len == 16,
        (_, Hash::Sha384) => tag_len == 24,
        (_, Hash::Sha512) => tag_len == 32,
    };
    is_key && is_tag && auth_len <= 64
}

impl Manager {
    /// Initialises the library for this processor and runs its self-test.
    ///
    /// # Errors
    /// [`Unavailable`] if the installed library has another major version than the one convoy was
    /// built with, or does not work on this processor.
    pub fn new() -> Result<Self, Unavailable> {
        // SAFETY: the functions take no arguments.
        let (built, found) = unsafe { (text(convoy_mb_built_version()), text(convoy_mb_version())) };
        if major(&built) != major(&found) {
            return Err(Unavailable {
                reason: format!("ipsec-mb {found} is installed, convoy was built for {built}"),
                remedy: "build convoy again".to_owned(),
            });
        }
        let mut why = null();
        // SAFETY: `why` receives a string literal; null is handled below.
        let raw = NonNull::new(unsafe { convoy_mb_new(&raw mut why) });
        let Some(raw) = raw else {
            return Err(Unavailable {
                reason: format!("ipsec-mb {found} does not work on this processor: {}", text(why)),
                remedy: "use the software engine".to_owned(),
            });
        };
        // SAFETY: the manager was just made, and is freed together with this structure.
        let aeads = unsafe { Aeads::new(raw) };
        Ok(Self { raw, aeads, jobs: Vec::new(), tags: Vec::new() })
    }

    /// The library's version and instruction set.
    pub fn version(&self) -> String {
        // SAFETY: the manager is alive; the other function takes no arguments.
        let (version, arch) = unsafe { (convoy_mb_version(), convoy_mb_arch(self.raw.as_ptr())) };
        format!("{}, {}", text(version), text(arch))
    }

    /// Whether the library has vector code for a cipher on this processor. Without it, the library
    /// is slower than other implementations.
    pub fn has_vector_code(&self, cipher: LibraryCipher) -> bool {
        // SAFETY: the manager is alive.
        let has_des = unsafe { convoy_mb_has_vector_des(self.raw.as_ptr()) } != 0;
        has_des || !matches!(cipher, LibraryCipher::Des | LibraryCipher::TripleDes)
    }

    /// Expands keys; `None` if a length is invalid for the algorithms.
    pub fn key(
        &mut self,
        cipher: LibraryCipher,
        hash: Hash,
        tag_len: usize,
        key: &[u8],
        auth: &[u8],
    ) -> Option<Key> {
        if !fits(cipher, hash, tag_len, key.len(), auth.len()) {
            return None;
        }
        // SAFETY: the slices outlive the call, and their lengths were checked above.
        let raw = unsafe {
            convoy_mb_key_new(
                self.raw.as_ptr(),
                cipher as u32,
                hash as u32,
                tag_len as u32,
                key.as_ptr(),
                key.len() as u32,
                auth.as_ptr(),
                auth.len() as u32,
            )
        };
        let (len, tag_len) = (key.len() as u8, tag_len as u8);
        let raw = NonNull::new(raw)?;
        Some(Key { raw, cipher, len, tag_len, end: prefetch::end(raw) })
    }

    /// An empty burst.
    pub fn burst<'p>(&mut self) -> JobBurst<'_, 'p> {
        self.jobs.clear();
        JobBurst { manager: self, packets: PhantomData }
    }

    /// Seals packets with the library alone, as a reference for benches. Packets are `stride` bytes
    /// apart in `memory`, each with `len` bytes of payload behind `head` bytes. For AEADs, and for
    /// AES with or without a hash.
    ///
    /// # Panics
    /// If a packet with its tag is longer than the stride.
    #[doc(hidden)]
    pub fn floor(&mut self, key: &Key, memory: &mut [u8], stride: usize, head: usize, len: usize) {
        assert!(head <= stride && len <= stride && head + len + TAG_BYTES <= stride && stride <= 1 << 16);
        let count = memory.len() / stride;
        // SAFETY: `count` strides lie inside `memory`, and each packet with its tag inside its
        // stride. Manager and key are alive, and the call keeps no pointer.
        unsafe {
            let memory = memory.as_mut_ptr();
            convoy_mb_floor(
                self.raw.as_ptr(),
                key.raw.as_ptr(),
                memory,
                stride,
                count,
                head as u32,
                len as u32,
            );
        }
    }
}

impl<'m, 'p> JobBurst<'m, 'p> {
    /// Adds a job with its key, to seal or to open. The tag is written to its place in the packet,
    /// or else returned in the results. Returns `false` without adding the job if the key is an
    /// AEAD's or the tag's place lies outside the packet.
    #[inline]
    pub fn push(&mut self, job: Job<'p>, key: &'p Key, seal: bool) -> bool {
        if key.cipher.is_aead() || !(job.descriptor.tag.is_null() || job.has_room_for(key.tag_len)) {
            return false;
        }
        self.manager.jobs.push(job.descriptor.under(key, seal));
        true
    }

    /// Processes all jobs in place.
    pub fn run(self) -> Results<'m> {
        let Self { manager, .. } = self;
        let Manager { raw, aeads, jobs, tags } = manager;
        aeads.wipe();
        if !jobs.is_empty() {
            tags.resize(tags.len().max(jobs.len()), [0; TAG_BYTES]);
            for (job, tag) in jobs.iter_mut().zip(tags.iter_mut()) {
                if job.tag.is_null() {
                    job.tag = tag.as_mut_ptr();
                }
            }
            // SAFETY: each job's ranges were checked against its packet, which the burst borrows
            // together with key, nonce and additional data. Its tag lies inside the packet or is an
            // element of `tags`, which is not resized. `burst` cleared older jobs. `Descriptor` has
            // the layout of the shim's structure. The manager is alive, and the call keeps no
            // pointer.
            unsafe { convoy_mb_process(raw.as_ptr(), jobs.as_mut_ptr(), jobs.len()) };
        }
        Results { jobs, tags }
    }
}

impl Descriptor {
    #[inline]
    fn under(self, key: &Key, seal: bool) -> Self {
        Self {
            key: key.raw.as_ptr().cast(),
            seal: seal.into(),
            cipher: key.cipher as u8,
            key_len: key.len,
            tag_len: key.tag_len,
            ..self
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.aeads.wipe();
        // SAFETY: it came from `convoy_mb_new` and is freed once.
        unsafe { convoy_mb_free(self.raw.as_ptr()) }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: it came from `convoy_mb_key_new` and is freed once.
        unsafe { convoy_mb_key_free(self.raw.as_ptr()) }
    }
}

#[cfg(test)]
mod tests;
