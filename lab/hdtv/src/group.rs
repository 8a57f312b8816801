//! The interface of a stream, and multicast groups: joining them from any source or from some (RFC
//! 3376, RFC 3810), and the reach of what is sent to them.

mod join_source;

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use socket2::{InterfaceIndexOrAddress, Socket};

use join_source::join_source;

/// TTL or hop limit of packets to a group, unless another is chosen.
pub const GROUP_TTL: u8 = 64;

/// Why an interface or a group cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// There is no interface of this name.
    #[error("there is no network interface `{0}`; `ip link` lists them")]
    NoInterface(String),
    /// The system does not bind sockets to this interface.
    #[error("cannot use only interface `{name}`: {error}")]
    Interface {
        /// The interface.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// Only groups have sources.
    #[error("{0} is not a multicast group, so no source can be chosen for it")]
    NoGroup(IpAddr),
    /// A source is not an address of one host, or of the other IP version.
    #[error(
        "{source_address} cannot be a source of the group {group}; expected a unicast IPv{version} address"
    )]
    Source {
        /// The source.
        source_address: IpAddr,
        /// The group.
        group: IpAddr,
        /// The group's version of IP.
        version: u8,
    },
    /// No route says which interface leads to the group.
    #[error("no route leads to the group {0}; name the interface with --interface, or add a route")]
    NoRoute(IpAddr),
    /// The system refuses to send to this address.
    #[error("cannot send to {to}: {error}")]
    Send {
        /// The address.
        to: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The group cannot be joined.
    #[error("cannot join the group {group}: {error}")]
    Join {
        /// The group.
        group: IpAddr,
        /// The system's error.
        error: io::Error,
    },
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    name: String,
    index: u32,
}

impl Interface {
    /// Finds the interface of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Result<Self, GroupError> {
        let index = if_nametoindex(name).map_err(|_| GroupError::NoInterface(name.to_owned()))?;
        Ok(Self { name: name.to_owned(), index })
    }

    /// Has a socket send and receive by this interface alone.
    pub(crate) fn bind(&self, socket: &Socket) -> Result<(), GroupError> {
        socket
            .bind_device(Some(self.name.as_bytes()))
            .map_err(|error| GroupError::Interface { name: self.name.clone(), error })
    }
}

/// Where a stream arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// The multicast group, or an address of this host, and the port.
    pub address: SocketAddr,
    /// The interface that it arrives at. Without one, the routes choose that of a group.
    pub interface: Option<Interface>,
    /// The sources of the group that are received; empty for any source.
    pub sources: Vec<IpAddr>,
}

impl ListenAddress {
    /// Checks that the sources fit the address.
    ///
    /// # Errors
    /// If there are sources but no group, or if one cannot be a source of this group.
    pub fn checked(self) -> Result<Self, GroupError> {
        let group = self.address.ip();
        if !group.is_multicast() && !self.sources.is_empty() {
            return Err(GroupError::NoGroup(group));
        }
        let fits = |source: &IpAddr| {
            source.is_ipv4() == group.is_ipv4() && !source.is_multicast() && !source.is_unspecified()
        };
        match self.sources.iter().find(|source| !fits(source)) {
            Some(source) => {
                let version = if group.is_ipv4() { 4 } else { 6 };
                Err(GroupError::Source { source_address: *source, group, version })
            }
            None => Ok(self),
        }
    }

    /// The address to bind, which names the interface where IPv6 needs it: for groups of one link.
    pub(crate) fn bind_address(&self, port: u16) -> SocketAddr {
        let mut address = self.address;
        address.set_port(port);
        with_scope(address, self.interface.as_ref())
    }

    /// Prepares a socket that is not bound yet: other programs may receive the group too.
    pub(crate) fn prepare(&self, socket: &Socket) -> Result<(), GroupError> {
        if let Some(interface) = &self.interface {
            interface.bind(socket)?;
        }
        if self.address.ip().is_multicast() {
            socket.set_reuse_address(true).map_err(|error| self.cannot_join(error))?;
        }
        Ok(())
    }

    /// Joins the group, if the address is one. The kernel then reports this to routers and switches
    /// (IGMP, MLD) until the socket is closed.
    pub(crate) fn join(&self, socket: &Socket) -> Result<(), GroupError> {
        let group = self.address.ip();
        if !group.is_multicast() {
            return Ok(());
        }
        let index = self.interface.as_ref().map_or(0, |interface| interface.index);
        only_own_memberships(socket, group).map_err(|error| self.cannot_join(error))?;
        if self.sources.is_empty() {
            return join_any_source(socket, group, index).map_err(|error| self.cannot_join(error));
        }
        let mut sources = self.sources.iter();
        sources
            .try_for_each(|source| join_source(socket, index, group, *source))
            .map_err(|error| self.cannot_join(error))
    }

