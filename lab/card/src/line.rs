//! The Ethernet line that the card is connected to.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::sys::eventfd::{EfdFlags, EventFd};
use rtrb::{Consumer, Producer, PushError, RingBuffer};

/// Length of the longest frame on the line, without FCS, in bytes.
pub const LINE_BYTES: usize = 9_018;

/// One end of an Ethernet line. Frames run from destination address to payload, without FCS. No
/// call blocks.
pub trait Line: Send {
    /// Writes the next frame for the card to the start of `buffer` and returns its length; `None`
    /// if there is none. A frame that is longer than the buffer is dropped.
    ///
    /// # Errors
    /// Errors of the system, for example that an interface is down. The call may be repeated.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Sends a frame from the card; `false` if there is no room now.
    ///
    /// # Errors
    /// Errors of the system; the frame is lost.
    fn send(&mut self, frame: &[u8]) -> io::Result<bool>;

    /// A descriptor that is readable when `receive` may have a frame; `None` if the line has to be
    /// polled.
    fn readable_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// One end of a line in memory, for tests.
pub struct MemoryLine {
    to_peer: Producer<Vec<u8>>,
    from_peer: Consumer<Vec<u8>>,
    to_wake: Arc<EventFd>,
    woken_by: Arc<EventFd>,
}

/// Makes a line that holds `capacity` frames in each direction, and returns its ends.
///
/// # Errors
/// If the system has no file descriptor left.
pub fn memory(capacity: usize) -> io::Result<(MemoryLine, MemoryLine)> {
    let (to_b, from_a) = RingBuffer::new(capacity);
    let (to_a, from_b) = RingBuffer::new(capacity);
    let (wakes_a, wakes_b) = (Arc::new(event()?), Arc::new(event()?));
    let a = MemoryLine {
        to_peer: to_b,
        from_peer: from_b,
        to_wake: Arc::clone(&wakes_b),
        woken_by: Arc::clone(&wakes_a),
    };
    let b = MemoryLine { to_peer: to_a, from_peer: from_a, to_wake: wakes_a, woken_by: wakes_b };
    Ok((a, b))
}

/// An event descriptor that never blocks.
pub(crate) fn event() -> io::Result<EventFd> {
    let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
    EventFd::from_flags(flags).map_err(io::Error::from)
}

impl Line for MemoryLine {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.from_peer.is_empty() {
            // Cleared before the queue is checked again, so that a frame that arrives in between
            // sets it again.
            let _ = self.woken_by.read();
        }
        while let Ok(frame) = self.from_peer.pop() {
            if let Some(place) = buffer.get_mut(..frame.len()) {
                place.copy_from_slice(&frame);
                return Ok(Some(frame.len()));
            }
        }
        Ok(None)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        match self.to_peer.push(frame.to_vec()) {
            Ok(()) => {
                // Fails only if the counter is at its limit, when the peer has been woken anyway.
                let _ = self.to_wake.write(1);
                Ok(true)
            }
            Err(PushError::Full(_)) if self.to_peer.is_abandoned() => Err(io::ErrorKind::BrokenPipe.into()),
            Err(PushError::Full(_)) => Ok(false),
        }
    }

    fn readable_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.woken_by.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_cross_in_order_and_a_full_line_refuses() {
        let (mut a, mut b) = memory(2).expect("descriptors");
        assert!(a.send(&[1; 60]).expect("a peer") && a.send(&[2; 61]).expect("a peer"));
        assert!(!a.send(&[3; 62]).expect("a peer"));
        let mut buffer = [0; 100];
        assert_eq!((b.receive(&mut buffer).expect("a line"), buffer[0]), (Some(60), 1));
        assert_eq!((b.receive(&mut buffer).expect("a line"), buffer[0]), (Some(61), 2));
        assert_eq!(b.receive(&mut buffer).expect("a line"), None);
        assert!(b.send(&[4; 60]).expect("a peer"));
        assert_eq!(a.receive(&mut buffer[..10]).expect("a line"), None, "it does not fit");
    }
}
