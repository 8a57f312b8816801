//! Safe bindings to DPDK's crypto and Ethernet devices. Crypto devices work on convoy's own packet
//! memory, without copies.
//!
//! [`Eal::start`] starts DPDK once per process. [`Eal::device`] opens a crypto [`Device`], from
//! which [`Session`]s (the keys of one SA in one direction) and [`DeviceQueue`]s are made. A queue
//! takes a [`FrameBatch`] of frames with a [`DeviceJob`] for each, and owns it until the device has
//! finished the last frame, so that nothing else can access a frame that a device writes to.
//!
//! [`Eal::ethernet`] opens an Ethernet device, with an [`EthernetQueue`] for each thread. Frames
//! are copied out of and into DPDK's buffers.
//!
//! All `unsafe` code is in `bound/`, over a C shim (`shim/`), because most of DPDK's data path
//! consists of inline functions in headers. Both are built with the feature `linked`; without it,
//! the crate only has the types that describe devices, such as [`DeviceInfo`].

mod algorithm;
mod arguments;
#[cfg(feature = "linked")]
mod bound;
mod info;

pub use algorithm::{DeviceCipher, DeviceHash, DeviceSuite};
pub use arguments::{default_arguments, is_pci_address};
#[cfg(feature = "linked")]
pub use bound::{
    DIGEST_BYTES, Device, DeviceJob, DeviceQueue, Digest, ETHERNET_BURST, Eal, EthernetConfig,
    EthernetCounters, EthernetDevice, EthernetInfo, EthernetQueue, FrameBatch, Icv, JobResult, NONCE_BYTES,
    Session, SessionKeys,
};
pub use info::{Capability, DeviceInfo, Features, Sizes};

/// Errors of DPDK.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DpdkError {
    /// EAL did not start. No second attempt is possible in the process.
    #[error("DPDK does not start with the arguments {arguments:?}: {reason}")]
    Start {
        /// EAL's arguments.
        arguments: String,
        /// DPDK's log.
        reason: String,
    },
    /// EAL already runs with other arguments, and cannot be restarted in the process.
    #[error(
        "DPDK runs with the arguments {running:?}; it takes others, such as {wanted:?}, only after a restart"
    )]
    Started {
        /// Its present arguments.
        running: String,
        /// The requested arguments.
        wanted: String,
    },
    /// DPDK refused the packet memory.
    #[error("DPDK cannot take convoy's packet memory: {0}")]
    Memory(String),
    /// There is no device of this name.
    #[error("DPDK has no device {name:?}: {reason}")]
    Device {
        /// The requested name.
        name: String,
        /// DPDK's log, or a list of the devices.
        reason: String,
    },
    /// The device does not start.
    #[error("DPDK's device {name} does not start: {reason}")]
    Open {
        /// Its name.
        name: String,
        /// DPDK's log, or what the device lacks.
        reason: String,
    },
    /// The Ethernet device already has an owner.
    #[error("DPDK's device {name} is already used by another port; each port needs a device of its own")]
    Taken {
        /// Its name.
        name: String,
    },
    /// All queue pairs are in use.
    #[error("all queue pairs of DPDK's device {name} are in use: {count}")]
    Queues {
        /// Its name.
        name: String,
        /// The number of queue pairs.
        count: usize,
    },
    /// The device refused the keys, or has no session left.
    #[error("DPDK's device {name} cannot create a session for {suite}: {reason}")]
    Session {
        /// Its name.
        name: String,
        /// The algorithms.
        suite: DeviceSuite,
        /// DPDK's log.
        reason: String,
    },
}
