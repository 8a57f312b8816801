//! Next hops on the link, from the kernel's routes and neighbours, which are requested by netlink
//! and followed as they change.
//!
//! Nothing is resolved here. A packet whose next hop the kernel does not know yet, or no longer for
//! sure, leaves through the kernel, which then resolves it and reports the result; so does one that
//! leaves by another interface.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use convoy_packet::MacAddress;
use rtnetlink::MulticastGroup;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::neighbour::NeighbourMessage;
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use convoy_kernel::queries::{HostInterface, MESSAGE_BYTES, Neighbour, Queries, address_of, known, messages};

/// Changes that may affect a packet's next hop.
const GROUPS: [MulticastGroup; 6] = [
    MulticastGroup::Link,
    MulticastGroup::Neigh,
    MulticastGroup::Ipv4Route,
    MulticastGroup::Ipv6Route,
    MulticastGroup::Ipv4Rule,
    MulticastGroup::Ipv6Rule,
];
/// Destinations that are cached; beyond that, the cache is cleared.
const DESTINATIONS: usize = 4096;
/// Messages read at a time.
const MESSAGES: usize = 64;

/// How a packet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Egress {
    /// To this address on the link.
    Link(MacAddress),
    /// Through the kernel.
    Kernel,
}

struct Destination {
    /// The next hop, if it is on this link.
    next_hop: Option<IpAddr>,
    neighbour: Option<Neighbour>,
}

/// The next hops by one interface.
pub(super) struct NextHops {
    interface: HostInterface,
    mark: Option<u32>,
    queries: Queries,
    changes: Socket,
    destinations: HashMap<IpAddr, Destination>,
    /// The last destination whose address on the link is known: most packets of a burst go there.
    last: Option<(IpAddr, MacAddress)>,
    buffer: Vec<u8>,
}

impl NextHops {
    /// Starts to follow the kernel; `mark` is that of the port's packets, for rules that depend on
    /// it. The interface may be missing still.
    ///
    /// # Errors
    /// What the system refused, or that it is no Ethernet interface.
    pub(super) fn open(number: Option<u32>, mark: Option<u32>) -> io::Result<Self> {
        let mut changes = Socket::new(NETLINK_ROUTE)?;
        changes.set_non_blocking(true)?;
        let groups = GROUPS.iter().fold(0, |groups, group| groups | 1 << (*group as u32 - 1));
        changes.bind(&SocketAddr::new(0, groups))?;
        let mut queries = Queries::open()?;
        let interface = number.map(|number| queries.interface(number)).transpose()?;
        Ok(Self {
            interface: interface.unwrap_or(HostInterface::MISSING),
            mark,
            queries,
            changes,
            destinations: HashMap::new(),
            last: None,
            buffer: Vec::with_capacity(MESSAGE_BYTES),
        })
    }

    /// The interface as last reported; [`HostInterface::MISSING`] once it does not exist.
    pub(super) fn interface(&self) -> HostInterface {
        self.interface
    }

    /// Takes another interface from now on.
    ///
    /// # Errors
    /// There is none of this number, or it is no Ethernet interface.
    pub(super) fn use_interface(&mut self, number: u32) -> io::Result<()> {
        self.forget();
        self.interface = self.queries.interface(number)?;
        Ok(())
    }

    /// Asks again about the interface, which may have gone.
    fn look_again(&mut self) -> io::Result<()> {
        self.forget();
        if self.interface == HostInterface::MISSING {
            return Ok(());
        }
        match self.queries.interface(self.interface.number) {
            Ok(interface) => self.interface = interface,
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.interface = HostInterface::MISSING,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// How a packet to this destination leaves.
    #[inline]
    pub(super) fn egress(&mut self, destination: IpAddr) -> Egress {
        match self.last {
            Some((last, mac)) if last == destination => Egress::Link(mac),
            _ => self.look_up(destination),
        }
    }

    fn look_up(&mut self, destination: IpAddr) -> Egress {
        if !self.destinations.contains_key(&destination) {
            if self.destinations.len() >= DESTINATIONS {
                self.destinations.clear();
            }
            let next_hop = self.queries.next_hop(destination, self.mark, self.interface.number);
            let neighbour =
                next_hop.and_then(|address| self.queries.neighbour(address, self.interface.number));
            let found = Destination { next_hop, neighbour };
            self.destinations.insert(destination, found);
        }
        let found = self.destinations.get_mut(&destination).expect("it was put there");
        // The kernel is asked once whether it is still there.
        let is_doubtful =
            found.neighbour.as_mut().is_some_and(|neighbour| std::mem::take(&mut neighbour.is_doubtful));
        match found.neighbour {
            Some(Neighbour { mac, .. }) if !is_doubtful => {
                self.last = Some((destination, mac));
                Egress::Link(mac)
            }
            _ => Egress::Kernel,
        }
    }

    /// Reads the changes; returns the number of system calls.
    ///
    /// # Errors
    /// The kernel sends no more news.
    pub(super) fn follow(&mut self) -> io::Result<u64> {
        for call in 1..=MESSAGES {
            self.buffer.clear();
            match self.changes.recv(&mut self.buffer, libc::MSG_DONTWAIT) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(call as u64),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => continue,
                // Some were lost: everything may have changed.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    self.look_again()?;
                    continue;
                }
                Err(error) => return Err(error),
            }
            let said: Vec<RouteNetlinkMessage> = messages(&self.buffer).collect();
            said.into_iter().try_for_each(|message| self.hear(message))?;
        }
        Ok(MESSAGES as u64)
    }

    /// Becomes readable when something changes.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        crate::sys::borrow(self, self.changes.as_raw_fd())
    }

    fn hear(&mut self, message: RouteNetlinkMessage) -> io::Result<()> {
        use RouteNetlinkMessage as Message;
        match message {
            Message::NewNeighbour(neighbour) => {
                let now = known(&neighbour);
                self.learn(&neighbour, now);
            }
            Message::DelNeighbour(neighbour) => self.learn(&neighbour, None),
            Message::NewLink(link) | Message::DelLink(link) => {
                self.forget();
                if link.header.index == self.interface.number {
                    self.look_again()?;
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

    fn learn(&mut self, neighbour: &NeighbourMessage, now: Option<Neighbour>) {
        if neighbour.header.ifindex != self.interface.number {
            return;
        }
        let Some(address) = address_of(neighbour) else { return };
        self.last = None;
        for destination in self.destinations.values_mut().filter(|it| it.next_hop == Some(address)) {
            destination.neighbour = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_this_host_is_the_kernels() {
        const LOOPBACK: u32 = 1;
        let mut hops = NextHops::open(Some(LOOPBACK), None).expect("every host has it");
        for _ in 0..2 {
            assert_eq!(hops.egress([127, 0, 0, 9].into()), Egress::Kernel);
        }
        assert!(hops.interface().mtu > 1500);
        assert!(hops.follow().is_ok());
    }
}
