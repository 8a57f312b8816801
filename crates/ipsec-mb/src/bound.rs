//! The library through the shim.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;

use crate::{Cipher, Hash, Job, Unavailable};

#[repr(C)]
struct RawManager {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawKey {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn convoy_mb_new() -> *mut RawManager;
    fn convoy_mb_free(manager: *mut RawManager);
    fn convoy_mb_built_version() -> *const c_char;
    fn convoy_mb_version() -> *const c_char;
    fn convoy_mb_arch(manager: *const RawManager) -> u32;
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
    fn convoy_mb_process(
        manager: *mut RawManager,
        key: *const RawKey,
        seal: c_int,
        jobs: *mut Job<'_>,
        count: usize,
    );
}

/// The library's state for one thread.
#[derive(Debug)]
pub struct Manager(NonNull<RawManager>);

// SAFETY: the manager is plain memory without ties to a thread; `&mut self` keeps its use exclusive.
unsafe impl Send for Manager {}

/// Expanded keys; wiped when dropped.
#[derive(Debug)]
pub struct Key(NonNull<RawKey>);

// SAFETY: a key is plain memory that is only read after it was made.
unsafe impl Send for Key {}

fn text(pointer: *const c_char) -> String {
    // SAFETY: both callers pass string literals of the library or of the shim.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// The first number of a version: within it the library keeps its binary interface.
fn major(version: &str) -> &str {
    version.trim_start_matches('v').split('.').next().unwrap_or("")
}

impl Manager {
    /// Initialises the library for this processor and runs its self-test.
    ///
    /// # Errors
    /// [`Unavailable`] if the library that is installed is not the one convoy was built for, or its self-test fails.
    pub fn new() -> Result<Self, Unavailable> {
        // SAFETY: neither takes anything.
        let (built, found) = unsafe { (text(convoy_mb_built_version()), text(convoy_mb_version())) };
        if major(&built) != major(&found) {
            let why = format!("ipsec-mb {found} is installed, convoy was built for {built}; build it again");
            return Err(Unavailable(why));
        }
        // SAFETY: takes nothing; null is handled.
        let manager = NonNull::new(unsafe { convoy_mb_new() });
        manager
            .map(Self)
            .ok_or_else(|| Unavailable("ipsec-mb's self-test failed on this processor".to_owned()))
    }

    /// The library's version and the instructions that it chose.
    pub fn version(&self) -> String {
        const ARCHITECTURES: [&str; 6] = ["none", "no AES-NI", "SSE", "AVX", "AVX2", "AVX-512"];
        // SAFETY: the manager is alive.
        let arch = unsafe { convoy_mb_arch(self.0.as_ptr()) };
        // SAFETY: takes nothing.
        let version = text(unsafe { convoy_mb_version() });
        format!("{version}, {}", ARCHITECTURES.get(arch as usize).copied().unwrap_or("newer than known"))
    }

    /// Expands keys; `None` for lengths that no algorithm has.
    pub fn key(
        &mut self,
        cipher: Cipher,
        hash: Hash,
        tag_len: usize,
        key: &[u8],
        auth: &[u8],
    ) -> Option<Key> {
        let fits = match cipher {
            Cipher::Null => key.is_empty(),
            Cipher::Gcm | Cipher::Gmac | Cipher::Cbc | Cipher::Ctr => matches!(key.len(), 16 | 24 | 32),
            Cipher::ChaCha20Poly1305 => key.len() == 32,
            Cipher::TripleDes => key.len() == 24,
            Cipher::Des => key.len() == 8,
        };
        if !fits || auth.len() > 64 || tag_len > crate::TAG_BYTES {
            return None;
        }
        // SAFETY: pointers and lengths are of slices that outlive the call; lengths were checked above.
        let raw = unsafe {
            convoy_mb_key_new(
                self.0.as_ptr(),
                cipher as u32,
                hash as u32,
                tag_len as u32,
                key.as_ptr(),
                key.len() as u32,
                auth.as_ptr(),
                auth.len() as u32,
            )
        };
        NonNull::new(raw).map(Key)
    }

    /// Does all jobs, in place, before it returns: seals or opens. Tags are computed, not compared.
    pub fn process(&mut self, key: &Key, seal: bool, jobs: &mut [Job<'_>]) {
        // SAFETY: every job's ranges were checked against the packet that it borrows; `Job` has the layout
        // of the shim's structure; manager and key are alive, and the call keeps no pointer.
        unsafe {
            convoy_mb_process(self.0.as_ptr(), key.0.as_ptr(), seal.into(), jobs.as_mut_ptr(), jobs.len());
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: it came from `convoy_mb_new` and is freed once.
        unsafe { convoy_mb_free(self.0.as_ptr()) }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: it came from `convoy_mb_key_new` and is freed once.
        unsafe { convoy_mb_key_free(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_knows_the_gcm_specifications_second_case() {
        let mut manager = Manager::new().expect("the library is installed");
        let key = manager.key(Cipher::Gcm, Hash::None, 16, &[0; 16], &[]).expect("a good length");
        let mut packet = [0; 16];
        let mut jobs = [Job::new(&mut packet, (0, 16), (0, 0), &[0; 12], &[]).expect("inside")];
        manager.process(&key, true, &mut jobs);
        let tag = jobs[0].tag().expect("done")[..4].to_vec();
        assert_eq!(tag, [0xab, 0x6e, 0x47, 0xd4]);
        assert_eq!(packet[..4], [0x03, 0x88, 0xda, 0xce]);
    }

    #[test]
    fn a_burst_gives_what_single_jobs_give() {
        let mut manager = Manager::new().expect("the library is installed");
        for (hash, tag_len, auth) in [(Hash::Sha1, 12, &[7u8; 20][..]), (Hash::None, 0, &[][..])] {
            let key = manager.key(Cipher::Cbc, hash, tag_len, &[9; 16], auth).expect("good lengths");
            let fresh = || (0..40usize).map(|k| vec![k as u8; 16 * (1 + k * 7 % 50)]).collect::<Vec<_>>();
            let (mut alone, mut together) = (fresh(), fresh());
            fn job(packet: &mut [u8]) -> Job<'_> {
                let len = packet.len();
                Job::new(packet, (0, len), (0, len), &[3; 16], &[]).expect("inside")
            }
            let mut tags = Vec::new();
            for packet in &mut alone {
                let mut jobs = [job(packet)];
                manager.process(&key, true, &mut jobs);
                tags.push(*jobs[0].tag().expect("done"));
            }
            let mut jobs: Vec<Job<'_>> = together.iter_mut().map(|packet| job(packet)).collect();
            manager.process(&key, true, &mut jobs);
            assert!(jobs.iter().zip(&tags).all(|(job, tag)| job.tag() == Some(tag)));
            assert!(alone == together, "{hash:?}");
        }
    }

    #[test]
    fn jobs_outside_their_packet_and_keys_of_odd_lengths_are_refused() {
        let mut packet = [0; 16];
        assert!(Job::new(&mut packet, (8, 9), (0, 0), &[], &[]).is_none());
        assert!(Job::new(&mut packet, (0, 0), (usize::MAX, 2), &[], &[]).is_none());
        assert!(Job::new(&mut packet, (0, 0), (0, 0), &[0; 17], &[]).is_none());
        let mut manager = Manager::new().expect("the library is installed");
        assert!(manager.key(Cipher::Cbc, Hash::Sha1, 12, &[0; 17], &[0; 20]).is_none());
    }
}
