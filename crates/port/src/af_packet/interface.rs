//! What the queues of an `af_packet` port share at their interface: the programs, which outlive it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket, Type};

use crate::PortError;
use crate::contract::{Fresh, Reopen, SocketReserve, lock};
use crate::link::{Hook, LinkConfig, Networks, program};
use crate::sys::{self, ProgramKind, VerifiedProgram};

/// Requested size of the socket buffers, in bytes, each way.
const SOCKET_BUFFER: usize = 8 << 20;
/// How often the interface may come back before the gateway has to start again: each time takes a
/// socket for each queue, since one that shared packets with others cannot be bound again.
const RESERVE: usize = 16;

/// The port's programs, and its place at the interface.
pub(super) struct AfPacketInterface {
    pub(super) config: LinkConfig,
    pub(super) networks: Networks,
    ingress: VerifiedProgram,
    filter: VerifiedProgram,
    /// The number of the interface, and what keeps the program at its ingress.
    place: Mutex<Option<(u32, OwnedFd)>>,
    reserve: SocketReserve,
    pub(super) fresh: Fresh<Socket>,
}

impl AfPacketInterface {
    /// Loads the programs, and opens sockets. It needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF.
    ///
    /// # Errors
    /// What the system refused.
    pub(super) fn load(config: &LinkConfig) -> Result<Self, PortError> {
        let networks = Networks::of(&config.takes)
            .map_err(|error| config.failed("make a map of networks for", error))?;
        let load = |kind, hook| VerifiedProgram::load(kind, &program(&config.takes, &networks, hook));
        let ingress = load(ProgramKind::Ingress, Hook::Ingress).map_err(|error| {
            config.failed("load a program (run as root, or with CAP_BPF and CAP_NET_ADMIN) for", error)
        })?;
        let filter = load(ProgramKind::SocketFilter, Hook::Socket).map_err(|error| {
            config.failed("load a socket filter (run as root, or with CAP_BPF) for", error)
        })?;
        let set = || (0..config.queues).map(|_| open_socket()).collect();
        let reserve = SocketReserve::new(1 + RESERVE, set).map_err(|error| {
            config.failed("open a packet socket (run as root, or with CAP_NET_RAW) for", error)
        })?;
        let (place, fresh) = (Mutex::default(), Fresh::new(config.queues));
        Ok(Self { config: config.clone(), networks, ingress, filter, place, reserve, fresh })
    }

    /// Takes sockets to an interface, one for each queue. It needs no privileges.
    ///
    /// # Errors
    /// What the system refused.
    pub(super) fn use_interface(&self, number: u32) -> Result<Vec<Socket>, PortError> {
        let failed = |action: &'static str| move |source: io::Error| self.config.failed(action, source);
        // First: what arrives meanwhile is lost, and nothing passes unencrypted.
        let ingress = self
            .ingress
            .attach_ingress(number)
            .map_err(failed("attach a program (Linux 6.6 or later) to the ingress of"))?;
        let sockets: Vec<Socket> =
            self.reserve.take().unwrap_or_default().into_iter().map(Socket::from).collect();
        let ready = sockets.iter().try_for_each(|socket| self.prepare(socket, number));
        ready.map_err(failed("use a packet socket at"))?;
        let shared: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        sys::share(&shared).map_err(failed("share packets among the workers at"))?;
        *lock(&self.place) = Some((number, ingress));
        Ok(sockets)
    }

    fn prepare(&self, socket: &Socket, number: u32) -> io::Result<()> {
        let fd = socket.as_fd();
        sys::begin_offload_headers(fd)?;
        sys::ignore_outgoing(fd)?;
        sys::filter(fd, self.filter.as_fd())?;
        convoy_kernel::packet_socket::bind(fd, number)
    }
}

impl std::fmt::Debug for AfPacketInterface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtInterface").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Reopen for AfPacketInterface {
    fn interface(&self) -> &str {
        &self.config.interface
    }

    fn number(&self) -> Option<u32> {
        lock(&self.place).as_ref().map(|(number, _)| *number)
    }

    fn has_reserve(&self) -> bool {
        self.reserve.has_more()
    }

    fn reopen(&self, number: u32) -> Result<(), PortError> {
        self.fresh.put(number, self.use_interface(number)?);
        Ok(())
    }
}

fn open_socket() -> io::Result<OwnedFd> {
    // Without a protocol it receives nothing before it is bound.
    let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), None)?;
    // A smaller buffer than requested is accepted.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    Ok(socket.into())
}
