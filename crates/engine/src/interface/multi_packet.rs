//! Packets that go to an engine together, and how they come back.

pub use convoy_ipsec::RunTemplate;
use convoy_ipsec::{BatchTemplate, CryptoPacket, Direction, SaIndex};

use super::EngineError;
#[cfg(doc)]
use super::Takes;

/// Packets of one direction that go to an engine together: of one SA, but for an engine that [takes
/// trains](Takes::Trains).
#[derive(Debug)]
pub struct MultiPacket {
    /// Given by the sender and returned in the [`Completion`].
    pub ticket: u64,
    /// Whose keys; of a train, those of the first packet. Each packet says its own.
    pub sa: SaIndex,
    /// Seal or open.
    pub direction: Direction,
    /// The packets, in order.
    pub packets: Vec<CryptoPacket>,
    /// How packets that are raw are laid out, run by run of one SA, for an engine that [takes
    /// trains](Takes::Trains). Empty where all are laid out.
    pub templates: Vec<RunTemplate>,
}

impl MultiPacket {
    /// Packets that are laid out.
    pub fn new(ticket: u64, sa: SaIndex, direction: Direction, packets: Vec<CryptoPacket>) -> Self {
        Self { ticket, sa, direction, packets, templates: Vec::new() }
    }

    /// Its part of the work, in bytes.
    fn work(&self) -> usize {
        self.packets.iter().map(|packet| packet.frame.len() + BYTES_OF_A_START).sum()
    }
}

/// Lays raw packets out, each run by its template; `random` gives the IVs of CBC.
pub fn lay_out(templates: &[RunTemplate], packets: &mut [CryptoPacket], random: &mut dyn FnMut(&mut [u8])) {
    for_each_run(templates, packets, |template, run| template.lay_out(run, random));
}

/// Makes opened packets plain, each run by its template.
pub fn open_up(templates: &[RunTemplate], packets: &mut [CryptoPacket]) {
    for_each_run(templates, packets, |template, run| template.open_up(run));
}

fn for_each_run(
    templates: &[RunTemplate],
    mut packets: &mut [CryptoPacket],
    mut work: impl FnMut(&BatchTemplate, &mut [CryptoPacket]),
) {
    for run in templates {
        let len = packets.len().min(run.packets as usize);
        let (these, rest) = packets.split_at_mut(len);
        if let Some(template) = &run.template {
            work(template, these);
        }
        packets = rest;
    }
}

/// Whether two packets have the same keys and the same is done to them.
pub(crate) fn is_one_run(one: &CryptoPacket, other: &CryptoPacket) -> bool {
    (one.sa, one.direction) == (other.sa, other.direction)
}

/// How a multi-packet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every packet has its result in `status`.
    Done,
    /// The engine failed; the packets' bytes may be half done.
    Failed,
}

/// A multi-packet on its way back.
#[derive(Debug)]
pub struct Completion {
    /// The multi-packet, in the order it was submitted.
    pub multi_packet: MultiPacket,
    /// How it ended.
    pub outcome: Outcome,
    /// When the engine began it and when it ended, in ns of [`std::time::Instant`]-like monotonic
    /// time as read by the engine; `None` if the engine cannot tell.
    pub service_ns: Option<u64>,
}

/// A multi-packet that was not taken: no room, or the engine is gone. Nothing was changed in it.
#[derive(Debug)]
pub struct Refused {
    /// As it was handed in.
    pub multi_packet: MultiPacket,
    /// Why.
    pub reason: EngineError,
}

/// What a packet takes beside its own bytes, in bytes that take as long.
const BYTES_OF_A_START: usize = 64;

/// Splits the time that multi-packets took together, in ns, by their bytes.
pub(crate) fn split_time(
    total_ns: u64,
    multi_packets: &[MultiPacket],
) -> impl Fn(&MultiPacket) -> u64 + use<> {
    let bytes: usize = multi_packets.iter().map(MultiPacket::work).sum();
    let ns_of_byte = total_ns as f64 / bytes.max(1) as f64;
    move |multi_packet| (ns_of_byte * multi_packet.work() as f64) as u64
}
