//! The path MTU of one outbound SA (RFC 4301 section 8.2, RFC 1191, RFC 8201).

/// The least MTU of IPv4 that is believed (RFC 4301 section 8.2.1). It is what every host must
/// accept (RFC 1122 section 3.3.2), and close to Linux's own minimum, `net.ipv4.route.min_pmtu`
/// (552). Smaller links hardly exist any more, and a lower value would only give a forger more
/// room.
pub(crate) const LEAST_V4: u16 = 576;
/// IPv6's least MTU.
pub(crate) const LEAST_V6: u16 = 1280;
/// How long a learned smaller MTU is kept before a larger one is tried, in ns (RFC 1191 section
/// 6.3).
const AGE_NS: u64 = 600_000_000_000;

/// The assumed MTU of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathMtu {
    /// The learned MTU, and when it expires.
    learned: Option<(u16, u64)>,
}

impl PathMtu {
    /// The current MTU, in bytes; at most the port's, `link`.
    pub(crate) fn current(&self, now_ns: u64, link: u16) -> u16 {
        match self.learned {
            Some((mtu, forgotten_ns)) if now_ns < forgotten_ns => mtu.min(link),
            _ => link,
        }
    }

    /// When the learned MTU expires, in ns; `u64::MAX` if there is none.
    pub(crate) fn forgotten_ns(&self) -> u64 {
        self.learned.map_or(u64::MAX, |(_, forgotten_ns)| forgotten_ns)
    }

    /// Learns the MTU reported by a router. Values below the family's minimum are raised to it;
    /// values not below the current one are ignored. Returns whether the MTU changed.
    pub(crate) fn learn(&mut self, now_ns: u64, link: u16, mtu: u16, is_v6: bool) -> bool {
        let mtu = mtu.max(if is_v6 { LEAST_V6 } else { LEAST_V4 });
        if mtu >= self.current(now_ns, link) {
            return false;
        }
        self.learned = Some((mtu, now_ns.saturating_add(AGE_NS)));
        true
    }
}

/// Minimum interval between the marks of [`SentLately`], in ns. A report arrives a round trip after
/// its packet.
const LATELY_NS: u64 = 2_000_000_000;

/// The sequence numbers that an outbound SA sent in the last 2 to 4 s: a report from the path can
/// only be about one of them (RFC 4301 section 8.2). Measured in time rather than packets, since
/// the packets in flight grow with the rate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SentLately {
    /// The last number sent before each of the last two marks, the newer first.
    marks: [u64; 2],
    /// Time of the newer mark, in ns.
    marked_ns: Option<u64>,
}

impl SentLately {
    /// Marks the last number sent, if the previous mark is old enough. Call before a packet leaves;
    /// it is enough to call it for the first packet at or after
    /// [`next_mark_ns`](Self::next_mark_ns).
    pub(crate) fn note(&mut self, now_ns: u64, sequence: u64) {
        if now_ns >= self.next_mark_ns() {
            self.marks = [sequence, self.lowest(now_ns, sequence)];
            self.marked_ns = Some(now_ns);
        }
    }

    /// When the next mark is due, in ns.
    pub(crate) fn next_mark_ns(&self) -> u64 {
        self.marked_ns.map_or(0, |marked_ns| marked_ns.saturating_add(LATELY_NS))
    }

    /// Whether a number with this lower half was sent lately; `sequence` is the last number sent.
    pub(crate) fn has(&self, now_ns: u64, lower_half: u32, sequence: u64) -> bool {
        let behind = (sequence as u32).wrapping_sub(lower_half);
        u64::from(behind) < sequence.saturating_sub(self.lowest(now_ns, sequence))
    }

    /// The last number that was not sent lately.
    fn lowest(&self, now_ns: u64, sequence: u64) -> u64 {
        match self.marked_ns.map(|marked_ns| now_ns.saturating_sub(marked_ns)) {
            Some(0..LATELY_NS) => self.marks[1],
            Some(age_ns) if age_ns < 2 * LATELY_NS => self.marks[0],
            // Nothing was sent since the mark became old, or there would be another.
            _ => sequence,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_mtu_is_learned_and_forgotten_and_a_larger_ignored() {
        let mut path = PathMtu::default();
        assert!(path.learn(10, 1_500, 1_400, false));
        assert!(!path.learn(11, 1_500, 1_450, false));
        assert_eq!(path.current(12, 1_500), 1_400);
        assert_eq!(path.current(10 + AGE_NS, 1_500), 1_500);
    }

    #[test]
    fn an_absurd_mtu_does_no_more_harm_than_the_least() {
        let mut path = PathMtu::default();
        assert!(path.learn(0, 1_500, 68, false));
        assert_eq!(path.current(1, 1_500), LEAST_V4);
        let mut path = PathMtu::default();
        assert!(path.learn(0, 1_500, 1_000, true));
        assert_eq!(path.current(1, 1_500), LEAST_V6);
    }

    #[test]
    fn what_was_sent_lately_is_what_came_since_the_mark_before_the_last() {
        const START: u64 = 50 * LATELY_NS;
        let mut lately = SentLately::default();
        lately.note(START, 100);
        assert!(!lately.has(START, 100, 100) && lately.has(START, 101, 110) && !lately.has(START, 111, 110));
        lately.note(START + 1, 150);
        assert!(!lately.has(START + 1, 100, 150) && lately.has(START + 1, 101, 150), "too early for a mark");
        let second = START + LATELY_NS;
        lately.note(second, 200);
        assert_eq!(
            [100, 101, 250, 251].map(|number| lately.has(second, number, 250)),
            [false, true, true, false]
        );
        lately.note(second + LATELY_NS, 300);
        assert_eq!([200, 201].map(|number| lately.has(second + LATELY_NS, number, 301)), [false, true]);
    }

    #[test]
    fn an_sa_that_rests_has_nothing_under_way() {
        const START: u64 = 50 * LATELY_NS;
        let mut lately = SentLately::default();
        lately.note(START, 100);
        let has = |age_ns| lately.has(START + age_ns, 150, 150);
        assert_eq!([LATELY_NS - 1, 2 * LATELY_NS - 1, 2 * LATELY_NS].map(has), [true, true, false]);
        lately.note(START + 3 * LATELY_NS, 150);
        assert!(!lately.has(START + 3 * LATELY_NS, 150, 151) && lately.has(START + 3 * LATELY_NS, 151, 151));
    }

    #[test]
    fn the_upper_half_of_an_extended_number_is_taken_from_what_was_sent() {
        let mut lately = SentLately::default();
        let (now_ns, start) = (50 * LATELY_NS, 7 << 32);
        lately.note(now_ns, start - 10);
        let has = |number: u32| lately.has(now_ns, number, start + 5);
        assert!(has(u32::MAX) && has(0) && has(5) && !has(6) && !has(u32::MAX - 9));
    }
}
