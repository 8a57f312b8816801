//! Frames lent to a device: it writes or reads their bytes, and returns their offset when it is
//! done.

#![allow(unsafe_code)]

use crate::frame::Frame;
use crate::region::{CHUNK_BYTES, Region};

/// The small frames currently lent to one device. A device identifies a frame by its offset in the
/// [`Region`]; when an offset comes back, the frame is recreated only if it is out on this loan, so
/// whatever a device says, no frame has two owners.
///
/// Frames that are still out when this is dropped stay so: the device may write to them at any
/// time. [`recall`](Self::recall) them once the device is closed.
pub struct Loans {
    /// A bit a chunk.
    out: Box<[u64]>,
    count: usize,
}

impl Default for Loans {
    fn default() -> Self {
        let chunks = Region::of_process().bytes() / CHUNK_BYTES;
        Self { out: vec![0; chunks.div_ceil(64)].into_boxed_slice(), count: 0 }
    }
}

impl Loans {
    /// No loans.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many frames are out.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no frame is out.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Lends a frame to the device and returns where its packet begins, in bytes from
    /// [`Region::base`].
    ///
    /// # Errors
    /// The frame, if it is larger than a chunk.
    #[inline]
    pub fn lend(&mut self, frame: Frame) -> Result<usize, Frame> {
        if frame.capacity() > CHUNK_BYTES {
            return Err(frame);
        }
        let (offset, chunk) = (frame.offset(), frame.chunk());
        self.out[chunk / 64] |= 1 << (chunk % 64);
        self.count += 1;
        frame.into_link();
        Ok(offset)
    }

    /// Takes back the frame whose chunk contains `offset`, with the `len` bytes from there as its
    /// packet. `None` if it is not out on this loan, or if the chunk ends before the packet does;
    /// then it stays out.
    #[inline]
    pub fn take_back(&mut self, offset: usize, len: usize) -> Option<Frame> {
        let (chunk, head) = (offset / CHUNK_BYTES, offset % CHUNK_BYTES);
        let bits = self.out.get_mut(chunk / 64)?;
        if *bits & (1 << (chunk % 64)) == 0 || len > CHUNK_BYTES - head {
            return None;
        }
        *bits &= !(1 << (chunk % 64));
        self.count -= 1;
        // SAFETY: `lend` gave up the frame of this chunk, and the bit that said so is cleared.
        let mut frame = unsafe { Frame::of_chunk(chunk as u32) };
        frame.clear();
        frame.place(head, len);
        Some(frame)
    }

    /// Takes back all frames that are out. Only once the device is closed: it would write into
    /// packets otherwise.
    pub fn recall(&mut self) -> Vec<Frame> {
        let words = self.out.iter().enumerate().filter(|(_, bits)| **bits != 0);
        let words: Vec<usize> = words.map(|(at, _)| at).collect();
        let chunks = words.into_iter().flat_map(|at| (0..64).map(move |bit| at * 64 + bit));
        chunks.filter_map(|chunk| self.take_back(chunk * CHUNK_BYTES, 0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FramePool, FrameSize};

    #[test]
    fn a_lent_frame_comes_back_once_with_what_the_device_says_is_in_it() {
        let (mut pool, mut loans) = (FramePool::new(1, 0), Loans::new());
        let mut frame = pool.take(FrameSize::Small).expect("one frame");
        frame.fill(b"from the device").expect("fits");
        let offset = loans.lend(frame).expect("small");
        assert_eq!((pool.available(FrameSize::Small), loans.len()), (0, 1));
        let frame = loans.take_back(offset + 5, 10).expect("it is out");
        assert_eq!(&frame[..], b"the device");
        assert!(loans.is_empty());
        assert!(loans.take_back(offset, 10).is_none(), "it has an owner");
        drop(frame);
        assert_eq!(pool.available(FrameSize::Small), 1);
    }

    #[test]
    fn what_is_not_out_on_this_loan_is_not_made_a_frame_of() {
        let mut pool = FramePool::new(2, 1);
        let (mut loans, mut others) = (Loans::new(), Loans::new());
        let mine = loans.lend(pool.take(FrameSize::Small).expect("a frame")).expect("small");
        let other = others.lend(pool.take(FrameSize::Small).expect("a frame")).expect("small");
        assert!(loans.take_back(other, 0).is_none());
        assert!(loans.take_back(0, 0).is_none());
        assert!(loans.take_back(usize::MAX, 0).is_none());
        assert!(loans.take_back(mine, CHUNK_BYTES).is_none(), "it ends before that");
        assert_eq!(loans.len(), 1);
        let jumbo = pool.take(FrameSize::Jumbo).expect("a frame");
        assert_eq!(loans.lend(jumbo).map_err(|frame| frame.size()), Err(FrameSize::Jumbo));
        assert!(loans.take_back(mine, 1).is_some() && others.take_back(other, 1).is_some());
    }

    #[test]
    fn all_that_a_closed_device_had_can_be_recalled() {
        const FRAMES: usize = 130;
        let (mut pool, mut loans) = (FramePool::new(FRAMES, 0), Loans::new());
        let mut burst = Vec::new();
        pool.take_burst(FrameSize::Small, FRAMES, &mut burst);
        let offsets: Vec<usize> = burst.drain(..).map(|frame| loans.lend(frame).expect("small")).collect();
        assert!(loans.take_back(offsets[7], 60).is_some());
        assert_eq!(pool.available(FrameSize::Small), 1);
        assert_eq!(loans.recall().len(), FRAMES - 1);
        assert_eq!((pool.available(FrameSize::Small), loans.len()), (FRAMES, 0));
        assert!(loans.take_back(offsets[8], 60).is_none());
    }
}
