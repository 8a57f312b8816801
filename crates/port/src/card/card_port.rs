//! The card as the protected side's network interface: Ethernet on a line, ESP sealed and opened in flight.
//!
//! The port puts Ethernet headers on and takes them off, finds next hops by ARP of its own, and answers ARP and ICMP echo for its
//! addresses: the kernel has none on this interface. What the card has opened is handed up with its ICV's bytes as zeros, so
//! that lengths are as on the line, and the tag [`Offload::Opened`]; what is tagged [`Offload::Seal`] the card seals.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use convoy_card::line::{LINE_BYTES, Line};
use convoy_card::nic::{Arrival, NicControl, NicPort, OWN_PLACES, Seal, pair};
use convoy_packet::{Frame, FramePool, FrameSize, Ipv4, MacAddress, Offload, ethernet};

use super::identity::Identity;
use super::incoming::{Incoming, echo_reply};
use super::interface_line::InterfaceLine;
use super::neighbours::{Neighbours, Next};
use crate::{Port, PortCounters, PortDescription, PortError, PortKind};

/// The longest IP packet in a frame of the card's, in bytes.
const LONGEST_MTU: usize = LINE_BYTES - ethernet::HEADER_BYTES;
/// Bytes of a frame's room that an opened packet may need behind it.
pub(super) const ICV_ROOM: usize = 32;

/// How a `card` port is to be.
#[derive(Clone, Debug)]
pub struct CardConfig {
    /// The port's name, for example `outside`.
    pub name: String,
    /// The line: a Linux interface that is up and has no addresses of the kernel's.
    pub interface: String,
    /// The card's hardware address; without it one is made from the interface's name and number.
    pub mac: Option<MacAddress>,
    /// Its addresses, each with the length of its network's prefix in bits.
    pub addresses: Vec<(Ipv4Addr, u8)>,
    /// The router to all other networks.
    pub gateway: Option<Ipv4Addr>,
    /// The largest IP packet, in bytes; at most the interface's own and 9004.
    pub mtu: usize,
}

/// The `card` port.
pub struct CardPort {
    pub(super) description: PortDescription,
    pub(super) counters: PortCounters,
    pub(super) identity: Identity,
    pub(super) neighbours: Neighbours,
    /// Packets whose way is known, for which the card had no room.
    pub(super) outbox: VecDeque<(MacAddress, Frame)>,
    pub(super) control: NicControl,
    pub(super) nic: NicPort,
    pub(super) start: Instant,
}

impl CardPort {
    /// Opens the interface and makes the card; its thread begins when the port or the card's control is first used.
    ///
    /// # Errors
    /// [`PortError`] if the system refuses, for instance for want of CAP_NET_RAW, or the configuration cannot be; it says what to do.
    pub fn open(config: &CardConfig) -> Result<Self, PortError> {
        let line = InterfaceLine::open(&config.interface).map_err(|source| PortError::Io {
            port: config.name.clone(),
            action: format!("open the interface {} (run as root, or with CAP_NET_RAW)", config.interface),
            source,
        })?;
        if config.mtu > line.mtu() {
            let reason = format!(
                "its mtu = {} is more than the {} of the interface {}: lower it, or raise that with ip link set mtu",
                config.mtu,
                line.mtu(),
                config.interface
            );
            return Err(PortError::Invalid { port: config.name.clone(), reason });
        }
        let index = line.index();
        Self::on(Box::new(line), index, config)
    }

    /// A card on any line; `index` makes its hardware address where none is configured.
    ///
    /// # Errors
    /// [`PortError::Invalid`] if the configuration cannot be or there is no card.
    pub fn on(line: Box<dyn Line>, index: u32, config: &CardConfig) -> Result<Self, PortError> {
        let invalid = |reason| PortError::Invalid { port: config.name.clone(), reason };
        if config.mtu > LONGEST_MTU {
            return Err(invalid(format!(
                "its mtu = {} is more than the card's {LONGEST_MTU}: lower it",
                config.mtu
            )));
        }
        let identity = Identity::new(config, index).map_err(invalid)?;
        let (control, nic) = pair(line).map_err(|error| invalid(format!("its card: {error}")))?;
        Ok(Self {
            description: PortDescription { name: config.name.clone(), kind: PortKind::Card, mtu: config.mtu },
            counters: PortCounters::default(),
            identity,
            neighbours: Neighbours::default(),
            outbox: VecDeque::new(),
            control,
            nic,
            start: Instant::now(),
        })
    }

    /// Installs SAs on the card and reads its counters.
    pub fn control(&self) -> NicControl {
        self.control.clone()
    }

