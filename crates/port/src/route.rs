//! A tunnel interface's IPv6 addresses, and the routes into it, by netlink.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rtnetlink::packet_route::address::{AddressHeaderFlags, AddressMessage};
use rtnetlink::{AddressMessageBuilder, Handle, RouteMessageBuilder};

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

/// Runs requests to the kernel, one after the other.
fn with_netlink<F: Future<Output = Result<(), rtnetlink::Error>>>(
    requests: impl FnOnce(Handle) -> F,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        let connection = tokio::spawn(connection);
        let result = requests(handle).await;
        connection.abort();
        result.map_err(io::Error::other)
    })
}

/// An address that holds at once: no other host can have it, and until the kernel has found that out by itself it refuses
/// routes with it as their source.
fn address(interface: u32, address: Ipv6Addr, bits: u8) -> AddressMessage {
    let builder = AddressMessageBuilder::<Ipv6Addr>::new().index(interface).address(address, bits);
    let mut message = builder.build();
    message.header.flags |= AddressHeaderFlags::Nodad;
    message
}

/// Gives the interface with this index an address.
pub(crate) fn add_address(interface: u32, v6: Ipv6Addr, bits: u8) -> io::Result<()> {
    with_netlink(|handle| async move {
        let mut request = handle.address().add(interface, v6.into(), bits);
        *request.message_mut() = address(interface, v6, bits);
        request.execute().await
    })
}

/// Routes each prefix to the interface with this index, replacing what was there.
pub(crate) fn add(interface: u32, routes: &[Route]) -> io::Result<()> {
    if routes.is_empty() {
        return Ok(());
    }
    with_netlink(|handle| async move {
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
            handle.route().add(message).replace().execute().await?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_a_routes_source_from_the_start() {
        let message = address(7, "fd00:1::1".parse().expect("an address"), 64);
        assert_eq!((message.header.index, message.header.prefix_len), (7, 64));
        assert!(message.header.flags.contains(AddressHeaderFlags::Nodad));
    }
}
