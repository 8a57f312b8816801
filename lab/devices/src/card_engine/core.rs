//! The driver with the keys of one engine: multi-packets in, the same with their results out.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use convoy_card::{
    CardError, CardVerdict, CommandDirection as CardDirection, Driver, DriverPacket, Sa, routed_mhz,
};
use convoy_ipsec::{CryptoPacket, CryptoStatus, Direction, KeyMaterial, SaIndex, Transform};

use zeroize::Zeroize;

use super::clock::{BUS_MHZ, nanoseconds};
use super::esp;
use convoy_engine::KeyTable;
use convoy_engine::Processor;
use convoy_engine::{EngineError, Submission};

/// Card and keys.
pub(super) struct CardCore {
    name: String,
    driver: Driver,
    /// The SAs by index; their keys are the driver's alone.
    sas: HashMap<u32, Sa>,
    /// For jobs that are no ESP packet in the card's format: AH, and empty packets.
    reference: KeyTable,
    left_to_software: Arc<AtomicU64>,
    /// The card's time for the last multi-packets, in ns.
    took_ns: u64,
}

impl CardCore {
    /// A card with this function alone, or with those of the first model.
    pub(super) fn new(
        name: &str,
        function: Option<u8>,
        left_to_software: Arc<AtomicU64>,
    ) -> Result<Self, EngineError> {
        let driver = Driver::with_function(function)
            .map_err(|error| EngineError::Device { engine: name.to_owned(), reason: error.to_string() })?;
        let (sas, reference) = (HashMap::new(), KeyTable::default());
        Ok(Self { name: name.to_owned(), driver, sas, reference, left_to_software, took_ns: 0 })
    }

    /// `None` if the SA has no keys or the card failed.
    fn run(&mut self, submission: &mut Submission) -> Option<u64> {
        let Submission { sa, direction, packets, .. } = submission;
        let keys = self.sas.get(&sa.0)?;
        let function = self.driver.function(keys.algorithm)?;
        self.driver.set_bus(BUS_MHZ, routed_mhz(function));
        let before = self.driver.cycles();
        let verdicts = on_card(&mut self.driver, sa.0, keys, *direction, packets).ok()?;
        let cycles = self.driver.cycles().wrapping_sub(before);
        let reference = self.reference.get(*sa)?;
        for (packet, verdict) in packets.iter_mut().zip(verdicts) {
            match verdict {
                Some(CardVerdict::Done) => packet.status = CryptoStatus::Done,
                Some(CardVerdict::WrongIcv) => packet.status = CryptoStatus::IcvMismatch,
                Some(CardVerdict::Pending) => packet.status = CryptoStatus::Pending,
                None => {
                    self.left_to_software.fetch_add(1, Ordering::Relaxed);
                    reference.run(*direction, std::slice::from_mut(packet));
                }
            }
        }
        Some(nanoseconds(function, cycles))
    }
}

/// The card's verdict on each packet; `None` for one that it was not given.
fn on_card(
    driver: &mut Driver,
    number: u32,
    sa: &Sa,
    direction: Direction,
    prepared: &mut [CryptoPacket],
) -> Result<Vec<Option<CardVerdict>>, CardError> {
    let direction = match direction {
        Direction::Seal => CardDirection::Seal,
        Direction::Open => CardDirection::Open,
    };
    let mut verdicts = vec![None; prepared.len()];
    let mut places = Vec::with_capacity(prepared.len());
    let mut packets: Vec<DriverPacket<'_>> = Vec::with_capacity(prepared.len());
    for (at, prepared) in prepared.iter_mut().enumerate() {
        if let Some(packet) = esp::packet(number, sa, prepared) {
            places.push(at);
            packets.push(packet);
        }
    }
    driver.process(direction, &mut packets)?;
    for (at, packet) in places.into_iter().zip(packets) {
        verdicts[at] = Some(packet.verdict);
    }
    Ok(verdicts)
}

impl Processor for CardCore {
    fn transforms(&self) -> Vec<Transform> {
        let is_done = |transform: &Transform| {
            esp::algorithm(*transform).and_then(|algorithm| self.driver.function(algorithm)).is_some()
        };
        convoy_engine::transforms().into_iter().filter(is_done).collect()
    }

    fn install(&mut self, sa: SaIndex, keys: &KeyMaterial) {
        self.remove(sa);
        let Some(made) = esp::sa(keys) else { return };
        let mut shape = made.clone();
        shape.key.zeroize();
        shape.auth_key.zeroize();
        let is_taken = self.reference.install(&self.name, sa, keys).is_ok();
        if is_taken && self.driver.install(sa.0, made).is_ok() {
            self.sas.insert(sa.0, shape);
        }
    }

    fn remove(&mut self, sa: SaIndex) {
        self.reference.remove(sa);
        if self.sas.remove(&sa.0).is_some() && self.driver.remove(sa.0).is_err() {
            // A reset card has lost all its keys, this one included.
            let _ = self.driver.reset();
        }
    }

    fn process(&mut self, submissions: &mut [Submission]) -> bool {
        let took_ns = submissions.iter_mut().map(|submission| self.run(submission)).sum::<Option<u64>>();
        if took_ns.is_none() {
            // A failed card is reset; if that fails as well, so will the next multi-packet.
            let _ = self.driver.reset();
        }
        self.took_ns = took_ns.unwrap_or_default();
        took_ns.is_some()
    }

    fn took_ns(&self, _: Instant) -> u64 {
        self.took_ns
    }
}
