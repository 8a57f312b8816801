//! The interface: frames from the kernel to the card, and from the card to the kernel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use convoy_card::line::LINE_BYTES;
use convoy_card::nic::{NicControl, NicCounters, NicPort, NicSettings, OWN_PLACES, pair};
use convoy_card::{CardError, Checks};
use convoy_devices::card_port::{InterfaceLine, KernelInterface};
use convoy_ipsec::{Expiry, TunnelId};
use convoy_packet::{MacAddress, ethernet};
use convoy_state::{StateError, clock_keeps_nonces};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::NicConfig;
use crate::bump::{Bump, Departure, Fate, SaRefused, Towards};

/// The longest sleep, in ms: lifetimes of SAs are checked as often.
const SLEEP_MS: u16 = 1_000;
/// Frames of each direction before the other one has its turn.
const BURST: usize = 32;
/// Places of the card's queue that a frame from the kernel may need: its fragments.
const FRAME_PLACES: usize = OWN_PLACES + 16;

/// Why there is no interface, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum NicError {
    /// The system refused.
    #[error("cannot {action}: {source}")]
    Io {
        /// What.
        action: String,
        /// Its reason.
        source: io::Error,
    },
    /// There is no card.
    #[error("the card: {0}")]
    Card(#[from] CardError),
    /// The card has failed for good.
    #[error("the card has failed permanently")]
    Gone,
    /// Nothing keeps nonces apart over restarts.
    #[error("tunnels with a counter cipher need the clock, which was never set; set it ({0})")]
    Clock(StateError),
    /// An SA cannot be installed.
    #[error("tunnel {tunnel}: {source}")]
    Sa {
        /// The tunnel.
        tunnel: String,
        /// Why.
        source: SaRefused,
    },
}

