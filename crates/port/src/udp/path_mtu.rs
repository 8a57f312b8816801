//! What paths carry, as the kernel learns it from ICMP (RFC 1191, RFC 8201).
//!
//! A socket that sends to many peers is told only that a packet did not fit. The size is asked of a socket that is
//! connected to the one peer, which costs a few calls on a packet that is lost anyway.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, Socket, Type};

use crate::sys;

/// Paths that are remembered, and findings that wait to be taken.
const LIMIT: usize = 256;

#[derive(Default)]
pub(super) struct PathMtus {
    known: Vec<(IpAddr, u16)>,
    untold: Vec<(IpAddr, u16)>,
}

impl PathMtus {
    /// Notes that a packet of `len` bytes did not fit the path from `local` to `peer`.
    pub(super) fn exceeded(&mut self, local: IpAddr, peer: SocketAddr, len: usize) {
        let peer_ip = peer.ip();
        let mtu = match self.get(peer_ip) {
            Some(known) if usize::from(known) < len => known,
            _ => match ask(local, peer) {
                Ok(mtu) => mtu,
                // No route any more: there is no path to know of.
                Err(_) => return,
            },
        };
        put(&mut self.known, peer_ip, mtu);
        put(&mut self.untold, peer_ip, mtu);
    }

    pub(super) fn get(&self, peer: IpAddr) -> Option<u16> {
        self.known.iter().find(|(known, _)| *known == peer).map(|(_, mtu)| *mtu)
    }

    pub(super) fn take(&mut self) -> Option<(IpAddr, u16)> {
        self.untold.pop()
    }
}

/// Replaces what is there of this peer; the oldest goes where there is no room.
fn put(list: &mut Vec<(IpAddr, u16)>, peer: IpAddr, mtu: u16) {
    if let Some(entry) = list.iter_mut().find(|(known, _)| *known == peer) {
        entry.1 = mtu;
        return;
    }
    if list.len() >= LIMIT {
        list.remove(0);
    }
    list.push((peer, mtu));
}

/// What the kernel holds of this path.
pub(super) fn ask(local: IpAddr, peer: SocketAddr) -> std::io::Result<u16> {
    let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))?;
    socket.bind(&SocketAddr::new(local, 0).into())?;
    socket.connect(&peer.into())?;
    sys::connected_mtu(socket.as_fd(), &peer.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_a_path_mtu() {
        let here = "127.0.0.1".parse().expect("an address");
        assert!(ask(here, SocketAddr::new(here, 9)).expect("loopback") >= 16_384);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_told_once_a_peer() {
        let mut list = Vec::new();
        for number in 0..1000_u32 {
            let peer = IpAddr::from(number.to_be_bytes());
            put(&mut list, peer, 1400);
            put(&mut list, peer, 1300);
        }
        assert_eq!(list.len(), LIMIT);
        assert_eq!(list.last(), Some(&(IpAddr::from(999_u32.to_be_bytes()), 1300)));
    }
}
