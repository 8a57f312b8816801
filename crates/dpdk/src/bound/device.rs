//! A crypto device that was started.

use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoy_packet::Region;
use nix::errno::Errno;

use super::eal::{Eal, last_words};
use super::ffi::*;
use super::queue::{DeviceQueue, FrameBatch};
use super::session::{Session, SessionKeys};
use crate::{Capability, DeviceCipher, DeviceHash, DeviceInfo, DpdkError, Features, is_pci_address};

/// More queue pairs than a process can have workers.
const MOST_QUEUES: usize = 64;
/// The driver of DPDK's scheduler, a device that distributes work to other devices.
const SCHEDULER: &str = "crypto_scheduler";

/// A crypto device, started with all its queue pairs, for the life of the process.
#[derive(Debug)]
pub struct Device {
    pub(super) raw: NonNull<RawDevice>,
    info: DeviceInfo,
    queue_pairs: usize,
    depth: usize,
    /// Queue pairs without an owner.
    free: Mutex<Vec<u16>>,
    /// Serialises the making and freeing of sessions, which DPDK does not document as thread-safe.
    sessions: Mutex<()>,
    is_stopped: AtomicBool,
}

// SAFETY: the raw device is only changed while it is opened; each queue has one owner, and sessions
// are made under a lock.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// DPDK's id of a device. A driver names a PCI device by its address and a suffix
/// (`0000:1a:01.0_qat_sym`), and several devices may share an address.
pub(super) fn find(name: &str) -> Option<i32> {
    let text = CString::new(name).ok()?;
    // SAFETY: the string ends with a zero.
    let id = unsafe { convoy_dpdk_find(text.as_ptr()) };
    if id >= 0 {
        return Some(id);
    }
    let is_at = |id: &i32| {
        info(*id).is_some_and(|device| {
            let more = device.name.strip_prefix(name).and_then(|more| more.strip_prefix('_'));
            more.is_some() && device.features.is_symmetric()
        })
    };
    if is_pci_address(name) { (0..=i32::from(u8::MAX)).find(is_at) } else { None }
}

/// What the device with this id can do.
pub(super) fn info(id: i32) -> Option<DeviceInfo> {
    let mut raw = RawInfo {
        name: std::ptr::null(),
        driver: std::ptr::null(),
        features: 0,
        max_queue_pairs: 0,
        max_sessions: 0,
        id: 0,
    };
    // SAFETY: `raw` is written if there is such a device.
    if !unsafe { convoy_dpdk_info(id, &raw mut raw) } {
        return None;
    }
    // SAFETY: the strings of an existing device are valid and end with a zero.
    let text = |pointer| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned();
    let mut capabilities = Vec::new();
    let mut capability = RawCapability::default();
    // SAFETY: there is such a device.
    while unsafe { convoy_dpdk_capability(id, capabilities.len() as u32, &raw mut capability) } {
        capabilities.push(capability_of(&capability));
    }
    Some(DeviceInfo {
        name: text(raw.name),
        driver: text(raw.driver),
        features: Features(raw.features),
        max_queue_pairs: raw.max_queue_pairs as usize,
        max_sessions: raw.max_sessions as usize,
        capabilities,
    })
}

fn capability_of(raw: &RawCapability) -> Capability {
    let at = usize::from(raw.algorithm);
    if raw.is_hash != 0 {
        return Capability::Hash { hash: DeviceHash::ALL[at], key: raw.key, icv: raw.digest };
    }
    Capability::Cipher {
        cipher: DeviceCipher::ALL[at],
        key: raw.key,
        nonce: raw.nonce,
        icv: raw.digest,
        aad: raw.aad,
    }
}

/// Maps the packet memory for a device's DMA; for DPDK's scheduler, for all hardware devices that
/// it may use.
fn map_packet_memory(id: i32, device: &DeviceInfo) -> Result<(), DpdkError> {
    let region = Region::of_process();
    let map = |id: i32, name: &str| {
        let _old = last_words(0);
        // SAFETY: the region lives as long as the process, and was registered with DPDK.
        match unsafe { convoy_dpdk_map(id, region.base().as_ptr().cast(), region.bytes()) } {
            0 => Ok(()),
            error => {
                let reason = unmapped(Errno::from_raw(error), &last_words(error), region.bytes());
                Err(DpdkError::Open { name: name.to_owned(), reason })
            }
        }
    };
    if device.driver == SCHEDULER {
        let hardware =
            all().filter(|(_, device)| device.features.is_hardware() && device.driver != SCHEDULER);
        return hardware.into_iter().try_for_each(|(id, device)| map(id, &device.name));
    }
    map(id, &device.name)
}

/// Why a device cannot access the packet memory, with advice; `bytes` is the memory's size.
fn unmapped(error: Errno, said: &str, bytes: usize) -> String {
    let remedy = match error {
        Errno::ENOTSUP => {
            "DPDK maps memory for PCI devices that are bound to vfio-pci (dpdk-devbind.py)".to_owned()
        }
        _ => format!(
            "an IOMMU must be on, and the limit of locked memory above {} MiB (ulimit -l; LimitMEMLOCK=infinity in a unit)",
            bytes >> 20
        ),
    };
    format!("it cannot access the packet memory by DMA: {said}; {remedy}")
}

