//! A host of its own on an Ethernet link that the kernel does not have: its addresses, ARP,
//! neighbour discovery, next hops and echo replies, for the ports `card` and `dpdk`.

#[cfg(any(feature = "card", feature = "dpdk"))]
mod discovery;
#[cfg(any(feature = "card", feature = "dpdk"))]
mod host;
#[cfg(any(feature = "card", feature = "dpdk"))]
mod identity;
#[cfg(any(feature = "card", feature = "dpdk"))]
mod incoming;
pub(crate) mod keys;
#[cfg(any(feature = "card", feature = "dpdk"))]
mod neighbours;
#[cfg(any(feature = "card", feature = "dpdk"))]
mod waiting;

#[cfg(feature = "dpdk")]
pub(crate) use {discovery::Discovery, incoming::Dropped};
#[cfg(any(feature = "card", feature = "dpdk"))]
pub(crate) use {
    discovery::OwnFrame,
    host::L2Host,
    identity::{Identity, Takes},
    incoming::{Incoming, echo_reply},
};
