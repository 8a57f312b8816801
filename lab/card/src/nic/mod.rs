//! The card as a network interface: packets are sealed when they are sent, and opened before the
//! host receives them.
//!
//! [`Nic`] is the driver itself. Nothing in it blocks, and the card only works in [`Nic::step`].
//! [`pair`] runs one on its own thread. All frames that are sent pass X1, even those that are not
//! sealed, so that their order is kept.
//!
//! Nothing of a frame is copied: the card reads it where the sender wrote it, behind a prefix in
//! its headroom, and writes what comes into frames of the driver's pool, which it hands over.

mod checks;
mod counters;
mod fragments;
mod halves;
mod incoming;
mod outgoing;
mod receive_ring;
mod sas;
mod settings;
mod thread;

use std::collections::VecDeque;

pub use checks::{FilterCounts, SignatureCounts};
use convoy_packet::Frame;
pub use counters::NicCounters;
pub use halves::{Arrival, Full, NicControl, NicPort, OWN_PLACES, pair};
pub use settings::{Interrupts, NicSettings};

use crate::command::PREFIX_BYTES;
use crate::device::{CYCLES, Device, IRQ_ACK, LINE_MTU};
use crate::error::CardError;
use crate::line::{LINE_BYTES, Line};
use crate::model::Model;
use crate::rings::{RINGS_BYTES, Rings};
use crate::sa::{Inbound, Sa};
use checks::Wanted;
use receive_ring::ReceiveRing;
use sas::{Effect, Sas};

/// Frames that the card has in each direction. Frames to send are mapped as the spans from 0 on,
/// those to receive as the spans behind these.
const BUFFERS: usize = 64;
/// Room for a prefix and the longest body of a command.
const COMMAND_BYTES: usize = (PREFIX_BYTES + LONGEST_BODY).next_multiple_of(64);
const LONGEST_BODY: usize = 8 << 10;
const COMMANDS: usize = RINGS_BYTES;
const WINDOW_BYTES: usize = COMMANDS + BUFFERS * COMMAND_BYTES;
/// Cycles without progress after which the card has failed: many times what the longest frame takes
/// in the slowest function.
const TIMEOUT_CYCLES: u64 = 500_000;
/// The lowest byte of the cookie of packets; above it is the number of frames that they leave in.
/// Commands have the cookies that follow, by their pipeline.
const PACKET_COOKIE: u32 = 0;
/// Bits of that byte.
const COOKIE_BITS: u32 = 8;
/// Length of an ESP header, in bytes.
const ESP_BYTES: usize = 8;
/// Length of an Ethernet header, behind which that of IP begins.
const ETHERNET_BYTES: u16 = 14;

/// How to seal a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Number of the outbound SA.
    pub sa: u32,
    /// Offset of the ESP header in the frame, in bytes. ESP header and IV are already written, the
    /// payload is plaintext with its ESP trailer, and the frame ends with room for the ICV.
    pub esp_at: u16,
    /// The upper half of an extended sequence number; `None` without ESN.
    pub seq_high: Option<[u8; 4]>,
}

/// Work that is under way in the card.
#[derive(Default)]
struct Flight {
    /// What the card has not read yet, oldest first.
    posted: VecDeque<Posted>,
    /// Number of descriptors posted so far.
    count: usize,
    /// Commands without an answer, by pipeline: what is so once each is done.
    commands: [VecDeque<Effect>; 2],
    /// Frames to the line of packets that are neither sent nor refused yet.
    leaving: u64,
    /// Frames from the line that have no status yet.
    arriving: u64,
    /// Cycles without progress.
    silent: u64,
    /// Whether the doorbells have to be rung.
    is_rung: bool,
}

/// What the card is to read.
struct Posted {
    /// The number of bytes of the window to wipe afterwards.
    wipe: usize,
    /// The frame with its prefix; `None` for a command.
    frame: Option<Frame>,
}

/// Length of a frame that waits for room; its bytes are stored separately.
type Held = Option<usize>;

/// A card and its line, with the driver's record of their state.
pub struct Nic {
    device: Device,
    rings: Rings,
    line: Box<dyn Line>,
    sas: Sas,
    wanted: Wanted,
    /// For each place of X2's cache, the number of the SA in it, according to the statuses read so
    /// far.
    opens: [Option<u32>; 256],
    flight: Flight,
    receiving: ReceiveRing,
    interrupts: Interrupts,
    line_mtu: Option<u16>,
    towards: (Held, Vec<u8>),
    from: (Held, Vec<u8>),
    losses: u32,
    counters: NicCounters,
    /// See [`Self::set_bus`].
    bus: Option<(u32, u32)>,
}

impl Nic {
    /// Makes a card on a line: reset, without SAs, and as [`NicSettings::default`] says.
    ///
    /// # Errors
    /// As for [`Self::with`].
    pub fn new(line: Box<dyn Line>) -> Result<Self, CardError> {
        Self::with(line, &NicSettings::default())
    }

    /// Makes a card on a line: reset, and without SAs.
    ///
    /// # Errors
    /// [`CardError`] if it does not identify itself as a GRIP card, there is no such function, or
    /// the process has no packet memory left.
    pub fn with(line: Box<dyn Line>, settings: &NicSettings) -> Result<Self, CardError> {
        let mut device = Device::new(Model::with(settings.function)?, WINDOW_BYTES)?;
        let sas = Sas::new(device.functions());
        let receiving = ReceiveRing::new(settings.frame_bytes)?;
        let mut nic = Self {
            rings: Rings::start(&mut device),
            device,
            line,
            sas,
            wanted: Wanted::default(),
            opens: [None; 256],
            flight: Flight::default(),
            receiving,
            interrupts: settings.interrupts,
            line_mtu: settings.line_mtu,
            towards: (None, vec![0; LINE_BYTES]),
            from: (None, vec![0; LINE_BYTES]),
            losses: 0,
            counters: NicCounters::default(),
            bus: None,
        };
        nic.begin();
        Ok(nic)
    }

