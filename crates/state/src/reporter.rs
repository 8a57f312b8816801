//! The worker's side: it reports the last numbers of its SAs, and is granted further ones.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};

use convoy_ipsec::{SaDirection, SaIndex, Tables};
use convoy_reservation::{Limits, SaStart, Used, is_half_used};

/// Interval at which a worker checks its reserves, in ns.
const LOOK_NS: u64 = 10_000_000;
/// Interval at which it reports changes to the state file's keeper, in ns: the age of what is known
/// of received numbers when the gateway is killed.
const REPORT_NS: u64 = 1_000_000_000;
/// Interval of reports for a cluster, in ns, whose next leader goes on behind what was reported.
const CHECKPOINT_NS: u64 = 100_000_000;

/// The number of a start of a pair of SAs, by which a worker and the keeper of the numbers know it:
/// when the SAs start again, they get another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StartId(pub u64);

/// How a pair of SAs starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// What is known of their numbers.
    pub start: SaStart,
    /// The number of the start, if their numbers are kept.
    pub id: Option<StartId>,
}

impl Started {
    /// With the first number and IVs from the clock; no numbers are kept.
    pub fn unlimited(clock_ns: u64) -> Self {
        Self { start: SaStart::unlimited(clock_ns), id: None }
    }

    /// With numbers that are kept.
    pub fn kept(start: SaStart, id: StartId) -> Self {
        Self { start, id: Some(id) }
    }
}

/// The last numbers of a pair of SAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaProgress {
    /// The pair.
    pub id: StartId,
    /// What it has used.
    pub used: Used,
}

/// An inbound and an outbound SA whose numbers may be kept.
pub struct Pair {
    /// The two SAs.
    pub sas: Vec<SaIndex>,
    /// Their numbers, if they are kept.
    pub numbers: Option<Numbers>,
}

/// The pairs of a worker, to be found.
pub trait NumberedPairs {
    /// The pair of an SA.
    fn of_sa(&mut self, sa: SaIndex) -> Option<&mut Pair>;

    /// The pair of a start.
    fn of_start(&mut self, id: StartId) -> Option<&mut Pair>;
}

/// A worker's report to the keeper of the state file, or to the cluster.
pub struct WorkerReport {
    pub(super) worker: usize,
    pub(super) progress: Vec<SaProgress>,
    /// Whether its SAs send nothing more.
    pub(super) is_last: bool,
}

impl WorkerReport {
    /// The last numbers of SAs.
    pub fn progress(&self) -> &[SaProgress] {
        &self.progress
    }
}

/// A message to the keeper.
pub enum Note {
    /// The last numbers of SAs.
    Report(WorkerReport),
    /// All workers have ended.
    End,
}

/// Numbers that may be used: those up to `end`, granted when `base` had been used.
#[derive(Clone, Copy, Debug)]
struct WorkerReserve {
    base: u64,
    end: u64,
}

impl WorkerReserve {
    fn is_short(self, used: u64) -> bool {
        is_half_used(self.base, self.end, used)
    }
}

/// A worker's view of the numbers of an installed pair of SAs.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    id: StartId,
    sending: WorkerReserve,
    receiving: WorkerReserve,
    reported: Used,
    has_asked: bool,
}

impl Numbers {
    /// The numbers of SAs that start so; `None` if nothing is kept.
    pub fn new(started: &Started) -> Option<Self> {
        let SaStart { used, limits, .. } = started.start;
        let sending = WorkerReserve { base: used.sent, end: limits.send };
        let receiving = WorkerReserve { base: used.received, end: limits.accept };
        Some(Self { id: started.id?, sending, receiving, reported: used, has_asked: false })
    }

    /// The number of the pair's start.
    pub fn id(&self) -> StartId {
        self.id
    }

    fn used(&self, pair: &Pair, tables: &Tables) -> Used {
        let of = |way| pair.sas.iter().find(|sa| sa.direction() == way);
        let [received, sent] = [SaDirection::Inbound, SaDirection::Outbound]
            .map(|way| of(way).and_then(|sa| tables.sequence_seen(*sa)));
        Used {
            sent: sent.unwrap_or(self.reported.sent),
            received: received.unwrap_or(self.reported.received),
        }
    }
}

/// A worker's way to the keeper, or to the cluster.
#[derive(Clone)]
pub struct Reporter {
    notes: Sender<Note>,
    /// Between two reports of all changes, in ns.
    interval_ns: u64,
    next_look_ns: u64,
    next_report_ns: u64,
    /// Packets wait for more numbers, so that all that are short ask again.
    is_hurried: bool,
    /// SAs that have begun or moved since the last report of all changes, or wait for more. All
    /// others are as they were reported, however many there are.
    moved: HashSet<SaIndex>,
}

impl Reporter {
    pub(super) fn new(notes: Sender<Note>) -> Self {
        let (next_look_ns, next_report_ns) = (0, 0);
        let (is_hurried, moved) = (false, HashSet::new());
        Self { notes, interval_ns: REPORT_NS, next_look_ns, next_report_ns, is_hurried, moved }
    }

