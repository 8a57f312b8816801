//! The anti-replay window, with extended sequence numbers (RFC 4303 section 3.4.3 and appendix A).
//!
//! A ring of 64-bit words, one bit a packet, like RFC 6479: the window moves by whole words, so
//! that nothing is ever shifted.

use convoy_packet::prefetch;

/// Bits of a word of the ring.
const WORD: u64 = 64;

/// The window of one inbound SA. Numbers have 64 bits internally, whatever is transmitted.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    ring: Box<[u64]>,
    /// Packets behind the highest that are still distinguished; 0 switches the check off.
    size: u32,
    esn: bool,
    /// The highest number that was authenticated.
    highest: u64,
    /// The last number that may be accepted.
    reserved: u64,
}

impl ReplayWindow {
    /// An empty window of `size` packets: 0 (off), or 32 to 65,536.
    pub fn new(size: u32, esn: bool) -> Self {
        // One word more than the window, because the word with its lower end is only partly inside.
        let words = if size == 0 { 0 } else { (u64::from(size).div_ceil(WORD) + 1).next_power_of_two() };
        let ring = vec![0; words as usize].into();
        Self { ring, size, esn, highest: 0, reserved: u64::MAX }
    }

    /// A window that treats `highest` and all before it as received.
    pub fn after(highest: u64, size: u32, esn: bool) -> Self {
        let mut window = Self::new(size, esn);
        window.highest = highest;
        if size > 0 && highest > 0 {
            window.ring.fill(u64::MAX);
            let (word, bit) = window.place(highest);
            // Up to the bit itself, and none of those behind it, which are for future numbers.
            window.ring[word] = bit | (bit - 1);
        }
        window
    }

    /// The same window, which accepts nothing above `last` until it is [allowed](Self::reserve).
    pub fn reserved(self, last: u64) -> Self {
        Self { reserved: last, ..self }
    }

    /// Allows the numbers up to `last`.
    pub fn reserve(&mut self, last: u64) {
        self.reserved = self.reserved.max(last);
    }

    /// Whether a number is above those that may be accepted so far. Without a window, there is no
    /// such limit.
    pub fn is_unreserved(&self, number: u64) -> bool {
        self.size > 0 && number > self.reserved
    }

    /// The highest number that was authenticated; 0 before the first packet.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// The window's size in packets; 0 is off.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// How many of the last [`size`](Self::size) numbers were received.
    pub fn received(&self) -> u32 {
        let Some(behind) = self.size.checked_sub(1) else { return 0 };
        let lowest = self.highest.saturating_sub(behind.into()).max(1);
        (lowest..=self.highest).filter(|number| self.is_set(*number)).count() as u32
    }

    /// The full number of a packet whose lower 32 bits are `low`: itself without ESN; with ESN the
    /// upper half is inferred from the window's position (RFC 4303 appendix A2.2).
    #[inline]
    pub fn infer(&self, low: u32) -> u64 {
        if self.esn { self.infer_upper(low) } else { low.into() }
    }

    fn infer_upper(&self, low: u32) -> u64 {
        let (high_top, low_top) = ((self.highest >> 32) as u32, self.highest as u32);
        // With the check off, half the number space replaces the window's lower end.
        let reach = if self.size == 0 { 1 << 31 } else { self.size };
        let bottom = low_top.wrapping_sub(reach - 1);
        let high = if low_top >= reach - 1 {
            // The window lies within one subspace.
            if low >= bottom { high_top } else { high_top.wrapping_add(1) }
        } else if low >= bottom {
            // It spans two, and the number is in the lower one. Before the first wrap there is
            // none.
            if high_top == 0 { 0 } else { high_top - 1 }
        } else {
            high_top
        };
        u64::from(high) << 32 | u64::from(low)
    }

    /// Whether a packet with this number may be new: not 0, not left of the window, not seen.
    #[inline]
    pub fn may_accept(&self, number: u64) -> bool {
        if self.size == 0 {
            return true;
        }
        if number == 0 {
            return false;
        }
        number > self.highest || (self.highest - number < u64::from(self.size) && !self.is_set(number))
    }

