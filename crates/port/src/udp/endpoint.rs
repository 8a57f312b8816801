//! One socket of one address, and its capabilities.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use super::UdpConfig;
use crate::{PortError, sys};

/// Requested size of the socket buffers, in bytes, each way.
const SOCKET_BUFFER: usize = 4 << 20;

pub(super) struct Endpoint {
    pub(super) socket: Socket,
    pub(super) local: SocketAddr,
    /// The destination of what arrives here, as the packets handed up have it.
    pub(super) arrives_at: SocketAddr,
    /// Whether runs of datagrams leave as one message (`UDP_SEGMENT`, Linux 4.18).
    pub(super) can_segment: bool,
    /// Whether the kernel was asked to set DF.
    sets_df: Option<bool>,
}

/// Who else has a socket of the same address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Nobody.
    Alone,
    /// The queues; this is the first one's.
    First,
    /// The queues; this is a further one's.
    Further,
}

impl Endpoint {
    pub(super) fn bind(config: &UdpConfig, local: SocketAddr, sharing: Sharing) -> Result<Self, PortError> {
        Self::open(config, local, sharing).map_err(|source| PortError::Io {
            port: config.name.clone(),
            action: format!("listen on UDP {local}{}", advice(&source)),
            source,
        })
    }

    fn open(config: &UdpConfig, local: SocketAddr, sharing: Sharing) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        if local.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // The first queue's socket is bound exclusively, so that a second program is refused rather
        // than given half of the packets.
        socket.set_reuse_port(sharing == Sharing::Further)?;
        sys::receive_beside(socket.as_fd(), &local.ip())?;
        enlarge_buffers(&socket);
        if let Some(mark) = config.mark {
            socket.set_mark(mark)?;
        }
        if config.offloads {
            // Linux before 5.0 lacks it; datagrams then arrive one by one.
            let _ = setsockopt(&socket, sockopt::UdpGroSegment, &true);
        }
        // Kernels that lack it reject even setting it to 0. In ancillary data they would ignore it.
        let can_segment = config.offloads && setsockopt(&socket, sockopt::UdpGsoSegment, &0).is_ok();
        crate::sockets::allow_missing_address(&socket, &local.ip())?;
        socket.bind(&local.into())?;
        socket.set_reuse_port(sharing != Sharing::Alone)?;
        let local = socket.local_addr()?.as_socket().unwrap_or(local);
        Ok(Self { socket, local, arrives_at: local, can_segment, sets_df: None })
    }

    /// Whether packets from this address leave here.
    pub(super) fn sends_from(&self, source: IpAddr) -> bool {
        self.local.ip() == source || self.is_any() && self.local.is_ipv4() == source.is_ipv4()
    }

    /// Whether it is bound to every address of its family.
    pub(super) fn is_any(&self) -> bool {
        self.local.ip().is_unspecified()
    }

    /// Sets DF on what leaves from now on; returns the system calls made.
    pub(super) fn set_df(&mut self, dont_fragment: bool) -> u64 {
        if self.sets_df == Some(dont_fragment) {
            return 0;
        }
        self.sets_df = Some(dont_fragment);
        // A kernel without the option keeps its behaviour.
        let _ = sys::set_dont_fragment(self.socket.as_fd(), &self.local.ip(), dont_fragment);
        1
    }
}

/// Beyond the system's limit if permitted, otherwise up to it.
fn enlarge_buffers(socket: &Socket) {
    if setsockopt(socket, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    }
    if setsockopt(socket, sockopt::SndBufForce, &SOCKET_BUFFER).is_err() {
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => " (another program, perhaps charon, uses it; `ss -lunp` names it)",
        io::ErrorKind::PermissionDenied => {
            " (run as root, or with the capabilities CAP_NET_ADMIN and, for ports below 1024, CAP_NET_BIND_SERVICE)"
        }
        _ => "",
    }
}
