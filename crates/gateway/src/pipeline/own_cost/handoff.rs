//! What it costs a core to have an engine elsewhere do a packet, beyond what every packet costs it.

use super::{GAIN, OUTLIER, PACKETS, Span};

/// Packets given to engines elsewhere over which the time of rounds is divided. Rounds that belong to the same packets lie next to each other, so
/// that a sample of far more packets than are under way at once hardly has others'.
const GIVEN: u64 = 512;
/// A sample in which a smaller part than one over this was given would say more of noise than of them.
const LEAST_SHARE: u64 = 8;
/// A round in which a packet cost more than so many times what it costs otherwise says only that the thread lost its core.
const LOST_CORE: f64 = 8.0;
/// Packets of shared rounds after which it is tried what a packet costs that stays: at first, and once that is known.
const KEEP_FIRST: u64 = 1_024;
const KEEP_AFTER: u64 = 32_768;
/// So many packets stay for it, with those that come while engines elsewhere still have some.
const KEPT: u64 = 1_024;
/// Those whose own engine takes longer than so many times the own cost do not stay for it: however dear it is to hand them over, it pays.
const KEPT_TIMES: f64 = 4.0;
/// Packets that stay because it costs too much to hand them over, after which that is tried again.
const GIVE_AFTER: u64 = 65_536;

/// What the scheduler is asked to do for once.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Trial {
    #[default]
    None,
    /// To keep so many packets on this core.
    Keep(u64),
    /// To give packets away as if that cost nothing.
    Give,
}

/// A moving average of it, and the trials by which it stays known.
#[derive(Default)]
pub(super) struct HandoffCost {
    average_ns: Option<f64>,
    /// Rounds in which engines elsewhere had packets, of the sample that is being taken, and packets that were given in them.
    shared: Span,
    given: u64,
    trial: Trial,
    is_own_cost_known: bool,
    /// Packets since the own cost was measured, and since this was.
    since_own_cost: u64,
    since_given: u64,
}

impl HandoffCost {
    /// What the scheduler is to count for each packet that it gives away, in ns; `own_ns` is what every packet costs.
    pub(super) fn per_packet_ns(&self, own_ns: f64) -> f64 {
        match self.trial {
            Trial::None => self.average_ns.unwrap_or(0.0),
            Trial::Keep(_) => own_ns * KEPT_TIMES,
            Trial::Give => 0.0,
        }
    }

    /// What stays known when no packet has come for long.
    pub(super) fn remembered(self) -> Self {
        Self { average_ns: self.average_ns, ..Self::default() }
    }

    /// So many packets stayed.
    pub(super) fn note_staying(&mut self, packets: u64) {
        self.note_kept(packets);
        if self.average_ns.is_some() {
            self.since_given += packets;
        }
        if self.trial == Trial::None && self.since_given >= GIVE_AFTER {
            self.trial = Trial::Give;
        }
    }

    /// What a packet costs that stays was measured; whether it was before.
    pub(super) fn note_own_cost(&mut self) -> bool {
        self.since_own_cost = 0;
        std::mem::replace(&mut self.is_own_cost_known, true)
    }

    /// A round in which engines elsewhere had packets, `given` of them new, while every packet costs `own_ns`. What packets cost in all such rounds,
    /// where none has stayed so far.
    pub(super) fn note_shared(&mut self, round: Span, given: u64, own_ns: Option<f64>) -> Option<f64> {
        self.since_own_cost += round.packets;
        let most_ns = |own_ns: f64| LOST_CORE * own_ns * round.packets.max(PACKETS) as f64;
        if own_ns.is_none_or(|own_ns| round.own_ns() <= most_ns(own_ns)) {
            self.shared.add(round);
            self.given += given;
        }
        self.note_kept(round.packets);
        let keep_after = if self.is_own_cost_known { KEEP_AFTER } else { KEEP_FIRST };
        if self.trial == Trial::None && self.since_own_cost >= keep_after {
            self.trial = Trial::Keep(KEPT);
            self.since_own_cost = 0;
        }
        match own_ns.filter(|_| self.is_own_cost_known) {
            None => return self.take_all(),
            Some(own_ns) if self.given >= GIVEN => self.take_sample(own_ns),
            Some(_) => {}
        }
        None
    }

    fn note_kept(&mut self, packets: u64) {
        if let Trial::Keep(left) = self.trial {
            self.trial = left.checked_sub(packets).map_or(Trial::None, Trial::Keep);
        }
    }

    fn take_all(&mut self) -> Option<f64> {
        if self.shared.packets < PACKETS {
            return None;
        }
        self.given = 0;
        Some(std::mem::take(&mut self.shared).own_ns_per_packet())
    }

    fn take_sample(&mut self, own_ns: f64) {
        let (shared, given) = (std::mem::take(&mut self.shared), std::mem::take(&mut self.given));
        if shared.packets > given * LEAST_SHARE {
            return;
        }
        let sample = ((shared.own_ns() - own_ns * shared.packets as f64) / given as f64).max(0.0);
        // What a packet costs otherwise is the scale of what it may cost more: an average near 0 has none.
        let follow = |last: f64| last + GAIN * (sample.min(last * OUTLIER + own_ns) - last);
        self.average_ns = Some(self.average_ns.map_or(sample.min(own_ns * OUTLIER), follow));
        self.since_given = 0;
        if self.trial == Trial::Give {
            self.trial = Trial::None;
        }
    }
}