    /// A worker's way to the other gateways of a cluster.
    pub fn for_cluster() -> (Self, Receiver<Note>) {
        let (notes, received) = channel();
        (Self { interval_ns: CHECKPOINT_NS, ..Self::new(notes) }, received)
    }

    /// Looks at pairs that begin, too: one may have no numbers yet, and then never moves.
    pub fn begin<'a>(&mut self, pairs: impl IntoIterator<Item = &'a Pair>) {
        // By one of its SAs, so that it is looked at once.
        let inbound = |sa: &&SaIndex| sa.direction() == SaDirection::Inbound;
        let one = |pair: &Pair| pair.sas.iter().find(inbound).or(pair.sas.first()).copied();
        self.moved.extend(pairs.into_iter().filter_map(one));
    }

    /// Has the next look come at once, and report all SAs whose reserves are half used: packets
    /// wait for more.
    pub fn hurry(&mut self) {
        (self.next_look_ns, self.is_hurried) = (0, true);
    }

    /// Reports what is due: half-used reserves at once, all other changes at intervals.
    pub fn look(&mut self, now_ns: u64, mut pairs: impl NumberedPairs, tables: &mut Tables) {
        if now_ns < self.next_look_ns {
            return;
        }
        self.next_look_ns = now_ns + LOOK_NS;
        let is_hurried = std::mem::take(&mut self.is_hurried);
        let is_due = now_ns >= self.next_report_ns;
        if is_due {
            self.next_report_ns = now_ns + self.interval_ns;
        }
        self.moved.extend(tables.take_moved(now_ns));
        let mut all = Vec::new();
        self.moved.retain(|sa| {
            // An SA without a pair is gone, or is none whose numbers are kept.
            let Some(pair) = pairs.of_sa(*sa) else { return false };
            let Some(mut numbers) = pair.numbers else { return false };
            let used = numbers.used(pair, tables);
            let is_short = numbers.sending.is_short(used.sent) || numbers.receiving.is_short(used.received);
            let asks = is_short && (is_hurried || !numbers.has_asked);
            // One that is still short asks again: its first request may have been lost.
            if asks || is_due && (is_short || used != numbers.reported) {
                numbers.has_asked |= asks;
                numbers.reported = used;
                pair.numbers = Some(numbers);
                all.push(SaProgress { id: numbers.id, used });
            }
            is_short || used != numbers.reported
        });
        if !all.is_empty() {
            self.send(WorkerReport { worker: tables.worker().into(), progress: all, is_last: false });
        }
    }

    /// Reports that nothing more will be sent, so that the next start goes on right behind it.
    pub fn end<'a>(&self, pairs: impl Iterator<Item = &'a Pair>, tables: &Tables) {
        self.send(WorkerReport { is_last: true, ..report(pairs, tables) });
    }

    fn send(&self, report: WorkerReport) {
        // The keeper outlives the workers; had it panicked, the reserves would run out and say so.
        let _ = self.notes.send(Note::Report(report));
    }
}

/// The last numbers of all SAs.
pub fn report<'a>(pairs: impl Iterator<Item = &'a Pair>, tables: &Tables) -> WorkerReport {
    let kept = pairs.filter_map(|pair| Some((pair, pair.numbers?)));
    let progress =
        kept.map(|(pair, numbers)| SaProgress { id: numbers.id, used: numbers.used(pair, tables) });
    WorkerReport { worker: tables.worker().into(), progress: progress.collect(), is_last: false }
}

/// What SAs that end now may have used at most, by their starts: packets that are still on their
/// way may use what was reserved.
pub fn spent<'a>(pairs: impl Iterator<Item = &'a Pair>, tables: &Tables) -> Vec<SaProgress> {
    let of = |pair: &Pair| {
        let numbers = pair.numbers?;
        let Used { sent, received } = numbers.used(pair, tables);
        let received = Some(numbers.receiving.end).filter(|end| *end != u64::MAX).unwrap_or(received);
        Some(SaProgress { id: numbers.id, used: Used { sent: numbers.sending.end.max(sent), received } })
    };
    pairs.filter_map(of).collect()
}

/// Permits SAs these numbers, by their starts. Removed ones are ignored.
pub fn extend(mut pairs: impl NumberedPairs, tables: &mut Tables, granted: &HashMap<StartId, Limits>) {
    for (id, limits) in granted {
        let Some(pair) = pairs.of_start(*id) else { continue };
        let Some(numbers) = pair.numbers.as_mut() else { continue };
        for sa in &pair.sas {
            let (reserve, end) = match sa.direction() {
                SaDirection::Outbound => (&mut numbers.sending, limits.send),
                SaDirection::Inbound => (&mut numbers.receiving, limits.accept),
            };
            tables.reserve_sequence(*sa, end);
            *reserve = WorkerReserve { base: tables.sequence(*sa).unwrap_or(reserve.base), end };
        }
        numbers.has_asked = false;
    }
}
