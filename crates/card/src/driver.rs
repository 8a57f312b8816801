//! The card's driver: functions into the slots, SAs into the caches, packets through.

use std::collections::HashMap;

use crate::batch::{Batch, WINDOW_BYTES};
use crate::cache::Cache;
use crate::command::{Code, Direction, FRAME_BYTES, Operation, PREFIX_BYTES, Pipeline, Route, prefix};
use crate::device::{CYCLES, Device};
use crate::error::CardError;
use crate::rings::Answer;
use crate::sa::{Algorithm, Sa};

/// Bytes of an ESP header.
const ESP_BYTES: usize = 8;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet.
    Pending,
    /// Sealed, or opened and authentic.
    Done,
    /// The ICV is wrong; the packet is as it came.
    WrongIcv,
}

/// An ESP packet in the parts that the card wants, which are written back in place.
pub struct Packet<'a> {
    /// Whose keys.
    pub sa: u32,
    /// SPI and sequence number as they stand in the packet.
    pub esp: [u8; ESP_BYTES],
    /// The upper half of an extended sequence number.
    pub seq_high: Option<[u8; 4]>,
    /// As it stands in the packet.
    pub iv: &'a [u8],
    /// What is en- or decrypted, ESP trailer included.
    pub payload: &'a mut [u8],
    /// Written when sealing, compared when opening.
    pub icv: &'a mut [u8],
    /// What became of it.
    pub verdict: Verdict,
}

impl Packet<'_> {
    /// Bytes of the frame that the card gets or gives, at most.
    fn len(&self) -> usize {
        ESP_BYTES + self.iv.len() + self.payload.len() + self.icv.len()
    }
}

/// A command of the batch at hand: the number of its packet, or `None` for one of the driver's own.
type Posted = Option<usize>;

/// A card and all that the driver knows of it.
pub struct Driver {
    device: Device,
    batch: Batch,
    /// Functions built into X1 and X2, a bit each.
    built: [u16; 2],
    /// In their slots.
    active: [u8; 2],
    caches: [Cache; 2],
    sas: HashMap<u32, Sa>,
    posted: Vec<Posted>,
    /// Clocks of the host's bus in so many cycles of the card.
    bus: (u32, u32),
}

impl Driver {
    /// A card out of reset, turned on, with empty slots and caches.
    ///
    /// # Errors
    /// [`CardError`] if it does not answer as a GRIP card.
    pub fn new() -> Result<Self, CardError> {
        let mut device = Device::new(WINDOW_BYTES)?;
        let built = device.built();
        let batch = Batch::start(&mut device);
        Ok(Self {
            device,
            batch,
            built,
            active: [0; 2],
            caches: Default::default(),
            sas: HashMap::new(),
            posted: Vec::new(),
            bus: (1, 1),
        })
    }

    /// Sets the card anew after an error: out of reset, with empty slots and caches. The SAs stay
    /// installed.
    ///
    /// # Errors
    /// As for [`Driver::new`].
    pub fn reset(&mut self) -> Result<(), CardError> {
        let mut fresh = Self::new()?;
        fresh.set_bus(self.bus.0, self.bus.1);
        let sas = std::mem::take(&mut self.sas);
        *self = Self { sas, ..fresh };
        Ok(())
    }

    /// The function that both pipelines have for an algorithm; `None` if one of them cannot do it.
    pub fn function(&self, algorithm: Algorithm) -> Option<u8> {
        self.built.iter().zip(self.active).map(|(built, active)| algorithm.function(*built, active)).min()?
    }

    /// Sets the clock of the host's bus against the card's, which may be faster: its 64 bits move
    /// in `bus_mhz` of `card_mhz` cycles, as do a burst's addresses. Without this, and where the
    /// bus is the faster one, in every cycle.
    pub fn set_bus(&mut self, bus_mhz: u32, card_mhz: u32) {
        self.bus = (bus_mhz, card_mhz);
        self.device.set_bus(bus_mhz, card_mhz);
    }

    /// The card's count of cycles since reset, which wraps.
    pub fn cycles(&mut self) -> u32 {
        self.device.read(CYCLES)
    }

