//! Sessions: keys installed in a device.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::device::Device;
use super::eal::last_words;
use super::ffi::*;
use crate::{DeviceSuite, DpdkError};

/// The contents of a session.
#[derive(Clone, Copy)]
pub struct SessionKeys<'k> {
    /// The algorithms.
    pub suite: DeviceSuite,
    /// Length of each packet's additional data, in bytes, for an AEAD.
    pub aad_len: usize,
    /// Whether the session seals; if not, it opens.
    pub seal: bool,
    /// The cipher's key; its length is the suite's.
    pub key: &'k [u8],
    /// The HMAC's key; its length is the suite's.
    pub hash_key: &'k [u8],
}

/// The keys of one SA in one direction; wiped when dropped.
#[derive(Debug)]
pub struct Session {
    device: &'static Device,
    pub(super) raw: NonNull<c_void>,
    pub(super) suite: DeviceSuite,
}

// SAFETY: a session is not changed after it was made, and is freed by its last owner.
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

impl Session {
    pub(super) fn new(device: &'static Device, keys: &SessionKeys<'_>) -> Result<Self, DpdkError> {
        let SessionKeys { suite, aad_len, seal, key, hash_key } = *keys;
        let failed = |reason| DpdkError::Session { name: device.info().name.clone(), suite, reason };
        if key.len() != suite.key_len
            || hash_key.len() != suite.hash_key_len
            || suite.icv_len > DIGEST_BYTES
            || aad_len > AAD_BYTES
        {
            return Err(failed("the keys do not have the suite's lengths".to_owned()));
        }
        let config = RawSessionConfig {
            cipher: suite.cipher as u32,
            hash: suite.hash as u32,
            key: key.as_ptr(),
            hash_key: hash_key.as_ptr(),
            key_len: key.len() as u32,
            hash_key_len: hash_key.len() as u32,
            digest_len: suite.icv_len as u32,
            nonce_len: suite.cipher.nonce_len() as u32,
            aad_len: aad_len as u32,
            seal: u32::from(seal),
        };
        let _old = last_words(0);
        // SAFETY: the keys have the given lengths, and are copied.
        let raw = unsafe { convoy_dpdk_session(device.raw.as_ptr(), &raw const config) };
        let raw = NonNull::new(raw).ok_or_else(|| failed(last_words(nix::libc::ENOMEM)))?;
        Ok(Self { device, raw, suite })
    }

    /// The device that the session belongs to.
    pub(super) fn device(&self) -> &'static Device {
        self.device
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _one_at_a_time = self.device.sessions();
        // SAFETY: the device made the session, and no job uses it, as each holds an `Arc`. The lock
        // keeps another session from taking its memory before it is wiped.
        unsafe { convoy_dpdk_session_free(self.device.raw.as_ptr(), self.raw.as_ptr()) };
    }
}
