//! Tester ends on this machine's network, in any network namespace, for gateways that run outside
//! of this process.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use convoy_port::{HostConfig, HostKind, Port, Tun, TunConfig};

use crate::device::MeasureError;
use crate::flow::Flow;
use crate::sockets::UdpEnd;
use crate::tester::{End, Tester, Time};

/// Default UDP port of both ends.
const UDP_PORT: u16 = 9000;
/// MTU of the interfaces that the tester makes, in bytes; gateways support less.
const TUN_MTU: u16 = 9000;

/// Transmit queue of such an interface. It is long, so that the kernel drops nothing before the
/// tester reads it.
const TUN_QUEUE_PACKETS: u32 = 10_000;

/// One end of the tester: where it sends and receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndSpec {
    /// Name of the network namespace, as for `ip netns`; `None` for that of the process.
    pub namespace: Option<String>,
    /// The kind of end.
    pub kind: EndKind,
}

/// Kinds of ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndKind {
    /// A UDP socket bound to an address of the host.
    Udp(SocketAddr),
    /// A host behind a `tun` interface, which the tester makes with this address and prefix; the
    /// simulated host has the next address.
    Tun {
        /// The interface's name.
        device: String,
        /// Its address.
        address: IpAddr,
        /// The length of its prefix.
        prefix: u8,
    },
    /// A host on an Ethernet interface, with an address of that interface. The tester builds its
    /// own packets and bypasses the kernel's network stack.
    Host(HostConfig),
}

impl EndSpec {
    /// The address and UDP port that packets come from and go to.
    pub fn address(&self) -> SocketAddr {
        match self.kind {
            EndKind::Udp(address) | EndKind::Host(HostConfig { address, .. }) => address,
            EndKind::Tun { address: IpAddr::V4(address), .. } => {
                (Ipv4Addr::from(u32::from(address) + 1), UDP_PORT).into()
            }
            EndKind::Tun { address: IpAddr::V6(address), .. } => {
                (Ipv6Addr::from(u128::from(address) + 1), UDP_PORT).into()
            }
        }
    }

    /// Opens the end for packets to `peer`, an address of the same family.
    ///
    /// # Errors
    /// [`MeasureError`] says what the system refused.
    pub fn open(&self, peer: SocketAddr) -> Result<Box<dyn Port>, MeasureError> {
        match &self.namespace {
            None => self.open_here(peer),
            Some(name) => in_namespace(name, || self.open_here(peer)),
        }
    }

    fn open_here(&self, peer: SocketAddr) -> Result<Box<dyn Port>, MeasureError> {
        match &self.kind {
            EndKind::Udp(address) => Ok(Box::new(UdpEnd::open(*address, peer)?)),
            EndKind::Tun { device, address, prefix } => {
                let config = TunConfig {
                    name: device.clone(),
                    device: device.clone(),
                    addresses: vec![(*address, *prefix)],
                    mtu: TUN_MTU,
                    kernel_queue_packets: Some(TUN_QUEUE_PACKETS),
                    queues: 1,
                    // A trial's packets are evenly spaced, so none may be merged.
                    joins_packets: false,
                    has_link: true,
                    reader: None,
                };
                let queue = Tun::open(&config)?.pop();
                let queue = queue.ok_or_else(|| MeasureError::Invalid(format!("{device} has no queue")))?;
                Ok(Box::new(queue))
            }
            EndKind::Host(host) => Ok(host.open()?),
        }
    }
}

impl Tester {
    /// A tester for whatever lies between two ends.
    ///
    /// # Errors
    /// [`MeasureError`] if the system refuses, or if the ends are of different address families.
    pub fn between(near: &EndSpec, far: &EndSpec) -> Result<Self, MeasureError> {
        let flow = Flow::between(near.address(), far.address())?;
        End::make_memory(2)?;
        let ends = [End::new(near.open(flow.to)?)?, End::new(far.open(flow.from)?)?];
        Ok(Self::new(ends, flow, Time::machine()))
    }
}

/// Runs a function in another network namespace, on a thread of its own: sockets stay in the
/// namespace where they were made.
fn in_namespace<T: Send>(
    name: &str,
    what: impl FnOnce() -> Result<T, MeasureError> + Send,
) -> Result<T, MeasureError> {
    let path = format!("/run/netns/{name}");
    let failed = |source: std::io::Error| MeasureError::Io {
        action: format!("enter the network namespace {name} ({path}; needs CAP_SYS_ADMIN)"),
        source,
    };
    let namespace = std::fs::File::open(&path).map_err(failed)?;
    let inside = || {
        nix::sched::setns(&namespace, nix::sched::CloneFlags::CLONE_NEWNET)
            .map_err(|errno| failed(errno.into()))?;
        what()
    };
    std::thread::scope(|scope| match scope.spawn(inside).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

impl fmt::Display for EndSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_ref().map(|name| format!("{name}/")).unwrap_or_default();
        match &self.kind {
            EndKind::Udp(address) => write!(f, "udp:{namespace}{address}"),
            EndKind::Tun { device, address, prefix } => {
                write!(f, "tun:{namespace}{device}={address}/{prefix}")
            }
            EndKind::Host(HostConfig { kind, interface, address }) => {
                write!(f, "{}:{namespace}{interface}={address}", kind.port_kind())
            }
        }
    }
}

