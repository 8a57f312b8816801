//! The kernel's route to one destination.

use std::io;
use std::net::IpAddr;

use rtnetlink::packet_route::route::{RouteAttribute, RouteType};

use crate::queries::{Queries, gateway};

/// How the kernel sends packets to a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemRoute {
    /// The interface.
    pub interface: String,
    /// The next router; `None` if the destination is on the link, or is the host itself.
    pub gateway: Option<IpAddr>,
    /// Whether the destination is an address of the host itself.
    pub is_local: bool,
}

/// The route that the kernel has for its own packets to a destination, with this mark; `None` if it
/// has none, or one that drops packets. It needs no privileges.
///
/// # Errors
/// The system refused a netlink socket.
pub fn system_route(destination: IpAddr, mark: Option<u32>) -> io::Result<Option<SystemRoute>> {
    let mut queries = Queries::open()?;
    let Some(route) = queries.route(destination, mark) else { return Ok(None) };
    let is_local = match route.header.kind {
        RouteType::Unicast => false,
        RouteType::Local => true,
        _ => return Ok(None),
    };
    let number = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(number) => Some(*number),
        _ => None,
    });
    let interface = number.and_then(|number| queries.name(number)).unwrap_or_default();
    Ok(Some(SystemRoute { interface, gateway: gateway(&route), is_local }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_itself_is_local() {
        let route = system_route(IpAddr::from([127, 0, 0, 1]), None).expect("netlink");
        let expected = SystemRoute { interface: "lo".to_owned(), gateway: None, is_local: true };
        assert_eq!(route, Some(expected));
    }
}
