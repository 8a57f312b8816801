//! Opens the queues of an `af_xdp` port: the program at the interface, and a socket for each worker.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_packet::{MacAddress, ethernet};

use super::next_hops::NextHops;
use super::program::{Takes, program};
use super::{AfXdp, AfXdpConfig, AfXdpTakes};
use crate::sys::{LONGEST_FRAME, Map, MapKind, XdpMode, XdpProgram, XdpSocket};
use crate::{PortError, Prefix};

/// The longest packet that fits, in bytes.
const LONGEST_PACKET: usize = LONGEST_FRAME - ethernet::HEADER_BYTES;
/// How long the queue of an interface may take to be free again after another program, or this one, left it.
const BUSY: Duration = Duration::from_secs(2);

/// What holds as long as one queue of the port lives.
pub(super) struct Attachment {
    _link: OwnedFd,
    _sockets: Map,
    _networks: [Map; 2],
    _held: Vec<UdpSocket>,
}

impl AfXdp {
    /// The queues of a port, each with a socket at the interface's queue of the same number.
    ///
    /// # Errors
    /// [`PortError`] says what the interface lacks, or what the system refused: this needs CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and
    /// CAP_IPC_LOCK.
    pub fn open(config: &AfXdpConfig) -> Result<Vec<Self>, PortError> {
        let failed = |action: &'static str| {
            move |source: io::Error| PortError::Io {
                port: config.name.clone(),
                action: format!("{action} {}", config.interface),
                source,
            }
        };
        let number = nix::net::if_::if_nametoindex(config.interface.as_str())
            .map_err(|error| failed("find the interface")(error.into()))?;
        let next_hops: Result<Vec<NextHops>, PortError> = (0..config.queues)
            .map(|_| NextHops::open(number, config.mark).map_err(failed("ask the kernel about")))
            .collect();
        let next_hops = next_hops?;
        let Some(first) = next_hops.first() else { return Ok(Vec::new()) };
        let interface = first.interface();
        fits(config, interface.mtu)?;
        let networks = networks(&config.takes).map_err(failed("make a map of networks for"))?;
        let sockets = Map::new(MapKind::Sockets, 4, config.queues).map_err(failed("make a map for"))?;
        let link = attach(config, number, interface.mac, &networks, &sockets)
            .map_err(failed("attach an XDP program (run as root, or with CAP_BPF and CAP_NET_ADMIN) to"))?;
        let mut opened: Vec<XdpSocket> = Vec::new();
        for queue in 0..config.queues as u32 {
            let socket = open_patiently(number, queue, opened.first())
                .map_err(failed("open a socket of AF_XDP at"))?;
            sockets.set_socket(queue, socket.as_fd()).map_err(failed("give the program a socket at"))?;
            opened.push(socket);
        }
        let attachment =
            Attachment { _link: link, _sockets: sockets, _networks: networks, _held: held(&config.takes) };
        let attachment = Arc::new(attachment);
        let queues = opened.into_iter().zip(next_hops).enumerate();
        let make = |(queue, (socket, next_hops))| {
            Self::make(config, queue, socket, next_hops, Arc::clone(&attachment))
                .map_err(failed("open sockets for"))
        };
        queues.map(make).collect()
    }
}

/// Whether the interface is one that such a port can have.
fn fits(config: &AfXdpConfig, mtu: usize) -> Result<(), PortError> {
    let AfXdpConfig { name, interface, queues, .. } = config;
    let invalid = |reason| Err(PortError::Invalid { port: name.clone(), reason });
    if mtu > LONGEST_PACKET {
        return invalid(format!(
            "{interface} has an MTU of {mtu} bytes, and an af_xdp port carries packets of up to {LONGEST_PACKET}; \
             run: ip link set {interface} mtu 1500"
        ));
    }
    // Where no list can be read, the sockets tell.
    let Ok(list) = std::fs::read_dir(format!("/sys/class/net/{interface}/queues")) else { return Ok(()) };
    let is_receiving = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("rx-");
    let have = list.flatten().filter(is_receiving).count();
    if have != *queues {
        return invalid(format!(
            "{interface} has {have} receive queues for {queues} workers, and each worker needs one; \
             run: ethtool -L {interface} combined {queues}, or set workers = {have}"
        ));
    }
    Ok(())
}

/// The networks of a port inside, IPv4 and IPv6, as maps of prefixes.
fn networks(takes: &AfXdpTakes) -> io::Result<[Map; 2]> {
    let networks: &[Prefix] = match takes {
        AfXdpTakes::Plaintext { networks } => networks,
        AfXdpTakes::Protected { .. } => &[],
    };
    let of = |is_v4: bool, key_bytes| -> io::Result<Map> {
        let map = Map::new(MapKind::LongestPrefix, key_bytes, networks.len())?;
        for Prefix { address, bits } in networks.iter().filter(|it| it.address.is_ipv4() == is_v4) {
            let mut key = u32::from(*bits).to_ne_bytes().to_vec();
            match address {
                IpAddr::V4(address) => key.extend(address.octets()),
                IpAddr::V6(address) => key.extend(address.octets()),
            }
            map.set(&key, 0)?;
        }
        Ok(map)
    };
    Ok([of(true, 8)?, of(false, 20)?])
}

fn attach(
    config: &AfXdpConfig,
    interface: u32,
    mac: MacAddress,
    [v4, v6]: &[Map; 2],
    sockets: &Map,
) -> io::Result<OwnedFd> {
    let takes = match &config.takes {
        AfXdpTakes::Protected { addresses, udp_port, .. } => {
            Takes::Protected { addresses, udp_port: *udp_port }
        }
        AfXdpTakes::Plaintext { .. } => Takes::Plaintext { mac, maps: [v4.number(), v6.number()] },
    };
    let program = XdpProgram::load(&program(&takes, sockets.number()))?;
    match program.attach(interface, XdpMode::Driver) {
        // Another program is there already, and would be in the way of either mode.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(error),
        Err(_) => program.attach(interface, XdpMode::Generic),
        attached => attached,
    }
}

/// The kernel frees the queue of a socket that was closed some time later.
fn open_patiently(interface: u32, queue: u32, first: Option<&XdpSocket>) -> io::Result<XdpSocket> {
    let begin = Instant::now();
    loop {
        match XdpSocket::open(interface, queue, first) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && begin.elapsed() < BUSY => {
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => return opened,
        }
    }
}

/// Sockets at the UDP port, of which nothing is read: keep-alives come there, which the kernel would answer as refused. Where another
/// program has the port, it is bound as well.
fn held(takes: &AfXdpTakes) -> Vec<UdpSocket> {
    match takes {
        AfXdpTakes::Protected { addresses, udp_port, holds_port: true } => {
            addresses.iter().filter_map(|address| UdpSocket::bind((*address, *udp_port)).ok()).collect()
        }
        _ => Vec::new(),
    }
}