    /// Keeps an SA; the card gets it with its first packet. Replaces what stood under this number.
    ///
    /// # Errors
    /// [`CardError::Unfit`] if the card has no function for it, a key is too long, or the ICV has
    /// fewer than 8 bytes or more than 32; the card may be used on.
    pub fn install(&mut self, number: u32, sa: Sa) -> Result<(), CardError> {
        if self.function(sa.algorithm).is_none() || !sa.is_fit() {
            return Err(CardError::Unfit);
        }
        self.remove(number)?;
        self.sas.insert(number, sa);
        Ok(())
    }

    /// Forgets an SA, here and on the card.
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

    /// Seals or opens packets, in order, those of one SA in a row without loading its keys anew.
    ///
    /// # Errors
    /// Any [`CardError`]; packets may be half done.
    pub fn process(&mut self, direction: Direction, packets: &mut [Packet<'_>]) -> Result<(), CardError> {
        for at in 0..packets.len() {
            self.send(direction, at, packets)?;
        }
        self.flush(packets)
    }

    fn send(&mut self, direction: Direction, at: usize, packets: &mut [Packet<'_>]) -> Result<(), CardError> {
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
        let seal = direction == Direction::Seal;
        let sent = if seal { len - packets[at].icv.len() } else { len };
        if !self.batch.has_room(sent + PREFIX_BYTES, len) {
            self.flush(packets)?;
        }
        let packet = &packets[at];
        let route = Route::Host;
        let seq_high = packet.seq_high.unwrap_or_default();
        let operation = Operation::Crypto { direction, route, esp_at: 0, seq_high };
        let head = prefix(operation, place, sent as u16, self.batch.cookie());
        let icv: &[u8] = if seal { &[] } else { packet.icv };
        let parts = [&head[..], &packet.esp, packet.iv, packet.payload, icv];
        self.batch.post(&mut self.device, pipeline, &parts, len);
        self.posted.push(Some(at));
        Ok(())
    }

    /// Where the packet's SA lies in the cache, having put it there if it was not.
    fn place(&mut self, pipeline: Pipeline, at: usize, packets: &mut [Packet<'_>]) -> Result<u8, CardError> {
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
        packets: &mut [Packet<'_>],
    ) -> Result<(), CardError> {
        if !self.batch.has_room(PREFIX_BYTES + body.len(), 0) {
            self.flush(packets)?;
        }
        let head = prefix(operation, place, body.len() as u16, self.batch.cookie());
        self.batch.post(&mut self.device, pipeline, &[&head, body], 0);
        self.posted.push(None);
        Ok(())
    }

    /// Lets the card do what was posted, and brings the results home.
    fn flush(&mut self, packets: &mut [Packet<'_>]) -> Result<(), CardError> {
        if self.posted.is_empty() {
            return Ok(());
        }
        let answers = self.batch.run(&mut self.device)?;
        for (posted, answer) in self.posted.drain(..).zip(answers) {
            let answer = answer.ok_or(CardError::Unanswered)?;
            match (posted, answer.status.code) {
                (Some(at), Code::WrongIcv) => packets[at].verdict = Verdict::WrongIcv,
                (Some(at), Code::Ok) => conclude(&mut packets[at], &answer, &self.device)?,
                (None, Code::Ok) => {}
                (_, code) => return Err(CardError::Refused(code)),
            }
        }
        Ok(())
    }
}

/// Writes the result back: behind ESP header and IV the payload, and when sealing the ICV.
fn conclude(packet: &mut Packet<'_>, answer: &Answer, device: &Device) -> Result<(), CardError> {
    let frame = answer.frame(device);
    let result = frame.get(ESP_BYTES + packet.iv.len()..).unwrap_or_default();
    let (payload, icv) = result.split_at_checked(packet.payload.len()).ok_or(CardError::Unanswered)?;
    packet.payload.copy_from_slice(payload);
    if icv.len() == packet.icv.len() {
        packet.icv.copy_from_slice(icv);
    }
    packet.verdict = Verdict::Done;
    Ok(())
}
