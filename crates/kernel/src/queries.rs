//! Requests to the kernel about routes, neighbours and interfaces (rtnetlink), which it answers
//! within the call that asks.

use std::io;
use std::net::IpAddr;

use convoy_packet::MacAddress;
use rtnetlink::packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteType};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// Buffer for the kernel's messages, in bytes.
pub const MESSAGE_BYTES: usize = 32 << 10;

/// An interface as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostInterface {
    /// Its index.
    pub number: u32,
    /// Its address on the link.
    pub mac: MacAddress,
    /// Its MTU in bytes.
    pub mtu: usize,
}

impl HostInterface {
    /// Stands for an interface that does not exist. The kernel numbers from 1.
    pub const MISSING: Self = Self { number: 0, mac: MacAddress([0; 6]), mtu: 1500 };
}

/// A neighbour as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address on the link.
    pub mac: MacAddress,
    /// Whether to give the kernel a packet, so that it checks whether the neighbour is still there.
    pub is_doubtful: bool,
}

/// A socket for requests.
pub struct Queries {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Queries {
    /// Opens the socket. It needs no privileges.
    ///
    /// # Errors
    /// The system's.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0, buffer: Vec::with_capacity(MESSAGE_BYTES) })
    }

    /// The next hop of packets with this mark to a destination, if they leave by this interface,
    /// and for an address of their own family.
    pub fn next_hop(&mut self, destination: IpAddr, mark: Option<u32>, interface: u32) -> Option<IpAddr> {
        let route = self.route(destination, mark)?;
        let is_here = route.attributes.contains(&RouteAttribute::Oif(interface));
        if route.header.kind != RouteType::Unicast || !is_here {
            return None;
        }
        let gateway = gateway(&route);
        // Routes with a gateway of the other family are left to the kernel.
        let is_other = route.attributes.iter().any(|attribute| matches!(attribute, RouteAttribute::Via(_)));
        if is_other { None } else { Some(gateway.unwrap_or(destination)) }
    }

    /// The kernel's route for packets with this mark to a destination; `None` if there is none, or
    /// one that drops them.
    pub fn route(&mut self, destination: IpAddr, mark: Option<u32>) -> Option<RouteMessage> {
        let mut request = route_to(destination);
        request.attributes.extend(mark.map(RouteAttribute::Mark));
        self.route_of(request)
    }

    /// The route of the kernel's tables that it takes to a destination.
    pub fn matching_route(&mut self, destination: IpAddr) -> Option<RouteMessage> {
        let mut request = route_to(destination);
        request.header.flags |= RouteFlags::FibMatch;
        self.route_of(request)
    }

    fn route_of(&mut self, request: RouteMessage) -> Option<RouteMessage> {
        match self.request(RouteNetlinkMessage::GetRoute(request))? {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        }
    }

    /// What the kernel knows of a neighbour at an interface.
    pub fn neighbour(&mut self, next_hop: IpAddr, interface: u32) -> Option<Neighbour> {
        let mut request = NeighbourMessage::default();
        request.header.family = family(next_hop);
        request.header.ifindex = interface;
        request.attributes.push(NeighbourAttribute::Destination(match next_hop {
            IpAddr::V4(address) => NeighbourAddress::Inet(address),
            IpAddr::V6(address) => NeighbourAddress::Inet6(address),
        }));
        match self.request(RouteNetlinkMessage::GetNeighbour(request))? {
            RouteNetlinkMessage::NewNeighbour(neighbour) => known(&neighbour),
            _ => None,
        }
    }

    /// An Ethernet interface by its number.
    ///
    /// # Errors
    /// There is none, or it is no Ethernet.
    pub fn interface(&mut self, number: u32) -> io::Result<HostInterface> {
        let Some(link) = self.link(number) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the interface no longer exists"));
        };
        let (mut mac, mut mtu) = (None, 0);
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::Mtu(bytes) => mtu = bytes as usize,
                LinkAttribute::Address(bytes) => mac = <[u8; 6]>::try_from(bytes.as_slice()).ok(),
                _ => {}
            }
        }
        let no_ethernet =
            || io::Error::new(io::ErrorKind::Unsupported, "the interface is not an Ethernet interface");
        Ok(HostInterface { number, mac: MacAddress(mac.ok_or_else(no_ethernet)?), mtu })
    }

    /// The name of an interface; `None` if it is gone.
    pub fn name(&mut self, number: u32) -> Option<String> {
        self.link(number)?.attributes.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        })
    }

    fn link(&mut self, number: u32) -> Option<LinkMessage> {
        let mut request = LinkMessage::default();
        request.header.index = number;
        match self.request(RouteNetlinkMessage::GetLink(request))? {
            RouteNetlinkMessage::NewLink(link) => Some(link),
            _ => None,
        }
    }

    /// `None` if refused, for example because there is no route.
    fn request(&mut self, request: RouteNetlinkMessage) -> Option<RouteNetlinkMessage> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = NetlinkMessage::from(request);
        message.header.flags = NLM_F_REQUEST;
        message.header.sequence_number = self.sequence;
        message.finalize();
        self.buffer.clear();
        self.buffer.resize(message.buffer_len(), 0);
        message.serialize(&mut self.buffer);
        self.socket.send(&self.buffer, 0).ok()?;
        self.buffer.clear();
        self.socket.recv(&mut self.buffer, libc::MSG_DONTWAIT).ok()?;
        messages(&self.buffer).next()
    }
}

