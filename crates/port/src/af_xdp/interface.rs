//! What the queues of an `af_xdp` port share at their interface: the program, which outlives it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use convoy_kernel::queries::Queries;

use super::queues::{fits, further_queues, other_queues};
use crate::PortError;
use crate::contract::{Fresh, Reopen, SocketReserve, lock};
use crate::link::{Hook, LinkConfig, Networks, Station, program};
use crate::sys::{Map, MapKind, ProgramKind, VerifiedProgram, XdpMode, XdpSocket};

/// How often the interface may come back before the gateway has to start again: a socket cannot be
/// bound again, and each set of them takes 0.2 % of the packet memory's size in the kernel.
const RESERVE: usize = 4;

/// The port's program, and its place at the interface.
pub(super) struct AfXdpInterface {
    pub(super) config: LinkConfig,
    pub(super) networks: Networks,
    program: VerifiedProgram,
    sockets: Map,
    station: Station,
    /// The number of the interface, and what keeps the program there.
    place: Mutex<Option<(u32, OwnedFd)>>,
    reserve: SocketReserve,
    pub(super) fresh: Fresh<XdpSocket>,
}

impl AfXdpInterface {
    /// Loads the program, and opens sockets. It needs CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and
    /// CAP_IPC_LOCK.
    ///
    /// # Errors
    /// What the system refused.
    pub(super) fn load(config: &LinkConfig) -> Result<Self, PortError> {
        let failed = |action: &'static str| move |source: io::Error| config.failed(action, source);
        let networks = Networks::of(&config.takes).map_err(failed("make a map of networks for"))?;
        let sockets = Map::new(MapKind::Sockets, 4, config.queues).map_err(failed("make a map for"))?;
        let station = Station::new().map_err(failed("make a map for"))?;
        let hook = Hook::Xdp { sockets: sockets.number(), station: station.numbers() };
        let program = VerifiedProgram::load(ProgramKind::Xdp, &program(&config.takes, &networks, hook))
            .map_err(failed("load an XDP program (run as root, or with CAP_BPF and CAP_NET_ADMIN) for"))?;
        let set = || (0..config.queues).map(|queue| XdpSocket::prepare(queue == 0)).collect();
        let reserve = SocketReserve::new(1 + RESERVE, set).map_err(failed("open an AF_XDP socket for"))?;
        let (config, place, fresh) = (config.clone(), Mutex::default(), Fresh::new(config.queues));
        Ok(Self { config, networks, program, sockets, station, place, reserve, fresh })
    }

    /// Takes sockets to the queues of an interface. It needs no privileges.
    ///
    /// # Errors
    /// What the interface lacks, or what the system refused.
    pub(super) fn use_interface(&self, number: u32) -> Result<Vec<XdpSocket>, PortError> {
        let config = &self.config;
        let failed = |action: &'static str| move |source: io::Error| config.failed(action, source);
        let interface = Queries::open().and_then(|mut queries| queries.interface(number));
        let interface = interface.map_err(failed("ask the kernel about"))?;
        let is_listed = fits(config, interface)?;
        self.station.set(interface.mac).map_err(failed("write a map for"))?;
        let link = self.attach(number).map_err(failed("attach an XDP program to"))?;
        let mut opened: Vec<XdpSocket> = Vec::new();
        for (queue, socket) in (0..).zip(self.reserve.take().unwrap_or_default()) {
            let socket = XdpSocket::open(socket, number, queue, opened.first())
                .map_err(failed("use an AF_XDP socket at"))?;
            let is_set = self.sockets.set_socket(queue, socket.as_fd());
            is_set.map_err(failed("give the XDP program a socket at"))?;
            opened.push(socket);
        }
        if !is_listed {
            let have = config.queues + further_queues(number, config.queues as u32, opened.first());
            if have != config.queues {
                return Err(other_queues(config, have));
            }
        }
        *lock(&self.place) = Some((number, link));
        Ok(opened)
    }

    fn attach(&self, number: u32) -> io::Result<OwnedFd> {
        match self.program.attach_xdp(number, XdpMode::Driver) {
            // Another program is there already, and would be in the way of either mode.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(error),
            Err(_) => self.program.attach_xdp(number, XdpMode::Generic),
            attached => attached,
        }
    }
}

impl std::fmt::Debug for AfXdpInterface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtInterface").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Reopen for AfXdpInterface {
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
