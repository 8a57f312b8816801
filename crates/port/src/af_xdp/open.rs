//! Opens the queues of an `af_xdp` port: the program at the interface, and a socket for each
//! worker.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_packet::{MacAddress, ethernet};

use super::AfXdp;
use crate::PortError;
use crate::link::{Hook, Interface, Link, LinkConfig, LinkTakes, Networks, program};
use crate::sys::{LONGEST_FRAME, Map, MapKind, Program, ProgramKind, XdpMode, XdpSocket};

/// The longest packet that fits, in bytes.
const LONGEST_PACKET: usize = LONGEST_FRAME - ethernet::HEADER_BYTES;
/// How long a queue of an interface may take to become free after another program, or this one,
/// left it.
const BUSY: Duration = Duration::from_secs(2);

/// Queues looked for beyond those used.
const MOST_FURTHER: u32 = 64;

/// What must live as long as a queue of the port.
pub(super) struct Attachment {
    _link: OwnedFd,
    _sockets: Map,
    pub(super) networks: Networks,
}

impl AfXdp {
    /// The queues of a port, each with a socket at the interface's queue of the same number.
    ///
    /// # Errors
    /// [`PortError`] says what the interface lacks, or what the system refused: this needs
    /// CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_IPC_LOCK.
    pub(crate) fn open(config: &LinkConfig) -> Result<Vec<Self>, PortError> {
        let failed = |action: &'static str| move |source: io::Error| config.failed(action, source);
        let number = config.interface_number()?;
        let links: Vec<Link> =
            (0..config.queues).map(|queue| Link::open(config, number, queue)).collect::<Result<_, _>>()?;
        let Some(first) = links.first() else { return Ok(Vec::new()) };
        let interface = first.interface();
        let is_listed = fits(config, interface)?;
        let networks = Networks::of(&config.takes).map_err(failed("make a map of networks for"))?;
        let sockets = Map::new(MapKind::Sockets, 4, config.queues).map_err(failed("make a map for"))?;
        let link = attach(config, interface, &networks, &sockets)
            .map_err(failed("attach an XDP program (run as root, or with CAP_BPF and CAP_NET_ADMIN) to"))?;
        let mut opened: Vec<XdpSocket> = Vec::new();
        for queue in 0..config.queues as u32 {
            let socket =
                open_patiently(number, queue, opened.first()).map_err(failed("open an AF_XDP socket at"))?;
            sockets.set_socket(queue, socket.as_fd()).map_err(failed("give the XDP program a socket at"))?;
            opened.push(socket);
        }
        if !is_listed {
            let have = config.queues + further_queues(number, config.queues as u32, opened.first());
            if have != config.queues {
                return Err(other_queues(config, have));
            }
        }
        let attachment = Arc::new(Attachment { _link: link, _sockets: sockets, networks });
        let queues = links.into_iter().zip(opened);
        Ok(queues.map(|(link, socket)| Self::new(link, socket, Arc::clone(&attachment))).collect())
    }
}

/// Checks that the interface has as many queues as such a port needs.
///
/// # Errors
/// It does not.
fn fits(config: &LinkConfig, at: Interface) -> Result<bool, PortError> {
    let LinkConfig { name, interface, queues, .. } = config;
    let Interface { mtu, mac, .. } = at;
    if mtu > LONGEST_PACKET {
        let reason = format!(
            "{interface} has an MTU of {mtu} bytes, and an af_xdp port carries packets of up to {LONGEST_PACKET}; \
             run: ip link set {interface} mtu 1500, or use {}",
            instead(config)
        );
        return Err(PortError::Invalid { port: name.clone(), reason });
    }
    match receive_queues(interface, mac) {
        Some(have) if have != *queues => Err(other_queues(config, have)),
        have => Ok(have.is_some()),
    }
}

/// The number of queues into which an interface receives. `None` if no list can be read, or it
/// belongs to an interface of the same name in another network namespace, since sysfs shows the
/// namespace in which it was mounted.
fn receive_queues(interface: &str, mac: MacAddress) -> Option<usize> {
    let folder = format!("/sys/class/net/{interface}");
    let address = std::fs::read_to_string(format!("{folder}/address")).ok()?;
    let is_receiving = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("rx-");
    let list = std::fs::read_dir(format!("{folder}/queues")).ok()?;
    (address.trim() == mac.to_string()).then(|| list.flatten().filter(is_receiving).count())
}

/// The number of queues that an interface has from this number on, found by binding a socket to
/// each.
fn further_queues(interface: u32, from: u32, first: Option<&XdpSocket>) -> usize {
    (from..from + MOST_FURTHER).take_while(|queue| XdpSocket::open(interface, *queue, first).is_ok()).count()
}

fn other_queues(config: &LinkConfig, have: usize) -> PortError {
    let LinkConfig { name, interface, takes, queues, .. } = config;
    let run = format!("run: ethtool -L {interface} combined {queues}");
    let instead = instead(config);
    let reason = match takes {
        LinkTakes::Datagrams { .. } => {
            format!("{interface} has {have} receive queues, and a host has one; {run}, or use {instead}")
        }
        _ => format!(
            "{interface} has {have} receive queues for {queues} workers, and each worker needs one; {run}, \
             or set workers = {have}, or use {instead}"
        ),
    };
    PortError::Invalid { port: name.clone(), reason }
}

/// The port to use for longer packets, or any number of queues.
fn instead(config: &LinkConfig) -> &'static str {
    match config.takes {
        LinkTakes::Datagrams { .. } => "af_packet",
        _ => "kind = \"af_packet\"",
    }
}

fn attach(
    config: &LinkConfig,
    interface: Interface,
    networks: &Networks,
    sockets: &Map,
) -> io::Result<OwnedFd> {
    let hook = Hook::Xdp { sockets: sockets.number(), station: interface.mac };
    let program = Program::load(ProgramKind::Xdp, &program(&config.takes, networks, hook))?;
    match program.attach_xdp(interface.number, XdpMode::Driver) {
        // Another program is there already, and would be in the way of either mode.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(error),
        Err(_) => program.attach_xdp(interface.number, XdpMode::Generic),
        attached => attached,
    }
}

/// The kernel frees the queue of a closed socket some time later.
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
