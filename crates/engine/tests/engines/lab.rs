//! Runs cases on every engine that supports their algorithm, and counts them.

use data_encoding::HEXLOWER;
use std::collections::BTreeMap;

use convoy_engine::{Completion, Engine, Outcome, Submission};
use convoy_ipsec::{CryptoPacket, CryptoStatus, Direction, Transform};
use convoy_packet::FramePool;

use crate::case::{Case, SA};
use crate::roster::every_engine;

/// The number of cases that were run on each engine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) valid: usize,
    pub(crate) invalid: usize,
}

pub(crate) struct Lab {
    pub(crate) pool: FramePool,
    pub(crate) engines: Vec<Box<dyn Engine>>,
    tallies: BTreeMap<String, Tally>,
}

/// Submits packets as one multi-packet and waits until it is done.
pub(crate) fn complete(
    engine: &mut dyn Engine,
    direction: Direction,
    mut packets: Vec<CryptoPacket>,
) -> Vec<CryptoPacket> {
    let count = packets.len();
    packets.iter_mut().for_each(|packet| packet.direction = direction);
    let submission = Submission::new(7, SA, direction, packets);
    engine.submit(submission).unwrap_or_else(|refused| panic!("{}", refused.reason));
    let mut completions: Vec<Completion> = Vec::new();
    while engine.in_flight() > 0 {
        engine.poll(&mut completions);
        std::thread::yield_now();
    }
    let completion = completions.pop().expect("one multi-packet was submitted");
    assert!(completions.is_empty());
    assert_eq!((completion.outcome, completion.submission.ticket), (Outcome::Done, 7));
    assert_eq!(completion.submission.packets.len(), count);
    completion.submission.packets
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self {
            pool: FramePool::new(256, 160).with_huge(80),
            engines: every_engine(),
            tallies: BTreeMap::new(),
        }
    }

    /// With the engines that support this transform alone.
    pub(crate) fn of(transform: Transform) -> Self {
        let mut lab = Self::new();
        lab.engines.retain(|engine| engine.description().transforms.contains(&transform));
        lab
    }

    /// Runs the case on every engine that supports its transform.
    pub(crate) fn check(&mut self, case: &Case) {
        for engine in &mut self.engines {
            if !engine.description().transforms.contains(&case.transform) {
                continue;
            }
            engine.install_key(SA, &case.keys()).expect("the engine claims the transform");
            let tally = self.tallies.entry(engine.description().name.clone()).or_default();
            if case.is_valid {
                seals_and_opens(engine.as_mut(), &mut self.pool, case);
                rejects_every_change(engine.as_mut(), &mut self.pool, case);
                tally.valid += 1;
            } else {
                let opened = complete(engine.as_mut(), Direction::Open, vec![case.to_open(&mut self.pool)]);
                assert_eq!(opened[0].status, CryptoStatus::IcvMismatch, "{}", case.name);
                tally.invalid += 1;
            }
            engine.remove_key(SA);
        }
    }

    /// Prints the counts of `what`, and fails if the reference engine ran no case.
    pub(crate) fn report(&self, what: &str, needs_invalid: bool) {
        for (engine, tally) in &self.tallies {
            println!("{what}: {engine}: {} valid, {} invalid", tally.valid, tally.invalid);
        }
        let reference = self.tallies.get("software").copied().unwrap_or_default();
        assert!(reference.valid > 0, "{what}: no valid case was run");
        assert!(!needs_invalid || reference.invalid > 0, "{what}: no invalid case was run");
        assert!(self.tallies.values().all(|tally| tally.valid > 0));
    }
}

/// Three equal packets in one multi-packet, so that code for bursts is covered as well.
fn seals_and_opens(engine: &mut dyn Engine, pool: &mut FramePool, case: &Case) {
    let name = (&case.name, engine.description().name.clone());
    let packets = (0..3).map(|_| case.to_seal(pool)).collect();
    for sealed in complete(engine, Direction::Seal, packets) {
        assert_eq!(sealed.status, CryptoStatus::Done, "{name:?}");
        assert_eq!(
            HEXLOWER.encode(&sealed.frame[..]),
            HEXLOWER.encode(case.sealed_bytes().as_ref()),
            "{name:?}"
        );
    }
    let packets = (0..3).map(|_| case.to_open(pool)).collect();
    let open = case.open_bytes();
    for opened in complete(engine, Direction::Open, packets) {
        assert_eq!(opened.status, CryptoStatus::Done, "{name:?}");
        assert_eq!(HEXLOWER.encode(&opened.frame[..open.len()]), HEXLOWER.encode(&open), "{name:?}");
    }
}

/// Changes one bit in each part; the other packets of the multi-packet must be unaffected.
fn rejects_every_change(engine: &mut dyn Engine, pool: &mut FramePool, case: &Case) {
    if case.icv.is_empty() {
        return;
    }
    let good = case.to_open(pool);
    let mut packets = vec![good];
    let (len, icv_at) = (case.sealed_bytes().len(), case.open_bytes().len());
    let is_covered = |at: usize| at >= icv_at || covers(case, at);
    for at in (0..len).filter(|at| is_covered(*at)) {
        let mut bad = case.to_open(pool);
        bad.frame[at] ^= 1 << (at % 8);
        packets.push(bad);
        if packets.len() == 32 {
            judge(engine, case, std::mem::take(&mut packets));
            packets.push(case.to_open(pool));
        }
    }
    for at in 0..case.aad.len() {
        let mut bad = case.to_open(pool);
        bad.job.aad[at] ^= 0x80;
        packets.push(bad);
    }
    if case.esn_high.is_some() {
        let mut bad = case.to_open(pool);
        bad.job.esn_high = None;
        packets.push(bad);
    }
    judge(engine, case, packets);
}

fn covers(case: &Case, at: usize) -> bool {
    let job = case.job();
    let is_in =
        |start: u16, len: u16| (usize::from(start)..usize::from(start) + usize::from(len)).contains(&at);
    is_in(job.auth_start, job.auth_len) || is_in(job.cipher_start, job.cipher_len)
}

/// Expects that the first packet is accepted and all others are rejected.
fn judge(engine: &mut dyn Engine, case: &Case, packets: Vec<CryptoPacket>) {
    let opened = complete(engine, Direction::Open, packets);
    for (place, packet) in opened.iter().enumerate() {
        let expected = if place == 0 { CryptoStatus::Done } else { CryptoStatus::IcvMismatch };
        assert_eq!(packet.status, expected, "{}: packet {place}", case.name);
    }
}
