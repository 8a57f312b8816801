//! Traffic classes: which is served next, and how much of the window is reserved for each.
//!
//! All classes share one window. So that packets which merely arrived first cannot keep a class
//! out, part of it is reserved:
//! - strict: an eighth of the window (at least one packet) for each class but the lowest, against
//!   all lower ones, if the window holds two packets a class or more; a smaller one is too small to
//!   reserve any of it;
//! - weighted: half of the window, split by weight, each part against all other classes.
//!
//! The window counts as full as soon as some class has no room: a refused packet is then never
//! waiting for a dispatch that nothing would trigger.

use crate::config::{CLASSES, ClassDiscipline};

/// Credit for each unit of weight and round, in blocks: those of a full Ethernet packet.
const QUANTUM: i64 = 96;

pub(crate) struct Classes {
    count: usize,
    discipline: ClassDiscipline,
    /// Packets reserved for each class in the window.
    promised: [usize; CLASSES],
    /// What each class may still send in this round, in blocks (weighted).
    credit: [i64; CLASSES],
    turn: usize,
}

impl Classes {
    pub(crate) fn new(count: usize, discipline: ClassDiscipline, window: usize) -> Self {
        let mut classes =
            Self { count, discipline, promised: [0; CLASSES], credit: [0; CLASSES], turn: count - 1 };
        classes.set_window(window);
        classes
    }

    /// Classes in use.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Computes the reservations for another window size.
    pub(crate) fn set_window(&mut self, window: usize) {
        self.promised = [0; CLASSES];
        match self.discipline {
            ClassDiscipline::Strict if window >= 2 * self.count => {
                self.promised[..self.count - 1].fill((window / 8).max(1));
            }
            ClassDiscipline::Strict => {}
            ClassDiscipline::Weighted(_) => {
                let sum: u64 = (0..self.count).map(|class| self.weight(class) as u64).sum();
                for class in 0..self.count {
                    self.promised[class] = (window as u64 / 2 * self.weight(class) as u64 / sum) as usize;
                }
            }
        }
    }

    fn weight(&self, class: usize) -> i64 {
        match self.discipline {
            ClassDiscipline::Strict => 1,
            ClassDiscipline::Weighted(weights) => i64::from(weights[class].max(1)),
        }
    }

    /// The class as served here: those beyond the last in use belong to the last.
    #[inline]
    pub(crate) fn of(&self, class: u8) -> usize {
        usize::from(class).min(self.count - 1)
    }

    /// Packets of the window that `class` may not use, given the packets of each class in it.
    #[inline]
    pub(crate) fn kept_free(&self, class: usize, counts: &[usize; CLASSES]) -> usize {
        if self.count == 1 { 0 } else { self.promised_to_others(class, counts) }
    }

    /// Not inlined, for those with a single class: inlined, a dispatch takes a tenth more
    /// instructions.
    #[inline(never)]
    fn promised_to_others(&self, class: usize, counts: &[usize; CLASSES]) -> usize {
        let others = match self.discipline {
            ClassDiscipline::Strict => class,
            ClassDiscipline::Weighted(_) => self.count,
        };
        (0..others)
            .filter(|other| *other != class)
            .map(|other| self.promised[other].saturating_sub(counts[other]))
            .sum()
    }

    /// Whether some class has no room in a window with `room` free places.
    #[inline]
    pub(crate) fn is_full(&self, room: usize, counts: &[usize; CLASSES]) -> bool {
        room == 0 || self.count > 1 && self.is_full_for_one(room, counts)
    }

    #[inline(never)]
    fn is_full_for_one(&self, room: usize, counts: &[usize; CLASSES]) -> bool {
        (0..self.count).any(|class| room <= self.promised_to_others(class, counts))
    }

    /// The class to serve next; `None` in an empty window.
    #[inline]
    pub(crate) fn next(&mut self, counts: &[usize; CLASSES]) -> Option<usize> {
        if self.count == 1 {
            return if counts[0] > 0 { Some(0) } else { None };
        }
        self.next_of_several(counts)
    }

