//! The worker's side: it reports how far its SAs have come, and is granted how far they may go.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};

use convoy_ipsec::{SaDirection, SaIndex, Tables};

use super::marks::{Beginning, Kept, Progress, is_short};

/// Interval at which a worker checks its reserves, in ns.
const LOOK_NS: u64 = 10_000_000;
/// Interval at which it reports changes to the state file's keeper, in ns: the age of what is known
/// of received numbers when the gateway is killed.
const REPORT_NS: u64 = 1_000_000_000;
/// Interval of reports for a cluster, in ns, whose next leader goes on behind what was reported.
const CHECKPOINT_NS: u64 = 100_000_000;

/// An inbound and an outbound SA whose numbers may be kept.
pub(crate) struct Pair {
    pub(crate) sas: Vec<SaIndex>,
    /// Their numbers, if they are kept.
    pub(crate) numbers: Option<Numbers>,
}

/// The pairs of a worker, to be found.
pub(crate) trait NumberedPairs {
    /// The pair of an SA.
    fn of_sa(&mut self, sa: SaIndex) -> Option<&mut Pair>;

    /// The pair of a generation.
    fn of_generation(&mut self, generation: u64) -> Option<&mut Pair>;
}

/// A worker's report to the keeper of the state file, or to the cluster.
pub(crate) struct Report {
    pub(super) worker: usize,
    pub(super) progress: Vec<Progress>,
    /// Whether its SAs send nothing more.
    pub(super) is_last: bool,
}

impl Report {
    /// How far SAs have come.
    pub(crate) fn progress(&self) -> &[Progress] {
        &self.progress
    }
}

/// A message to the keeper.
pub(crate) enum Note {
    /// How far SAs have come.
    Report(Report),
    /// All workers have ended.
    End,
}

/// Numbers that may be used: those up to `end`, granted when `base` had been used.
#[derive(Clone, Copy, Debug)]
struct Reserve {
    base: u64,
    end: u64,
}

impl Reserve {
    fn is_short(self, used: u64) -> bool {
        is_short(self.base, self.end, used)
    }
}

/// A worker's view of the numbers of an installed pair of SAs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    kept: Kept,
    sending: Reserve,
    receiving: Reserve,
    reported: Progress,
    has_asked: bool,
}

impl Numbers {
    /// The numbers of SAs with this beginning; `None` if nothing is kept.
    pub(crate) fn new(beginning: &Beginning) -> Option<Self> {
        let Beginning { sent, reserved, received, acceptable, kept, .. } = *beginning;
        let kept = kept?;
        let reported = Progress { kept, sent, received };
        let sending = Reserve { base: sent, end: reserved };
        let receiving = Reserve { base: received, end: acceptable };
        Some(Self { kept, sending, receiving, reported, has_asked: false })
    }

    /// The generation of the pair's beginning.
    pub(crate) fn generation(&self) -> u64 {
        self.kept.generation
    }

    fn progress(&self, pair: &Pair, tables: &Tables) -> Progress {
        let of = |way| pair.sas.iter().find(|sa| sa.direction() == way);
        let [received, sent] = [SaDirection::Inbound, SaDirection::Outbound]
            .map(|way| of(way).and_then(|sa| tables.sequence_seen(*sa)));
        Progress {
            kept: self.kept,
            sent: sent.unwrap_or(self.reported.sent),
            received: received.unwrap_or(self.reported.received),
        }
    }
}

/// A worker's way to the keeper, or to the cluster.
#[derive(Clone)]
pub(crate) struct Reporter {
    notes: Sender<Note>,
    /// Between two reports of all changes, in ns.
    interval_ns: u64,
    next_look_ns: u64,
    next_report_ns: u64,
    /// Packets wait for more numbers, so that who has asked asks again.
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
    pub(crate) fn for_cluster() -> (Self, Receiver<Note>) {
        let (notes, received) = channel();
        (Self { interval_ns: CHECKPOINT_NS, ..Self::new(notes) }, received)
    }

