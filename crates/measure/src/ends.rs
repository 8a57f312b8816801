//! Ends of a tester on this machine's network, in any network namespace: for gateways that are not of this process.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::str::FromStr;

use convoy_port::{Port, Tun, TunConfig};

use crate::device::MeasureError;
use crate::sockets::UdpEnd;

/// The UDP port of both ends unless they say otherwise.
const UDP_PORT: u16 = 9000;
/// The MTU of interfaces that the tester makes, in bytes: what gateways can do is less.
const TUN_MTU: u16 = 9000;

/// Where a tester sends and receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndSpec {
    /// The network namespace, by the name that `ip netns` gives it; without, that of the process.
    pub namespace: Option<String>,
    /// What it is there.
    pub kind: EndKind,
}

/// What an end is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndKind {
    /// A UDP socket at an address that the host has.
    Udp(SocketAddrV4),
    /// A host behind a `tun` interface, which is made with this address and prefix; the host has the next address.
    Tun {
        /// The interface's name.
        device: String,
        /// Its address.
        address: Ipv4Addr,
        /// The length of its prefix.
        prefix: u8,
    },
}

impl EndSpec {
    /// The address and UDP port that packets come from and go to.
    pub fn address(&self) -> SocketAddrV4 {
        match self.kind {
            EndKind::Udp(address) => address,
            EndKind::Tun { address, .. } => SocketAddrV4::new((u32::from(address) + 1).into(), UDP_PORT),
        }
    }

    /// Opens the end, whose packets go to `peer`.
    ///
    /// # Errors
    /// [`MeasureError`] says what the system refused.
    pub fn open(&self, peer: SocketAddrV4) -> Result<Box<dyn Port>, MeasureError> {
        match &self.namespace {
            None => self.open_here(peer),
            Some(name) => in_namespace(name, || self.open_here(peer)),
        }
    }

    fn open_here(&self, peer: SocketAddrV4) -> Result<Box<dyn Port>, MeasureError> {
        match &self.kind {
            EndKind::Udp(address) => Ok(Box::new(UdpEnd::open(*address, peer)?)),
            EndKind::Tun { device, address, prefix } => {
                let config = TunConfig {
                    name: device.clone(),
                    device: device.clone(),
                    addresses: vec![(IpAddr::V4(*address), *prefix)],
                    mtu: TUN_MTU,
                    kernel_queue_packets: None,
                    queues: 1,
                };
                let queue = Tun::open(&config)?.pop();
                let queue = queue.ok_or_else(|| MeasureError::Invalid(format!("{device} has no queue")))?;
                Ok(Box::new(queue))
            }
        }
    }
}

/// Does something in another network namespace, on a thread that ends there: sockets stay where they were made.
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

impl FromStr for EndSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            "an end is udp:[NAMESPACE/]ADDRESS[:PORT] or tun:[NAMESPACE/]DEVICE=ADDRESS/PREFIX, as \
             udp:site-a/10.1.0.1 or tun:site-a/tester0=10.1.9.1/24"
                .to_owned()
        };
        let (kind, rest) = text.split_once(':').ok_or_else(expected)?;
        match kind {
            "udp" => {
                let (namespace, address) = match rest.split_once('/') {
                    Some((namespace, address)) => (Some(namespace.to_owned()), address),
                    None => (None, rest),
                };
                let with_port = address.parse::<SocketAddrV4>();
                let plain = || address.parse().map(|address| SocketAddrV4::new(address, UDP_PORT));
                let address = with_port.or_else(|_| plain()).map_err(|_| expected())?;
                Ok(Self { namespace, kind: EndKind::Udp(address) })
            }
            "tun" => {
                let (place, network) = rest.split_once('=').ok_or_else(expected)?;
                let (namespace, device) = match place.split_once('/') {
                    Some((namespace, device)) => (Some(namespace.to_owned()), device),
                    None => (None, place),
                };
                let (address, prefix) = network.split_once('/').ok_or_else(expected)?;
                let address = address.parse().map_err(|_| expected())?;
                let prefix = prefix.parse().ok().filter(|prefix| (1..=30).contains(prefix));
                let prefix = prefix.ok_or_else(expected)?;
                Ok(Self { namespace, kind: EndKind::Tun { device: device.to_owned(), address, prefix } })
            }
            _ => Err(expected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_as_they_are_documented() {
        let of = |text: &str| text.parse::<EndSpec>();
        let udp = of("udp:site-a/10.1.0.1").expect("good");
        assert_eq!(udp.namespace.as_deref(), Some("site-a"));
        assert_eq!(udp.address().to_string(), "10.1.0.1:9000");
        let own = of("udp:127.0.0.1:7000").expect("good");
        assert_eq!((own.namespace.as_deref(), own.address().port()), (None, 7000));
        let tun = of("tun:site-a/tester0=10.1.9.1/24").expect("good");
        assert_eq!(tun.address().to_string(), "10.1.9.2:9000");
        let wrong = [
            "10.1.0.1",
            "udp:",
            "udp:a/b/10.1.0.1",
            "tun:tester0",
            "tun:tester0=10.1.9.1",
            "tun:t=10.1.9.1/31",
        ];
        for wrong in wrong {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_namespace_that_is_not_there_is_named() {
        let end: EndSpec = "udp:convoy-no-such/127.0.0.1".parse().expect("good");
        let Err(error) = end.open(end.address()) else { panic!("there is none") };
        assert!(error.to_string().contains("convoy-no-such"), "{error}");
    }
}
