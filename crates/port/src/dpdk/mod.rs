//! The `dpdk` port: an Ethernet device of DPDK's, polled without the kernel. Its settings exist in
//! every build, the port only in one with DPDK.
//!
//! The kernel does not have the device, so the port is a host of its own on its link
//! ([`l2_host`](crate::l2_host)). Each worker has a queue pair; frames are copied out of DPDK's
//! buffers into convoy's, and back when they leave.

#[cfg(feature = "dpdk")]
mod heard;
#[cfg(feature = "dpdk")]
mod open;
#[cfg(feature = "dpdk")]
mod port;
mod settings;

pub use settings::DpdkSettings;
