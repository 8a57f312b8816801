//! What a worker's core does for each packet besides the work of engines: receive, classify, prepare, finish, send; and what it does besides for one
//! that an engine elsewhere has.
//!
//! The clock is read once a round, at its beginning: from there to the beginning of the next round the core did nothing else, unless
//! nothing moved and it slept. Rounds in which all packets stay on the core give the own cost of a packet. What rounds take beyond that while engines
//! elsewhere have packets is the cost of handing those over: input that is kept, the ring, the completion and, above all, cache lines that the
//! other core has written. What that core does in place of this one, such as laying packets out, is subtracted by itself.

mod handoff;
#[cfg(test)]
mod tests;

use handoff::HandoffCost;

/// Packets over which the time of rounds is divided: fewer are not worth a division.
const PACKETS: u64 = 64;
/// The weight of the newest sample in an average.
const GAIN: f64 = 1.0 / 8.0;
/// A sample counts at most so many times what the average is: a thread that lost its core for a while had no more to do.
const OUTLIER: f64 = 2.0;
/// After so long without a packet the average says nothing of the packets that come next, in ns.
const FORGOTTEN_NS: u64 = 1_000_000_000;

/// What engines have done for a core until now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// Time that engines on this core have taken, in ns.
    pub(super) inline_ns: u64,
    /// Packets that were given to engines elsewhere.
    pub(super) given: u64,
    /// Whether engines elsewhere have any of these now.
    pub(super) is_out: bool,
}

/// What the core pays for a packet besides the work of its engines, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PerPacket {
    /// For any packet; 0 while it is not known.
    pub(super) own_ns: u64,
    /// More for one that an engine elsewhere has; 0 while it is not known.
    pub(super) handoff_ns: u64,
}

/// Some rounds of a core.
#[derive(Clone, Copy, Default)]
struct Span {
    rounds_ns: u64,
    /// Of that, the time of engines on this core.
    inline_ns: u64,
    packets: u64,
}

impl Span {
    fn add(&mut self, other: Self) {
        self.rounds_ns += other.rounds_ns;
        self.inline_ns += other.inline_ns;
        self.packets += other.packets;
    }

    /// Time that was not that of engines on this core.
    fn own_ns(&self) -> f64 {
        self.rounds_ns.saturating_sub(self.inline_ns) as f64
    }

    /// The same per packet.
    fn own_ns_per_packet(&self) -> f64 {
        self.own_ns() / self.packets as f64
    }
}

/// A moving average of it.
#[derive(Default)]
pub(super) struct OwnCost {
    /// When the round that is under way began, and what engines had done until then.
    began: Option<(u64, Work)>,
    has_moved: bool,
    last_packet_ns: u64,
    /// Taken in since the last round that moved something ended.
    taken_in: u64,
    /// Rounds in which all packets stayed, of the sample that is being taken.
    staying: Span,
    average_ns: Option<f64>,
    handoff: HandoffCost,
}

impl OwnCost {
    /// Packets were taken in.
    pub(super) fn took_in(&mut self, packets: usize) {
        self.taken_in += packets as u64;
    }

    /// A round ends; if nothing moved in it, the time until the next is not spent on packets.
    pub(super) fn end_round(&mut self, moved: bool) {
        self.has_moved = moved;
    }

    /// A round begins at `now_ns`, and with it the last one ends, when engines had done `work` since they were made. What a packet costs.
    pub(super) fn begin_round(&mut self, now_ns: u64, work: Work) -> PerPacket {
        let last = self.began.replace((now_ns, work));
        if let (true, Some((began_ns, before))) = (self.has_moved, last) {
            let round = Span {
                rounds_ns: now_ns.saturating_sub(began_ns),
                inline_ns: work.inline_ns.saturating_sub(before.inline_ns),
                packets: std::mem::take(&mut self.taken_in),
            };
            let given = work.given - before.given;
            self.last_packet_ns = now_ns;
            if given > 0 || before.is_out || work.is_out {
                self.note_shared(round, given);
            } else {
                self.staying.add(round);
                self.handoff.note_staying(round.packets);
            }
        }
        if self.staying.packets >= PACKETS {
            // An average of all packets, had for want of a better, ends with the first that stay.
            let last = self.average_ns.filter(|_| self.handoff.note_own_cost());
            self.average_ns = Some(average(last, self.staying.own_ns_per_packet()));
            self.staying = Span::default();
        } else if now_ns.saturating_sub(self.last_packet_ns) > FORGOTTEN_NS {
            let handoff = std::mem::take(&mut self.handoff).remembered();
            *self = Self { began: self.began, handoff, ..Self::default() };
        }
        let own_ns = self.average_ns.unwrap_or(0.0);
        let handoff_ns = self.handoff.per_packet_ns(own_ns);
        PerPacket { own_ns: own_ns.round() as u64, handoff_ns: handoff_ns.round() as u64 }
    }

    /// A round in which engines elsewhere had packets, `given` of them new.
    fn note_shared(&mut self, round: Span, given: u64) {
        if let Some(shared) = self.handoff.note_shared(round, given, self.average_ns) {
            // Where no packet ever stays, what all cost is the best that is known.
            self.average_ns = Some(average(self.average_ns, shared));
        }
    }
}

/// A moving average of which `sample` is the newest.
fn average(last: Option<f64>, sample: f64) -> f64 {
    last.map_or(sample, |last| last + GAIN * (sample.min(last * OUTLIER) - last))
}
