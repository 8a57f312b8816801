//! The card as the protected side's network interface: Ethernet on a line, ESP sealed and opened in
//! flight.
//!
//! The port adds and strips Ethernet headers, and is a host of its own on the line
//! ([`l2_host`](convoy_port::l2_host)): the kernel has no address on this interface. Packets opened
//! by the card are handed up with zeros in place of the ICV, so that lengths are as on the line,
//! and with the tag [`Offload::Opened`]; the card seals packets tagged [`Offload::Seal`].

use std::borrow::Cow;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use convoy_card::Checks;
use convoy_card::line::{LINE_BYTES, Line};
use convoy_card::nic::{Arrival, Interrupts, NicControl, NicPort, NicSettings, OWN_PLACES, Seal, pair};
use convoy_packet::{Frame, FramePool, MacAddress, Offload, ethernet, ip};

use super::filter;
use super::interface_line::InterfaceLine;
use super::signature;
use super::{CardSettings, InterruptSettings};
use convoy_port::l2_host::{HostIdentity, Incoming, L2Host, OwnFrame, PortTakes, echo_reply};
use convoy_port::{Port, PortCounters, PortDescription, PortError, PortKind, PortSettings};

/// The longest IP packet in a frame of the card's, in bytes.
const LONGEST_MTU: usize = LINE_BYTES - ethernet::HEADER_BYTES;
/// The function whose clock counts where none is named.
const AES_GCM: u8 = 1;
/// The longest ICV of the card's algorithms, in bytes, for which an opened packet needs room.
pub(super) const ICV_ROOM: usize = 32;

/// The configuration of a `card` port.
#[derive(Clone, Debug)]
pub struct CardConfig {
    /// The port's name, for example `outside`.
    pub name: String,
    /// The line: a Linux interface that is up and has no addresses of the kernel's.
    pub interface: String,
    /// The card's hardware address; by default derived from the interface's name and number.
    pub mac: Option<MacAddress>,
    /// Its addresses, each with the length of its network's prefix in bits.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The routers to all other networks, at most one of each family.
    pub gateways: Vec<IpAddr>,
    /// The largest IP packet, in bytes; at most the interface's own and 9004.
    pub mtu: usize,
    /// What the card does besides cryptography.
    pub checks: Checks,
    /// The only function of its slots, by the card's number; `None` leaves the choice to the SAs.
    pub function: Option<u8>,
    /// When the card interrupts; `None` for the driver's default.
    pub interrupts: Option<InterruptSettings>,
}

/// The `card` port.
pub struct CardPort {
    pub(super) description: PortDescription,
    pub(super) counters: PortCounters,
    pub(super) host: L2Host,
    pub(super) control: NicControl,
    pub(super) nic: NicPort,
}

impl CardPort {
    /// Opens the interface and creates the card; its thread starts when the port or the card's
    /// control is first used.
    ///
    /// # Errors
    /// [`PortError`] if the system refuses, for instance without CAP_NET_RAW, or the configuration
    /// is invalid; it says what to do.
    pub fn open(config: &CardConfig) -> Result<Self, PortError> {
        let line = InterfaceLine::open(&config.interface).map_err(|source| PortError::Io {
            port: config.name.clone(),
            action: format!("open the interface {} (run as root, or with CAP_NET_RAW)", config.interface),
            source,
        })?;
        if config.mtu > line.mtu() {
            let reason = format!(
                "mtu = {} exceeds the {} bytes of the interface {}; lower it, or raise the MTU of the interface \
                 (ip link set mtu)",
                config.mtu,
                line.mtu(),
                config.interface
            );
            return Err(PortError::Invalid { port: config.name.clone(), reason });
        }
        let index = line.index();
        Self::on(Box::new(line), index, config)
    }

