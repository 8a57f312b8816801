//! Safe bindings to DPDK's crypto and Ethernet devices. Crypto devices work on convoy's own packet
//! memory, without copies.
//!
//! [`Eal::start`] starts DPDK once in a process; [`Eal::device`] opens a device, from which come
//! [`Session`]s and [`Queue`]s. A queue takes a batch of frames and keeps it until the device has
//! done the last of them, so that nobody else has a frame that a device writes to.
//!
//! [`Eal::ethernet`] opens an Ethernet device, with an [`EthernetQueue`] for each thread. Frames
//! are copied out of DPDK's buffers and into them.
//!
//! All `unsafe` is in `bound/`, over a C shim (`shim/`), since most of DPDK's data path is inline
//! functions in headers. It is built with the feature `linked`; without it, only what a device
//! [says of itself](DeviceInfo) is here.

mod algorithm;
mod arguments;
#[cfg(feature = "linked")]
mod bound;
mod info;

pub use algorithm::{Cipher, Hash, Suite};
pub use arguments::{default_arguments, is_pci_address};
#[cfg(feature = "linked")]
pub use bound::{
    Batch, DIGEST_BYTES, Device, Digest, ETHERNET_BURST, Eal, Ended, EthernetConfig, EthernetCounters,
    EthernetDevice, EthernetInfo, EthernetQueue, Icv, Job, NONCE_BYTES, Queue, Session, SessionKeys,
};
pub use info::{Capability, DeviceInfo, Features, Sizes};

/// Why DPDK does not do as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DpdkError {
    /// EAL did not start. It can be tried once in a process.
    #[error("DPDK does not start with the arguments {arguments:?}: {reason}")]
    Start {
        /// With what it was started.
        arguments: String,
        /// In DPDK's words.
        reason: String,
    },
    /// EAL runs with other arguments, and is started once in a process.
    #[error(
        "DPDK runs with the arguments {running:?} and takes others after a restart only; {wanted:?} were asked for"
    )]
    Started {
        /// With what it was started.
        running: String,
        /// With what it should be now.
        wanted: String,
    },
    /// The packet memory cannot be told to DPDK.
    #[error("DPDK cannot take convoy's packet memory: {0}")]
    Memory(String),
    /// There is no such device.
    #[error("DPDK has no device {name:?}: {reason}")]
    Device {
        /// As it was asked for.
        name: String,
        /// What DPDK said, and what there is.
        reason: String,
    },
    /// The device does not start.
    #[error("DPDK's device {name} does not start: {reason}")]
    Open {
        /// Its name.
        name: String,
        /// What DPDK said.
        reason: String,
    },
    /// An Ethernet device has one owner.
    #[error("DPDK's device {name} is another port's already; each port needs a device of its own")]
    Taken {
        /// Its name.
        name: String,
    },
    /// All of its queue pairs are in use.
    #[error("DPDK's device {name} has {count} queue pairs, and all are in use")]
    Queues {
        /// Its name.
        name: String,
        /// How many it has.
        count: usize,
    },
    /// It takes no more sessions, or not these keys.
    #[error("DPDK's device {name} makes no session for {suite}: {reason}")]
    Session {
        /// Its name.
        name: String,
        /// For what.
        suite: Suite,
        /// What DPDK said.
        reason: String,
    },
}
