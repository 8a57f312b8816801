//! The card as a network interface: what leaves is sealed in flight, what comes in is opened before
//! the host sees it.
//!
//! [`Nic`] is the driver alone: nothing in it waits, and the card works only in [`Nic::step`].
//! [`pair`] puts one on a thread. Every frame that is sent passes X1, those that are not to be
//! sealed too, so that order is kept.

mod counters;
mod halves;
mod incoming;
mod outgoing;
mod sas;
mod thread;

use std::collections::VecDeque;

pub use counters::NicCounters;
pub use halves::{Arrival, Full, NicControl, NicPort, OWN_PLACES, pair};

use crate::command::{PREFIX_BYTES, STATUS_BYTES};
use crate::device::{CYCLES, Device};
use crate::error::CardError;
use crate::line::{LINE_BYTES, Line};
use crate::rings::{RINGS_BYTES, Rings};
use crate::sa::{Inbound, Sa};
use sas::Sas;

/// Buffers each way.
const BUFFERS: usize = 64;
/// Bytes of one: any frame behind its prefix or status.
const BUFFER_BYTES: usize = (PREFIX_BYTES + LINE_BYTES).next_multiple_of(64);
const TRANSMIT_BUFFERS: usize = RINGS_BYTES;
const RECEIVE_BUFFERS: usize = TRANSMIT_BUFFERS + BUFFERS * BUFFER_BYTES;
const WINDOW_BYTES: usize = RECEIVE_BUFFERS + BUFFERS * BUFFER_BYTES;
/// Cycles in which something must come of what is under way: many times what the longest frame
/// takes in the slowest function.
const TIMEOUT_CYCLES: u64 = 500_000;
/// The cookie of packets; commands have that of their pipeline behind it.
const PACKET_COOKIE: u32 = 0;
/// Bytes of an ESP header.
const ESP_BYTES: usize = 8;

/// What is to be done with a frame in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The outbound SA's number.
    pub sa: u32,
    /// Where the ESP header begins, in bytes from the frame's start. Header and IV are written, the
    /// payload is plain with its ESP trailer, and the ICV's bytes at the frame's end are room.
    pub esp_at: u16,
    /// The upper half of an extended sequence number.
    pub seq_high: Option<[u8; 4]>,
}

/// What is under way in the card.
#[derive(Default)]
struct Flight {
    /// Buffers of the transmit ring that the card has not read yet, oldest first: how many bytes of
    /// each to wipe then.
    posted: VecDeque<usize>,
    /// Buffers of the transmit ring ever taken.
    buffers: usize,
    /// Commands without answer, by pipeline: what their place stands for when they are done.
    commands: [VecDeque<(u8, Option<u32>)>; 2],
    /// Packets that are neither on the line nor refused.
    leaving: u64,
    /// Frames from the line without status.
    arriving: u64,
    /// Cycles without any sign of work.
    silent: u64,
    /// Whether the doorbells are to be rung.
    is_rung: bool,
}

/// A frame that waits for room; its bytes are kept beside.
type Held = Option<usize>;

/// A card, its line, and all that the driver knows of it.
pub struct Nic {
    device: Device,
    rings: Rings,
    line: Box<dyn Line>,
    sas: Sas,
    /// Whose packets each place of X2's cache opens, as the statuses read so far say.
    opens: [Option<u32>; 256],
    flight: Flight,
    towards: (Held, Vec<u8>),
    from: (Held, Vec<u8>),
    losses: u32,
    counters: NicCounters,
    /// See [`Self::set_bus`].
    bus: (u32, u32),
}

impl Nic {
    /// A card out of reset on a line, without SAs.
    ///
    /// # Errors
    /// [`CardError`] if it does not answer as a GRIP card.
    pub fn new(line: Box<dyn Line>) -> Result<Self, CardError> {
        let mut device = Device::new(WINDOW_BYTES)?;
        let sas = Sas::new(device.built());
        let mut nic = Self {
            rings: Rings::start(&mut device),
            device,
            line,
            sas,
            opens: [None; 256],
            flight: Flight::default(),
            towards: (None, vec![0; LINE_BYTES]),
            from: (None, vec![0; LINE_BYTES]),
            losses: 0,
            counters: NicCounters::default(),
            bus: (1, 1),
        };
        nic.offer_all();
        Ok(nic)
    }