    fn cannot_join(&self, error: io::Error) -> GroupError {
        let group = self.address.ip();
        // Linux finds no interface to join on.
        let is_without_route = error.raw_os_error() == Some(Errno::ENODEV as i32);
        if is_without_route && self.interface.is_none() {
            GroupError::NoRoute(group)
        } else {
            GroupError::Join { group, error }
        }
    }
}

/// An address with the interface as its scope, if it is of IPv6 and has none.
pub(crate) fn with_scope(address: SocketAddr, interface: Option<&Interface>) -> SocketAddr {
    match (address, interface) {
        (SocketAddr::V6(v6), Some(interface)) if v6.scope_id() == 0 => {
            SocketAddrV6::new(*v6.ip(), v6.port(), v6.flowinfo(), interface.index).into()
        }
        _ => address,
    }
}

/// Has the kernel deliver what this socket has joined. By default it also delivers what other
/// programs have joined, from any source.
fn only_own_memberships(socket: &Socket, group: IpAddr) -> io::Result<()> {
    if group.is_ipv4() { socket.set_multicast_all_v4(false) } else { socket.set_multicast_all_v6(false) }
}

fn join_any_source(socket: &Socket, group: IpAddr, index: u32) -> io::Result<()> {
    match group {
        IpAddr::V4(group) => socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index)),
        IpAddr::V6(group) => socket.join_multicast_v6(&group, index),
    }
}

/// Sets the TTL or hop limit of packets to an address.
pub(crate) fn set_ttl(socket: &Socket, to: IpAddr, ttl: u8) -> io::Result<()> {
    let ttl = u32::from(ttl);
    match (to.is_ipv4(), to.is_multicast()) {
        (true, true) => socket.set_multicast_ttl_v4(ttl),
        (true, false) => socket.set_ttl_v4(ttl),
        (false, true) => socket.set_multicast_hops_v6(ttl),
        (false, false) => socket.set_unicast_hops_v6(ttl),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership(address: &str, sources: &[&str]) -> ListenAddress {
        let sources = sources.iter().map(|source| source.parse().expect("an address")).collect();
        ListenAddress { address: address.parse().expect("an address"), interface: None, sources }
    }

    #[test]
    fn sources_fit_their_group() {
        assert!(membership("239.1.2.3:5004", &["192.0.2.1", "192.0.2.2"]).checked().is_ok());
        assert!(membership("[ff35::1]:5004", &["2001:db8::1"]).checked().is_ok());
        assert!(membership("192.0.2.9:5004", &[]).checked().is_ok());
        let error = |address, sources: &[&str]| {
            membership(address, sources).checked().expect_err("wrong").to_string()
        };
        assert!(error("192.0.2.9:5004", &["192.0.2.1"]).contains("192.0.2.9 is not a multicast group"));
        for source in ["2001:db8::1", "239.1.1.1", "0.0.0.0"] {
            assert!(error("239.1.2.3:5004", &[source]).contains("expected a unicast IPv4 address"));
        }
    }

    #[test]
    fn an_unknown_interface_is_reported() {
        let error = Interface::named("no-such-if").expect_err("unknown").to_string();
        assert!(error.contains("no network interface `no-such-if`"), "{error}");
        assert_eq!(Interface::named("lo").expect("every Linux has it").name, "lo");
    }

    #[test]
    fn a_link_local_group_has_its_interface_as_scope() {
        let lo = Interface { name: "lo".to_owned(), index: 7 };
        let own = ListenAddress { interface: Some(lo), ..membership("[ff02::9]:5004", &[]) };
        assert_eq!(own.bind_address(5005).to_string(), "[ff02::9%7]:5005");
        assert_eq!(membership("239.1.2.3:5004", &[]).bind_address(5004).to_string(), "239.1.2.3:5004");
    }

    /// A socket that receives a group by the loopback interface, from this source.
    fn joined(source: &str) -> (Socket, u16) {
        let interface = Interface::named("lo").expect("every Linux has it");
        let own = ListenAddress { interface: Some(interface), ..membership("239.255.7.1:0", &[source]) };
        let socket = crate::scatter::receiving_socket(own.address).expect("a socket");
        own.prepare(&socket).expect("Linux 5.7 or root");
        socket.bind(&own.bind_address(0).into()).expect("a port");
        own.join(&socket).expect("the group is joined");
        let bound = socket.local_addr().expect("it is bound").as_socket().expect("IPv4");
        (socket, bound.port())
    }

    #[test]
    fn a_group_is_received_from_the_chosen_source_alone() {
        for (source, is_received) in [("127.0.0.1", true), ("127.0.0.9", false)] {
            let (receiver, port) = joined(source);
            let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
            let lo = std::net::Ipv4Addr::LOCALHOST;
            socket2::SockRef::from(&sender).set_multicast_if_v4(&lo).expect("the loopback interface");
            sender.send_to(&[7], ("239.255.7.1", port)).expect("the loopback interface takes it");
            let mut bytes = [std::mem::MaybeUninit::uninit(); 2];
            assert_eq!(receiver.recv(&mut bytes).is_ok(), is_received, "{source}");
        }
    }
}