impl FromStr for EndSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (kind, rest) = text.split_once(':')?;
            match kind {
                "udp" => {
                    let (namespace, address) = in_front_of_slash(rest);
                    Some(Self { namespace, kind: EndKind::Udp(socket_address(address)?) })
                }
                "tun" => {
                    let (place, network) = rest.split_once('=')?;
                    let (namespace, device) = in_front_of_slash(place);
                    let (address, prefix) = network.split_once('/')?;
                    let address: IpAddr = address.parse().ok()?;
                    // The prefix must have room for two addresses: the interface and the host.
                    let most = if address.is_ipv4() { 30 } else { 126 };
                    let prefix = prefix.parse().ok().filter(|prefix| (1..=most).contains(prefix))?;
                    Some(Self {
                        namespace,
                        kind: EndKind::Tun { device: device.to_owned(), address, prefix },
                    })
                }
                _ => {
                    let kinds = [HostKind::AfPacket, HostKind::AfXdp];
                    let kind = kinds.into_iter().find(|known| known.port_kind().word() == kind)?;
                    let (place, address) = rest.split_once('=')?;
                    let (namespace, interface) = in_front_of_slash(place);
                    let interface = interface.to_owned();
                    let host = HostConfig { kind, interface, address: socket_address(address)? };
                    Some(Self { namespace, kind: EndKind::Host(host) })
                }
            }
        };
        read().ok_or_else(|| {
            "an end is udp:[NAMESPACE/]ADDRESS, tun:[NAMESPACE/]DEVICE=ADDRESS/PREFIX, af_packet:[NAMESPACE/]DEVICE=ADDRESS or \
             af_xdp:[NAMESPACE/]DEVICE=ADDRESS, as udp:site-a/10.1.0.1, tun:site-a/tester0=10.1.9.1/24 or \
             af_packet:host-a/eth0=10.1.0.10; all but tun may name a UDP port, as udp:[fd00:1::1]:9000"
                .to_owned()
        })
    }
}

/// Splits an optional namespace from what follows it.
fn in_front_of_slash(text: &str) -> (Option<String>, &str) {
    match text.split_once('/') {
        Some((namespace, rest)) => (Some(namespace.to_owned()), rest),
        None => (None, text),
    }
}

/// An IP address with an optional UDP port.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let plain = || text.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, UDP_PORT));
    text.parse().ok().or_else(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_as_they_are_documented() {
        for (text, namespace, address) in [
            ("udp:site-a/10.1.0.1", Some("site-a"), "10.1.0.1:9000"),
            ("udp:127.0.0.1:7000", None, "127.0.0.1:7000"),
            ("udp:site-a/fd00:1::1", Some("site-a"), "[fd00:1::1]:9000"),
            ("udp:[fd00:1::1]:7000", None, "[fd00:1::1]:7000"),
            ("tun:site-a/tester0=10.1.9.1/24", Some("site-a"), "10.1.9.2:9000"),
            ("tun:tester0=fd00:1:9::1/64", None, "[fd00:1:9::2]:9000"),
            ("af_packet:host-a/eth0=10.1.0.10", Some("host-a"), "10.1.0.10:9000"),
            ("af_xdp:eth0=[fd00:1::10]:7000", None, "[fd00:1::10]:7000"),
        ] {
            let end: EndSpec = text.parse().expect(text);
            assert_eq!((end.namespace.as_deref(), end.address().to_string().as_str()), (namespace, address));
            assert_eq!(end.to_string().parse(), Ok(end), "{text}");
        }
        let wrong = [
            "10.1.0.1",
            "udp:",
            "udp:a/b/10.1.0.1",
            "udp:fd00:1::1:70000",
            "tun:tester0",
            "tun:tester0=10.1.9.1",
            "tun:t=10.1.9.1/31",
            "tun:t=fd00::1/127",
            "af_packet:10.1.0.10",
            "af_packet:eth0=10.1.0.10/24",
            "raw:eth0=10.1.0.10",
        ];
        for wrong in wrong {
            assert!(wrong.parse::<EndSpec>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_namespace_that_is_not_there_is_named() {
        let end: EndSpec = "udp:convoy-no-such/127.0.0.1".parse().expect("good");
        let Err(error) = end.open(end.address()) else { panic!("there is none") };
        assert!(error.to_string().contains("convoy-no-such"), "{error}");
    }
}