    /// Records an authenticated packet; `false` if it must be dropped after all, because another
    /// with its number was authenticated in the meantime, the window has moved on, or the number is
    /// not reserved.
    #[inline]
    pub fn accept(&mut self, number: u64) -> bool {
        if !self.may_accept(number) {
            return false;
        }
        if self.size == 0 {
            self.highest = self.highest.max(number);
            return true;
        }
        if number > self.highest {
            if number > self.reserved {
                return false;
            }
            self.advance(number);
        }
        let (word, bit) = self.place(number);
        self.ring[word] |= bit;
        true
    }

    /// Prefetches what [`accept`](Self::accept) reads for this number.
    pub(crate) fn prefetch(&self, number: u64) {
        if self.size > 0 {
            prefetch(&self.ring[self.place(number).0]);
        }
    }

    #[inline]
    fn advance(&mut self, number: u64) {
        let (old, new) = (self.highest / WORD, number / WORD);
        let words = self.ring.len() as u64;
        for word in (old + 1)..=new.min(old + words) {
            self.ring[(word & (words - 1)) as usize] = 0;
        }
        self.highest = number;
    }

    #[inline]
    fn place(&self, number: u64) -> (usize, u64) {
        ((number / WORD) as usize & (self.ring.len() - 1), 1 << (number % WORD))
    }

    #[inline]
    fn is_set(&self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        self.ring[word] & bit != 0
    }
}

