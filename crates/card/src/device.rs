//! A card with the memory it sees: registers, and time.

use crate::driver::CardError;
use crate::ffi::{Card, Ran};

pub(crate) const ID: u8 = 0x00;
pub(crate) const CONTROL: u8 = 0x04;
pub(crate) const CAPABILITIES: u8 = 0x08;
pub(crate) const TRANSMIT: u8 = 0x10;
pub(crate) const RECEIVE: u8 = 0x20;
pub(crate) const COMPLETION: u8 = 0x30;
pub(crate) const IRQ_COUNT: u8 = 0x40;
pub(crate) const IRQ_ACK: u8 = 0x48;
pub(crate) const CYCLES: u8 = 0x64;

const GRIP: u32 = u32::from_be_bytes(*b"GRIP");

/// A card and its window of host memory.
pub(crate) struct Device {
    card: Card,
    pub(crate) memory: Vec<u8>,
}

impl Device {
    /// A card that answers with its identification.
    pub(crate) fn new(window_bytes: usize) -> Result<Self, CardError> {
        let card = Card::new().ok_or(CardError::Absent)?;
        let mut device = Self { card, memory: vec![0; window_bytes] };
        let id = device.read(ID);
        if id == GRIP { Ok(device) } else { Err(CardError::NotGrip(id)) }
    }

    pub(crate) fn read(&mut self, address: u8) -> u32 {
        self.card.read(&mut self.memory, address)
    }

    pub(crate) fn write(&mut self, address: u8, value: u32) {
        self.card.write(&mut self.memory, address, value);
    }

    /// Lets the card work until it interrupts.
    pub(crate) fn run(&mut self, cycles: u64) -> Result<(), CardError> {
        match self.card.run(&mut self.memory, cycles) {
            Ran::Interrupt => Ok(()),
            Ran::OutOfCycles => Err(CardError::Silent(cycles)),
            Ran::Strayed => Err(CardError::Strayed),
        }
    }
}
