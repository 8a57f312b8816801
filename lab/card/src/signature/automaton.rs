//! The automaton of Aho and Corasick: which contents end at a byte, in one step for each byte.

use std::collections::{HashMap, VecDeque};

/// Classes of bytes in a row of the card's table.
pub(super) const CLASSES: usize = 64;
const BYTES: usize = 256;
/// No child in the trie.
const NONE: u32 = u32::MAX;

/// States by number; 0 is the start.
pub(super) struct Automaton {
    /// The state that follows, for each byte.
    following: Vec<[u32; BYTES]>,
    /// The contents that end in each state, as bits.
    ends: Vec<u32>,
}

/// Bytes that no content tells apart share a class, which keeps the table small.
pub(super) struct Classes {
    pub(super) of_byte: [u8; BYTES],
    /// For each state, the one that follows by each class.
    pub(super) rows: Vec<Vec<u8>>,
}

impl Automaton {
    /// For at most 32 contents.
    pub(super) fn new(contents: &[&[u8]]) -> Self {
        let mut trie = Self { following: vec![[NONE; BYTES]], ends: vec![0] };
        for (content, bit) in contents.iter().zip(0..) {
            let mut state = 0;
            for byte in *content {
                if trie.following[state][usize::from(*byte)] == NONE {
                    trie.following[state][usize::from(*byte)] = trie.following.len() as u32;
                    trie.following.push([NONE; BYTES]);
                    trie.ends.push(0);
                }
                state = trie.following[state][usize::from(*byte)] as usize;
            }
            trie.ends[state] |= 1 << bit;
        }
        trie.complete();
        trie
    }

    /// Gives each state what follows by bytes that are no child of it: what follows its fallback,
    /// the longest end of what led to it that begins a content as well. Breadth first, so that a
    /// fallback, which is nearer to the start, is complete.
    fn complete(&mut self) {
        let mut fallback = vec![0; self.following.len()];
        let mut queue = VecDeque::from([0_usize]);
        while let Some(state) = queue.pop_front() {
            let below = if state == 0 { [0; BYTES] } else { self.following[fallback[state]] };
            if state != 0 {
                self.ends[state] |= self.ends[fallback[state]];
            }
            for (byte, below) in below.into_iter().enumerate() {
                match self.following[state][byte] {
                    NONE => self.following[state][byte] = below,
                    child => {
                        fallback[child as usize] = below as usize;
                        queue.push_back(child as usize);
                    }
                }
            }
        }
    }

    pub(super) fn states(&self) -> usize {
        self.following.len()
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = u32> {
        self.ends.iter().copied()
    }

    /// For at most 256 states.
    pub(super) fn classes(&self) -> Classes {
        let mut known: HashMap<Vec<u8>, u8> = HashMap::new();
        let mut columns: Vec<Vec<u8>> = Vec::new();
        let mut of_byte = [0; BYTES];
        for (byte, class) in of_byte.iter_mut().enumerate() {
            let column: Vec<u8> = self.following.iter().map(|row| row[byte] as u8).collect();
            *class = *known.entry(column.clone()).or_insert_with(|| {
                columns.push(column);
                (columns.len() - 1) as u8
            });
        }
        let row = |state: usize| columns.iter().map(|column| column[state]).collect();
        Classes { of_byte, rows: (0..self.states()).map(row).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_where_a_search_finds_a_content() {
        let contents: [&[u8]; 6] = [b"ab", b"abab", b"ba", b"b", b"aab", b"\0\xff"];
        let automaton = Automaton::new(&contents);
        let classes = automaton.classes();
        let ends: Vec<u32> = automaton.ends().collect();
        // Every text of eight bytes of four letters.
        for number in 0..4_u32.pow(8) {
            let text: Vec<u8> = (0..8).map(|at| b"ab\0\xff"[(number >> (2 * at) & 3) as usize]).collect();
            let mut state = 0;
            for (at, byte) in text.iter().enumerate() {
                state = classes.rows[state][usize::from(classes.of_byte[usize::from(*byte)])].into();
                let bits = contents
                    .iter()
                    .rev()
                    .fold(0, |bits, content| bits << 1 | u32::from(text[..=at].ends_with(content)));
                assert_eq!(ends[state], bits, "{text:?} {at}");
            }
        }
    }
}