#[cfg(test)]
mod exhaustive;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The window as the RFC's prose has it, in a set.
    struct Plain {
        seen: BTreeSet<u64>,
        size: u64,
    }

    impl Plain {
        fn accept(&mut self, number: u64) -> bool {
            let highest = self.seen.last().copied().unwrap_or(0);
            let fresh = number > 0 && (number > highest || highest - number < self.size);
            fresh && self.seen.insert(number)
        }
    }

    #[test]
    fn a_repeated_number_and_one_left_of_the_window_are_refused() {
        let mut window = ReplayWindow::new(32, false);
        assert!(!window.may_accept(0));
        assert!(window.accept(1) && !window.accept(1));
        assert!(window.accept(40) && window.accept(9) && !window.accept(8));
        assert_eq!(window.received(), 2);
    }

    #[test]
    fn a_number_above_those_reserved_waits_for_more() {
        let mut window = ReplayWindow::after(10, 64, false).reserved(20);
        assert!(window.accept(20) && window.accept(15));
        assert!(!window.accept(21) && window.is_unreserved(21) && !window.is_unreserved(20));
        assert_eq!((window.highest(), window.received()), (20, 12));
        window.reserve(30);
        window.reserve(25);
        assert!(window.accept(21) && window.accept(30) && !window.accept(31));
    }

    #[test]
    fn without_a_window_everything_passes() {
        let mut window = ReplayWindow::new(0, false);
        assert!(window.accept(5) && window.accept(5) && window.accept(0));
    }

    #[test]
    fn the_upper_half_is_inferred_across_a_wrap() {
        let mut window = ReplayWindow::new(64, true);
        assert_eq!(window.infer(7), 7);
        assert!(window.accept(0xffff_fff0));
        assert_eq!(window.infer(0xffff_fff8), 0xffff_fff8);
        assert_eq!(window.infer(3), 0x1_0000_0003);
        assert!(window.accept(0x1_0000_0003));
        assert_eq!(window.infer(0xffff_fff9), 0xffff_fff9);
        assert_eq!(window.infer(9), 0x1_0000_0009);
    }

    /// RFC 4303 appendix A2.2 word by word: the upper half for `low`, of which W, Tl and Th are the
    /// window's.
    fn appendix_a(w: u32, th: u32, tl: u32, low: u32) -> u32 {
        if tl >= w - 1 {
            let bl = tl - (w - 1);
            if low >= bl { th } else { th.wrapping_add(1) }
        } else {
            let bl = (u64::from(tl) + (1 << 32) - u64::from(w) + 1) as u32;
            if low >= bl { th.wrapping_sub(1) } else { th }
        }
    }

    #[test]
    fn the_upper_half_is_that_of_appendix_a_at_every_edge() {
        for size in [32, 33, 64, 1_024, 65_535, 65_536] {
            for th in [1u32, 2, u32::MAX] {
                for tl in [0, 1, size - 2, size - 1, size, 1 << 31, u32::MAX - size, u32::MAX] {
                    let mut window = ReplayWindow::new(size, true);
                    let top = u64::from(th) << 32 | u64::from(tl);
                    assert!(window.accept(top));
                    let bottom = tl.wrapping_sub(size - 1);
                    for low in [
                        0,
                        1,
                        bottom.wrapping_sub(1),
                        bottom,
                        bottom.wrapping_add(1),
                        tl,
                        tl.wrapping_add(1),
                        u32::MAX,
                    ] {
                        let expected = u64::from(appendix_a(size, th, tl, low)) << 32 | u64::from(low);
                        assert_eq!(window.infer(low), expected, "window {size}, top {top:#x}, low {low:#x}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_window_spans_two_subspaces_and_the_end_of_all_numbers() {
        for size in [32u32, 1_024, 65_536] {
            for top in [1 << 32, (1 << 32) + 5, (7 << 32) + 20, u64::MAX] {
                let mut window = ReplayWindow::new(size, true);
                let lowest = top - u64::from(size) + 1;
                assert!(window.accept(top));
                for number in [lowest, lowest + 1, top - 1] {
                    assert_eq!(window.infer(number as u32), number);
                    assert!(window.accept(number) && !window.accept(number));
                }
                assert!(!window.may_accept(lowest - 1) && !window.may_accept(top));
                assert_eq!(window.received(), 4);
            }
            // Behind the last number of all there is none: what looks like it is left of the
            // window.
            let mut window = ReplayWindow::new(size, true);
            assert!(window.accept(u64::MAX) && !window.accept(window.infer(1)));
        }
    }

    proptest! {
        #[test]
        fn the_ring_agrees_with_a_set(
            size in prop_oneof![Just(32u32), Just(64), Just(100), 32u32..5_000, Just(65_536)],
            steps in proptest::collection::vec((any::<bool>(), 0u64..200_000), 1..400),
        ) {
            let mut ring = ReplayWindow::new(size, true);
            let mut plain = Plain { seen: BTreeSet::new(), size: size.into() };
            for (back, step) in steps {
                let highest = ring.highest();
                let number = if back { highest.saturating_sub(step % (u64::from(size) + 70)) } else { highest + step % 300 * (1 + step % 7) };
                prop_assert_eq!(ring.may_accept(number), {
                    let highest = plain.seen.last().copied().unwrap_or(0);
                    number > 0 && (number > highest || highest - number < plain.size) && !plain.seen.contains(&number)
                });
                prop_assert_eq!(ring.accept(number), plain.accept(number));
            }
        }

        #[test]
        fn a_window_after_a_number_is_one_that_has_received_all_up_to_it(
            size in 32u32..=300, highest in 0u64..1_000, numbers in proptest::collection::vec(0u64..2_000, 1..60),
        ) {
            let mut after = ReplayWindow::after(highest, size, false);
            let mut received = ReplayWindow::new(size, false);
            for number in 1..=highest {
                received.accept(number);
            }
            prop_assert_eq!(after.highest(), highest);
            for number in numbers {
                prop_assert_eq!(after.accept(number), received.accept(number));
            }
        }

        #[test]
        fn the_right_upper_half_is_found_for_every_number_near_the_window(
            size in 32u32..=65_536, start in 0u64..1 << 34, ahead in 0u64..1 << 30, behind in 0u64..65_536,
        ) {
            let mut window = ReplayWindow::new(size, true);
            let start = start + 1;
            prop_assert!(window.accept(start));
            prop_assert_eq!(window.infer((start + ahead) as u32), start + ahead);
            let older = start.saturating_sub(behind % u64::from(size));
            prop_assert_eq!(window.infer(older as u32), older);
        }
    }
}
