//! The common parts of ports over the kernel's sockets.

use std::io;
use std::net::IpAddr;

use socket2::Socket;

use crate::fragments::{FragmentEnds, FragmentSender};
use crate::path_mtu::PathMtus;
use crate::unsent::UnsentPackets;
use crate::{PortCounters, PortDescription, PortError, sys};

/// Lets a socket be bound to an address that no interface has yet (`IP_FREEBIND`): the gateway says
/// that it is missing, and the socket works once it is there.
pub(crate) fn allow_missing_address(socket: &Socket, family: &IpAddr) -> io::Result<()> {
    if family.is_ipv4() { socket.set_freebind_v4(true) } else { socket.set_freebind_v6(true) }
}

/// The state of a port and of its outgoing packets.
pub(crate) struct Outgoing {
    pub(crate) description: PortDescription,
    pub(crate) counters: PortCounters,
    pub(crate) path_mtus: PathMtus,
    pub(crate) unsent: UnsentPackets,
    /// For what the port's own sockets do not send.
    pub(crate) fragments: FragmentSender,
}

impl Outgoing {
    /// The state of a port that has sent nothing yet.
    pub(crate) fn new(description: PortDescription, fragments: FragmentSender) -> Self {
        let (path_mtus, unsent) = (PathMtus::default(), UnsentPackets::default());
        Self { description, counters: PortCounters::default(), path_mtus, unsent, fragments }
    }

    /// Counts a packet that the system refused to send.
    pub(crate) fn count_refused(&mut self, packet: &[u8], error: &io::Error) {
        self.counters.send_dropped += 1;
        self.unsent.refused(packet, error);
    }

    /// Counts a packet whose source is no address of the port's.
    pub(crate) fn count_not_from_here(&mut self, packet: &[u8]) {
        self.counters.send_dropped += 1;
        self.unsent.not_from_here(packet);
    }

    /// Sends a fragment; `false` if there is no room now.
    ///
    /// # Errors
    /// [`PortError::Io`] if it is the socket that fails.
    pub(crate) fn send_fragment(&mut self, packet: &[u8], ends: FragmentEnds) -> Result<bool, PortError> {
        self.counters.system_calls += 1;
        let Err(error) = self.fragments.send(packet, ends) else {
            self.counters.count_sent(packet.len());
            return Ok(true);
        };
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => return Ok(false),
            Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT) => {
                return Err(self.description.failed("send a fragment", error));
            }
            Some(libc::EMSGSIZE) => {
                let fragments = &self.fragments;
                self.path_mtus.exceeded(ends.destination, packet.len(), || {
                    let socket = fragments.socket(ends.source)?;
                    sys::mtu_of_refusal(socket, &ends.source, || fragments.send(packet, ends))
                });
            }
            _ => {}
        }
        self.count_refused(packet, &error);
        Ok(true)
    }
}
