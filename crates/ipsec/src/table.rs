//! The SAs of one direction: what every packet needs apart from all else, so that the lines of
//! thousands of SAs fit the processor's cache.

use std::collections::VecDeque;

use convoy_packet::prefetch;

/// SAs by their place. `L` is what every packet reads or writes, `R` is the rest.
pub(crate) struct Table<L, R> {
    lines: Vec<Option<L>>,
    rests: Vec<Option<R>>,
    /// Places to be used again, the longest free first.
    free: VecDeque<u32>,
}

impl<L, R> Default for Table<L, R> {
    fn default() -> Self {
        Self { lines: Vec::new(), rests: Vec::new(), free: VecDeque::new() }
    }
}

impl<L, R> Table<L, R> {
    /// Where the next one will stand: the place that has been free the longest.
    pub(crate) fn next_place(&self) -> u32 {
        self.free.front().copied().unwrap_or(self.lines.len() as u32)
    }

    /// Puts one at the [next place](Self::next_place).
    pub(crate) fn insert(&mut self, line: L, rest: R) {
        match self.free.pop_front() {
            Some(place) => {
                self.lines[place as usize] = Some(line);
                self.rests[place as usize] = Some(rest);
            }
            None => {
                self.lines.push(Some(line));
                self.rests.push(Some(rest));
            }
        }
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<R> {
        self.lines.get_mut(place as usize)?.take()?;
        self.free.push_back(place);
        self.rests[place as usize].take()
    }

    #[inline]
    pub(crate) fn line(&self, place: u32) -> Option<&L> {
        self.lines.get(place as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn line_mut(&mut self, place: u32) -> Option<&mut L> {
        self.lines.get_mut(place as usize)?.as_mut()
    }

    pub(crate) fn rest(&self, place: u32) -> Option<&R> {
        self.rests.get(place as usize)?.as_ref()
    }

    pub(crate) fn rest_mut(&mut self, place: u32) -> Option<&mut R> {
        self.rests.get_mut(place as usize)?.as_mut()
    }

    pub(crate) fn both(&self, place: u32) -> Option<(&L, &R)> {
        Some((self.line(place)?, self.rest(place)?))
    }

    pub(crate) fn both_mut(&mut self, place: u32) -> Option<(&mut L, &mut R)> {
        let line = self.lines.get_mut(place as usize)?.as_mut()?;
        Some((line, self.rests.get_mut(place as usize)?.as_mut()?))
    }

    /// Has the processor fetch what every packet needs of one.
    #[inline]
    pub(crate) fn prefetch(&self, place: u32) {
        if let Some(line) = self.lines.get(place as usize) {
            prefetch(line);
        }
    }

    /// How many places there are, taken or free.
    pub(crate) fn extent(&self) -> u32 {
        self.rests.len() as u32
    }

    /// Places that are taken, ascending.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> + '_ {
        let numbered = self.rests.iter().enumerate();
        numbered.filter_map(|(place, rest)| rest.is_some().then_some(place as u32))
    }
}
