//! A train on its way to an engine, and its completion.

pub use convoy_ipsec::RunTemplate;
use convoy_ipsec::{BatchTemplate, CryptoPacket, Direction, SaIndex};

use super::EngineError;
#[cfg(doc)]
use super::Takes;

/// A train with what an engine must know of it: packets of one direction that go to an engine
/// together. They are of one SA, unless the engine [takes trains](Takes::Trains) of several.
#[derive(Debug)]
pub struct Submission {
    /// Chosen by the sender and returned in the [`Completion`].
    pub ticket: u64,
    /// The SA of the first packet. Each packet names its own.
    pub sa: SaIndex,
    /// Seal or open.
    pub direction: Direction,
    /// The packets, in order.
    pub packets: Vec<CryptoPacket>,
    /// How raw packets are laid out, run by run of one SA, for an engine that [takes
    /// trains](Takes::Trains). Empty if all are laid out.
    pub templates: Vec<RunTemplate>,
}

impl Submission {
    /// A submission of packets that are laid out.
    pub fn new(ticket: u64, sa: SaIndex, direction: Direction, packets: Vec<CryptoPacket>) -> Self {
        Self { ticket, sa, direction, packets, templates: Vec::new() }
    }

    /// Its share of the work, in bytes.
    fn work(&self) -> usize {
        self.packets.iter().map(|packet| packet.frame.len() + BYTES_OF_A_START).sum()
    }
}

/// Lays raw packets out, each run by its template; `random` generates the IVs of CBC.
pub fn lay_out(templates: &[RunTemplate], packets: &mut [CryptoPacket], random: &mut dyn FnMut(&mut [u8])) {
    for_each_run(templates, packets, |template, run| template.lay_out(run, random));
}

/// Turns opened packets into plain ones, each run by its template.
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

/// Whether two packets have the same keys and direction.
pub(crate) fn is_one_run(one: &CryptoPacket, other: &CryptoPacket) -> bool {
    (one.sa, one.direction) == (other.sa, other.direction)
}

/// The outcome of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every packet has its result in `status`.
    Done,
    /// The engine failed; the packets' bytes may be half processed.
    Failed,
}

/// A finished submission.
#[derive(Debug)]
pub struct Completion {
    /// What was submitted, its packets in the same order.
    pub submission: Submission,
    /// How it ended.
    pub outcome: Outcome,
    /// The engine's time for it, from start to end, in ns of monotonic time as measured by the
    /// engine; `None` if it cannot tell.
    pub service_ns: Option<u64>,
}

/// A submission that was not accepted: no room, or the engine is gone. It is unchanged.
#[derive(Debug)]
pub struct Refused {
    /// As it was handed in.
    pub submission: Submission,
    /// The reason.
    pub reason: EngineError,
}

/// The fixed time of a packet, as a number of bytes that take as long.
const BYTES_OF_A_START: usize = 64;

/// Splits the time that submissions took together, in ns, by their bytes.
pub(crate) fn split_time(total_ns: u64, submissions: &[Submission]) -> impl Fn(&Submission) -> u64 + use<> {
    let bytes: usize = submissions.iter().map(Submission::work).sum();
    let ns_of_byte = total_ns as f64 / bytes.max(1) as f64;
    move |submission| (ns_of_byte * submission.work() as f64) as u64
}
