//! The shim's functions and structures (`shim/shim.h`).

use std::ffi::{c_char, c_int, c_void};

use crate::Sizes;

/// Room for a nonce, in bytes.
pub const NONCE_BYTES: usize = 16;
/// Room for additional data, in bytes.
pub(super) const AAD_BYTES: usize = 16;
/// The longest ICV, in bytes.
pub const DIGEST_BYTES: usize = 32;
/// Value of `digest_at` for a digest in the operation instead of the packet.
pub(super) const DIGEST_ASIDE: u32 = u32::MAX;

/// Length of an Ethernet header without tags, in bytes.
pub(super) const ETHERNET_BYTES: usize = 14;

/// `struct convoy_device`.
#[repr(C)]
pub(super) struct RawDevice {
    _opaque: [u8; 0],
}

/// `struct convoy_queue`.
#[repr(C)]
pub(super) struct RawQueue {
    _opaque: [u8; 0],
}

/// `struct convoy_capability`.
#[derive(Default)]
#[repr(C)]
pub(super) struct RawCapability {
    pub(super) is_hash: u8,
    pub(super) algorithm: u8,
    pub(super) key: Sizes,
    pub(super) nonce: Sizes,
    pub(super) digest: Sizes,
    pub(super) aad: Sizes,
}

/// `struct convoy_info`.
#[repr(C)]
pub(super) struct RawInfo {
    pub(super) name: *const c_char,
    pub(super) driver: *const c_char,
    pub(super) features: u64,
    pub(super) max_queue_pairs: u32,
    pub(super) max_sessions: u32,
    pub(super) id: u32,
}

/// `struct convoy_session_config`.
#[repr(C)]
pub(super) struct RawSessionConfig {
    pub(super) cipher: u32,
    pub(super) hash: u32,
    pub(super) key: *const u8,
    pub(super) hash_key: *const u8,
    pub(super) key_len: u32,
    pub(super) hash_key_len: u32,
    pub(super) digest_len: u32,
    pub(super) nonce_len: u32,
    pub(super) aad_len: u32,
    pub(super) seal: u32,
}

/// `struct convoy_job`.
#[repr(C)]
pub(super) struct RawJob {
    pub(super) packet: *mut u8,
    pub(super) session: *mut c_void,
    pub(super) cookie: u64,
    pub(super) packet_len: u32,
    pub(super) cipher_start: u32,
    pub(super) cipher_len: u32,
    pub(super) auth_start: u32,
    pub(super) auth_len: u32,
    pub(super) digest_at: u32,
    pub(super) kind: u8,
    pub(super) nonce: [u8; NONCE_BYTES],
    pub(super) aad: [u8; AAD_BYTES],
    pub(super) digest: [u8; DIGEST_BYTES],
}

/// `struct convoy_done`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RawDone {
    pub(super) cookie: u64,
    pub(super) digest: *const u8,
    pub(super) ended: u8,
}

/// `struct convoy_eth_queue`.
#[repr(C)]
pub(super) struct RawEthQueue {
    _opaque: [u8; 0],
}

/// `struct convoy_eth_info`.
#[repr(C)]
pub(super) struct RawEthInfo {
    pub(super) name: *const c_char,
    pub(super) driver: *const c_char,
    pub(super) receive_queues: u32,
    pub(super) send_queues: u32,
    pub(super) least_mtu: u32,
    pub(super) most_mtu: u32,
    pub(super) mac: [u8; 6],
}

/// `struct convoy_eth_config`.
#[repr(C)]
pub(super) struct RawEthConfig {
    pub(super) queues: u32,
    pub(super) receive_descriptors: u32,
    pub(super) send_descriptors: u32,
    pub(super) mtu: u32,
    pub(super) has_mac: u8,
    pub(super) mac: [u8; 6],
    pub(super) all_groups: u8,
}

/// `struct convoy_eth_frame`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RawEthFrame {
    pub(super) bytes: *const u8,
    pub(super) len: u32,
}

/// `struct convoy_eth_packet`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RawEthPacket {
    pub(super) bytes: *const u8,
    pub(super) len: u32,
    pub(super) header: [u8; ETHERNET_BYTES],
}

/// `struct convoy_eth_counters`.
#[derive(Default)]
#[repr(C)]
pub(super) struct RawEthCounters {
    pub(super) missed: u64,
    pub(super) receive_errors: u64,
    pub(super) send_errors: u64,
    pub(super) no_buffer: u64,
}

unsafe extern "C" {
    pub(super) fn convoy_dpdk_start(count: c_int, arguments: *mut *mut c_char) -> c_int;
    pub(super) fn convoy_dpdk_log(to: *mut c_char, room: usize) -> usize;
    pub(super) fn convoy_dpdk_version() -> *const c_char;
    pub(super) fn convoy_dpdk_iova_is_va() -> bool;
    pub(super) fn convoy_dpdk_register(base: *mut c_void, len: usize, page: usize) -> c_int;
    pub(super) fn convoy_dpdk_probe(arguments: *const c_char) -> c_int;
    pub(super) fn convoy_dpdk_in_interrupt_thread(
        call: extern "C" fn(*mut c_void),
        with: *mut c_void,
    ) -> c_int;
    pub(super) fn convoy_dpdk_find(name: *const c_char) -> c_int;
    pub(super) fn convoy_dpdk_keeps_order(id: c_int) -> bool;
    pub(super) fn convoy_dpdk_map(id: c_int, base: *mut c_void, len: usize) -> c_int;
    pub(super) fn convoy_dpdk_info(id: c_int, to: *mut RawInfo) -> bool;
    pub(super) fn convoy_dpdk_capability(id: c_int, at: u32, to: *mut RawCapability) -> bool;
    pub(super) fn convoy_dpdk_open(
        id: c_int,
        queues: u32,
        depth: u32,
        sessions: u32,
        error: *mut c_int,
    ) -> *mut RawDevice;
    pub(super) fn convoy_dpdk_stop(device: *mut RawDevice);
    pub(super) fn convoy_dpdk_session(device: *mut RawDevice, config: *const RawSessionConfig)
    -> *mut c_void;
    pub(super) fn convoy_dpdk_session_free(device: *mut RawDevice, session: *mut c_void);
    pub(super) fn convoy_dpdk_queue(device: *mut RawDevice, at: u16) -> *mut RawQueue;
    pub(super) fn convoy_dpdk_enqueue(queue: *mut RawQueue, jobs: *const RawJob, count: u32) -> u32;
    pub(super) fn convoy_dpdk_dequeue(queue: *mut RawQueue, done: *mut RawDone, room: u32) -> u32;
    pub(super) fn convoy_eth_most() -> c_int;
    pub(super) fn convoy_eth_find(name: *const c_char) -> c_int;
    pub(super) fn convoy_eth_info(id: c_int, to: *mut RawEthInfo) -> bool;
    pub(super) fn convoy_eth_open(
        id: c_int,
        config: *const RawEthConfig,
        queues: *mut *mut RawEthQueue,
        step: *mut *const c_char,
    ) -> c_int;
    pub(super) fn convoy_eth_receive(queue: *mut RawEthQueue, to: *mut RawEthFrame, room: u32) -> u32;
    pub(super) fn convoy_eth_received(queue: *mut RawEthQueue);
    pub(super) fn convoy_eth_send(queue: *mut RawEthQueue, packets: *const RawEthPacket, count: u32) -> u32;
    pub(super) fn convoy_eth_counters(id: c_int, to: *mut RawEthCounters) -> bool;
}