    /// A card on any line; `index` determines its hardware address if none is configured.
    ///
    /// # Errors
    /// [`PortError::Invalid`] if the configuration is invalid or there is no card.
    pub fn on(line: Box<dyn Line>, index: u32, config: &CardConfig) -> Result<Self, PortError> {
        let invalid = |reason| PortError::Invalid { port: config.name.clone(), reason };
        if config.mtu > LONGEST_MTU {
            return Err(invalid(format!(
                "mtu = {} exceeds the card's limit of {LONGEST_MTU}; lower it",
                config.mtu
            )));
        }
        let mac = config.mac.unwrap_or_else(|| made_from(&config.interface, index));
        let identity =
            HostIdentity::new(mac, &config.addresses, &config.gateways, PortTakes::Own).map_err(invalid)?;
        let settings = nic_settings(config.function, config.mtu, config.interrupts);
        let (control, nic) = pair(line, &settings).map_err(|error| invalid(format!("its card: {error}")))?;
        control.set_checks(config.checks.clone());
        Ok(Self {
            description: PortDescription {
                name: config.name.clone(),
                kind: PortKind::of::<CardSettings>(),
                mtu: config.mtu,
            },
            counters: PortCounters::default(),
            host: L2Host::new(identity, 1),
            control,
            nic,
        })
    }

    /// Installs SAs on the card and reads its counters.
    pub fn control(&self) -> NicControl {
        self.control.clone()
    }

    /// Its hardware address.
    pub fn mac(&self) -> MacAddress {
        self.host.identity.mac
    }

    fn check(&self) -> Result<(), PortError> {
        if !self.nic.is_gone() {
            return Ok(());
        }
        let reason = "its card has failed permanently; restart the gateway".to_owned();
        Err(PortError::Invalid { port: self.description.name.clone(), reason })
    }

    fn accept(&mut self, arrival: Arrival, burst: &mut Vec<Frame>) {
        let most_missing = if arrival.opened.is_some() { ICV_ROOM } else { 0 };
        match Incoming::read(&arrival.frame, most_missing, &self.host.identity) {
            Incoming::Discovery(message) => {
                if let Some(reply) = self.host.hear(&message) {
                    self.send_own(&reply);
                }
            }
            Incoming::Echo(from, request) => {
                if let Some(reply) = echo_reply(from, request) {
                    self.send_own(&reply);
                }
            }
            Incoming::Packet(packet, icv_bytes) => {
                let len = packet.len();
                match packet_of(arrival, len, icv_bytes) {
                    Some(frame) => {
                        self.counters.count_received(frame.len());
                        burst.push(frame);
                    }
                    None => self.counters.receive_dropped += 1,
                }
            }
            Incoming::Dropped(_) => self.counters.receive_dropped += 1,
        }
    }

    /// Sends a frame of the port's own; without room it is lost, and is requested again.
    fn send_own(&mut self, OwnFrame { to, ethertype, bytes }: &OwnFrame) {
        let head = ethernet::header(*to, self.mac(), *ethertype);
        let _ = self.nic.transmit_copy(&[&head, bytes]);
    }

    /// Requests the addresses that packets wait for, and drops packets that have waited too long.
    fn ask(&mut self, pool: &mut FramePool) {
        let (nic, mac) = (&mut self.nic, self.host.identity.mac);
        self.host.due(pool, &mut |request| {
            let head = ethernet::header(request.to, mac, request.ethertype);
            let _ = nic.transmit_copy(&[&head, &request.bytes]);
        });
    }

    /// Gives the card the packets whose next hop is known; `false` if it has no room.
    fn empty_outbox(&mut self, pool: &mut FramePool) -> bool {
        while let Some((to, mut frame)) = self.host.outbox.pop_front() {
            if self.nic.room() <= OWN_PLACES {
                self.host.outbox.push_front((to, frame));
                return false;
            }
            let ethertype = if ip::is_v6(&frame) { ethernet::IPV6 } else { ethernet::IPV4 };
            let head = ethernet::header(to, self.mac(), ethertype);
            let seal = match frame.offload() {
                Offload::Seal { sa, esp_start, seq_high } => {
                    Some(Seal { sa, esp_at: esp_start + ethernet::HEADER_BYTES as u16, seq_high })
                }
                Offload::None | Offload::Opened { .. } => None,
            };
            let len = frame.len();
            match frame.prepend(head.len()) {
                Ok(place) => place.copy_from_slice(&head),
                Err(_) => {
                    self.counters.send_dropped += 1;
                    pool.give_back(frame);
                    continue;
                }
            }
            match self.nic.transmit(frame, seal) {
                Ok(()) => self.counters.count_sent(len),
                Err(frame) => {
                    self.counters.send_dropped += 1;
                    pool.give_back(frame);
                }
            }
        }
        true
    }
}

