//! Routes into the tunnels, in a routing table of our own, so that none of the host's is ever
//! replaced.
//!
//! [`RoutePlan`] says what is needed, and [`RouteKeeper`] sets the kernel to it by netlink and
//! keeps it so. Behind each route is a blackhole of the same prefix: traffic for a tunnel never
//! leaves in clear because the interface or the gateway is gone.

mod kernel;
mod lookup;
pub(crate) mod message;
mod plan;
mod source;

use std::io;
use std::net::IpAddr;

use crate::prefix::Prefix;
pub(crate) use kernel::done;
pub use kernel::{RouteEvents, RouteKeeper, keep_routes};
pub use lookup::{SystemRoute, interface_behind, system_route};
pub use plan::{PROTOCOL as ROUTE_PROTOCOL, RULES as ROUTE_RULES, Route, RoutePlan, Routing};

/// What was removed from the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The networks to which packets were dropped.
    pub networks: Vec<Prefix>,
    /// Routes in all: to these networks, and their exceptions.
    pub routes: usize,
    /// Routing rules.
    pub rules: usize,
}

/// Why routes could not be set.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The kernel refused.
    #[error("cannot {action}: {reason}")]
    Refused {
        /// The action.
        action: String,
        /// The kernel's reason.
        reason: String,
    },
    /// Somebody else uses the routing table.
    #[error(
        "routing table {0} has routes of another program; choose another table with route_table in [gateway]"
    )]
    Taken(u32),
}

impl RouteError {
    fn refused(action: impl Into<String>, error: &rtnetlink::Error) -> Self {
        let reason = match error {
            rtnetlink::Error::NetlinkError(error) => error.to_io().to_string(),
            other => other.to_string(),
        };
        Self::Refused { action: action.into(), reason }
    }
}

/// Gives the interface with this index an address.
///
/// # Errors
/// The system's.
pub fn add_address(interface: u32, address: IpAddr, bits: u8) -> io::Result<()> {
    with_kernel(async |handle| add_address_by(&handle, interface, address, bits).await)
}

/// Has the kernel send no ICMP redirects by the interface with this index. It sends them where a
/// packet leaves by the interface by which it came, as from one tunnel to another, and they would
/// have its sender leave us out. This is `send_redirects`; /proc/sys may be read-only here.
///
/// # Errors
/// The system's.
pub fn stop_redirects(interface: u32) -> io::Result<()> {
    with_kernel(async |handle| stop_redirects_by(&handle, interface).await)
}

/// Lends a connection to the kernel to `work`.
fn with_kernel(work: impl AsyncFnOnce(rtnetlink::Handle) -> io::Result<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        let connection = tokio::spawn(connection);
        let result = work(handle).await;
        connection.abort();
        result
    })
}

/// What [`stop_redirects`] does, by an open connection.
pub async fn stop_redirects_by(handle: &rtnetlink::Handle, interface: u32) -> io::Result<()> {
    handle.link().set(message::no_redirects(interface)).execute().await.map_err(to_io)
}

/// What [`add_address`] does, by an open connection.
pub async fn add_address_by(
    handle: &rtnetlink::Handle,
    interface: u32,
    address: IpAddr,
    bits: u8,
) -> io::Result<()> {
    let mut request = handle.address().add(interface, address, bits);
    if let IpAddr::V6(v6) = address {
        *request.message_mut() = message::address(interface, v6, bits);
    }
    request.execute().await.map_err(to_io)
}

/// The kernel's refusal as an error of the system.
pub fn to_io(error: rtnetlink::Error) -> io::Error {
    match error {
        rtnetlink::Error::NetlinkError(error) => error.to_io(),
        other => io::Error::other(other),
    }
}