    #[inline(never)]
    fn next_of_several(&mut self, counts: &[usize; CLASSES]) -> Option<usize> {
        match self.discipline {
            ClassDiscipline::Strict => (0..self.count).find(|class| counts[*class] > 0),
            ClassDiscipline::Weighted(_) => self.next_weighted(counts),
        }
    }

    /// Deficit round robin: a class is served while it has credit, then the next one; a class with
    /// nothing in the window saves no credit.
    fn next_weighted(&mut self, counts: &[usize; CLASSES]) -> Option<usize> {
        for (credit, count) in self.credit.iter_mut().zip(counts) {
            if *count == 0 {
                *credit = 0;
            }
        }
        let present = |class: &usize| counts[*class] > 0;
        // Rounds in which no class becomes positive are skipped at once, since a long multi-packet
        // causes many.
        let rounds_left = |class: usize| (-self.credit[class]).div_euclid(QUANTUM * self.weight(class));
        let idle_rounds = (0..self.count).filter(present).map(rounds_left).min()?.max(0);
        for class in (0..self.count).filter(present) {
            self.credit[class] += idle_rounds * QUANTUM * self.weight(class);
        }
        while counts[self.turn] == 0 || self.credit[self.turn] <= 0 {
            self.turn = (self.turn + 1) % self.count;
            if counts[self.turn] > 0 {
                self.credit[self.turn] += QUANTUM * self.weight(self.turn);
            }
        }
        Some(self.turn)
    }

    /// Charges a multi-packet to its class.
    #[inline]
    pub(crate) fn spend(&mut self, class: usize, blocks: u64) {
        if self.count > 1 {
            self.credit[class] = self.credit[class].saturating_sub_unsigned(blocks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: [usize; 3]) -> [usize; CLASSES] {
        let mut counts = [0; CLASSES];
        counts[..3].copy_from_slice(&of);
        counts
    }

    fn weighted(weights: [u32; 3]) -> ClassDiscipline {
        let mut all = [0; CLASSES];
        all[..3].copy_from_slice(&weights);
        ClassDiscipline::Weighted(all)
    }

    #[test]
    fn under_strict_each_class_is_promised_room_against_those_below_it() {
        let classes = Classes::new(3, ClassDiscipline::Strict, 16);
        assert_eq!(classes.kept_free(2, &counts([0, 0, 9])), 4);
        assert_eq!(classes.kept_free(1, &counts([1, 0, 9])), 1);
        assert_eq!(classes.kept_free(0, &counts([0, 0, 9])), 0);
        assert!(classes.is_full(4, &counts([0, 0, 12])));
        assert!(!classes.is_full(5, &counts([0, 0, 11])));
    }

    #[test]
    fn under_weighted_half_of_the_window_is_promised() {
        let classes = Classes::new(3, weighted([2, 1, 1]), 32);
        assert_eq!(classes.kept_free(0, &counts([0, 0, 0])), 8);
        assert_eq!(classes.kept_free(2, &counts([3, 9, 0])), 5);
    }

    #[test]
    fn a_window_too_small_for_promises_takes_what_comes() {
        for discipline in [ClassDiscipline::Strict, weighted([9, 1, 1])] {
            let classes = Classes::new(3, discipline, 1);
            assert!(!classes.is_full(1, &counts([0, 0, 0])));
            assert!(classes.is_full(0, &counts([0, 0, 1])));
        }
    }

    #[test]
    fn a_long_debt_is_paid_in_one_call_and_as_if_round_by_round() {
        let mut classes = Classes::new(3, weighted([3, 1, 1]), 32);
        let counts = counts([5, 5, 0]);
        classes.spend(0, u64::from(u32::MAX));
        assert_eq!(classes.next(&counts), Some(1));
        classes.spend(1, 1 << 40);
        assert_eq!(classes.next(&counts), Some(0));
        assert!((1..=3 * QUANTUM).contains(&classes.credit[0]));
    }
}
