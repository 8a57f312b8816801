//! The SAs of one direction: hot state apart from cold, so that the cache lines of thousands of SAs
//! fit the processor's cache.

use std::collections::VecDeque;

use convoy_packet::prefetch;

/// SAs by index. `H` is the hot state, which every packet reads or writes, `C` the cold one.
pub(crate) struct SaTable<H, C> {
    hot: Vec<Option<H>>,
    cold: Vec<Option<C>>,
    /// Free indices, the longest free first.
    free: VecDeque<u32>,
}

impl<H, C> Default for SaTable<H, C> {
    fn default() -> Self {
        Self { hot: Vec::new(), cold: Vec::new(), free: VecDeque::new() }
    }
}

impl<H, C> SaTable<H, C> {
    /// The index of the next insertion: the one that has been free the longest.
    pub(crate) fn next_place(&self) -> u32 {
        self.free.front().copied().unwrap_or(self.hot.len() as u32)
    }

    /// Inserts at the [next index](Self::next_place).
    pub(crate) fn insert(&mut self, hot: H, cold: C) {
        match self.free.pop_front() {
            Some(place) => {
                self.hot[place as usize] = Some(hot);
                self.cold[place as usize] = Some(cold);
            }
            None => {
                self.hot.push(Some(hot));
                self.cold.push(Some(cold));
            }
        }
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<C> {
        self.hot.get_mut(place as usize)?.take()?;
        self.free.push_back(place);
        self.cold[place as usize].take()
    }

    #[inline]
    pub(crate) fn hot(&self, place: u32) -> Option<&H> {
        self.hot.get(place as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn hot_mut(&mut self, place: u32) -> Option<&mut H> {
        self.hot.get_mut(place as usize)?.as_mut()
    }

    pub(crate) fn cold(&self, place: u32) -> Option<&C> {
        self.cold.get(place as usize)?.as_ref()
    }

    pub(crate) fn cold_mut(&mut self, place: u32) -> Option<&mut C> {
        self.cold.get_mut(place as usize)?.as_mut()
    }

    pub(crate) fn hot_and_cold(&self, place: u32) -> Option<(&H, &C)> {
        Some((self.hot(place)?, self.cold(place)?))
    }

    pub(crate) fn hot_and_cold_mut(&mut self, place: u32) -> Option<(&mut H, &mut C)> {
        let hot = self.hot.get_mut(place as usize)?.as_mut()?;
        Some((hot, self.cold.get_mut(place as usize)?.as_mut()?))
    }

    /// Prefetches the hot state.
    #[inline]
    pub(crate) fn prefetch(&self, place: u32) {
        if let Some(hot) = self.hot.get(place as usize) {
            prefetch(hot);
        }
    }

    /// The number of indices, used or free.
    pub(crate) fn extent(&self) -> u32 {
        self.cold.len() as u32
    }

    /// The used indices, ascending.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> + '_ {
        let numbered = self.cold.iter().enumerate();
        numbered.filter_map(|(place, cold)| cold.is_some().then_some(place as u32))
    }
}
