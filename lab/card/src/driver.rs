//! The lookaside driver: loads functions into the slots and SAs into the caches, and has packets
//! sealed and opened.
//!
//! The card reads payload and ICV where they are in the host's memory, and writes the result there,
//! by scatter-gather tables; only headers are copied. Packets up to [`COPY_BYTES`] are copied
//! whole.

#![allow(unsafe_code)]

use std::collections::HashMap;

use crate::batch::{Beside, CardBatch, WINDOW_BYTES};
use crate::cache::Cache;
use crate::command::{Code, CommandDirection, FRAME_BYTES, Operation, PREFIX_BYTES, Pipeline, Route, prefix};
use crate::device::{CYCLES, Device, Segment};
use crate::error::CardError;
use crate::ffi::Span;
use crate::model::Model;
use crate::sa::{Algorithm, Sa};

/// Length of an ESP header, in bytes.
const ESP_BYTES: usize = 8;
/// Payloads of up to this many bytes are copied, because reading a table costs the card more than
/// copying them costs the host (docs/lab/results/card.md, "Scatter-gather").
pub const COPY_BYTES: usize = 256;
/// Spans of a packet: its payload and its ICV.
const SPANS: usize = 2;

/// Result for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardVerdict {
    /// Not processed yet.
    Pending,
    /// The packet was sealed, or was opened and is authentic.
    Done,
    /// The ICV is wrong; the packet is unchanged.
    WrongIcv,
}

/// The parts of an ESP packet that the card needs. Results are written in place.
pub struct DriverPacket<'a> {
    /// Number of the SA.
    pub sa: u32,
    /// SPI and sequence number, as in the packet.
    pub esp: [u8; ESP_BYTES],
    /// The upper half of an extended sequence number; `None` without ESN.
    pub seq_high: Option<[u8; 4]>,
    /// The IV, as in the packet.
    pub iv: &'a [u8],
    /// The part to encrypt or decrypt, with the ESP trailer.
    pub payload: &'a mut [u8],
    /// The ICV: written when sealing, compared when opening.
    pub icv: &'a mut [u8],
    /// The result.
    pub verdict: CardVerdict,
}

impl DriverPacket<'_> {
    /// Length of the longest frame to or from the card for this packet, in bytes.
    fn len(&self) -> usize {
        ESP_BYTES + self.iv.len() + self.payload.len() + self.icv.len()
    }

    /// Whether a frame of this length is the packet sealed, or opened.
    fn is_result(&self, len: usize) -> bool {
        len == self.len() || len == self.len() - self.icv.len()
    }
}

/// A posted command: the index of its packet, or `None` for the driver's own commands.
type PostedPacket = Option<usize>;

/// A card, with the driver's record of its state.
pub struct Driver {
    device: Device,
    batch: CardBatch,
    /// Masks of the functions that X1 and X2 may have.
    built: [u16; 2],
    /// Functions in their slots; 0 is none.
    active: [u8; 2],
    caches: [Cache; 2],
    sas: HashMap<u32, Sa>,
    posted: Vec<PostedPacket>,
    /// Payloads up to this length are copied, in bytes.
    copy_bytes: usize,
    /// Bus clocks per card cycles, as a ratio.
    bus: Option<(u32, u32)>,
}

impl Driver {
    /// Makes a card that is reset and enabled, with empty slots and caches, and with the functions
    /// of the first model.
    ///
    /// # Errors
    /// [`CardError`] if it does not identify itself as a GRIP card.
    pub fn new() -> Result<Self, CardError> {
        Self::with_function(None)
    }

    /// Makes a card with one function alone, if its id is given ([`crate::PROPOSALS`]).
    ///
    /// # Errors
    /// [`CardError::NoFunction`] if there is no such function; as for [`Driver::new`].
    pub fn with_function(function: Option<u8>) -> Result<Self, CardError> {
        Self::of_model(Model::with(function)?)
    }

    fn of_model(model: Model) -> Result<Self, CardError> {
        let mut device = Device::new(model, WINDOW_BYTES)?;
        let built = device.functions();
        let batch = CardBatch::start(&mut device);
        Ok(Self {
            device,
            batch,
            built,
            active: [0; 2],
            caches: Default::default(),
            sas: HashMap::new(),
            posted: Vec::new(),
            copy_bytes: COPY_BYTES,
            bus: None,
        })
    }

    /// Replaces the card after an error by one that is reset, with empty slots and caches. The SAs
    /// stay installed in the driver.
    ///
    /// # Errors
    /// As for [`Driver::new`].
    pub fn reset(&mut self) -> Result<(), CardError> {
        let mut fresh = Self::of_model(self.device.model())?;
        if let Some((bus_mhz, card_mhz)) = self.bus {
            fresh.set_bus(bus_mhz, card_mhz);
        }
        let sas = std::mem::take(&mut self.sas);
        *self = Self { sas, copy_bytes: self.copy_bytes, ..fresh };
        Ok(())
    }

