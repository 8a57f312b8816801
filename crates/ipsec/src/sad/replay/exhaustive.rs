//! Every sequence of a few numbers, in windows of a few packets, by RFC 4303 section 3.4.3: the
//! numbers are those at both ends of the ring's words and, with ESN, of the lower 32 bits.

use std::collections::BTreeSet;

use super::*;

/// Numbers of each sequence.
const LENGTH: usize = if cfg!(miri) { 2 } else { 5 };
/// The smallest windows, one whose lower end is in another word, and one as long as a word.
const SIZES: [u32; 5] = [1, 2, 3, 63, 64];
/// The ring of each has two words.
const RING: u64 = 2 * WORD;

/// What was accepted, by the RFC's words: a number is new if it is right of the window, or inside
/// and not seen.
#[derive(Clone, Default)]
struct Received(BTreeSet<u64>);

impl Received {
    fn highest(&self) -> u64 {
        self.0.last().copied().unwrap_or(0)
    }

    fn is_right_or_inside(&self, number: u64, size: u32) -> bool {
        number + u64::from(size) > self.highest()
    }

    fn may_accept(&self, number: u64, size: u32) -> bool {
        number > 0 && self.is_right_or_inside(number, size) && !self.0.contains(&number)
    }
}

/// Continues a sequence by each of the numbers. Returns how many sequences there are.
fn continue_by(numbers: &[u64], length: usize, window: &ReplayWindow, received: &Received) -> usize {
    if length == 0 {
        return 1;
    }
    let continued = numbers.iter().map(|number| {
        let (mut window, mut received) = (window.clone(), received.clone());
        if window.esn && received.is_right_or_inside(*number, window.size) {
            assert_eq!(window.infer(*number as u32), *number, "{window:?}");
        }
        let may_accept = received.may_accept(*number, window.size);
        assert_eq!(window.may_accept(*number), may_accept, "{number}: {window:?}");
        assert_eq!(window.accept(*number), may_accept, "{number}: {window:?}");
        received.0.extend(may_accept.then_some(*number));
        assert_eq!(window.highest(), received.highest());
        let inside = received.0.iter().filter(|number| received.is_right_or_inside(**number, window.size));
        assert_eq!(window.received() as usize, inside.count(), "{window:?}");
        continue_by(numbers, length - 1, &window, &received)
    });
    continued.sum()
}

fn all_sequences(numbers: &[u64], is_esn: bool) {
    for size in SIZES {
        let window = ReplayWindow::new(size, is_esn);
        let sequences = continue_by(numbers, LENGTH, &window, &Received::default());
        assert_eq!(sequences, numbers.len().pow(LENGTH as u32));
    }
}

#[test]
fn every_sequence_at_the_ends_of_words_is_accepted_as_the_rfc_says() {
    let ends = [0, 1, 2, WORD - 1, WORD, WORD + 1, RING - 1, RING, RING + WORD, 2 * RING];
    all_sequences(&ends, false);
}

#[test]
fn every_sequence_across_the_lower_32_bits_has_its_upper_half_and_is_accepted_as_the_rfc_says() {
    let wrap = 1 << 32;
    let ends = [1, wrap - RING, wrap - WORD, wrap - 2, wrap - 1, wrap, wrap + 1, wrap + WORD, wrap + RING];
    // The first number sets the window near the others: a jump of 2^32 looks like none.
    for first in &ends[1..] {
        for size in SIZES {
            let (mut window, mut received) = (ReplayWindow::new(size, true), Received::default());
            assert!(window.accept(*first) && received.0.insert(*first));
            continue_by(&ends[1..], LENGTH - 1, &window, &received);
        }
    }
}
