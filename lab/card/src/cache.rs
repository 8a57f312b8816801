//! Tracks which SAs are in a pipeline's cache.

/// Entries of a pipeline's SA cache.
const ENTRIES: usize = 256;

/// Name of a cached SA: its number and whether it uses ESN. With and without ESN are two entries,
/// because the flag is part of the SA on the card.
pub(crate) type Name = (u32, bool);

/// The driver's copy of one pipeline's cache directory. The entry that was filled first is replaced
/// first.
#[derive(Default)]
pub(crate) struct Cache {
    names: Vec<Option<Name>>,
    next: usize,
    /// Entry of the last packet, since packets of one SA often come in a row.
    last: Option<(Name, u8)>,
}

impl Cache {
    /// The place of an SA, if it is cached.
    pub(crate) fn find(&mut self, name: Name) -> Option<u8> {
        if let Some((last, at)) = self.last
            && last == name
        {
            return Some(at);
        }
        let at = self.names.iter().position(|known| *known == Some(name))? as u8;
        self.last = Some((name, at));
        Some(at)
    }

    /// Chooses the place for an SA that is about to be installed.
    pub(crate) fn place(&mut self, name: Name) -> u8 {
        self.last = None;
        let at = self.names.iter().position(Option::is_none).unwrap_or_else(|| {
            if self.names.len() < ENTRIES {
                self.names.push(None);
                return self.names.len() - 1;
            }
            self.next = (self.next + 1) % ENTRIES;
            self.next
        });
        self.names[at] = Some(name);
        at as u8
    }

    /// Forgets an SA and returns its places, which have to be cleared on the card.
    pub(crate) fn remove(&mut self, sa: u32) -> Vec<u8> {
        self.last = None;
        let mut places = Vec::new();
        for (at, name) in self.names.iter_mut().enumerate() {
            if name.is_some_and(|(known, _)| known == sa) {
                *name = None;
                places.push(at as u8);
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_gives_up_one_entry_and_keeps_the_others() {
        let mut cache = Cache::default();
        for sa in 0..256 {
            assert_eq!(u32::from(cache.place((sa, false))), sa);
        }
        let at = cache.place((256, false));
        assert_eq!(cache.find((256, false)), Some(at));
        assert_eq!((0..256).filter(|sa| cache.find((*sa, false)).is_none()).count(), 1);
    }

    #[test]
    fn both_entries_of_an_sa_go_with_it() {
        let mut cache = Cache::default();
        let places = vec![cache.place((7, false)), cache.place((7, true))];
        let other = cache.place((8, true));
        assert_eq!(cache.remove(7), places);
        assert_eq!(cache.find((7, true)), None);
        assert_eq!(cache.find((8, true)), Some(other));
        assert_eq!(cache.place((9, false)), places[0]);
    }
}
