//! Routes into a tunnel's interface, by netlink.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rtnetlink::RouteMessageBuilder;

/// A route to the interface of a `tun` port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Where it leads.
    pub prefix: IpAddr,
    /// The prefix's length in bits.
    pub bits: u8,
    /// The address that this host's own packets have as their source, so that the tunnel's policy selects them; of the
    /// prefix's family.
    pub source: Option<IpAddr>,
}

/// Routes each prefix to the interface with this index, replacing what was there.
pub(crate) fn add(interface: u32, routes: &[Route]) -> io::Result<()> {
    if routes.is_empty() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        let connection = tokio::spawn(connection);
        for route in routes {
            let message = match (route.prefix, route.source) {
                (IpAddr::V4(prefix), source) => {
                    let builder = RouteMessageBuilder::<Ipv4Addr>::new()
                        .destination_prefix(prefix, route.bits)
                        .output_interface(interface);
                    match source {
                        Some(IpAddr::V4(source)) => builder.pref_source(source).build(),
                        _ => builder.build(),
                    }
                }
                (IpAddr::V6(prefix), source) => {
                    let builder = RouteMessageBuilder::<Ipv6Addr>::new()
                        .destination_prefix(prefix, route.bits)
                        .output_interface(interface);
                    match source {
                        Some(IpAddr::V6(source)) => builder.pref_source(source).build(),
                        _ => builder.build(),
                    }
                }
            };
            handle.route().add(message).replace().execute().await.map_err(io::Error::other)?;
        }
        connection.abort();
        Ok(())
    })
}
