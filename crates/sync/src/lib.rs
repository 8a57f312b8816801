//! Atomic words, threads and rings, as the gateway uses them and as loom checks them.
//!
//! In every build these are the types of `std` and `rtrb` themselves. `make loom` sets
//! `cfg(convoy_loom)`: then they are loom's, which runs a model once for each order in which its
//! threads can take their steps and for each value that a load may return, and fails on data races,
//! deadlocks and the model's own assertions. Code whose correctness depends on the order of memory
//! accesses takes them from here, and its models are in `models.rs` beside it.
//!
//! The name is not `cfg(loom)`, as tokio has no sockets under that one.
//!
//! - [`atomic`]: words and fences.
//! - [`channel`]: a channel without bound.
//! - [`thread`]: threads that park.
//! - [`ring`]: rings with one producer and one consumer.

#[cfg(convoy_loom)]
mod loom_ring;

/// Words that several threads read and write, and fences between such accesses.
pub mod atomic {
    #[cfg(convoy_loom)]
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
    pub use std::sync::atomic::Ordering;
    #[cfg(not(convoy_loom))]
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
}

/// A channel from any number of threads to one.
pub mod channel {
    #[cfg(convoy_loom)]
    pub use loom::sync::mpsc::{Receiver, Sender, channel};
    #[cfg(not(convoy_loom))]
    pub use std::sync::mpsc::{Receiver, Sender, channel};
}

/// Threads, and how one waits for another.
pub mod thread {
    #[cfg(convoy_loom)]
    pub use loom::hint::spin_loop;
    #[cfg(convoy_loom)]
    pub use loom::thread::{Builder, JoinHandle, park};
    #[cfg(not(convoy_loom))]
    pub use std::hint::spin_loop;
    #[cfg(not(convoy_loom))]
    pub use std::thread::{Builder, JoinHandle, park};

    /// Whether a thread has ended. In a model it has not: loom cannot say.
    #[inline]
    pub fn has_ended<T>(thread: &JoinHandle<T>) -> bool {
        #[cfg(convoy_loom)]
        let has_ended = {
            let _ = thread;
            false
        };
        #[cfg(not(convoy_loom))]
        let has_ended = thread.is_finished();
        has_ended
    }
}

/// Rings with one producer and one consumer.
pub mod ring {
    #[cfg(convoy_loom)]
    pub use crate::loom_ring::{Consumer, Producer, RingBuffer};
    pub use rtrb::PushError;
    #[cfg(not(convoy_loom))]
    pub use rtrb::{Consumer, Producer, RingBuffer};
}
