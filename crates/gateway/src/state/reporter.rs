//! The worker's side: it reports how far its SAs have come, and is granted how far they may go.

use std::sync::mpsc::Sender;

use convoy_ipsec::{SaDirection, Tables};

use super::marks::{Beginning, Kept, is_short};
use crate::assemble::{Installed, Pair};

/// Interval at which a worker checks its reserves, in ns.
const LOOK_NS: u64 = 10_000_000;
/// Interval at which it reports changes, in ns: the age of what is known of received numbers when
/// the gateway is killed.
const REPORT_NS: u64 = 1_000_000_000;

/// How far a pair of SAs has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(super) kept: Kept,
    /// The last sequence number sent.
    pub(super) sent: u64,
    /// The highest received.
    pub(super) received: u64,
}

/// A worker's report to the keeper of the state file.
pub(crate) struct Report {
    pub(super) worker: usize,
    pub(super) progress: Vec<Progress>,
    /// Whether its SAs send nothing more.
    pub(super) is_last: bool,
}

/// A message to the keeper.
pub(super) enum Note {
    /// How far SAs have come.
    Report(Report),
    /// All workers have ended.
    End,
}

/// A worker's view of the numbers of an installed pair of SAs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    kept: Kept,
    base: u64,
    reserved: u64,
    told: Progress,
    has_asked: bool,
}

impl Numbers {
    /// The numbers of SAs with this beginning; `None` if nothing is kept.
    pub(crate) fn new(beginning: &Beginning) -> Option<Self> {
        let Beginning { sent, reserved, received, kept, .. } = *beginning;
        let kept = kept?;
        let told = Progress { kept, sent, received };
        Some(Self { kept, base: sent, reserved, told, has_asked: false })
    }

    fn progress(&self, pair: &Pair, tables: &Tables) -> Progress {
        let of = |way| pair.sas.iter().find(|sa| sa.direction() == way);
        let [received, sent] = [SaDirection::Inbound, SaDirection::Outbound]
            .map(|way| of(way).and_then(|sa| tables.sequence(*sa)));
        Progress {
            kept: self.kept,
            sent: sent.unwrap_or(self.told.sent),
            received: received.unwrap_or(self.told.received),
        }
    }
}

/// A worker's way to the keeper.
#[derive(Clone)]
pub(crate) struct Reporter {
    notes: Sender<Note>,
    next_look_ns: u64,
    next_report_ns: u64,
}

impl Reporter {
    pub(super) fn new(notes: Sender<Note>) -> Self {
        Self { notes, next_look_ns: 0, next_report_ns: 0 }
    }

    /// Reports what is due: half-used reserves at once, all other changes once a second.
    pub(crate) fn look(&mut self, now_ns: u64, installed: &mut [Installed], tables: &Tables) {
        if now_ns < self.next_look_ns {
            return;
        }
        self.next_look_ns = now_ns + LOOK_NS;
        let is_due = now_ns >= self.next_report_ns;
        if is_due {
            self.next_report_ns = now_ns + REPORT_NS;
        }
        let mut all = Vec::new();
        for pair in installed.iter_mut().flat_map(|tunnel| &mut tunnel.pairs) {
            let Some(mut numbers) = pair.numbers else { continue };
            let progress = numbers.progress(pair, tables);
            let asks = !numbers.has_asked && is_short(numbers.base, numbers.reserved, progress.sent);
            if asks || is_due && progress != numbers.told {
                numbers.has_asked |= asks;
                numbers.told = progress;
                pair.numbers = Some(numbers);
                all.push(progress);
            }
        }
        if !all.is_empty() {
            self.send(Report { worker: tables.worker().into(), progress: all, is_last: false });
        }
    }

    /// Reports that nothing more will be sent, so that the next start goes on right behind it.
    pub(crate) fn end(&self, installed: &[Installed], tables: &Tables) {
        self.send(Report { is_last: true, ..report(installed, tables) });
    }

    fn send(&self, report: Report) {
        // The keeper outlives the workers; had it panicked, the reserves would run out and say so.
        let _ = self.notes.send(Note::Report(report));
    }
}

/// How far all SAs have come.
pub(crate) fn report(installed: &[Installed], tables: &Tables) -> Report {
    let pairs = installed.iter().flat_map(|tunnel| &tunnel.pairs);
    let kept = pairs.filter_map(|pair| Some((pair, pair.numbers?)));
    let progress = kept.map(|(pair, numbers)| numbers.progress(pair, tables)).collect();
    Report { worker: tables.worker().into(), progress, is_last: false }
}

/// Lets the SA with this beginning send numbers up to `reserved`. A removed one is ignored.
pub(crate) fn extend(installed: &mut [Installed], tables: &mut Tables, generation: u64, reserved: u64) {
    for pair in installed.iter_mut().flat_map(|tunnel| &mut tunnel.pairs) {
        let Some(numbers) = pair.numbers.as_mut().filter(|numbers| numbers.kept.generation == generation)
        else {
            continue;
        };
        if let Some(sa) = pair.sas.iter().find_map(|sa| sa.outbound()) {
            tables.reserve_sequence(sa, reserved);
            numbers.base = tables.sequence(sa.into()).unwrap_or(numbers.base);
        }
        (numbers.reserved, numbers.has_asked) = (reserved, false);
    }
}
