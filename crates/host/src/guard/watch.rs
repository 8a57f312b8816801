//! Warns the operator of packets that the guard has dropped, at most once a minute.

use std::time::{Duration, Instant};

use convoy_kernel::GuardCounts;

/// Interval between two looks at the counters.
const LOOK: Duration = Duration::from_secs(5);
/// Interval between two warnings.
const SILENCE: Duration = Duration::from_secs(60);

/// The last warning, and its time.
#[derive(Debug, Default)]
pub struct GuardWatch {
    reported: GuardCounts,
    reported_at: Option<Instant>,
    looked_at: Option<Instant>,
}

impl GuardWatch {
    /// Whether it is time to look at the counters.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.looked_at.is_none_or(|looked| now >= looked + LOOK)
            && self.reported_at.is_none_or(|reported| now >= reported + SILENCE);
        if is_due {
            self.looked_at = Some(now);
        }
        is_due
    }

    /// The line for the log, if packets were dropped since the last one.
    pub fn look(&mut self, now: Instant, counts: GuardCounts) -> Option<String> {
        let inbound = counts.inbound.saturating_sub(self.reported.inbound);
        let outbound = counts.outbound.saturating_sub(self.reported.outbound);
        if (inbound, outbound) == (0, 0) {
            return None;
        }
        (self.reported, self.reported_at) = (counts, Some(now));
        Some(format!(
            "the guard dropped unprotected packets: {inbound} from networks behind tunnels arrived on another \
             interface, and {outbound} to these networks would have left by another interface; either they are \
             forged, or the kernel routes them past the tunnels"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_reported_once_a_minute() {
        let (mut watch, start) = (GuardWatch::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let counts = |inbound| GuardCounts { inbound, outbound: 0 };
        assert!(watch.is_due(start));
        assert_eq!(watch.look(start, counts(0)), None);
        assert!(!watch.is_due(after(4)) && watch.is_due(after(5)));
        let reported = watch.look(after(5), counts(3)).expect("three packets");
        assert!(reported.contains("packets: 3 from") && reported.contains("and 0 to"), "{reported}");
        assert!(!watch.is_due(after(64)) && watch.is_due(after(65)));
        assert_eq!(watch.look(after(65), counts(3)), None);
        assert!(
            watch.look(after(70), counts(5)).is_some_and(|reported| reported.contains("packets: 2 from"))
        );
    }
}