/// A locally administered address, always the same for an interface (FNV-1a of its name and
/// number).
pub(super) fn made_from(interface: &str, index: u32) -> MacAddress {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = interface.bytes().chain(index.to_be_bytes()).fold(0xcbf2_9ce4_8422_2325, step);
    let [_, _, _, a, b, c, d, e] = hash.to_be_bytes();
    MacAddress([2, a, b, c, d, e])
}

/// A card's settings for packets of up to `mtu` bytes.
pub(super) fn nic_settings(
    function: Option<u8>,
    mtu: usize,
    interrupts: Option<InterruptSettings>,
) -> NicSettings {
    let cycles = |us: u32| us * convoy_card::routed_mhz(function.unwrap_or(AES_GCM));
    NicSettings {
        function,
        frame_bytes: mtu + ethernet::HEADER_BYTES,
        line_mtu: None,
        interrupts: interrupts
            .map(|InterruptSettings { frames, us }| Interrupts { completions: frames, cycles: cycles(us) })
            .unwrap_or_default(),
    }
}

/// The packet in a frame from the line, of `len` bytes behind the Ethernet header, as long as it
/// was there; `None` if the frame has no room for the ICV.
fn packet_of(arrival: Arrival, len: usize, icv_bytes: usize) -> Option<Frame> {
    let Arrival { opened, mut frame } = arrival;
    frame.trim_front(ethernet::HEADER_BYTES).ok()?;
    frame.truncate(len);
    frame.append(icv_bytes).ok()?.fill(0);
    if let Some(sa) = opened {
        frame.set_offload(Offload::Opened { sa });
    }
    Some(frame)
}

impl Port for CardPort {
    fn description(&self) -> &PortDescription {
        &self.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        self.check()?;
        self.ask(pool);
        self.empty_outbox(pool);
        let before = burst.len();
        for _ in 0..limit {
            let Some(arrival) = self.nic.receive() else { break };
            self.accept(arrival, burst);
        }
        self.empty_outbox(pool);
        Ok(burst.len() - before)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        self.check()?;
        let room = if self.empty_outbox(pool) { self.nic.room().saturating_sub(OWN_PLACES) } else { 0 };
        let count = room.min(burst.len());
        let (now_ms, mtu) = (self.host.now_ms(), self.description.mtu);
        for frame in burst.drain(..count) {
            self.host.route(frame, mtu, now_ms, pool);
        }
        self.empty_outbox(pool);
        self.ask(pool);
        Ok(count)
    }

    fn seals(&self) -> bool {
        true
    }

    fn readable_fds(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(vec![self.nic.readable_fd()])
    }

    fn counters(&self) -> PortCounters {
        let send_dropped = self.counters.send_dropped + self.host.drops.total();
        PortCounters { send_dropped, ..self.counters }
    }

    fn tick(&mut self, pool: &mut FramePool) -> Result<(), PortError> {
        self.check()?;
        self.ask(pool);
        self.empty_outbox(pool);
        Ok(())
    }

    fn take_settings(&mut self, settings: &PortSettings) {
        if let Some(CardSettings { checks, .. }) = settings.of() {
            self.control.set_checks(checks.clone());
        }
    }

    fn device_counters(&self) -> Vec<(Cow<'static, str>, u64)> {
        let counters = self.control.counters();
        let mut all: Vec<_> = [
            ("encrypted", counters.sealed),
            ("decrypted", counters.opened),
            ("raw", counters.raw),
            ("passed", counters.passed),
            ("wrong_icv", counters.wrong_icv),
            ("malformed", counters.malformed),
            ("refused", counters.refused),
            ("overrun", counters.overrun),
            ("too_long", counters.too_long),
            ("completions", counters.completions),
            ("interrupts", counters.interrupts),
            ("lost", counters.lost),
            ("device_errors", counters.device_errors),
            ("line_errors", counters.line_errors),
            ("wrong_ip_checksum", counters.wrong_ip_checksum),
            ("wrong_udp_checksum", counters.wrong_udp_checksum),
            ("filtered_out", counters.filtered_out),
            ("filtered_in", counters.filtered_in),
        ]
        .into_iter()
        .chain(self.host.drops.by_reason())
        .map(|(name, count)| (name.into(), count))
        .collect();
        all.extend(filter::by_rule(&counters.filters));
        all.extend(signature::by_sid(&counters.signatures));
        all
    }
}