    /// The function for an algorithm; `None` if one of the pipelines lacks it.
    pub fn function(&self, algorithm: Algorithm) -> Option<u8> {
        self.built.iter().zip(self.active).map(|(built, active)| algorithm.function(*built, active)).min()?
    }

    /// Sets the rates of the card and of the host's bus: the bus transfers a 64-bit word, or a
    /// burst's address, in `bus_mhz` of `card_mhz` cycles, and the line, at
    /// [`LINE_MHZ`](crate::LINE_MHZ), is relative to the card's clock too. By default the clock is
    /// the routed one with the first function, and the bus transfers in every cycle, as it does if
    /// it is the faster one.
    pub fn set_bus(&mut self, bus_mhz: u32, card_mhz: u32) {
        self.bus = Some((bus_mhz, card_mhz));
        self.device.set_bus(bus_mhz, card_mhz);
    }

    /// Sets up to which length payloads are copied, in bytes, instead of [`COPY_BYTES`].
    pub fn set_copy_bytes(&mut self, copy_bytes: usize) {
        self.copy_bytes = copy_bytes;
    }

    /// The card's cycle counter since reset, which wraps.
    pub fn cycles(&mut self) -> u32 {
        self.device.read(CYCLES)
    }

    /// Installs an SA, replacing an earlier one with this number. The card gets it with its first
    /// packet.
    ///
    /// # Errors
    /// [`CardError::Unfit`] if the card has no function for it, a key is too long, or the ICV has
    /// fewer than 8 or more than 32 bytes; the card remains usable.
    pub fn install(&mut self, number: u32, sa: Sa) -> Result<(), CardError> {
        if self.function(sa.algorithm).is_none() || !sa.is_fit() {
            return Err(CardError::Unfit);
        }
        self.remove(number)?;
        self.sas.insert(number, sa);
        Ok(())
    }

    /// Removes an SA from the driver and the card.
    ///
    /// # Errors
    /// Any [`CardError`].
    pub fn remove(&mut self, number: u32) -> Result<(), CardError> {
        self.sas.remove(&number);
        for pipeline in [Pipeline::X1, Pipeline::X2] {
            for place in self.caches[pipeline as usize].remove(number) {
                self.command(pipeline, Operation::SaRemove, place, &[], &mut [])?;
            }
        }
        self.flush(&mut [])
    }

