//! A host of its own on an Ethernet link that the kernel does not have: its addresses, ARP,
//! neighbour discovery, next hops and echo replies, for the port `dpdk` and for the
//! laboratory's card.

mod discovery;
mod host;
mod identity;
mod incoming;
pub mod keys;
mod neighbours;
mod waiting;

pub use {
    discovery::{Discovery, OwnFrame},
    host::{L2Host, L2HostDrops},
    identity::{HostIdentity, PortTakes},
    incoming::{Dropped, Incoming, echo_reply},
};
