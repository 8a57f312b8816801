//! Keeps what the kernel forwards beside the gateway to the same policy as the gateway's own
//! packets.
//!
//! A packet from a network behind a tunnel is genuine only if it came through that tunnel, and one
//! to such a network may leave through it alone (RFC 4301 sections 5.1 and 5.2). The gateway holds
//! the packets of its ports to that; the kernel, which routes between all interfaces, knows nothing
//! of it. So the kernel gets an nftables table of its own: it drops what comes from these networks
//! by any other interface than the tunnels', for this host or forwarded, and what would leave to
//! them by any other.
//!
//! [`GuardPlan`] says what is protected, `ranges` makes addresses of it, `rules` the table's
//! content, `message` the kernel's messages, and [`Guard`] sends them and keeps the table there.

mod kernel;
mod message;
mod ranges;
mod rules;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Prefix;

pub use kernel::{Guard, GuardError, GuardEvents};

/// What the kernel is to be kept from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardPlan {
    /// The mark of the gateway's own packets, which may go anywhere.
    pub mark: u32,
    /// The interfaces of the inside ports.
    pub inside: Vec<InsideInterface>,
    /// The networks behind the tunnels.
    pub remote: Vec<Prefix>,
    /// Networks of this side: they are no part of a network behind a tunnel that contains them.
    pub here: Vec<Prefix>,
    /// The gateway's own outer addresses.
    pub outer: Vec<IpAddr>,
    /// The peers' outer addresses, which are reached outside the tunnels.
    pub peers: Vec<IpAddr>,
    /// UDP ports of IKE and of ESP in UDP.
    pub udp_ports: Vec<u16>,
    /// Traffic that passes unprotected although it is of these networks.
    pub bypass: Vec<Bypass>,
}

/// An interface of the kernel's at which the gateway has an inside port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsideInterface {
    /// Its name.
    pub name: String,
    /// Whether the kernel's packets on it are those of the tunnels (a TUN device), and not those of
    /// a network that the gateway takes packets from.
    pub is_tunnels: bool,
}

/// Traffic that passes unprotected, by its two sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bypass {
    /// This side.
    pub local: BypassSide,
    /// The other side.
    pub remote: BypassSide,
}

/// One side of traffic that passes unprotected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BypassSide {
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

/// The name of the table of the gateway with this routing table, so that the gateways of one host
/// have one each.
pub fn guard_table(number: u32) -> String {
    format!("convoy_{number}")
}
