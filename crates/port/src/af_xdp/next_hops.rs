//! Where packets go on the link, from the kernel's routes and neighbours, which are asked by netlink and followed as they change.
//!
//! Nothing is resolved here. A packet whose next hop the kernel does not know yet, or not for sure any more, leaves by the kernel, which then
//! finds it out and says so; so does one that leaves by another interface.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use convoy_packet::MacAddress;
use rtnetlink::MulticastGroup;
use rtnetlink::packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// What may change the way of a packet.
const GROUPS: [MulticastGroup; 6] = [
    MulticastGroup::Link,
    MulticastGroup::Neigh,
    MulticastGroup::Ipv4Route,
    MulticastGroup::Ipv6Route,
    MulticastGroup::Ipv4Rule,
    MulticastGroup::Ipv6Rule,
];
/// Destinations that are remembered; with more, all are asked for again.
const DESTINATIONS: usize = 4096;
/// Messages that are read at a time.
const MESSAGES: usize = 64;
/// Room for what the kernel says of one change, in bytes.
const MESSAGE_BYTES: usize = 32 << 10;

/// How a packet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To this address on the link.
    Link(MacAddress),
    /// By the kernel.
    Kernel,
}

/// An interface, as the kernel says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) number: u32,
    pub(super) mac: MacAddress,
    pub(super) mtu: usize,
}

struct Destination {
    /// The next hop, if it is on this link.
    next_hop: Option<IpAddr>,
    mac: Option<MacAddress>,
    /// Whether the kernel should be given a packet, so that it asks whether the neighbour is still there.
    is_doubtful: bool,
}

/// The ways of packets by one interface.
pub(super) struct NextHops {
    interface: Interface,
    mark: Option<u32>,
    questions: Socket,
    changes: Socket,
    sequence: u32,
    destinations: HashMap<IpAddr, Destination>,
    /// The last destination whose address on the link is known: most packets of a burst go there.
    last: Option<(IpAddr, MacAddress)>,
    buffer: Vec<u8>,
}

impl NextHops {
    /// Begins to follow the kernel; `mark` is what the port's packets have, for rules that ask for it.
    ///
    /// # Errors
    /// What the system refused.
    pub(super) fn open(number: u32, mark: Option<u32>) -> io::Result<Self> {
        let mut changes = Socket::new(NETLINK_ROUTE)?;
        changes.set_non_blocking(true)?;
        let groups = GROUPS.iter().fold(0, |groups, group| groups | 1 << (*group as u32 - 1));
        changes.bind(&SocketAddr::new(0, groups))?;
        let mut questions = Socket::new(NETLINK_ROUTE)?;
        questions.bind_auto()?;
        questions.connect(&SocketAddr::new(0, 0))?;
        let interface = Interface { number, mac: MacAddress([0; 6]), mtu: 0 };
        let mut opened = Self {
            interface,
            mark,
            questions,
            changes,
            sequence: 0,
            destinations: HashMap::new(),
            last: None,
            buffer: Vec::with_capacity(MESSAGE_BYTES),
        };
        opened.ask_interface()?;
        Ok(opened)
    }

    /// The interface as it was last said.
    pub(super) fn interface(&self) -> Interface {
        self.interface
    }

    /// How a packet to this destination leaves.
    #[inline]
    pub(super) fn way(&mut self, destination: IpAddr) -> Way {
        match self.last {
            Some((last, mac)) if last == destination => Way::Link(mac),
            _ => self.look_up(destination),
        }
    }

    fn look_up(&mut self, destination: IpAddr) -> Way {
        if !self.destinations.contains_key(&destination) {
            if self.destinations.len() >= DESTINATIONS {
                self.destinations.clear();
            }
            let found = self.ask(destination);
            self.destinations.insert(destination, found);
        }
        let found = self.destinations.get_mut(&destination).expect("it was put there");
        match found.mac {
            Some(mac) if !std::mem::take(&mut found.is_doubtful) => {
                self.last = Some((destination, mac));
                Way::Link(mac)
            }
            _ => Way::Kernel,
        }
    }

