//! Service addresses: those that a gateway has only while it leads its cluster.
//!
//! The kernel itself removes them when they are not renewed, so that a host on which everything
//! stands still, or was killed, does not answer for them beside the next leader.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::str::FromStr;
use std::time::Duration;

use convoy_packet::arp::{Arp, Operation};
use convoy_packet::ethernet::{self, MacAddress};
use convoy_packet::ndp::{self, Ndp, NdpKind};
use futures_util::StreamExt;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socket};
use rtnetlink::AddressMessageBuilder;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage, CacheInfo};
use rtnetlink::packet_route::link::{LinkFlags, LinkMessage};
use serde::{Deserialize, Serialize};

use crate::packet_socket::bind_to_send;
use crate::route::{done, message};

/// An address of the cluster, at an interface of this host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServiceAddress {
    /// The interface's name.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// Bits of its network.
    pub prefix: u8,
}

/// A text that is no service address.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not an address such as \"192.0.2.1/24 dev eth0\"")]
pub struct ServiceAddressError(String);

impl FromStr for ServiceAddress {
    type Err = ServiceAddressError;

    /// As keepalived has it: address, length of the prefix, interface.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (network, interface) = text.split_once(" dev ")?;
            let (address, prefix) = network.trim().split_once('/')?;
            let (address, prefix): (IpAddr, u8) = (address.parse().ok()?, prefix.parse().ok()?);
            let interface = interface.trim();
            let is_name = (1..=15).contains(&interface.len()) && !interface.contains(char::is_whitespace);
            let most = if address.is_ipv4() { 32 } else { 128 };
            (is_name && prefix <= most).then(|| Self { interface: interface.to_owned(), address, prefix })
        };
        parse().ok_or_else(|| ServiceAddressError(text.to_owned()))
    }
}

impl fmt::Display for ServiceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} dev {}", self.address, self.prefix, self.interface)
    }
}

/// Why service addresses could not be set.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The interface is not there, or is no Ethernet.
    #[error("interface {interface} cannot have service addresses: {source}")]
    Interface {
        /// Its name.
        interface: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel refused.
    #[error("service address {address} at {interface}: {reason}")]
    Refused {
        /// The address.
        address: IpAddr,
        /// The interface.
        interface: String,
        /// The kernel's reason.
        reason: String,
    },
}

/// An interface by which addresses are announced.
struct AnnouncingInterface {
    interface: String,
    index: u32,
    mac: MacAddress,
    /// It receives nothing.
    socket: OwnedFd,
}

/// The interfaces of service addresses. Needs CAP_NET_RAW to open, and CAP_NET_ADMIN later.
pub struct ServiceInterfaces(Vec<AnnouncingInterface>);

impl ServiceInterfaces {
    /// Opens the interfaces of these addresses.
    ///
    /// # Errors
    /// [`ServiceError::Interface`].
    pub fn open(addresses: &[ServiceAddress]) -> Result<Self, ServiceError> {
        let mut names: Vec<&str> = addresses.iter().map(|address| address.interface.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(AnnouncingInterface::open).collect::<Result<_, _>>().map(Self)
    }

    /// Gives this host an address, or renews it, for this long (whole seconds, at least one).
    ///
    /// # Errors
    /// [`ServiceError::Refused`].
    pub async fn hold(
        &self,
        handle: &rtnetlink::Handle,
        address: &ServiceAddress,
        lifetime: Duration,
    ) -> Result<(), ServiceError> {
        let mut message = self.message(address)?;
        let mut limits = CacheInfo::default();
        limits.ifa_valid = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX).max(1);
        limits.ifa_preferred = limits.ifa_valid;
        message.attributes.push(AddressAttribute::CacheInfo(limits));
        let mut request = handle.address().add(message.header.index, address.address, address.prefix);
        *request.message_mut() = message;
        request.replace().execute().await.map_err(|error| refused(address, &error))
    }

    /// Takes an address from this host; one that it does not have is no error.
    ///
    /// # Errors
    /// [`ServiceError::Refused`].
    pub async fn release(
        &self,
        handle: &rtnetlink::Handle,
        address: &ServiceAddress,
    ) -> Result<(), ServiceError> {
        let removed = handle.address().del(self.message(address)?).execute().await;
        done(removed, &[libc::EADDRNOTAVAIL]).map_err(|error| refused(address, &error))
    }

    /// Tells all hosts on the link that the address is here: by an ARP announcement (RFC 5227
    /// section 3), or an unsolicited neighbour advertisement (RFC 4861 section 7.2.6). They may be
    /// lost, so a new leader sends several.
    ///
    /// # Errors
    /// [`ServiceError::Interface`].
    pub fn announce(&self, address: &ServiceAddress) -> Result<(), ServiceError> {
        let line = self.line(address)?;
        let frame = announcement(line.mac, address.address);
        let sent = send(std::os::fd::AsRawFd::as_raw_fd(&line.socket), &frame, MsgFlags::empty());
        sent.map(drop).map_err(|error| failed(&line.interface, error.into()))
    }

