//! Ethernet devices, each opened with a queue pair for every thread that uses it.

use std::ffi::{CStr, CString};
use std::ptr::NonNull;

use convoy_packet::MacAddress;

use super::eal::{Eal, last_words};
use super::ffi::*;
use crate::DpdkError;

/// The most frames that one call receives or sends.
pub const ETHERNET_BURST: usize = 64;

/// Properties of an Ethernet device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetInfo {
    /// Name of a virtual device, or a PCI address.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// The most queue pairs.
    pub max_queue_pairs: usize,
    /// The MAC address.
    pub mac: MacAddress,
}

/// Configuration of an Ethernet device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetConfig {
    /// Number of queue pairs, one for each thread.
    pub queues: usize,
    /// Length of each receive and send queue, in frames; adjusted to the device's limits.
    pub descriptors: u32,
    /// MTU: length of the longest packet behind an Ethernet header, in bytes.
    pub mtu: usize,
    /// MAC address to set; `None` keeps the device's own.
    pub mac: Option<MacAddress>,
    /// Whether frames to all groups are received, if the device tells groups apart: the groups of
    /// IPv6 neighbour discovery are among them.
    pub all_groups: bool,
}

/// An Ethernet device that was opened.
#[derive(Debug)]
pub struct EthernetDevice {
    /// The present MAC address.
    pub mac: MacAddress,
    /// Its queue pairs.
    pub queues: Vec<EthernetQueue>,
}

/// Counters of a device, over all its queues. Those that the driver lacks are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthernetCounters {
    /// Frames for which the receive queue had no room.
    pub missed: u64,
    /// Frames that were received damaged.
    pub receive_errors: u64,
    /// Frames that could not be sent.
    pub send_errors: u64,
    /// Received frames for which there was no buffer.
    pub no_buffer: u64,
}

/// DPDK's id of the Ethernet device of this name.
fn find(name: &str) -> Option<i32> {
    let text = CString::new(name).ok()?;
    // SAFETY: the string ends with a zero.
    let id = unsafe { convoy_eth_find(text.as_ptr()) };
    (id >= 0).then_some(id)
}

/// Whether there is an Ethernet device of this name.
pub(super) fn exists(name: &str) -> bool {
    find(name).is_some()
}

fn info(id: i32) -> Option<(EthernetInfo, [u32; 2])> {
    let mut raw = RawEthInfo {
        name: std::ptr::null(),
        driver: std::ptr::null(),
        receive_queues: 0,
        send_queues: 0,
        least_mtu: 0,
        most_mtu: 0,
        mac: [0; 6],
    };
    // SAFETY: `raw` is written if there is such a device.
    if !unsafe { convoy_eth_info(id, &raw mut raw) } {
        return None;
    }
    // SAFETY: the driver's string belongs to an existing device, and the name's to this thread's
    // last call; both end with a zero.
    let text = |pointer| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned();
    let info = EthernetInfo {
        name: text(raw.name),
        driver: text(raw.driver),
        max_queue_pairs: raw.receive_queues.min(raw.send_queues) as usize,
        mac: MacAddress(raw.mac),
    };
    Some((info, [raw.least_mtu, raw.most_mtu]))
}

/// All Ethernet devices that DPDK has now.
pub(super) fn all() -> Vec<EthernetInfo> {
    // SAFETY: returns a constant.
    let most = unsafe { convoy_eth_most() };
    (0..most).filter_map(|id| info(id).map(|(info, _)| info)).collect()
}

/// The devices as text, for an error.
pub(super) fn listed() -> String {
    let all: Vec<String> =
        all().into_iter().map(|device| format!("{} (driver {})", device.name, device.driver)).collect();
    if all.is_empty() {
        "DPDK sees no Ethernet device".to_owned()
    } else {
        format!("DPDK sees {}", all.join(", "))
    }
}

impl EthernetDevice {
    /// Configures and starts the device of this name, which must not be open yet.
    pub(super) fn open(_: &Eal, name: &str, config: &EthernetConfig) -> Result<Self, DpdkError> {
        let failed = |reason| DpdkError::Open { name: name.to_owned(), reason };
        let missing = || DpdkError::Device { name: name.to_owned(), reason: listed() };
        let id = find(name).ok_or_else(missing)?;
        let (info, mtu) = info(id).ok_or_else(missing)?;
        check(&info, mtu, config).map_err(failed)?;
        let mut queues = vec![std::ptr::null_mut(); config.queues];
        let mut step = c"start it".as_ptr();
        let raw = RawEthConfig {
            queues: config.queues as u32,
            receive_descriptors: config.descriptors,
            send_descriptors: config.descriptors,
            mtu: config.mtu as u32,
            has_mac: u8::from(config.mac.is_some()),
            mac: config.mac.unwrap_or(info.mac).0,
            all_groups: u8::from(config.all_groups),
        };
        let _old = last_words(0);
        // SAFETY: `id` is a device that is not open: the caller holds the lock on the list of open
        // ones. `queues` has room for all pointers.
        let error = unsafe { convoy_eth_open(id, &raw const raw, queues.as_mut_ptr(), &raw mut step) };
        if error != 0 {
            // SAFETY: the step is a string literal in the shim.
            let step = unsafe { CStr::from_ptr(step) }.to_string_lossy();
            return Err(failed(format!("cannot {step}: {}", last_words(error))));
        }
        let queues = queues.into_iter().filter_map(NonNull::new);
        let queues = queues.map(|raw| EthernetQueue { raw, id, mtu: config.mtu });
        Ok(Self { mac: config.mac.unwrap_or(info.mac), queues: queues.collect() })
    }
}

