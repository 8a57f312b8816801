//! Ethernet devices: one opened for all threads that use it, with a queue pair for each.

use std::ffi::{CStr, CString};
use std::ptr::NonNull;

use convoy_packet::MacAddress;

use super::eal::{Eal, last_words};
use super::ffi::*;
use crate::DpdkError;

/// Frames that one call receives or sends at most.
pub const ETHERNET_BURST: usize = 64;

/// What an Ethernet device says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetInfo {
    /// Its name: a vdev's, or a PCI address.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// Queue pairs that it can have.
    pub max_queue_pairs: usize,
    /// Its address.
    pub mac: MacAddress,
}

/// How an Ethernet device is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetConfig {
    /// Queue pairs: one for each thread.
    pub queues: usize,
    /// Frames that a queue holds, each way; the device's own limits go before.
    pub descriptors: u32,
    /// The longest packet behind an Ethernet header, in bytes.
    pub mtu: usize,
    /// Its address, instead of the device's own.
    pub mac: Option<MacAddress>,
}

/// An Ethernet device that was opened.
#[derive(Debug)]
pub struct EthernetDevice {
    /// The address that it has now.
    pub mac: MacAddress,
    /// Its queue pairs.
    pub queues: Vec<EthernetQueue>,
}

/// What a device has counted, all its queues together. A driver without a counter says 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthernetCounters {
    /// Frames for which the receiving queue had no room.
    pub missed: u64,
    /// Frames that the device found damaged.
    pub receive_errors: u64,
    /// Frames that it could not send.
    pub send_errors: u64,
    /// Frames for which there was no buffer.
    pub no_buffer: u64,
}

/// DPDK's number of the Ethernet device of this name.
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
    // SAFETY: it is written if there is such a device.
    if !unsafe { convoy_eth_info(id, &raw mut raw) } {
        return None;
    }
    // SAFETY: DPDK's string of a device that is there, and this thread's own of the call before;
    // both end with a zero.
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
    // SAFETY: a constant of DPDK's.
    let most = unsafe { convoy_eth_most() };
    (0..most).filter_map(|id| info(id).map(|(info, _)| info)).collect()
}

/// The devices in one line, for whoever asked for one that is not there.
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
    /// Configures and starts the device of this name, which nobody else has.
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
        };
        let _old = last_words(0);
        // SAFETY: `id` is a device that nobody has opened: the caller holds the list of those that
        // are. `queues` has room for all.
        let error = unsafe { convoy_eth_open(id, &raw const raw, queues.as_mut_ptr(), &raw mut step) };
        if error != 0 {
            // SAFETY: a string in the shim that ends with a zero.
            let step = unsafe { CStr::from_ptr(step) }.to_string_lossy();
            return Err(failed(format!("cannot {step}: {}", last_words(error))));
        }
        let queues = queues.into_iter().filter_map(NonNull::new);
        let queues = queues.map(|raw| EthernetQueue { raw, id, mtu: config.mtu });
        Ok(Self { mac: config.mac.unwrap_or(info.mac), queues: queues.collect() })
    }
}

/// What the device cannot be, in words that say what to do.
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
    // A driver that says nothing has 0.
    let is_fit = config.mtu >= least_mtu as usize && (most_mtu == 0 || config.mtu <= most_mtu as usize);
    if is_fit {
        Ok(())
    } else {
        Err(format!("its MTU is from {least_mtu} to {most_mtu} bytes, and {} were asked for", config.mtu))
    }
}

/// A queue pair, which one thread has.
///
/// The device stays open when it is dropped: what comes then is lost, as no one reads it.
#[derive(Debug)]
pub struct EthernetQueue {
    raw: NonNull<RawEthQueue>,
    id: i32,
    mtu: usize,
}

// SAFETY: a queue pair is used by its owner alone, on whatever thread; its pool of buffers may be
// given buffers back by others.
unsafe impl Send for EthernetQueue {}

impl EthernetQueue {
    /// Hands over up to `limit` frames, [`ETHERNET_BURST`] at most, and returns how many there
    /// were. An empty one is a frame that cannot be read: with a VLAN tag that the device took out,
    /// or in several pieces.
    pub fn receive(&mut self, limit: usize, mut take: impl FnMut(&[u8])) -> usize {
        /// Gives the buffers back, also if `take` panics.
        struct Received(NonNull<RawEthQueue>);
        impl Drop for Received {
            fn drop(&mut self) {
                // SAFETY: the frames of the burst were handed over, and nobody has them any more.
                unsafe { convoy_eth_received(self.0.as_ptr()) };
            }
        }
        let mut frames = [RawEthFrame { bytes: std::ptr::null(), len: 0 }; ETHERNET_BURST];
        let room = limit.min(ETHERNET_BURST) as u32;
        // SAFETY: `frames` has room for so many, and this thread alone has the queue.
        let count = unsafe { convoy_eth_receive(self.raw.as_ptr(), frames.as_mut_ptr(), room) } as usize;
        let _received = Received(self.raw);
        for frame in &frames[..count] {
            // SAFETY: so many bytes of a buffer of DPDK's, which is given back behind the loop.
            take(unsafe { std::slice::from_raw_parts(frame.bytes, frame.len as usize) });
        }
        count
    }

    /// Sends packets behind their Ethernet headers, in order, [`ETHERNET_BURST`] at most, and
    /// returns for how many there was room.
    ///
    /// # Panics
    /// If a packet is longer than the MTU.
    pub fn send<'p>(&mut self, packets: impl IntoIterator<Item = ([u8; ETHERNET_BYTES], &'p [u8])>) -> usize {
        let empty = RawEthPacket { bytes: std::ptr::null(), len: 0, header: [0; ETHERNET_BYTES] };
        let mut burst = [empty; ETHERNET_BURST];
        let mut count = 0;
        for (place, (header, packet)) in burst.iter_mut().zip(packets) {
            assert!(packet.len() <= self.mtu, "the caller looks at the MTU");
            *place = RawEthPacket { bytes: packet.as_ptr(), len: packet.len() as u32, header };
            count += 1;
        }
        // SAFETY: so many packets, which live until the call returns: it copies them. This thread
        // alone has the queue.
        unsafe { convoy_eth_send(self.raw.as_ptr(), burst.as_ptr(), count) as usize }
    }

    /// What the device has counted, all its queues together.
    pub fn device_counters(&self) -> EthernetCounters {
        let mut raw = RawEthCounters::default();
        // SAFETY: the device is open while the process lives.
        let _are_there = unsafe { convoy_eth_counters(self.id, &raw mut raw) };
        let RawEthCounters { missed, receive_errors, send_errors, no_buffer } = raw;
        EthernetCounters { missed, receive_errors, send_errors, no_buffer }
    }
}