/// All crypto devices that DPDK has now, in the order of their ids.
pub(super) fn all() -> impl Iterator<Item = (i32, DeviceInfo)> {
    (0..=i32::from(u8::MAX)).filter_map(|id| info(id).map(|device| (id, device)))
}

impl Device {
    pub(super) fn open(eal: &Eal, name: &str, depth: u32, sessions: u32) -> Result<Self, DpdkError> {
        let missing = || DpdkError::Device { name: name.to_owned(), reason: "it has gone".to_owned() };
        let failed = |reason| DpdkError::Open { name: name.to_owned(), reason };
        let id = find(name).ok_or_else(missing)?;
        let info = info(id).ok_or_else(missing)?;
        if info.features.is_hardware() && !eal.uses_virtual_addresses() {
            let remedy = "it reads packets by physical addresses here; start DPDK with --iova-mode=va, which needs an IOMMU";
            return Err(failed(remedy.to_owned()));
        }
        // SAFETY: `id` is a device of that driver.
        if info.driver == SCHEDULER && unsafe { convoy_dpdk_keeps_order(id) } {
            // The caller reuses an operation once it is back, and the scheduler would then return
            // it from its place in the reordering queue.
            let remedy =
                "with ordering=enable it returns operations that one of its devices still has; remove it";
            return Err(failed(remedy.to_owned()));
        }
        map_packet_memory(id, &info)?;
        let queue_pairs = info.max_queue_pairs.clamp(1, MOST_QUEUES);
        let sessions = if info.max_sessions > 0 { sessions.min(info.max_sessions as u32) } else { sessions };
        let mut error = 0;
        let _old = last_words(0);
        // SAFETY: `id` is a device that was not started yet: the caller holds the lock on the list
        // of started ones.
        let raw = unsafe { convoy_dpdk_open(id, queue_pairs as u32, depth, sessions, &raw mut error) };
        let raw = NonNull::new(raw).ok_or_else(|| failed(last_words(error)))?;
        Ok(Self {
            raw,
            info,
            queue_pairs,
            depth: depth as usize,
            free: Mutex::new((0..queue_pairs as u16).rev().collect()),
            sessions: Mutex::new(()),
            is_stopped: AtomicBool::new(false),
        })
    }

    /// What the device can do.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Operations that each queue pair holds.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Takes a free queue pair.
    ///
    /// # Errors
    /// [`DpdkError::Queues`] if none is free.
    pub fn queue<B: FrameBatch>(&'static self) -> Result<DeviceQueue<B>, DpdkError> {
        let none = || DpdkError::Queues { name: self.info.name.clone(), count: self.queue_pairs };
        let at = self.free_queues().pop().ok_or_else(none)?;
        // SAFETY: the number was taken from the list, so no other thread has it.
        let raw = NonNull::new(unsafe { convoy_dpdk_queue(self.raw.as_ptr(), at) }).ok_or_else(none)?;
        Ok(DeviceQueue::new(self, raw, at))
    }

    /// Returns a queue pair that has nothing at the device.
    pub(super) fn give_back(&self, at: u16) {
        self.free_queues().push(at);
    }

    fn free_queues(&self) -> MutexGuard<'_, Vec<u16>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a session from the keys of one SA in one direction.
    ///
    /// # Errors
    /// [`DpdkError::Session`] if the device refuses the keys or has no session left.
    pub fn session(&'static self, keys: &SessionKeys<'_>) -> Result<Session, DpdkError> {
        let _one_at_a_time = self.sessions();
        Session::new(self, keys)
    }

    /// The lock to hold while a session is made or freed.
    pub(super) fn sessions(&self) -> MutexGuard<'_, ()> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the device for good, as if it were lost: its queues accept and return nothing from
    /// then on.
    pub fn stop(&self) {
        if !self.is_stopped.swap(true, Ordering::AcqRel) {
            // SAFETY: the device was started. DPDK replaces its functions by placeholders that do
            // nothing, so queues may still be used.
            unsafe { convoy_dpdk_stop(self.raw.as_ptr()) };
        }
    }

    /// Whether the device was stopped.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_device_does_not_reach_the_packet_memory_is_said_with_what_to_do() {
        let by_uio = unmapped(Errno::ENOTSUP, "Operation not supported", 64 << 20);
        assert!(
            by_uio.contains(
                "DMA: Operation not supported; DPDK maps memory for PCI devices that are bound to vfio-pci"
            ),
            "{by_uio}"
        );
        let limited =
            unmapped(Errno::EIO, "Cannot set up DMA remapping, error 12 (Cannot allocate memory)", 64 << 20);
        assert!(
            limited.contains("error 12 (Cannot allocate memory); an IOMMU must be on")
                && limited.contains("above 64 MiB"),
            "{limited}"
        );
    }
}
