//! Reception statistics of a stream: sequence numbers, loss and jitter as in RFC 3550 appendix A.

/// A forward jump of at least this much in the 16-bit sequence number is taken for a late packet,
/// not for a gap.
const HALF: u32 = 1 << 15;

/// Content of a reception report block (RFC 3550 section 6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceptionReport {
    /// Fraction lost since the previous report, in 1/256.
    pub fraction_lost: u8,
    /// Packets lost in total; negative if duplicates outnumber the losses.
    pub lost: i64,
    /// Extended highest sequence number received.
    pub highest: u32,
    /// Interarrival jitter in ticks of the RTP clock.
    pub jitter: u32,
}

/// Statistics of the packets of one source.
#[derive(Debug, Default)]
pub struct Reception {
    first: u64,
    highest: u64,
    received: u64,
    /// Whether any packet had nonzero upper bits in its sequence number.
    is_extended: bool,
    reported: (u64, u64),
    transit: Option<u32>,
    /// In 1/16 tick, as in RFC 3550 appendix A.8.
    jitter: u32,
}

impl Reception {
    /// Records a packet and returns its sequence number as one that does not wrap.
    ///
    /// `extension` is RFC 4175's upper half of the sequence number. It is used where it continues
    /// the numbers so far, so that a gap may exceed half of the 16-bit range. A sender that leaves
    /// it at zero is treated as plain RTP.
    pub fn note(&mut self, sequence: u16, extension: u16) -> u64 {
        self.is_extended |= extension != 0;
        if self.received == 0 {
            // Starts one wrap above zero, so that packets before the first one have numbers as
            // well.
            self.first = 1 << 32 | u64::from(extension) << 16 | u64::from(sequence);
            self.highest = self.first;
            self.received = 1;
            return self.first;
        }
        self.received += 1;
        let number = self.extended(sequence, extension);
        // A late packet from before the first one was sent too, so it counts as expected.
        self.first = self.first.min(number);
        self.highest = self.highest.max(number);
        number
    }

    /// The highest number so far, as [`note`](Self::note) returns it; 0 before the first packet.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    fn extended(&self, sequence: u16, extension: u16) -> u64 {
        let reported = u32::from(extension) << 16 | u32::from(sequence);
        let ahead = reported.wrapping_sub(self.highest as u32);
        // Before plain RTP's first wrap, a packet far ahead is a late one from before number 0.
        if ahead < if self.is_extended { u32::MAX / 2 } else { HALF } {
            return self.highest + u64::from(ahead);
        }
        let behind = self.highest.wrapping_sub(u64::from(ahead.wrapping_neg()));
        if ahead.wrapping_neg() <= HALF {
            return behind;
        }
        let near = u32::from(sequence.wrapping_sub(self.highest as u16));
        if near < HALF {
            self.highest + u64::from(near)
        } else {
            self.highest.saturating_sub(u64::from((1 << 16) - near))
        }
    }

    /// Updates the jitter (RFC 3550 appendix A.8). All packets of a frame share one timestamp
    /// although they are sent one after the other, so only the first packet of each frame is used.
    pub fn note_arrival(&mut self, arrival_ticks: u32, timestamp: u32) {
        let transit = arrival_ticks.wrapping_sub(timestamp);
        if let Some(before) = self.transit.replace(transit) {
            let difference = (transit.wrapping_sub(before) as i32).unsigned_abs().min(1 << 24);
            self.jitter = self.jitter + difference - ((self.jitter + 8) >> 4);
        }
    }

    /// Packets received, duplicates included.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Packets sent, as far as the sequence numbers show.
    pub fn expected(&self) -> u64 {
        if self.received == 0 { 0 } else { self.highest - self.first + 1 }
    }

    /// Interarrival jitter in ticks of the RTP clock.
    pub fn jitter(&self) -> u32 {
        self.jitter >> 4
    }

    /// Makes a report; the next one's fraction counts from here on.
    pub fn report(&mut self) -> ReceptionReport {
        let (expected, received) = (self.expected(), self.received);
        let (new, got) = (expected - self.reported.0, received - self.reported.1);
        self.reported = (expected, received);
        let lost = new.saturating_sub(got);
        ReceptionReport {
            fraction_lost: (lost * 256).checked_div(new).unwrap_or(0).min(255) as u8,
            lost: expected as i64 - received as i64,
            highest: self.highest as u32,
            jitter: self.jitter(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn loss_is_reported_as_a_fraction_and_in_all() {
        let mut reception = Reception::default();
        (0..100_u16).filter(|at| at % 4 != 3).for_each(|at| {
            reception.note(at, 0);
        });
        let report = reception.report();
        // Packet 99, the last one, is not known to have been sent.
        assert_eq!((report.lost, report.highest, report.fraction_lost), (24, 98, 62));
        reception.note(99, 0);
        assert_eq!(reception.report().fraction_lost, 0);
    }

    #[test]
    fn packets_that_come_after_one_that_was_sent_later_are_no_gain() {
        let mut reception = Reception::default();
        for at in [7, 5, 9] {
            reception.note(at, 0);
        }
        assert_eq!((reception.expected(), reception.report().lost), (5, 2));
    }

    #[test]
    fn a_gap_longer_than_the_plain_numbers_is_counted() {
        let mut reception = Reception::default();
        reception.note(65_000, 1);
        reception.note(65_000, 3);
        assert_eq!(reception.expected(), 2 * 65_536 + 1);
    }

    #[test]
    fn numbers_go_on_where_a_sender_has_no_extension() {
        let mut reception = Reception::default();
        for at in 0..200_000_u32 {
            assert_eq!(reception.note(at as u16, 0), (1 << 32) + u64::from(at));
        }
        assert_eq!(reception.expected(), reception.received());
    }

    #[test]
    fn a_late_packet_from_before_number_zero_is_no_gap() {
        let mut reception = Reception::default();
        let first = reception.note(2, 0);
        assert_eq!(reception.note(0xffff, 0), first - 3);
        assert_eq!(reception.note(3, 0), first + 1);
        assert_eq!(reception.expected(), 5);
    }

    #[test]
    fn jitter_is_a_sixteenth_of_the_difference_each_time() {
        let mut reception = Reception::default();
        reception.note_arrival(1000, 0);
        reception.note_arrival(2500 + 160, 1500);
        assert_eq!(reception.jitter(), 10);
    }

    proptest! {
        #[test]
        fn numbers_that_wrap_are_reported_in_any_near_order(
            start in any::<u32>(), steps in prop::collection::vec(0..200_u32, 1..200), has_extension in any::<bool>(),
        ) {
            let mut reception = Reception::default();
            let start = if has_extension { start } else { start & 0xffff };
            let first = reception.note(start as u16, (start >> 16) as u16);
            let mut at = start;
            for step in steps {
                at = at.wrapping_add(step).wrapping_sub(60);
                let extension = if has_extension { (at >> 16) as u16 } else { 0 };
                let number = reception.note(at as u16, extension);
                prop_assert_eq!(number, first.wrapping_add_signed(i64::from(at.wrapping_sub(start) as i32)));
            }
        }
    }
}
