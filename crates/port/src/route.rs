//! Routes into a tunnel's interface, by netlink.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rtnetlink::RouteMessageBuilder;

/// Routes each prefix to the interface with this index, replacing what was there.
pub(crate) fn add(interface: u32, prefixes: &[(IpAddr, u8)]) -> io::Result<()> {
    if prefixes.is_empty() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        let connection = tokio::spawn(connection);
        for (address, bits) in prefixes {
            let route = match address {
                IpAddr::V4(v4) => RouteMessageBuilder::<Ipv4Addr>::new()
                    .destination_prefix(*v4, *bits)
                    .output_interface(interface)
                    .build(),
                IpAddr::V6(v6) => RouteMessageBuilder::<Ipv6Addr>::new()
                    .destination_prefix(*v6, *bits)
                    .output_interface(interface)
                    .build(),
            };
            handle.route().add(route).replace().execute().await.map_err(io::Error::other)?;
        }
        connection.abort();
        Ok(())
    })
}
