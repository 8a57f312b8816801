//! How many receive queues an interface has, and how many an `af_xdp` port needs.

use convoy_kernel::queries::HostInterface;
use convoy_packet::{MacAddress, ethernet};

use crate::PortError;
use crate::link::{LinkConfig, LinkTakes};
use crate::sys::{LONGEST_FRAME, XdpSocket};

/// The longest packet that fits, in bytes.
const LONGEST_PACKET: usize = LONGEST_FRAME - ethernet::HEADER_BYTES;
/// Queues looked for beyond those used.
const MOST_FURTHER: u32 = 64;

/// Checks that the interface has as many queues as such a port needs.
///
/// # Errors
/// It does not.
pub(super) fn fits(config: &LinkConfig, at: HostInterface) -> Result<bool, PortError> {
    let LinkConfig { name, interface, queues, .. } = config;
    let HostInterface { mtu, mac, .. } = at;
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
pub(super) fn further_queues(interface: u32, from: u32, first: Option<&XdpSocket>) -> usize {
    let is_there = |queue: &u32| {
        let socket = XdpSocket::prepare(false);
        socket.and_then(|socket| XdpSocket::open(socket, interface, *queue, first)).is_ok()
    };
    (from..from + MOST_FURTHER).take_while(is_there).count()
}

pub(super) fn other_queues(config: &LinkConfig, have: usize) -> PortError {
    let LinkConfig { name, interface, takes, queues, .. } = config;
    let run = format!("run: ethtool -L {interface} combined {queues}");
    let instead = instead(config);
    let reason = match takes {
        LinkTakes::Datagrams { .. } => {
            format!("{interface} has {have} receive queues, and a host has one; {run}, or use {instead}")
        }
        _ => format!(
            "each of {queues} workers needs a receive queue, and {interface} has {have}; {run}, \
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
