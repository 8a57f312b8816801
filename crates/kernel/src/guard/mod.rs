//! Holds packets that the kernel forwards beside the gateway to the gateway's policy.
//!
//! A packet from a network behind a tunnel is genuine only if it arrived through that tunnel, and
//! one to such a network may only leave through it (RFC 4301 sections 5.1 and 5.2). The gateway
//! enforces that for packets of its ports; the kernel, which routes between all interfaces, knows
//! nothing of it. So the kernel gets an nftables table: it drops what arrives from these networks
//! by any other interface than the tunnels', for this host or forwarded, and what would leave to
//! them by any other.
//!
//! [`GuardPlan`] says what is protected, `ranges` turns it into addresses, `rules` into the table's
//! content, `message` into the kernel's messages, and [`Guard`] sends them and keeps the table in
//! place.

mod forwarding;
mod kernel;
mod message;
mod ranges;
mod rules;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Prefix;

pub use forwarding::{ForwardChain, forward_chains_without};
pub use kernel::{Guard, GuardError, GuardEvents};

/// What the kernel must not forward.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardPlan {
    /// The mark of the gateway's own packets, which may go anywhere.
    pub mark: u32,
    /// The interfaces of the inside ports.
    pub inside: Vec<InsideInterface>,
    /// The networks behind the tunnels.
    pub remote: Vec<Prefix>,
    /// Networks of this side, excluded from a network behind a tunnel that contains them.
    pub here: Vec<Prefix>,
    /// The gateway's own outer addresses.
    pub outer: Vec<IpAddr>,
    /// The peers' outer addresses, which are reached outside the tunnels.
    pub peers: Vec<IpAddr>,
    /// UDP ports of IKE and of ESP in UDP.
    pub udp_ports: Vec<u16>,
    /// Traffic that passes unprotected although it belongs to these networks.
    pub bypass: Vec<GuardedFlow>,
    /// This host's own traffic that tunnels in transport mode protect.
    pub transport: Vec<GuardedFlow>,
    /// The mark by which the kernel routes that into the inside interface.
    pub transport_mark: u32,
}

/// An interface of the kernel's at which the gateway has an inside port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsideInterface {
    /// Its name.
    pub name: String,
    /// Whether the kernel's packets on it are the tunnels' (a TUN device), rather than those of a
    /// network that the gateway takes packets from.
    pub is_tunnels: bool,
}

/// Traffic by its two sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardedFlow {
    /// This side.
    pub local: FlowSide,
    /// The other side.
    pub remote: FlowSide,
}

/// One side of traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSide {
    /// The first address.
    pub first: IpAddr,
    /// The last address.
    pub last: IpAddr,
    /// The IP protocol; `None` is any.
    pub protocol: Option<u8>,
    /// The first and the last port; `None` is any.
    pub ports: Option<(u16, u16)>,
}

/// Packets that were dropped since the gateway started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardCounts {
    /// From networks behind tunnels, by another interface.
    pub inbound: u64,
    /// To networks behind tunnels, by another interface.
    pub outbound: u64,
}

/// The name of the table of the gateway with this routing table, so that each gateway of a host has
/// its own.
pub fn guard_table(number: u32) -> String {
    format!("convoy_{number}")
}