    /// Seals or opens packets, in order. Consecutive packets of one SA load its keys once.
    ///
    /// # Errors
    /// Any [`CardError`]; some packets may be done then, and others not.
    pub fn process(
        &mut self,
        direction: CommandDirection,
        packets: &mut [DriverPacket<'_>],
    ) -> Result<(), CardError> {
        for at in 0..packets.len() {
            self.send(direction, at, packets)?;
        }
        self.flush(packets)
    }

    fn send(
        &mut self,
        direction: CommandDirection,
        at: usize,
        packets: &mut [DriverPacket<'_>],
    ) -> Result<(), CardError> {
        let pipeline = direction.pipeline();
        let sa = self.sas.get(&packets[at].sa).ok_or(CardError::Unfit)?;
        let len = packets[at].len();
        let is_fit = packets[at].iv.len() == sa.algorithm.cipher.iv_bytes()
            && packets[at].icv.len() == usize::from(sa.icv_bytes)
            && !packets[at].payload.is_empty()
            && len <= FRAME_BYTES;
        let function = sa.algorithm.function(self.built[pipeline as usize], self.active[pipeline as usize]);
        let function = function.filter(|_| is_fit).ok_or(CardError::Unfit)?;
        if function != self.active[pipeline as usize] {
            self.command(pipeline, Operation::SlotLoad(function), 0, &[], packets)?;
            self.active[pipeline as usize] = function;
        }
        let place = self.place(pipeline, at, packets)?;
        let seal = direction == CommandDirection::Seal;
        let sent = if seal { len - packets[at].icv.len() } else { len };
        if !self.batch.has_room(sent + PREFIX_BYTES, len) {
            self.flush(packets)?;
        }
        let packet = &packets[at];
        let route = Route::Host;
        let seq_high = packet.seq_high.unwrap_or_default();
        let operation = Operation::Crypto { direction, route, esp_at: 0, seq_high };
        let head = prefix(operation, place, sent as u16, self.batch.cookie());
        if packet.payload.len() <= self.copy_bytes {
            let icv: &[u8] = if seal { &[] } else { packet.icv };
            let parts = [&head[..], &packet.esp, packet.iv, packet.payload, icv];
            let beside = Beside { answer: len, ..Beside::default() };
            self.batch.post(&mut self.device, pipeline, &parts, &beside);
        } else {
            let [payload, icv] = self.segments(packet);
            let (whole, payload_alone) = ([payload, icv], [payload]);
            let (sent, received): (&[_], &[_]) =
                if seal { (&payload_alone, &whole) } else { (&whole, &payload_alone) };
            let beside = Beside { sent, answer: ESP_BYTES + packet.iv.len(), received };
            self.batch.post(&mut self.device, pipeline, &[&head, &packet.esp, packet.iv], &beside);
        }
        self.posted.push(Some(at));
        Ok(())
    }

    /// Where the card will find payload and ICV of the packet that is posted next.
    fn segments(&self, packet: &DriverPacket<'_>) -> [Segment; SPANS] {
        let first = SPANS * self.posted.len();
        [Segment::mapped(first, packet.payload), Segment::mapped(first + 1, packet.icv)]
    }

    /// Maps what the posted packets have outside the window, and returns the number of bytes.
    fn map(&mut self, packets: &mut [DriverPacket<'_>]) -> usize {
        let mut bytes = 0;
        for (posted, at) in self.posted.iter().enumerate().filter_map(|(posted, at)| Some((posted, (*at)?))) {
            let packet = &mut packets[at];
            if packet.payload.len() <= self.copy_bytes {
                continue;
            }
            bytes += packet.payload.len() + packet.icv.len();
            for (span, place) in (SPANS * posted..).zip([&mut *packet.payload, &mut *packet.icv]) {
                // SAFETY: the packets stay borrowed until `flush` has run the card and unmapped
                // them, and nothing else uses them in the meantime.
                self.device.map(span, unsafe { Span::new(place.as_mut_ptr(), place.len()) });
            }
        }
        bytes
    }

    /// The place of the packet's SA in the cache, into which it is loaded if necessary.
    fn place(
        &mut self,
        pipeline: Pipeline,
        at: usize,
        packets: &mut [DriverPacket<'_>],
    ) -> Result<u8, CardError> {
        let name = (packets[at].sa, packets[at].seq_high.is_some());
        if let Some(place) = self.caches[pipeline as usize].find(name) {
            return Ok(place);
        }
        let body = self.sas.get(&name.0).ok_or(CardError::Unfit)?.body(name.1, None);
        let place = self.caches[pipeline as usize].place(name);
        self.command(pipeline, Operation::SaInstall, place, &body[..], packets)?;
        Ok(place)
    }

    fn command(
        &mut self,
        pipeline: Pipeline,
        operation: Operation,
        place: u8,
        body: &[u8],
        packets: &mut [DriverPacket<'_>],
    ) -> Result<(), CardError> {
        if !self.batch.has_room(PREFIX_BYTES + body.len(), 0) {
            self.flush(packets)?;
        }
        let head = prefix(operation, place, body.len() as u16, self.batch.cookie());
        self.batch.post(&mut self.device, pipeline, &[&head, body], &Beside::default());
        self.posted.push(None);
        Ok(())
    }

    /// Has the card process the posted commands, and writes the results to the packets.
    fn flush(&mut self, packets: &mut [DriverPacket<'_>]) -> Result<(), CardError> {
        if self.posted.is_empty() {
            return Ok(());
        }
        let mapped_bytes = self.map(packets);
        let answers = self.batch.run(&mut self.device, mapped_bytes);
        self.device.unmap_all();
        let answers = answers?;
        let copy_bytes = self.copy_bytes;
        for (posted, answer) in self.posted.drain(..).zip(answers) {
            let answer = answer.ok_or(CardError::Unanswered)?;
            match (posted, answer.status.code) {
                (Some(at), Code::WrongIcv) => packets[at].verdict = CardVerdict::WrongIcv,
                (Some(at), Code::Ok) => {
                    if packets[at].payload.len() <= copy_bytes {
                        copy_back(&mut packets[at], answer.frame(&self.device))?;
                    } else if !packets[at].is_result(answer.status.len.into()) {
                        return Err(CardError::Unanswered);
                    }
                    packets[at].verdict = CardVerdict::Done;
                }
                (None, Code::Ok) => {}
                (_, code) => return Err(CardError::Refused(code)),
            }
        }
        Ok(())
    }
}

/// Copies the result into the packet: the payload, and when sealing the ICV, which follow ESP
/// header and IV.
fn copy_back(packet: &mut DriverPacket<'_>, frame: &[u8]) -> Result<(), CardError> {
    let result = frame.get(ESP_BYTES + packet.iv.len()..).unwrap_or_default();
    let (payload, icv) = result.split_at_checked(packet.payload.len()).ok_or(CardError::Unanswered)?;
    packet.payload.copy_from_slice(payload);
    if icv.len() == packet.icv.len() {
        packet.icv.copy_from_slice(icv);
    }
    Ok(())
}
