//! The jitter buffer: determines when a frame is displayed. All times are nanoseconds of the
//! caller's clock.

use crate::format::CLOCK_HZ;

/// The minimum delay is measured again in each span of this length, so that the two ends' clocks
/// may drift.
const SPAN_NS: u64 = 5_000_000_000;

/// Computes when frames are due: a fixed delay after the earliest possible arrival, as the packet
/// with the lowest transit time shows it.
#[derive(Debug)]
pub(crate) struct Playout {
    delay_ns: u64,
    first: Option<u32>,
    /// The local time that corresponds to tick 0, from the fastest packet of this span and of the
    /// one before.
    bases: [Option<i64>; 2],
    span_end_ns: u64,
}

impl Playout {
    /// Frames are due `delay_ns` after their first packet would have arrived with the lowest
    /// transit time. The delay must also cover the time in which a frame is sent, which is a whole
    /// frame period.
    pub(crate) fn new(delay_ns: u64) -> Self {
        Self { delay_ns, first: None, bases: [None; 2], span_end_ns: 0 }
    }

    /// A new estimator with the same delay, for another stream.
    pub(crate) fn for_new_stream(&self) -> Self {
        Self::new(self.delay_ns)
    }

    /// Records the arrival of a frame's first packet.
    pub(crate) fn note(&mut self, now_ns: u64, timestamp: u32) {
        if now_ns >= self.span_end_ns {
            self.bases = [None, self.bases[0]];
            self.span_end_ns = now_ns + SPAN_NS;
        }
        let first = *self.first.get_or_insert(timestamp);
        let base = now_ns as i64 - to_ns(timestamp.wrapping_sub(first).cast_signed());
        self.bases[0] = Some(self.bases[0].map_or(base, |before| before.min(base)));
        // The 32-bit timestamp wraps after 13 hours, so the reference moves along.
        if timestamp.wrapping_sub(first).cast_signed() > 1 << 29 {
            let moved = to_ns(timestamp.wrapping_sub(first).cast_signed());
            self.first = Some(timestamp);
            self.bases = self.bases.map(|base| base.map(|base| base + moved));
        }
    }

    /// When the frame with this timestamp is due.
    pub(crate) fn due_ns(&self, timestamp: u32) -> u64 {
        let base = self.bases.iter().flatten().min().copied().unwrap_or(0);
        let since = timestamp.wrapping_sub(self.first.unwrap_or(timestamp)).cast_signed();
        (base + to_ns(since)).max(0) as u64 + self.delay_ns
    }
}

fn to_ns(ticks: i32) -> i64 {
    i64::from(ticks) * 1_000_000_000 / CLOCK_HZ as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_does_not_move_what_is_due() {
        let mut playout = Playout::new(10_000_000);
        let jitter = [3, 0, 5, 2, 1, 0];
        for (frame, jitter) in jitter.into_iter().enumerate() {
            playout.note(
                1_000_000_000 + frame as u64 * 20_000_000 + jitter * 1_000_000,
                777 + frame as u32 * 1800,
            );
        }
        assert_eq!(playout.due_ns(777 + 6 * 1800), 1_000_000_000 + 120_000_000 + 10_000_000);
    }

    #[test]
    fn a_clock_that_drifts_is_followed_both_ways_and_the_ticks_may_wrap() {
        for drift_ppm in [-200_i64, 200] {
            let mut playout = Playout::new(0);
            for frame in 0..200_000_u64 {
                let sent = frame * 20_000_000;
                let now = 1_000_000_000 + sent.saturating_add_signed(sent as i64 / 1_000_000 * drift_ppm);
                let timestamp = (u32::MAX - 1000).wrapping_add(frame as u32 * 1800);
                playout.note(now, timestamp);
                let early = now as i64 - playout.due_ns(timestamp) as i64;
                assert!((0..=2_100_000).contains(&early), "{frame}: {early}");
            }
        }
    }
}