/// Checks the configuration against the device's limits; the error says what to change.
fn check(
    info: &EthernetInfo,
    [least_mtu, most_mtu]: [u32; 2],
    config: &EthernetConfig,
) -> Result<(), String> {
    if config.queues == 0 || config.queues > info.max_queue_pairs {
        return Err(format!(
            "it has queue pairs for {} of {} workers; set workers lower, or give a virtual device more (qpairs=N of net_af_packet)",
            info.max_queue_pairs, config.queues
        ));
    }
    // 0 means that the driver gives no limit.
    let is_fit = config.mtu >= least_mtu as usize && (most_mtu == 0 || config.mtu <= most_mtu as usize);
    if is_fit {
        Ok(())
    } else {
        Err(format!("it supports MTUs from {least_mtu} to {most_mtu} bytes, not {}", config.mtu))
    }
}

/// A queue pair, owned by one thread.
///
/// Dropping it does not close the device; frames that arrive later are lost.
#[derive(Debug)]
pub struct EthernetQueue {
    raw: NonNull<RawEthQueue>,
    id: i32,
    mtu: usize,
}

// SAFETY: only its owner uses a queue pair, on any one thread. Other threads may return buffers to
// its pool, which is thread-safe.
unsafe impl Send for EthernetQueue {}

impl EthernetQueue {
    /// Receives up to `limit` frames, at most [`ETHERNET_BURST`], and returns their number. An
    /// empty slice stands for a frame that cannot be read: its VLAN tag was stripped by the device,
    /// or it has several segments.
    pub fn receive(&mut self, limit: usize, mut take: impl FnMut(&[u8])) -> usize {
        /// Frees the buffers, even if `take` panics.
        struct ReceivedBuffers(NonNull<RawEthQueue>);
        impl Drop for ReceivedBuffers {
            fn drop(&mut self) {
                // SAFETY: `take` has returned for all frames, so nothing borrows the buffers any
                // more.
                unsafe { convoy_eth_received(self.0.as_ptr()) };
            }
        }
        let mut frames = [RawEthFrame { bytes: std::ptr::null(), len: 0 }; ETHERNET_BURST];
        let room = limit.min(ETHERNET_BURST) as u32;
        // SAFETY: `frames` has room for `room` frames, and this thread owns the queue.
        let count = unsafe { convoy_eth_receive(self.raw.as_ptr(), frames.as_mut_ptr(), room) } as usize;
        let _received = ReceivedBuffers(self.raw);
        for frame in &frames[..count] {
            // SAFETY: the buffer holds `len` bytes, and is freed after the loop.
            take(unsafe { std::slice::from_raw_parts(frame.bytes, frame.len as usize) });
        }
        count
    }

    /// Sends packets behind their Ethernet headers, in order, at most [`ETHERNET_BURST`], and
    /// returns how many the queue accepted.
    ///
    /// # Panics
    /// If a packet is longer than the MTU.
    pub fn send<'p>(&mut self, packets: impl IntoIterator<Item = ([u8; ETHERNET_BYTES], &'p [u8])>) -> usize {
        let empty = RawEthPacket { bytes: std::ptr::null(), len: 0, header: [0; ETHERNET_BYTES] };
        let mut burst = [empty; ETHERNET_BURST];
        let mut count = 0;
        for (place, (header, packet)) in burst.iter_mut().zip(packets) {
            assert!(packet.len() <= self.mtu, "the caller checks the MTU");
            *place = RawEthPacket { bytes: packet.as_ptr(), len: packet.len() as u32, header };
            count += 1;
        }
        // SAFETY: `burst` holds `count` packets, which are copied before the call returns. This
        // thread owns the queue.
        unsafe { convoy_eth_send(self.raw.as_ptr(), burst.as_ptr(), count) as usize }
    }

    /// Counters of the device, over all its queues.
    pub fn device_counters(&self) -> EthernetCounters {
        let mut raw = RawEthCounters::default();
        // SAFETY: the device stays open while the process lives.
        let _are_there = unsafe { convoy_eth_counters(self.id, &raw mut raw) };
        let RawEthCounters { missed, receive_errors, send_errors, no_buffer } = raw;
        EthernetCounters { missed, receive_errors, send_errors, no_buffer }
    }
}