    /// Sets the clock of the host's bus against the card's, as
    /// [`Driver::set_bus`](crate::Driver::set_bus) does.
    pub fn set_bus(&mut self, bus_mhz: u32, card_mhz: u32) {
        self.bus = (bus_mhz, card_mhz);
        self.device.set_bus(bus_mhz, card_mhz);
    }

    /// The card's count of cycles since reset, which wraps.
    pub fn cycles(&mut self) -> u32 {
        self.device.read(CYCLES)
    }

    /// What has been counted so far.
    pub fn counters(&self) -> &NicCounters {
        &self.counters
    }

    /// Takes an SA under a number, in the place of what stood there: inbound with an SPI, else
    /// outbound. It holds for all packets that are transmitted after it.
    ///
    /// # Errors
    /// [`CardError::Unfit`] if the card has no function for it, its keys or its ICV are none that
    /// the card takes, another function is in the slot and in use, or another SA's SPI has its
    /// place in the map. What had the number is gone then, too.
    pub fn install(&mut self, number: u32, sa: Sa, inbound: Option<Inbound>) -> Result<(), CardError> {
        self.sas.install(number, sa, inbound)
    }

    /// Forgets an SA, here and on the card.
    pub fn remove(&mut self, number: u32) {
        self.sas.remove(number);
    }

    /// Lets the card work for some cycles, and gives what came from the line to `receive`: the SA
    /// that it was opened for, and the frame, without ICV and what followed it if it was opened.
    ///
    /// # Errors
    /// Any [`CardError`] but `Unfit`: call [`Self::reset`] then.
    pub fn step(
        &mut self,
        cycles: u64,
        receive: &mut dyn FnMut(Option<u32>, &[u8]),
    ) -> Result<(), CardError> {
        // A line without room makes the card's time stand still: frames on a wire cannot wait.
        if !self.hand_out()? {
            return Ok(());
        }
        self.take_in();
        self.post_orders();
        if self.flight.is_rung {
            self.rings.ring(&mut self.device);
            self.flight.is_rung = false;
        }
        self.device.run(cycles)?;
        self.flight.silent += cycles;
        self.complete(receive)?;
        self.hand_out()?;
        self.watch()
    }

    /// Whether nothing is under way: the card then has nothing to do until the next frame.
    pub fn is_idle(&self) -> bool {
        let flight = &self.flight;
        flight.posted.is_empty()
            && flight.commands.iter().all(VecDeque::is_empty)
            && flight.leaving + flight.arriving == 0
            && self.towards.0.is_none()
            && self.from.0.is_none()
            && self.sas.orders.is_empty()
    }

    /// Sets the card anew after an error. The SAs stay installed, what was under way is lost.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn reset(&mut self) -> Result<(), CardError> {
        self.counters.device_errors += 1;
        self.counters.lost += self.flight.leaving + self.flight.arriving;
        self.device = Device::new(WINDOW_BYTES)?;
        self.device.set_bus(self.bus.0, self.bus.1);
        self.rings = Rings::start(&mut self.device);
        (self.flight, self.opens, self.losses) = (Flight::default(), [None; 256], 0);
        self.sas.restore();
        self.offer_all();
        Ok(())
    }

    /// Whether a frame waits for room on the line.
    pub(crate) fn is_line_full(&self) -> bool {
        self.from.0.is_some()
    }

    /// The line, to wait for.
    pub(crate) fn line(&self) -> &dyn Line {
        &*self.line
    }

    fn offer_all(&mut self) {
        for buffer in 0..BUFFERS {
            self.rings.offer(&mut self.device, RECEIVE_BUFFERS + buffer * BUFFER_BYTES, BUFFER_BYTES);
        }
        self.flight.is_rung = true;
    }

    /// Frames from the line to the card, as many as it has room for.
    fn take_in(&mut self) {
        loop {
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

    /// Frames from the card to the line; `false` if that has no room.
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

const _: () = assert!(BUFFER_BYTES >= STATUS_BYTES + LINE_BYTES);

#[cfg(test)]
mod tests;
