//! One interface to every packet port, and its backends.
//!
//! **Contract:** every frame that passes through a port is a whole IP packet, from its IPv4 or IPv6
//! header on. A port that sits on something else translates at its edge: `udp` builds the outer IP and
//! UDP header of what it received from the sender's address and strips them from what it sends; `raw`
//! does so with the IP header; `card` takes the Ethernet header off and puts it on. Offloads
//! (virtio headers, GSO, GRO, UDP segmentation) stay inside the port: the frames it hands out fit the MTU
//! and have whole checksums.

#[cfg(feature = "card")]
pub mod card;
mod fragments;
mod interface;
pub mod memory;
mod path_mtu;
mod pcap;
mod raw;
pub mod route;
mod sys;
mod taken;
mod tun;
mod udp;

#[cfg(feature = "card")]
pub use card::{CardConfig, CardPort, InterfaceLine};
pub use interface::{Port, PortCounters, PortDescription, PortError, PortKind};
pub use memory::Memory;
pub use pcap::Pcap;
pub use raw::Raw;
pub use route::{Prefix, Route, RoutePlan, Routing};
pub use taken::raw_protocol_taken;
pub use tun::{Tun, TunConfig};
pub use udp::{Udp, UdpConfig};
