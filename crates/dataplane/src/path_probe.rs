//! Whether a path carries packets as long as an SA sends, found by padded echoes: of a path that
//! drops longer ones, nothing else says so if its routers send no ICMP, or a filter drops it.

use convoy_ipsec::AssumedPath;

/// Time between two probes of the assumed length, in ns.
const AGAIN_NS: u64 = 60_000_000_000;
/// Time from the first answer to a short echo to the first probe, in ns.
const FIRST_NS: u64 = 2_000_000_000;
/// How long an answer is waited for at least, in ns.
const WAIT_NS: u64 = 500_000_000;
/// Echoes of a length without an answer after which the path counts as not carrying it.
const TRIES: u32 = 3;
/// A search ends when it is known to this many bytes.
const NEAR: u16 = 8;

/// The probing of one path.
#[derive(Debug, Default)]
pub(crate) struct PathProbe {
    /// When the assumed length is tried next, in ns; `None` while no short echo is answered.
    due_ns: Option<u64>,
    trial: Option<Trial>,
}

/// A length that is being tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The longest length that is known to be carried, and the shortest that is not, or that is
    /// assumed.
    carried: u16,
    above: u16,
    /// The length that is tried.
    len: u16,
    tries: u32,
    sequence: u16,
    sent_ns: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeStep {
    /// Send an echo whose outer packet has this length in bytes, under this number.
    Send { len: u16, sequence: u16 },
    /// The path carries no packets longer than this, in bytes.
    Learn(u16),
}

impl PathProbe {
    /// The next step; `round_trip_ns` is that of short echoes.
    pub(crate) fn step(&mut self, now_ns: u64, path: &AssumedPath, round_trip_ns: u64) -> Option<ProbeStep> {
        let due_ns = *self.due_ns.get_or_insert(now_ns + FIRST_NS);
        let Some(trial) = self.trial else {
            let AssumedPath { least, mtu, .. } = *path;
            if now_ns < due_ns || mtu <= least {
                return None;
            }
            let first = Trial { carried: least, above: mtu, len: mtu, tries: 0, sequence: 0, sent_ns: 0 };
            return Some(self.send(now_ns, first));
        };
        if now_ns.saturating_sub(trial.sent_ns) < wait_ns(round_trip_ns) {
            return None;
        }
        if trial.tries < TRIES {
            return Some(self.send(now_ns, trial));
        }
        self.narrow(now_ns, Trial { above: trial.len, ..trial })
    }

    /// When the next step is due, in ns.
    pub(crate) fn next_ns(&self, round_trip_ns: Option<u64>) -> u64 {
        match self.trial {
            Some(trial) => trial.sent_ns + wait_ns(round_trip_ns.unwrap_or_default()),
            None => self.due_ns.unwrap_or(u64::MAX),
        }
    }

    /// An echo of this number was answered; returns the next step.
    pub(crate) fn answered(&mut self, now_ns: u64, sequence: u16) -> Option<ProbeStep> {
        let trial = self.trial.filter(|trial| trial.sequence == sequence)?;
        if trial.len == trial.above {
            self.end(now_ns);
            return None;
        }
        self.narrow(now_ns, Trial { carried: trial.len, ..trial })
    }

    /// Short echoes are not answered any more.
    pub(crate) fn stop(&mut self) {
        (self.due_ns, self.trial) = (None, None);
    }

    /// Tries the length between those that are known, or ends the search.
    fn narrow(&mut self, now_ns: u64, known: Trial) -> Option<ProbeStep> {
        let Trial { carried, above, .. } = known;
        if above - carried <= NEAR {
            self.end(now_ns);
            return Some(ProbeStep::Learn(carried));
        }
        let len = carried + (above - carried) / 2;
        Some(self.send(now_ns, Trial { len, tries: 0, ..known }))
    }

    fn send(&mut self, now_ns: u64, trial: Trial) -> ProbeStep {
        let sequence = trial.sequence.wrapping_add(1);
        self.trial = Some(Trial { tries: trial.tries + 1, sequence, sent_ns: now_ns, ..trial });
        ProbeStep::Send { len: trial.len, sequence }
    }

    fn end(&mut self, now_ns: u64) {
        (self.due_ns, self.trial) = (Some(now_ns + AGAIN_NS), None);
    }
}

/// How long an answer is waited for, in ns.
fn wait_ns(round_trip_ns: u64) -> u64 {
    WAIT_NS.max(round_trip_ns.saturating_mul(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A path that any of its family carries `least` bytes on, and that the SA fills.
    fn path(least: u16, mtu: u16) -> AssumedPath {
        AssumedPath { peer: [192, 0, 2, 2].into(), least, mtu }
    }

    /// What a path that carries up to `carries` bytes has learned after `seconds`, and the echoes
    /// that it took.
    fn learned(carries: u16, path: &AssumedPath, seconds: u64) -> (Vec<u16>, usize) {
        let (mut probe, mut learned, mut echoes) = (PathProbe::default(), Vec::new(), 0);
        for now_ns in (0..seconds * 20).map(|at| at * 50 * MS) {
            let mut step = probe.step(now_ns, path, 30 * MS);
            while let Some(taken) = step {
                step = match taken {
                    ProbeStep::Send { len, sequence } => {
                        echoes += 1;
                        (len <= carries).then(|| probe.answered(now_ns, sequence)).flatten()
                    }
                    ProbeStep::Learn(mtu) => {
                        learned.push(mtu);
                        None
                    }
                };
            }
        }
        (learned, echoes)
    }

    #[test]
    fn a_path_that_carries_what_is_assumed_costs_an_echo_a_minute() {
        assert_eq!(learned(1_500, &path(576, 1_500), 110), (vec![], 2));
        assert_eq!(learned(1_280, &path(1_280, 1_280), 110), (vec![], 0), "no path carries less");
    }

    #[test]
    fn a_path_that_drops_longer_packets_is_found_within_seconds() {
        for carries in [576, 577, 800, 1_300, 1_420, 1_499] {
            let (learned, _) = learned(carries, &path(576, 1_500), 30);
            let [mtu] = learned[..] else { panic!("{carries}: {learned:?}") };
            assert!(mtu <= carries && carries - mtu < NEAR, "{carries}: {mtu}");
        }
    }

    #[test]
    fn late_and_repeated_answers_change_nothing() {
        let mut probe = PathProbe::default();
        assert_eq!(probe.step(0, &path(576, 1_500), 0), None);
        let Some(ProbeStep::Send { sequence, .. }) = probe.step(FIRST_NS, &path(576, 1_500), 0) else {
            panic!("due")
        };
        assert_eq!(probe.answered(FIRST_NS, sequence.wrapping_sub(1)), None);
        assert_eq!(probe.step(FIRST_NS + WAIT_NS - 1, &path(576, 1_500), 0), None, "it is waited for");
        assert_eq!(probe.answered(FIRST_NS + MS, sequence), None);
        assert_eq!(probe.step(FIRST_NS + 2 * WAIT_NS, &path(576, 1_500), 0), None, "it is known");
        probe.stop();
        assert_eq!(probe.step(FIRST_NS + AGAIN_NS, &path(576, 1_500), 0), None, "a path that is back is new");
    }
}