/// The hardware address of an interface.
fn mac_of(interface: &str) -> io::Result<MacAddress> {
    let all = getifaddrs()?.filter(|one| one.interface_name == interface);
    let mac = all.filter_map(|one| one.address?.as_link_addr()?.addr()).next();
    mac.map(MacAddress).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// What passed, in packets.
#[derive(Clone, Debug)]
pub struct NicTotals {
    /// The card's counters.
    pub card: NicCounters,
    /// Encrypted or decrypted by the software, because the card could not.
    pub by_software: u64,
    /// Dropped, with the word of the reason.
    pub drops: Vec<(String, u64)>,
}

/// An interface of the kernel, and the card behind it.
pub struct NicInterface {
    kernel: KernelInterface,
    port: NicPort,
    control: NicControl,
    bump: Bump,
    /// What the kernel refused to receive, while the interface was down for instance.
    unread: u64,
    buffer: Vec<u8>,
    departures: Vec<Departure>,
}

impl NicInterface {
    /// Opens the line and creates the interface, which needs CAP_NET_RAW and CAP_NET_ADMIN. Nothing
    /// passes before [`start`](Self::start).
    ///
    /// # Errors
    /// [`NicError`] says what the system refused.
    pub fn open(config: &NicConfig) -> Result<Self, NicError> {
        let refused = |action: String| move |source| NicError::Io { action, source };
        clock_keeps_nonces(&config.tunnels).map_err(NicError::Clock)?;
        let what = format!("open the interface {} (run as root, or with CAP_NET_RAW)", config.interface);
        let line = InterfaceLine::open(&config.interface).map_err(refused(what))?;
        let what = format!("find the hardware address of {}", config.interface);
        let mac = mac_of(&config.interface).map_err(refused(what))?;
        let what = format!("keep {} from the kernel (needs Linux 6.6 and CAP_BPF)", config.interface);
        let line = line.kept_from_kernel().map_err(refused(what))?;
        let mtu = line.mtu().min(LINE_BYTES - ethernet::HEADER_BYTES) as u16;
        let what = format!("create the interface {} (run as root, or with CAP_NET_ADMIN)", config.device);
        let created = KernelInterface::create(&config.device, mac, mtu, &config.addresses);
        let kernel = created.map_err(refused(what))?;
        let settings = NicSettings { function: config.function, ..NicSettings::default() };
        let (control, port) = pair(Box::new(line), &settings)?;
        control.set_checks(Checks { checksum: config.checksum, ..Checks::default() });
        Ok(Self {
            kernel,
            port,
            bump: Bump::new(config, mtu, control.clone()),
            control,
            unread: 0,
            buffer: vec![0; LINE_BYTES],
            departures: Vec::new(),
        })
    }

    /// Starts the card and installs the SAs. Returns the names of tunnels that the card does not
    /// support, and the software processes.
    ///
    /// # Errors
    /// [`NicError::Sa`].
    pub fn start(&mut self, config: &NicConfig) -> Result<Vec<String>, NicError> {
        let mut in_software = Vec::new();
        for (at, tunnel) in config.tunnels.iter().enumerate() {
            let installed = self.bump.install(TunnelId(at as u32), tunnel);
            let refused = |source| NicError::Sa { tunnel: tunnel.name.clone(), source };
            if !installed.map_err(refused)? {
                in_software.push(tunnel.name.clone());
            }
        }
        Ok(in_software)
    }

    /// Passes frames until `stop` is readable.
    ///
    /// # Errors
    /// [`NicError::Gone`], or [`NicError::Io`] if the system does not tell what is readable.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> Result<(), NicError> {
        loop {
            if self.port.is_gone() {
                return Err(NicError::Gone);
            }
            let is_more = self.take_sent() | self.take_received();
            let has_room = self.port.room() > FRAME_PLACES;
            let timeout = match (is_more, has_room) {
                (true, _) => PollTimeout::ZERO,
                // The card tells of frames from the line, not of room.
                (false, false) => PollTimeout::from(1_u8),
                (false, true) => PollTimeout::from(SLEEP_MS),
            };
            let mut fds = vec![
                PollFd::new(stop, PollFlags::POLLIN),
                PollFd::new(self.port.readable_fd(), PollFlags::POLLIN),
            ];
            if has_room {
                fds.push(PollFd::new(self.kernel.as_fd(), PollFlags::POLLIN));
            }
            match poll(&mut fds, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => {
                    let action = "wait for frames".to_owned();
                    return Err(NicError::Io { action, source: error.into() });
                }
            }
            if fds[0].any().unwrap_or(false) {
                return Ok(());
            }
            self.expire();
        }
    }

    /// What has passed so far.
    pub fn totals(&self) -> NicTotals {
        let drops = self.bump.ipsec.tables.drops().met();
        let drops = drops.map(|(reason, count)| (reason.to_string(), count));
        let others = [("unread by the kernel", self.unread), ("with a VLAN tag", self.bump.tagged)];
        let others = others.into_iter().filter(|(_, count)| *count > 0);
        NicTotals {
            card: self.control.counters(),
            by_software: self.bump.engines.by_software,
            drops: drops.chain(others.map(|(what, count)| (what.to_owned(), count))).collect(),
        }
    }

    fn expire(&mut self) {
        for event in self.bump.expire() {
            let what = match event.expiry {
                Expiry::Soft => "nears the end of its lifetime",
                Expiry::Hard => "has ended: its lifetime is over",
            };
            tracing::warn!("the SA {} {what}", event.name);
        }
    }

    /// Takes frames from the kernel, while the card has room for them; whether there may be more.
    fn take_sent(&mut self) -> bool {
        for _ in 0..BURST {
            if self.port.room() <= FRAME_PLACES {
                return false;
            }
            // While the interface is down there is nothing to read.
            let Ok(Some(len)) = self.kernel.read(&mut self.buffer) else { return false };
            let frame = &self.buffer[..len];
            match self.bump.sent(frame, &mut self.departures) {
                // There is room.
                Fate::Unchanged => drop(self.port.transmit_copy(&[frame])),
                Fate::Replaced => self.depart(),
            }
        }
        true
    }

    /// Takes frames from the card; whether there may be more.
    fn take_received(&mut self) -> bool {
        for _ in 0..BURST {
            let Some(arrival) = self.port.receive() else { return false };
            match self.bump.received(&arrival, &mut self.departures) {
                // Plaintext that no SA has unpacked goes nowhere.
                Fate::Unchanged if arrival.opened.is_none() => {
                    self.unread += u64::from(self.kernel.write(&arrival.frame).is_err());
                }
                Fate::Unchanged => {}
                Fate::Replaced => self.depart(),
            }
        }
        true
    }

    fn depart(&mut self) {
        for departure in self.departures.drain(..) {
            let seal = departure.seal();
            let Departure { towards, head, mut packet } = departure;
            // Each frame of the bump's has more headroom than that.
            let Ok(place) = packet.prepend(head.len()) else { continue };
            place.copy_from_slice(&head);
            match towards {
                Towards::Line => drop(self.port.transmit(packet, seal)),
                Towards::Kernel => {
                    self.unread += u64::from(self.kernel.write(&packet).is_err());
                    self.bump.give_back(packet);
                }
            }
        }
    }
}