    /// The interfaces that have no carrier, or are down or gone: a leader with an address there is
    /// not reached.
    pub async fn without_carrier(&self, handle: &rtnetlink::Handle) -> Vec<String> {
        let mut cut = Vec::new();
        for line in &self.0 {
            let link = handle.link().get().match_index(line.index).execute().next().await;
            let is_up = |link: &LinkMessage| link.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp);
            if !link.is_some_and(|link| link.as_ref().is_ok_and(is_up)) {
                cut.push(line.interface.clone());
            }
        }
        cut
    }

    fn line(&self, address: &ServiceAddress) -> Result<&AnnouncingInterface, ServiceError> {
        let found = self.0.iter().find(|line| line.interface == address.interface);
        found.ok_or_else(|| failed(&address.interface, io::ErrorKind::NotFound.into()))
    }

    fn message(&self, address: &ServiceAddress) -> Result<AddressMessage, ServiceError> {
        let index = self.line(address)?.index;
        Ok(match address.address {
            IpAddr::V4(v4) => {
                AddressMessageBuilder::<Ipv4Addr>::new().index(index).address(v4, address.prefix).build()
            }
            // Valid at once: the former leader may still have it.
            IpAddr::V6(v6) => message::address(index, v6, address.prefix),
        })
    }
}

impl AnnouncingInterface {
    fn open(interface: &str) -> Result<Self, ServiceError> {
        let failed = |source| failed(interface, source);
        let index = nix::net::if_::if_nametoindex(interface).map_err(|error| failed(error.into()))?;
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)
            .map_err(|error| failed(error.into()))?;
        bind_to_send(socket.as_fd(), index).map_err(failed)?;
        let mac = mac_of(interface).map_err(failed)?;
        Ok(Self { interface: interface.to_owned(), index, mac, socket })
    }
}

fn mac_of(interface: &str) -> io::Result<MacAddress> {
    let links = nix::ifaddrs::getifaddrs()?.filter(|link| link.interface_name == interface);
    let macs = links.filter_map(|link| link.address?.as_link_addr()?.addr());
    macs.map(MacAddress).next().ok_or_else(|| io::Error::other("it has no hardware address"))
}

fn failed(interface: &str, source: io::Error) -> ServiceError {
    ServiceError::Interface { interface: interface.to_owned(), source }
}

fn refused(address: &ServiceAddress, error: &rtnetlink::Error) -> ServiceError {
    let reason = match error {
        rtnetlink::Error::NetlinkError(error) => error.to_io().to_string(),
        other => other.to_string(),
    };
    ServiceError::Refused { address: address.address, interface: address.interface.clone(), reason }
}

/// The frame that announces an address.
fn announcement(mac: MacAddress, address: IpAddr) -> Vec<u8> {
    let (to, ethertype, message) = match address {
        IpAddr::V4(v4) => {
            let unknown = MacAddress([0; 6]);
            let arp = Arp {
                operation: Operation::Request,
                sender_mac: mac,
                sender: v4,
                target_mac: unknown,
                target: v4,
            };
            (MacAddress::BROADCAST, ethernet::ARP, arp.to_bytes().to_vec())
        }
        IpAddr::V6(v6) => {
            let kind = NdpKind::Advertisement { is_router: true, is_solicited: false, overrides: true };
            let ndp = Ndp { kind, source: v6, destination: ndp::ALL_NODES, target: v6, mac: Some(mac) };
            (ndp::group_mac(ndp::ALL_NODES), ethernet::IPV6, ndp.to_packet())
        }
    };
    [&ethernet::header(to, mac, ethertype)[..], &message].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_packet::ethernet::Ethernet;
    use convoy_packet::ipv6::Ipv6;

    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

    #[test]
    fn an_address_is_written_as_it_is_read() {
        for text in ["192.0.2.7/24 dev eth0", "2001:db8::7/64 dev bond0.7"] {
            assert_eq!(text.parse::<ServiceAddress>().expect("good").to_string(), text);
        }
        for text in ["192.0.2.7", "192.0.2.7/33 dev eth0", "192.0.2.7/24 dev ", "192.0.2.7 dev eth0"] {
            text.parse::<ServiceAddress>().expect_err(text);
        }
    }

    #[test]
    fn an_ipv4_address_is_announced_by_a_request_for_itself_to_all() {
        let bytes = announcement(MAC, "192.0.2.7".parse().expect("an address"));
        let frame = Ethernet::parse(&bytes).expect("whole");
        assert_eq!(
            (frame.destination(), frame.source(), frame.ethertype()),
            (MacAddress::BROADCAST, MAC, ethernet::ARP)
        );
        let arp = Arp::parse(frame.payload()).expect("whole").expect("of IPv4");
        assert_eq!((arp.operation, arp.sender_mac, arp.sender), (Operation::Request, MAC, arp.target));
    }

    #[test]
    fn an_ipv6_address_is_announced_to_all_nodes_and_overrides_what_they_know() {
        let bytes = announcement(MAC, "2001:db8::7".parse().expect("an address"));
        let frame = Ethernet::parse(&bytes).expect("whole");
        assert_eq!(frame.destination(), MacAddress([0x33, 0x33, 0, 0, 0, 1]));
        let ndp = Ndp::parse(&Ipv6::parse(frame.payload()).expect("whole")).expect("valid");
        let kind = NdpKind::Advertisement { is_router: true, is_solicited: false, overrides: true };
        assert_eq!((ndp.kind, ndp.mac, ndp.source), (kind, Some(MAC), ndp.target));
    }
}