    /// Reads what has changed; the number of system calls.
    ///
    /// # Errors
    /// The kernel says nothing any more.
    pub(super) fn follow(&mut self) -> io::Result<u64> {
        for call in 1..=MESSAGES {
            self.buffer.clear();
            match self.changes.recv(&mut self.buffer, libc::MSG_DONTWAIT) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(call as u64),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => continue,
                // Some were lost: all may have changed.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    self.forget();
                    self.ask_interface()?;
                    continue;
                }
                Err(error) => return Err(error),
            }
            let said: Vec<RouteNetlinkMessage> = messages(&self.buffer).collect();
            said.into_iter().try_for_each(|message| self.hear(message))?;
        }
        Ok(MESSAGES as u64)
    }

    /// What becomes readable when something changes.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        crate::sys::borrow(self, self.changes.as_raw_fd())
    }

    fn hear(&mut self, message: RouteNetlinkMessage) -> io::Result<()> {
        use RouteNetlinkMessage as Message;
        match message {
            Message::NewNeighbour(neighbour) => {
                let mac = known(&neighbour);
                self.learn(&neighbour, mac);
            }
            Message::DelNeighbour(neighbour) => self.learn(&neighbour, None),
            Message::NewLink(link) | Message::DelLink(link) => {
                self.forget();
                if link.header.index == self.interface.number {
                    self.ask_interface()?;
                }
            }
            Message::NewRoute(_) | Message::DelRoute(_) | Message::NewRule(_) | Message::DelRule(_) => {
                self.forget();
            }
            _ => {}
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.destinations.clear();
        self.last = None;
    }

    fn learn(&mut self, neighbour: &NeighbourMessage, mac: Option<(MacAddress, bool)>) {
        if neighbour.header.ifindex != self.interface.number {
            return;
        }
        let Some(address) = address_of(neighbour) else { return };
        self.last = None;
        for destination in self.destinations.values_mut().filter(|it| it.next_hop == Some(address)) {
            destination.mac = mac.map(|(mac, _)| mac);
            destination.is_doubtful = mac.is_some_and(|(_, is_doubtful)| is_doubtful);
        }
    }

    /// Asks the kernel for a destination's route and the address of its next hop on the link.
    fn ask(&mut self, destination: IpAddr) -> Destination {
        let next_hop = self.ask_route(destination);
        let found = next_hop.and_then(|next_hop| self.ask_neighbour(next_hop));
        Destination {
            next_hop,
            mac: found.map(|(mac, _)| mac),
            is_doubtful: found.is_some_and(|(_, is_doubtful)| is_doubtful),
        }
    }

    fn ask_route(&mut self, destination: IpAddr) -> Option<IpAddr> {
        let mut question = RouteMessage::default();
        question.header.address_family = family(destination);
        question.header.destination_prefix_length = if destination.is_ipv4() { 32 } else { 128 };
        question.attributes.push(RouteAttribute::Destination(match destination {
            IpAddr::V4(address) => RouteAddress::Inet(address),
            IpAddr::V6(address) => RouteAddress::Inet6(address),
        }));
        question.attributes.extend(self.mark.map(RouteAttribute::Mark));
        let RouteNetlinkMessage::NewRoute(route) = self.question(RouteNetlinkMessage::GetRoute(question))?
        else {
            return None;
        };
        let is_here = route.attributes.contains(&RouteAttribute::Oif(self.interface.number));
        if route.header.kind != RouteType::Unicast || !is_here {
            return None;
        }
        let gateway = route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Gateway(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
            RouteAttribute::Gateway(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
            _ => None,
        });
        // One by a gateway of the other family leaves by the kernel.
        let is_other = route.attributes.iter().any(|attribute| matches!(attribute, RouteAttribute::Via(_)));
        if is_other { None } else { Some(gateway.unwrap_or(destination)) }
    }

    fn ask_neighbour(&mut self, next_hop: IpAddr) -> Option<(MacAddress, bool)> {
        let mut question = NeighbourMessage::default();
        question.header.family = family(next_hop);
        question.header.ifindex = self.interface.number;
        question.attributes.push(NeighbourAttribute::Destination(match next_hop {
            IpAddr::V4(address) => NeighbourAddress::Inet(address),
            IpAddr::V6(address) => NeighbourAddress::Inet6(address),
        }));
        match self.question(RouteNetlinkMessage::GetNeighbour(question))? {
            RouteNetlinkMessage::NewNeighbour(neighbour) => known(&neighbour),
            _ => None,
        }
    }

    fn ask_interface(&mut self) -> io::Result<()> {
        let mut question = LinkMessage::default();
        question.header.index = self.interface.number;
        let Some(RouteNetlinkMessage::NewLink(link)) = self.question(RouteNetlinkMessage::GetLink(question))
        else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the interface is gone"));
        };
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::Mtu(mtu) => self.interface.mtu = mtu as usize,
                LinkAttribute::Address(bytes) => {
                    let mac = <[u8; 6]>::try_from(bytes.as_slice()).ok().map(MacAddress);
                    self.interface.mac = mac.ok_or_else(|| {
                        io::Error::new(io::ErrorKind::Unsupported, "the interface is not an Ethernet")
                    })?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The kernel answers within the call that asks; `None` of a refusal, such as that there is no route.
    fn question(&mut self, question: RouteNetlinkMessage) -> Option<RouteNetlinkMessage> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = NetlinkMessage::from(question);
        message.header.flags = NLM_F_REQUEST;
        message.header.sequence_number = self.sequence;
        message.finalize();
        self.buffer.clear();
        self.buffer.resize(message.buffer_len(), 0);
        message.serialize(&mut self.buffer);
        self.questions.send(&self.buffer, 0).ok()?;
        self.buffer.clear();
        self.questions.recv(&mut self.buffer, libc::MSG_DONTWAIT).ok()?;
        messages(&self.buffer).next()
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// The messages in what was read at once, without refusals and what cannot be read.
fn messages(bytes: &[u8]) -> impl Iterator<Item = RouteNetlinkMessage> {
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

fn address_of(neighbour: &NeighbourMessage) -> Option<IpAddr> {
    neighbour.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    })
}

/// A neighbour's address on the link, and whether the kernel is in doubt of it; `None` if it does not know it.
fn known(neighbour: &NeighbourMessage) -> Option<(MacAddress, bool)> {
    let is_doubtful = match neighbour.header.state {
        NeighbourState::Reachable | NeighbourState::Permanent => false,
        // It asks already.
        NeighbourState::Delay | NeighbourState::Probe => false,
        NeighbourState::Stale => true,
        _ => return None,
    };
    neighbour.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(bytes) => {
            let mac = <[u8; 6]>::try_from(bytes.as_slice()).ok()?;
            Some((MacAddress(mac), is_doubtful))
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
        let mac = MacAddress([2, 0, 0, 0, 0, 9]);
        for (state, expected) in [
            (NeighbourState::Reachable, Some((mac, false))),
            (NeighbourState::Permanent, Some((mac, false))),
            (NeighbourState::Probe, Some((mac, false))),
            (NeighbourState::Stale, Some((mac, true))),
            (NeighbourState::Incomplete, None),
            (NeighbourState::Failed, None),
            (NeighbourState::Noarp, None),
        ] {
            assert_eq!(known(&neighbour(state, 9)), expected, "{state:?}");
        }
    }

    #[test]
    fn what_is_on_this_host_is_the_kernels() {
        const LOOPBACK: u32 = 1;
        let mut hops = NextHops::open(LOOPBACK, None).expect("every host has it");
        for _ in 0..2 {
            assert_eq!(hops.way([127, 0, 0, 9].into()), Way::Kernel);
        }
        assert!(hops.interface().mtu > 1500);
        assert!(hops.follow().is_ok());
    }
}
