//! Returns frames to their pool from other threads.
//!
//! A [`ReturnQueue`] is shared by a pool and its frames of one size. A thread that frees some of
//! them without having the pool links them to those returned before, by one exchange; the pool
//! takes all of them at once. Nobody ever takes a single one, so a frame that is freed, taken and
//! freed again between two steps of another thread does no harm there (no ABA).
//!
//! When the pool is dropped, the queue counts the frames that are still out. Anyone who returns the
//! last one gives the memory back to the region.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use convoy_sync::atomic::{AtomicU64, Ordering};

use crate::frame::Frame;
use crate::region::{Chunks, Region};

/// Set when the pool is gone; the other bits then count the frames that are still out.
const CLOSED: u64 = 1 << 63;

/// The frames of one size of one pool: where they lie, and which were freed elsewhere.
#[repr(align(64))]
pub(crate) struct ReturnQueue {
    /// While there is a pool: how many frames were freed elsewhere in the upper half, the link of
    /// the last of them in the lower one.
    returned: AtomicU64,
    chunks: Chunks,
    /// Accessed wherever the queue must not have been freed.
    #[cfg(convoy_loom)]
    witness: loom::cell::UnsafeCell<()>,
}

impl ReturnQueue {
    /// The queue of the frames in these chunks. It frees itself, and gives the chunks back, when it
    /// is closed and all frames are here.
    pub(crate) fn new(chunks: Chunks) -> NonNull<Self> {
        NonNull::from(Box::leak(Box::new(Self {
            returned: AtomicU64::new(0),
            chunks,
            #[cfg(convoy_loom)]
            witness: loom::cell::UnsafeCell::new(()),
        })))
    }

    /// Takes frames from anyone who had them last.
    ///
    /// # Safety
    /// They belong to this queue.
    unsafe fn take_back(return_queue: NonNull<Self>, mut chain: FrameChain) {
        // SAFETY: a queue lives while a frame of it is out, as those of the chain are until the
        // exchange below succeeds.
        let returned = unsafe { &(*return_queue.as_ptr()).returned };
        // SAFETY: as above.
        #[cfg(convoy_loom)]
        unsafe { &(*return_queue.as_ptr()).witness }.with(|_| ());
        let mut before = returned.load(Ordering::Relaxed);
        loop {
            let after = if before & CLOSED == 0 {
                chain.link_to(before as u32);
                (((before >> 32) + u64::from(chain.len)) << 32) | u64::from(chain.first)
            } else {
                before - u64::from(chain.len)
            };
            // Release: anyone who takes them finds what was done to them. Acquire: who frees the
            // queue comes after all others.
            match returned.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Relaxed) {
                Err(now) => before = now,
                Ok(_) => {
                    if after == CLOSED {
                        // SAFETY: the pool is gone, and this was the last frame.
                        unsafe { Self::free(return_queue) };
                    }
                    return;
                }
            }
        }
    }

    /// How many frames wait here for the pool.
    pub(crate) fn waiting(&self) -> usize {
        (self.returned.load(Ordering::Relaxed) >> 32) as usize
    }

    /// Moves all frames that wait here to `free`.
    pub(crate) fn empty_into(&self, free: &mut Vec<Frame>) {
        if self.returned.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Acquire: what was done to the frames comes before.
        let mut link = self.returned.swap(0, Ordering::Acquire) as u32;
        // SAFETY: each was made a link by the chain it came in, and the exchange gave all of them
        // to this one.
        while let Some(frame) = unsafe { Frame::from_link(link) } {
            link = frame.metadata().next;
            free.push(frame);
        }
    }

    /// Says that there is no pool any more, and that all frames but `out` and those that wait here
    /// are in its hands and forgotten.
    ///
    /// # Safety
    /// It is so, and the pool does not touch the queue after this.
    pub(crate) unsafe fn close(return_queue: NonNull<Self>, out: usize) {
        // SAFETY: only a closed queue is freed.
        let returned = unsafe { &(*return_queue.as_ptr()).returned };
        // SAFETY: as above.
        #[cfg(convoy_loom)]
        unsafe { &(*return_queue.as_ptr()).witness }.with(|_| ());
        let mut before = returned.load(Ordering::Relaxed);
        loop {
            let after = CLOSED | (out as u64 - (before >> 32));
            match returned.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Relaxed) {
                Err(now) => before = now,
                Ok(_) if after == CLOSED => {
                    // SAFETY: all frames are here.
                    return unsafe { Self::free(return_queue) };
                }
                Ok(_) => return,
            }
        }
    }

    /// # Safety
    /// No frame of this queue is out, and no other thread uses it.
    unsafe fn free(return_queue: NonNull<Self>) {
        // SAFETY: it came from a box, and nothing leads to it any more.
        let return_queue = unsafe { Box::from_raw(return_queue.as_ptr()) };
        #[cfg(convoy_loom)]
        return_queue.witness.with_mut(|_| ());
        // SAFETY: the pool took them, and no frame in them is in use.
        unsafe { Region::of_process().give_back(return_queue.chunks) };
    }
}

/// Frames of one queue, the first linked to the next.
struct FrameChain {
    first: u32,
    last: u32,
    len: u32,
}

impl FrameChain {
    fn of(frame: Frame) -> Self {
        let link = frame.into_link();
        Self { first: link, last: link, len: 1 }
    }

    fn push(&mut self, mut frame: Frame) {
        frame.metadata_mut().next = self.first;
        self.first = frame.into_link();
        self.len += 1;
    }

    /// Has the last frame lead to `link`.
    fn link_to(&mut self, link: u32) {
        // SAFETY: the chain owns the frame, and this one is not dropped.
        let last = unsafe { Frame::from_link(self.last) };
        let mut last = ManuallyDrop::new(last.expect("a frame's link is not 0"));
        last.metadata_mut().next = link;
    }
}

/// Returns one frame to its pool.
#[cold]
#[inline(never)]
pub(crate) fn return_frame(frame: Frame) {
    let return_queue = frame.metadata().return_queue;
    // SAFETY: it is the frame's queue.
    unsafe { ReturnQueue::take_back(return_queue, FrameChain::of(frame)) };
}

/// Returns frames to their pools, consecutive ones of one queue together. What is left goes
/// when it is dropped.
#[derive(Default)]
pub(crate) struct Returning(Option<(NonNull<ReturnQueue>, FrameChain)>);

impl Returning {
    pub(crate) fn add(&mut self, frame: Frame) {
        let return_queue = frame.metadata().return_queue;
        match &mut self.0 {
            Some((of, chain)) if *of == return_queue => chain.push(frame),
            _ => {
                self.send();
                self.0 = Some((return_queue, FrameChain::of(frame)));
            }
        }
    }

    fn send(&mut self) {
        if let Some((return_queue, chain)) = self.0.take() {
            // SAFETY: `add` only gathers frames of this queue.
            unsafe { ReturnQueue::take_back(return_queue, chain) };
        }
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        self.send();
    }
}

#[cfg(all(test, convoy_loom))]
mod models;
