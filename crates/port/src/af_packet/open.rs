//! Opens the queues of an `af_packet` port: the programs at the interface and at the sockets, and a
//! socket for each worker.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket, Type};

use super::{AfPacket, Attachment};
use crate::PortError;
use crate::link::{Hook, Link, LinkConfig, LinkTakes, Networks, program};
use crate::super_packet::Joins;
use crate::sys::{self, Program, ProgramKind};

/// Requested size of the socket buffers, in bytes, each way.
const SOCKET_BUFFER: usize = 8 << 20;

impl AfPacket {
    /// The queues of a port, among which packets are distributed by flow.
    ///
    /// # Errors
    /// [`PortError`] says what the system refused: this needs CAP_NET_ADMIN, CAP_NET_RAW and
    /// CAP_BPF, and Linux 6.6.
    pub(crate) fn open(config: &LinkConfig) -> Result<Vec<Self>, PortError> {
        let failed = |action: &'static str| move |source: io::Error| config.failed(action, source);
        let number = config.interface_number()?;
        let links: Vec<Link> =
            (0..config.queues).map(|queue| Link::open(config, number, queue)).collect::<Result<_, _>>()?;
        let networks = Networks::of(&config.takes).map_err(failed("make a map of networks for"))?;
        let load = |kind, hook| Program::load(kind, &program(&config.takes, &networks, hook));
        // First: what arrives meanwhile is lost, and nothing passes unencrypted.
        let ingress = load(ProgramKind::Ingress, Hook::Ingress)
            .and_then(|program| program.attach_ingress(number))
            .map_err(failed("attach a program (run as root, or with CAP_BPF and CAP_NET_ADMIN; Linux 6.6 or later) to the ingress of"))?;
        let filter = load(ProgramKind::SocketFilter, Hook::Socket)
            .map_err(failed("load a socket filter (run as root, or with CAP_BPF) for"))?;
        let open = || open_socket(number, &filter);
        let sockets: Vec<Socket> = (0..config.queues)
            .map(|_| open())
            .collect::<Result<_, _>>()
            .map_err(failed("open a packet socket (run as root, or with CAP_NET_RAW) at"))?;
        let shared: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        sys::share(&shared).map_err(failed("share packets among the workers at"))?;
        let attachment = Arc::new(Attachment { _ingress: ingress, networks });
        let joins = match config.takes {
            LinkTakes::Plaintext { .. } => Joins::TcpAndUdp,
            LinkTakes::Protected { .. } => Joins::WithoutChecksum,
            LinkTakes::Datagrams { .. } => Joins::Nothing,
        };
        let queues = links.into_iter().zip(sockets);
        Ok(queues.map(|(link, socket)| Self::new(link, socket, joins, Arc::clone(&attachment))).collect())
    }
}

fn open_socket(interface: u32, filter: &Program) -> io::Result<Socket> {
    // Without a protocol it receives nothing before it is bound.
    let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), None)?;
    let fd = socket.as_fd();
    // A smaller buffer than requested is accepted.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    sys::begin_offload_headers(fd)?;
    sys::ignore_outgoing(fd)?;
    sys::filter(fd, filter.as_fd())?;
    sys::bind(fd, interface)?;
    Ok(socket)
}