    /// Sets the clocks of the card and of the host's bus; see
    /// [`Driver::set_bus`](crate::Driver::set_bus).
    pub fn set_bus(&mut self, bus_mhz: u32, card_mhz: u32) {
        self.bus = Some((bus_mhz, card_mhz));
        self.device.set_bus(bus_mhz, card_mhz);
    }

    /// The card's cycle counter since reset, which wraps.
    pub fn cycles(&mut self) -> u32 {
        self.device.read(CYCLES)
    }

    /// Counters since the card was made.
    pub fn counters(&self) -> &NicCounters {
        &self.counters
    }

    /// Installs an SA, replacing an earlier one with this number: inbound if an SPI is given, else
    /// outbound. It applies to all packets that are transmitted afterwards.
    ///
    /// # Errors
    /// [`CardError::Unfit`] if the card has no function for it or does not support its keys or ICV,
    /// if the slot holds another function that is in use, or if another SA occupies the place of
    /// its SPI in the map. An earlier SA with this number is removed even then.
    pub fn install(&mut self, number: u32, sa: Sa, inbound: Option<Inbound>) -> Result<(), CardError> {
        self.sas.install(number, sa, inbound)
    }

    /// Removes an SA from the driver and the card.
    pub fn remove(&mut self, number: u32) {
        self.sas.remove(number);
    }

    /// Runs the card until it interrupts, for some cycles at most, and passes frames from the line
    /// to `receive`: the number of the SA with which the frame was opened, if it was, and the
    /// frame. An opened frame ends before its ICV. There is room for that behind it, and before it
    /// for headers.
    ///
    /// # Errors
    /// Any [`CardError`] but `Unfit`; call [`Self::reset`] then.
    pub fn step(
        &mut self,
        cycles: u64,
        receive: &mut dyn FnMut(Option<u32>, Frame),
    ) -> Result<(), CardError> {
        // The card is not clocked while the line has no room, because a frame on a wire cannot be
        // paused.
        if !self.hand_out()? {
            return Ok(());
        }
        let was_held = self.wanted.holds_line();
        self.take_in();
        self.post_orders();
        if self.flight.is_rung {
            self.rings.ring(&mut self.device);
            self.flight.is_rung = false;
        }
        if self.device.run(cycles)? {
            self.counters.interrupts += 1;
            self.complete(receive)?;
            self.device.write(IRQ_ACK, 1);
        } else {
            self.flight.silent += cycles;
        }
        if was_held {
            // The card is not idle if frames waited for its table.
            self.take_in();
        }
        self.hand_out()?;
        self.watch()
    }

    /// Whether nothing is under way, so that the card has no work until the next frame.
    pub fn is_idle(&self) -> bool {
        let flight = &self.flight;
        flight.posted.is_empty()
            && flight.commands.iter().all(VecDeque::is_empty)
            && flight.leaving + flight.arriving == 0
            && self.towards.0.is_none()
            && self.from.0.is_none()
            && self.sas.orders.is_empty()
    }

    /// Replaces the card after an error. The SAs stay installed; packets under way are lost.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn reset(&mut self) -> Result<(), CardError> {
        self.counters.device_errors += 1;
        self.counters.lost += self.flight.leaving + self.flight.arriving;
        self.device = Device::new(self.device.model(), WINDOW_BYTES)?;
        if let Some((bus_mhz, card_mhz)) = self.bus {
            self.device.set_bus(bus_mhz, card_mhz);
        }
        self.rings = Rings::start(&mut self.device);
        (self.flight, self.opens, self.losses) = (Flight::default(), [None; 256], 0);
        self.sas.restore();
        self.restore_checks();
        self.begin();
        Ok(())
    }

    /// Whether a frame waits for room on the line.
    pub(crate) fn is_line_full(&self) -> bool {
        self.from.0.is_some()
    }

    /// The line, for the thread to wait for.
    pub(crate) fn line(&self) -> &dyn Line {
        &*self.line
    }

    /// Prepares a card that was just reset.
    fn begin(&mut self) {
        self.interrupts.request(&mut self.device);
        self.device.write(LINE_MTU, self.line_mtu.unwrap_or_default().into());
        self.receiving.fill(&mut self.rings, &mut self.device);
        self.flight.is_rung = true;
    }

    /// Moves frames from the line to the card, as many as it has room for.
    fn take_in(&mut self) {
        while !self.wanted.holds_line() {
            let (held, buffer) = &mut self.towards;
            if held.is_none() {
                match self.line.receive(buffer) {
                    Ok(received) => *held = received,
                    Err(_) => self.counters.line_errors += 1,
                }
            }
            let Some(len) = *held else { return };
            if !self.device.line_offer(&buffer[..len]) {
                return;
            }
            *held = None;
            self.flight.arriving += 1;
        }
    }

    /// Moves frames from the card to the line; `false` if the line has no room.
    fn hand_out(&mut self) -> Result<bool, CardError> {
        loop {
            let (held, buffer) = &mut self.from;
            if held.is_none() {
                *held = self.device.line_take(buffer)?;
                if held.is_some() {
                    self.flight.silent = 0;
                    self.flight.leaving = self.flight.leaving.saturating_sub(1);
                }
            }
            let Some(len) = *held else { return Ok(true) };
            match self.line.send(&buffer[..len]) {
                Ok(true) => self.counters.sent += 1,
                Ok(false) => return Ok(false),
                Err(_) => self.counters.line_errors += 1,
            }
            *held = None;
        }
    }
}

#[cfg(test)]
mod tests;
