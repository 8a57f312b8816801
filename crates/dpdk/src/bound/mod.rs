//! Safe bindings to the C shim over DPDK.

#![allow(unsafe_code)]

mod device;
mod eal;
mod ethernet;
mod ffi;
mod job;
mod queue;
mod session;

pub use device::Device;
pub use eal::Eal;
pub use ethernet::{
    ETHERNET_BURST, EthernetConfig, EthernetCounters, EthernetDevice, EthernetInfo, EthernetQueue,
};
pub use ffi::{DIGEST_BYTES, NONCE_BYTES};
pub use job::{DeviceJob, Icv};
pub use queue::{DeviceQueue, Digest, FrameBatch, JobResult};
pub use session::{Session, SessionKeys};
