//! What the directory uses of papaya, whose steps loom cannot see: each call is one step, as papaya
//! promises for one key, and calls follow each other in every order.

use std::collections::HashMap as Entries;
use std::hash::Hash;
use std::marker::PhantomData;

use loom::sync::{Mutex, MutexGuard};
pub(super) use papaya::Operation;

/// A concurrent map.
#[derive(Debug)]
pub(super) struct HashMap<K, V>(Mutex<Entries<K, V>>);

/// Why nothing was inserted.
pub(super) struct Occupied<V> {
    pub(super) current: V,
}

/// The result of [`HashMap::compute`], which has no use here.
pub(super) struct Compute<'a, K, V, T>(PhantomData<(&'a K, V, T)>);

impl<K: Copy + Eq + Hash, V: Copy> HashMap<K, V> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Entries::new()))
    }

    /// papaya's guard of the memory that a look-up reads.
    pub(super) fn pin(&self) -> &Self {
        self
    }

    fn entries(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.0.lock().expect("a model that panics ends")
    }

    pub(super) fn len(&self) -> usize {
        self.entries().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.entries().get(key).copied()
    }

    pub(super) fn contains_key(&self, key: &K) -> bool {
        self.entries().contains_key(key)
    }

    pub(super) fn try_insert(&self, key: K, value: V) -> Result<(), Occupied<V>> {
        let mut entries = self.entries();
        match entries.get(&key) {
            Some(current) => Err(Occupied { current: *current }),
            None => {
                entries.insert(key, value);
                Ok(())
            }
        }
    }

    pub(super) fn remove_if(&self, key: &K, test: impl Fn(&K, &V) -> bool) -> Result<Option<(K, V)>, V> {
        let mut entries = self.entries();
        match entries.get(key).copied() {
            Some(present) if !test(key, &present) => Err(present),
            _ => Ok(entries.remove_entry(key)),
        }
    }

    pub(super) fn update(&self, key: K, change: impl Fn(&V) -> V) {
        if let Some(value) = self.entries().get_mut(&key) {
            *value = change(value);
        }
    }

    pub(super) fn update_or_insert(&self, key: K, change: impl Fn(&V) -> V, first: V) {
        self.entries().entry(key).and_modify(|value| *value = change(value)).or_insert(first);
    }

    pub(super) fn compute<T>(
        &self,
        key: K,
        change: impl Fn(Option<(&K, &V)>) -> Operation<V, T>,
    ) -> Compute<'_, K, V, T> {
        let mut entries = self.entries();
        match change(entries.get_key_value(&key)) {
            Operation::Insert(value) => _ = entries.insert(key, value),
            Operation::Remove => _ = entries.remove(&key),
            Operation::Abort(_) => {}
        }
        Compute(PhantomData)
    }
}
