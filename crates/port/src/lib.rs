//! One interface to every packet port, and its backends.
//!
//! - [`Port`] is one queue of a port, owned by a worker: it receives bursts of frames and sends
//!   bursts. No call blocks.
//! - [`PortConfig`] is a port as configured; [`PortSettings`] the settings of its [`PortKind`].
//!   Everything else about a kind is behind [`Backend`].
//!
//! **Contract:** every frame that passes through a port is a whole IP packet, from its IPv4 or IPv6
//! header on. A port that uses something else translates at its edge: `udp` builds the outer IP and
//! UDP header of what it received from the sender's address and strips them from what it sends;
//! `raw` does so with the IP header; `card`, `dpdk`, `af_xdp` and `af_packet` strip the Ethernet
//! header and add it. Offloads (virtio headers, GSO, GRO, UDP segmentation) stay inside the port:
//! the frames it hands out fit the MTU and have complete checksums.
//!
//! A packet's way in: [`Port::receive`] takes frames from the worker's pool and fills them, by one
//! system call for many packets (`tun`, `udp`, `raw`, `af_packet`), or takes over frames that the
//! kernel or a device has filled (`af_xdp`, `memory`). A super-packet of the kernel's is cut into
//! packets (`super_packet/split.rs`). Its way out: [`Port::send`] groups a burst into as few
//! messages as possible (`super_packet/coalesce.rs`, `udp/send.rs`), sends from where the frames
//! are, and returns them to a pool; what has no room stays in the burst. Ports at an Ethernet
//! interface find the next hop first: from the kernel's routes and neighbours (`link/`), or as a
//! host of their own with ARP (`l2_host/`).
//!
//! Knows nothing of IPsec beyond the protocol numbers and the UDP port by which its packets travel.

mod af_packet;
mod af_xdp;
mod assembler;
mod contract;
mod dpdk;
mod fragments;
mod host;
pub mod l2_host;
mod link;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
mod news;
pub mod packet_socket;
mod path_mtu;
mod pcap;
mod raw;
mod registry;
mod sockets;
mod super_packet;
mod sys;
mod taken;
mod tun;
mod tun_device;
mod udp;
mod unsent;

pub use af_packet::AfPacketSettings;
pub use af_xdp::AfXdpSettings;
pub use contract::{
    Backend, CheckedPort, Opened, Port, PortCommon, PortConfig, PortContext, PortCounters, PortDescription,
    PortDevice, PortEntry, PortError, PortKeys, PortKind, PortKindRow, PortSettings, PortSide, PortTable,
    PortTraits, QueueCount, Reopen, Reopening,
};
pub use dpdk::DpdkSettings;
pub use host::{HostConfig, HostKind};
#[cfg(any(test, feature = "testing"))]
pub use memory::Memory;
pub use news::InterfaceNews;
pub use pcap::{Pcap, PcapSettings};
pub use raw::{Raw, RawSettings};
pub use registry::PORTS;
pub use tun::{Tun, TunConfig, TunSettings};
pub use tun_device::{TunDevice, TunFiles};
pub use udp::{UdpConfig, UdpQueue, UdpSettings};
pub use unsent::{Unsent, UnsentSa};

/// The UDP port of ESP in UDP (RFC 3948).
pub const NATT_PORT: u16 = 4500;
/// The UDP port of IKE where no NAT is between the peers (RFC 7296).
pub const IKE_PORT: u16 = 500;