    /// Its hardware address.
    pub fn mac(&self) -> MacAddress {
        self.identity.mac
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    fn check(&self) -> Result<(), PortError> {
        if !self.nic.is_gone() {
            return Ok(());
        }
        let reason = "its card has failed for good; restart the gateway".to_owned();
        Err(PortError::Invalid { port: self.description.name.clone(), reason })
    }

    fn accept(&mut self, pool: &mut FramePool, arrival: &Arrival, burst: &mut Vec<Frame>) {
        match Incoming::read(&arrival.frame, arrival.opened.is_some(), &self.identity) {
            Incoming::Arp(message) => self.hear(&message),
            Incoming::Echo(from, request) => {
                if let Some(reply) = echo_reply(request) {
                    self.send_own(from, ethernet::IPV4, &reply);
                }
            }
            Incoming::Packet(packet, icv_bytes) => match frame_of(pool, arrival.opened, packet, icv_bytes) {
                Some(frame) => {
                    self.counters.received_packets += 1;
                    self.counters.received_bytes += frame.len() as u64;
                    burst.push(frame);
                }
                None => self.counters.receive_dropped += 1,
            },
            Incoming::NotOurs => self.counters.receive_dropped += 1,
        }
    }

    /// Finds a packet's way, which may have to be asked for.
    fn route(&mut self, pool: &mut FramePool, frame: Frame, now_ms: u64) {
        let dropped = match self.next_hop(&frame) {
            None => Some(frame),
            Some(next_hop) => match self.neighbours.route(next_hop, frame, now_ms) {
                Next::Send(to, frame) => {
                    self.outbox.push_back((to, frame));
                    None
                }
                Next::Waits(dropped) => dropped,
            },
        };
        if let Some(frame) = dropped {
            self.counters.send_dropped += 1;
            pool.give_back(frame);
        }
    }

    /// Gives the card what has found its way; `false` if it has no room.
    fn empty_outbox(&mut self, pool: &mut FramePool) -> bool {
        while let Some((to, frame)) = self.outbox.pop_front() {
            if self.nic.room() <= OWN_PLACES {
                self.outbox.push_front((to, frame));
                return false;
            }
            let head = ethernet::header(to, self.identity.mac, ethernet::IPV4);
            let seal = match frame.offload() {
                Offload::Seal { sa, esp_start, seq_high } => {
                    Some(Seal { sa, esp_at: esp_start + ethernet::HEADER_BYTES as u16, seq_high })
                }
                Offload::None | Offload::Opened { .. } => None,
            };
            if self.nic.transmit(&[&head, &frame], seal).is_ok() {
                self.counters.sent_packets += 1;
                self.counters.sent_bytes += frame.len() as u64;
            } else {
                self.counters.send_dropped += 1;
            }
            pool.give_back(frame);
        }
        true
    }

    /// The next hop of a packet that may leave.
    fn next_hop(&self, frame: &Frame) -> Option<Ipv4Addr> {
        // What a device has opened is plaintext that nobody has taken out of its packet.
        let is_opened = matches!(frame.offload(), Offload::Opened { .. });
        let packet = Ipv4::parse(frame).ok()?;
        let is_fit = frame.len() <= self.description.mtu && !is_opened;
        self.identity.next_hop(packet.destination()).filter(|_| is_fit)
    }
}

/// A frame with a packet from the line, as long as it was there.
fn frame_of(pool: &mut FramePool, opened: Option<u32>, packet: &[u8], icv_bytes: usize) -> Option<Frame> {
    let mut frame = pool.take(FrameSize::for_packet(packet.len(), ICV_ROOM)?)?;
    let is_filled = frame.fill(packet).is_ok() && frame.append(icv_bytes).map(|icv| icv.fill(0)).is_ok();
    if !is_filled {
        pool.give_back(frame);
        return None;
    }
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
            self.accept(pool, &arrival, burst);
        }
        self.empty_outbox(pool);
        Ok(burst.len() - before)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        self.check()?;
        let room = if self.empty_outbox(pool) { self.nic.room().saturating_sub(OWN_PLACES) } else { 0 };
        let count = room.min(burst.len());
        let now_ms = self.now_ms();
        for frame in burst.drain(..count) {
            self.route(pool, frame, now_ms);
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
        self.counters
    }

    fn device_counters(&self) -> Vec<(&'static str, u64)> {
        let counters = self.control.counters();
        vec![
            ("encrypted", counters.sealed),
            ("decrypted", counters.opened),
            ("raw", counters.raw),
            ("passed", counters.passed),
            ("wrong_icv", counters.wrong_icv),
            ("malformed", counters.malformed),
            ("refused", counters.refused),
            ("overrun", counters.overrun),
            ("lost", counters.lost),
            ("device_errors", counters.device_errors),
            ("line_errors", counters.line_errors),
        ]
    }
}
