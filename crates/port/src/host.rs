//! A host at an interface, for programs that are hosts rather than gateways: testers. It receives
//! the datagrams to one address and UDP port; everything else stays with the kernel, which has the
//! address too and answers ARP and neighbour discovery for it.

use std::net::SocketAddr;

use crate::af_packet::AfPacket;
use crate::af_xdp::AfXdp;
use crate::link::{LinkConfig, LinkTakes};
use crate::{AfPacketSettings, AfXdpSettings, Port, PortError, PortKind};

/// The transport of a host's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// A packet socket.
    AfPacket,
    /// The rings of AF_XDP; the interface has one receive queue.
    AfXdp,
}

impl HostKind {
    /// The kind of its port.
    pub const fn port_kind(self) -> PortKind {
        match self {
            Self::AfPacket => PortKind::of::<AfPacketSettings>(),
            Self::AfXdp => PortKind::of::<AfXdpSettings>(),
        }
    }
}

/// A host at an interface of the network namespace in which it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// The transport of its packets.
    pub kind: HostKind,
    /// The kernel's interface.
    pub interface: String,
    /// The address, which the kernel has as well, and the UDP port.
    pub address: SocketAddr,
}

impl HostConfig {
    /// Opens its port, which sends each packet by itself.
    ///
    /// # Errors
    /// [`PortError`] says what the system refused: this needs CAP_NET_ADMIN, CAP_NET_RAW and
    /// CAP_BPF, and a packet socket Linux 6.6.
    pub fn open(&self) -> Result<Box<dyn Port>, PortError> {
        let config = LinkConfig {
            name: self.interface.clone(),
            kind: self.kind.port_kind(),
            interface: self.interface.clone(),
            takes: LinkTakes::Datagrams { to: self.address },
            mtu: None,
            queues: 1,
            reports: Vec::new(),
            mark: None,
        };
        let only = "it was asked for one queue";
        Ok(match self.kind {
            HostKind::AfPacket => Box::new(AfPacket::open(&config)?.0.pop().expect(only)),
            HostKind::AfXdp => Box::new(AfXdp::open(&config)?.0.pop().expect(only)),
        })
    }
}
