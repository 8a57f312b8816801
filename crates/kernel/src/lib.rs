//! What the gateway sets in the kernel beside its ports, and asks of it, all by netlink.
//!
//! - [`route`]: routes into the tunnels, in a routing table of their own, with a blackhole behind
//!   each; [`RoutePlan`] says what is needed, and a keeper holds the kernel to it.
//! - [`guard`]: an nftables table that holds packets which the kernel forwards to the gateway's
//!   policy; [`GuardPlan`] says which.
//! - [`service`]: addresses that this host has only while it leads its cluster.
//! - [`queries`]: routes, neighbours and interfaces, one at a time; [`interfaces`](interfaces()):
//!   all interfaces.
//!
//! Nothing here is on a packet's way but [`queries`], which ports at an Ethernet interface use when
//! they meet a destination for the first time.

pub mod guard;
mod interfaces;
pub mod packet_socket;
mod prefix;
pub mod queries;
pub mod route;
pub mod service;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use guard::{GuardCounts, GuardPlan};
pub use interfaces::interfaces;
pub use prefix::Prefix;
pub use route::{Route, RoutePlan, Routing};