/// The gateway of a route, if it has one of the family of its destinations.
pub fn gateway(route: &RouteMessage) -> Option<IpAddr> {
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::Gateway(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    })
}

/// A question for the route to a destination.
fn route_to(destination: IpAddr) -> RouteMessage {
    let mut request = RouteMessage::default();
    request.header.address_family = family(destination);
    request.header.destination_prefix_length = if destination.is_ipv4() { 32 } else { 128 };
    request.attributes.push(RouteAttribute::Destination(match destination {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    }));
    request
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// The messages in what was read at once, without refusals and malformed ones.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = RouteNetlinkMessage> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).ok();
        let length = rest.first_chunk::<4>().map_or(0, |length| u32::from_ne_bytes(*length) as usize);
        if length < 16 || length > rest.len() {
            return None;
        }
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        Some(message)
    })
    .filter_map(|message| match message?.payload {
        NetlinkPayload::InnerMessage(message) => Some(message),
        _ => None,
    })
}

/// The address of a neighbour in a message.
pub fn address_of(neighbour: &NeighbourMessage) -> Option<IpAddr> {
    neighbour.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    })
}

/// A neighbour in a message; `None` if its address on the link is unknown.
pub fn known(neighbour: &NeighbourMessage) -> Option<Neighbour> {
    let is_doubtful = match neighbour.header.state {
        NeighbourState::Reachable | NeighbourState::Permanent => false,
        // It is checking already.
        NeighbourState::Delay | NeighbourState::Probe => false,
        NeighbourState::Stale => true,
        _ => return None,
    };
    neighbour.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(bytes) => {
            let mac = <[u8; 6]>::try_from(bytes.as_slice()).ok()?;
            Some(Neighbour { mac: MacAddress(mac), is_doubtful })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour(state: NeighbourState, last: u8) -> NeighbourMessage {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.state = state;
        message.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet([192, 0, 2, last].into())),
            NeighbourAttribute::LinkLayerAddress(vec![2, 0, 0, 0, 0, last]),
        ];
        message
    }

    #[test]
    fn all_messages_that_were_read_at_once_are_heard() {
        let mut bytes = Vec::new();
        for last in 1..=3 {
            let said = RouteNetlinkMessage::NewNeighbour(neighbour(NeighbourState::Reachable, last));
            let mut message = NetlinkMessage::from(said);
            message.finalize();
            let at = bytes.len();
            bytes.resize(at + message.buffer_len(), 0);
            message.serialize(&mut bytes[at..]);
        }
        let heard: Vec<Option<IpAddr>> = messages(&bytes)
            .map(|message| match message {
                RouteNetlinkMessage::NewNeighbour(neighbour) => address_of(&neighbour),
                _ => None,
            })
            .collect();
        assert_eq!(heard, [1, 2, 3].map(|last| Some(IpAddr::from([192, 0, 2, last]))));
        assert_eq!(messages(&bytes[..bytes.len() - 1]).count(), 2, "the last is cut off");
        assert_eq!(messages(&[]).count(), 0);
    }

    #[test]
    fn a_neighbour_that_the_kernel_doubts_is_known_and_one_that_it_has_given_up_is_not() {
        let sure = Neighbour { mac: MacAddress([2, 0, 0, 0, 0, 9]), is_doubtful: false };
        for (state, expected) in [
            (NeighbourState::Reachable, Some(sure)),
            (NeighbourState::Permanent, Some(sure)),
            (NeighbourState::Probe, Some(sure)),
            (NeighbourState::Stale, Some(Neighbour { is_doubtful: true, ..sure })),
            (NeighbourState::Incomplete, None),
            (NeighbourState::Failed, None),
            (NeighbourState::Noarp, None),
        ] {
            assert_eq!(known(&neighbour(state, 9)), expected, "{state:?}");
        }
    }
}