    /// Looks at pairs that begin, too: one may have no numbers yet, and then never moves.
    pub(crate) fn begin<'a>(&mut self, pairs: impl IntoIterator<Item = &'a Pair>) {
        // By one of its SAs, so that it is looked at once.
        let inbound = |sa: &&SaIndex| sa.direction() == SaDirection::Inbound;
        let one = |pair: &Pair| pair.sas.iter().find(inbound).or(pair.sas.first()).copied();
        self.moved.extend(pairs.into_iter().filter_map(one));
    }

    /// Has the next look come at once, and report all SAs whose reserves are half used: packets
    /// wait for more.
    pub(crate) fn hurry(&mut self) {
        (self.next_look_ns, self.is_hurried) = (0, true);
    }

    /// Reports what is due: half-used reserves at once, all other changes at intervals.
    pub(crate) fn look(&mut self, now_ns: u64, mut pairs: impl NumberedPairs, tables: &mut Tables) {
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
            let progress = numbers.progress(pair, tables);
            let is_short =
                numbers.sending.is_short(progress.sent) || numbers.receiving.is_short(progress.received);
            let asks = is_short && (is_hurried || !numbers.has_asked);
            // Who is still short asks again: what it asked may have been lost.
            if asks || is_due && (is_short || progress != numbers.reported) {
                numbers.has_asked |= asks;
                numbers.reported = progress;
                pair.numbers = Some(numbers);
                all.push(progress);
            }
            is_short || progress != numbers.reported
        });
        if !all.is_empty() {
            self.send(Report { worker: tables.worker().into(), progress: all, is_last: false });
        }
    }

    /// Reports that nothing more will be sent, so that the next start goes on right behind it.
    pub(crate) fn end<'a>(&self, pairs: impl Iterator<Item = &'a Pair>, tables: &Tables) {
        self.send(Report { is_last: true, ..report(pairs, tables) });
    }

    fn send(&self, report: Report) {
        // The keeper outlives the workers; had it panicked, the reserves would run out and say so.
        let _ = self.notes.send(Note::Report(report));
    }
}

/// How far all SAs have come.
pub(crate) fn report<'a>(pairs: impl Iterator<Item = &'a Pair>, tables: &Tables) -> Report {
    let kept = pairs.filter_map(|pair| Some((pair, pair.numbers?)));
    let progress = kept.map(|(pair, numbers)| numbers.progress(pair, tables)).collect();
    Report { worker: tables.worker().into(), progress, is_last: false }
}

/// How far SAs that end now may have come at most, by the generations of their beginnings: packets
/// that are still on their way may use what was reserved.
pub(crate) fn spent<'a>(pairs: impl Iterator<Item = &'a Pair>, tables: &Tables) -> Vec<(u64, Limits)> {
    let of = |pair: &Pair| {
        let numbers = pair.numbers?;
        let Progress { kept, sent, received } = numbers.progress(pair, tables);
        let accept = Some(numbers.receiving.end).filter(|end| *end != u64::MAX).unwrap_or(received);
        Some((kept.generation, Limits { send: numbers.sending.end.max(sent), accept }))
    };
    pairs.filter_map(of).collect()
}

/// How far a pair of SAs may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The last number that may be sent.
    pub(crate) send: u64,
    /// The last one that may be accepted.
    pub(crate) accept: u64,
}

impl Limits {
    /// Up to `send`, and whatever is received.
    pub(crate) fn sending(send: u64) -> Self {
        Self { send, accept: u64::MAX }
    }
}

/// Lets SAs go on up to these limits, by the generations of their beginnings. Removed ones are
/// ignored.
pub(crate) fn extend(mut pairs: impl NumberedPairs, tables: &mut Tables, granted: &HashMap<u64, Limits>) {
    for (generation, limits) in granted {
        let Some(pair) = pairs.of_generation(*generation) else { continue };
        let Some(numbers) = pair.numbers.as_mut() else { continue };
        for sa in &pair.sas {
            let (reserve, end) = match sa.direction() {
                SaDirection::Outbound => (&mut numbers.sending, limits.send),
                SaDirection::Inbound => (&mut numbers.receiving, limits.accept),
            };
            tables.reserve_sequence(*sa, end);
            *reserve = Reserve { base: tables.sequence(*sa).unwrap_or(reserve.base), end };
        }
        numbers.has_asked = false;
    }
}
