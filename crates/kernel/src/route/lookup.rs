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

/// The interface by which the kernel reaches a destination behind a further router, if it has a
/// route of its own there; `None` for what is on a link, and for what the default route takes.
///
/// # Errors
/// The system refused a netlink socket.
pub fn interface_behind(destination: IpAddr) -> io::Result<Option<String>> {
    let mut queries = Queries::open()?;
    let Some(route) = queries.matching_route(destination) else { return Ok(None) };
    let is_own = route.header.kind == RouteType::Unicast && route.header.destination_prefix_length > 0;
    let number = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(number) => Some(*number),
        _ => None,
    });
    let number = number.filter(|_| is_own && gateway(&route).is_some());
    Ok(number.and_then(|number| queries.name(number)))
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
