//! What rtrb's ring promises, in loom's types: loom cannot look into the library, whose loads and
//! stores have the orderings that are used here. It is the rings' users that models check.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use rtrb::{PeekError, PopError, PushError};

/// Slots of a ring, whatever was asked for: loom creates each of them for every run of a model.
const MOST_SLOTS: usize = 4;

struct Slots<T> {
    /// Items taken and items added, ever.
    head: AtomicUsize,
    tail: AtomicUsize,
    slots: Vec<UnsafeCell<Option<T>>>,
}

/// A ring; its two ends are all there is of it.
pub struct RingBuffer<T>(PhantomData<T>);

impl<T> RingBuffer<T> {
    /// The ends of a ring with room for this many items, or for four if that is fewer.
    #[expect(clippy::new_ret_no_self, reason = "as rtrb")]
    pub fn new(capacity: usize) -> (Producer<T>, Consumer<T>) {
        let slots = (0..capacity.min(MOST_SLOTS)).map(|_| UnsafeCell::new(None)).collect();
        let ring = Arc::new(Slots { head: AtomicUsize::new(0), tail: AtomicUsize::new(0), slots });
        let consumer = Consumer { ring: ring.clone(), head: Cell::new(0), tail: Cell::new(0) };
        (Producer { ring, head: Cell::new(0), tail: Cell::new(0) }, consumer)
    }
}

/// The end that adds items.
pub struct Producer<T> {
    ring: Arc<Slots<T>>,
    /// The consumer's position as last read, and this end's own.
    head: Cell<usize>,
    tail: Cell<usize>,
}

// SAFETY: a slot is reached by the end whose turn it is, which loom checks.
unsafe impl<T: Send> Send for Producer<T> {}

impl<T> Producer<T> {
    /// Adds an item.
    ///
    /// # Errors
    /// The item, if the ring is full.
    pub fn push(&mut self, item: T) -> Result<(), PushError<T>> {
        if self.slots() == 0 {
            return Err(PushError::Full(item));
        }
        let (tail, slots) = (self.tail.get(), &self.ring.slots);
        // SAFETY: loom fails the model if the consumer reaches the slot at the same time.
        slots[tail % slots.len()].with_mut(|slot| unsafe { *slot = Some(item) });
        self.ring.tail.store(tail + 1, Ordering::Release);
        self.tail.set(tail + 1);
        Ok(())
    }

    /// How many items there is room for.
    pub fn slots(&self) -> usize {
        let capacity = self.ring.slots.len();
        if self.tail.get() - self.head.get() == capacity {
            self.head.set(self.ring.head.load(Ordering::Acquire));
        }
        capacity - (self.tail.get() - self.head.get())
    }
}

/// The end that takes items.
pub struct Consumer<T> {
    ring: Arc<Slots<T>>,
    /// This end's own position, and the producer's as last read.
    head: Cell<usize>,
    tail: Cell<usize>,
}

// SAFETY: as for the producer.
unsafe impl<T: Send> Send for Consumer<T> {}

impl<T> Consumer<T> {
    /// Takes an item.
    ///
    /// # Errors
    /// If there is none.
    pub fn pop(&mut self) -> Result<T, PopError> {
        if self.is_empty() {
            return Err(PopError::Empty);
        }
        let (head, slots) = (self.head.get(), &self.ring.slots);
        // SAFETY: loom fails the model if the producer reaches the slot at the same time.
        let item = slots[head % slots.len()].with_mut(|slot| unsafe { (*slot).take() });
        self.ring.head.store(head + 1, Ordering::Release);
        self.head.set(head + 1);
        item.ok_or(PopError::Empty)
    }

    /// The item that is taken next.
    ///
    /// # Errors
    /// If there is none.
    pub fn peek(&self) -> Result<&T, PeekError> {
        if self.is_empty() {
            return Err(PeekError::Empty);
        }
        let slots = &self.ring.slots;
        // SAFETY: the producer leaves the slot alone until the item is taken, for which this end
        // must be free of borrows.
        let item = slots[self.head.get() % slots.len()].with(|slot| unsafe { (*slot).as_ref() });
        item.ok_or(PeekError::Empty)
    }

    /// How many items there are.
    pub fn slots(&self) -> usize {
        self.tail.set(self.ring.tail.load(Ordering::Acquire));
        self.tail.get() - self.head.get()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        if self.head.get() == self.tail.get() {
            self.tail.set(self.ring.tail.load(Ordering::Acquire));
        }
        self.head.get() == self.tail.get()
    }
}
