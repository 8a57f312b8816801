//! From messages of a packet socket to frames: one message is a packet, or several merged by the
//! kernel.

use std::io;
use std::os::fd::BorrowedFd;

use convoy_packet::{Frame, FramePool, ethernet};

use super::BEFORE_PACKET;
use crate::link::{Link, packet_len};
use crate::super_packet::{Cut, HEADER_BYTES, NextSegment, OffloadHeader};
use crate::sys::MessageRoom;

/// Messages received at once.
const MESSAGES: usize = 32;
/// Room for the longest packet, or for what the kernel merges.
const MESSAGE_BYTES: usize = BEFORE_PACKET + 65_535;
/// Length of the header before a packet, in bytes.
pub(super) const LINK_BYTES: u16 = ethernet::HEADER_BYTES as u16;

/// Received and not handed out yet.
pub(super) struct AfPacketReceiver {
    incoming: MessageRoom,
    /// Messages from `next` to `count` wait; the previous one is being cut.
    next: usize,
    count: usize,
    cut: Cut,
    /// Length of the message being cut.
    len: usize,
}

impl AfPacketReceiver {
    pub(super) fn new() -> Self {
        let incoming = MessageRoom::new(MESSAGES, MESSAGE_BYTES);
        Self { incoming, next: 0, count: 0, cut: Cut::default(), len: 0 }
    }

    /// Receives once all was handed out. Returns whether there may be more.
    pub(super) fn fill(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        debug_assert!(!self.has_waiting(), "what waits is not written over");
        (self.next, self.count) = (0, 0);
        match self.incoming.receive(socket) {
            Ok(count) => {
                self.count = count;
                Ok(count == MESSAGES)
            }
            Err(error) => match error.raw_os_error() {
                // The interface is down: it may come back.
                Some(libc::EAGAIN | libc::ENETDOWN) => Ok(false),
                Some(libc::EINTR) => Ok(true),
                _ => Err(error),
            },
        }
    }

    /// Whether received packets wait to be handed out.
    pub(super) fn has_waiting(&self) -> bool {
        self.next < self.count || !self.cut.is_done()
    }

    /// Hands out received packets, up to `limit` frames in `burst`; `false` if frames or room ran
    /// out first.
    pub(super) fn hand_out(
        &mut self,
        link: &mut Link,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> bool {
        loop {
            while !self.cut.is_done() {
                let Some(message) = self.incoming.message(self.next - 1).filter(|_| burst.len() < limit)
                else {
                    return false;
                };
                match self.cut.next(&message.bytes[BEFORE_PACKET..self.len], pool) {
                    NextSegment::Frame(frame) => {
                        link.counters.count_received(frame.len());
                        burst.push(frame);
                    }
                    NextSegment::TooLong => link.counters.receive_dropped += 1,
                    NextSegment::NoFrame => return false,
                }
            }
            if self.next >= self.count {
                return true;
            }
            let begun = self.incoming.bytes_mut(self.next).and_then(begin);
            link.counters.receive_dropped += u64::from(begun.is_none());
            (self.cut, self.len) = begun.unwrap_or_default();
            self.next += 1;
        }
    }
}

/// Parses a message, and completes what the kernel left out; returns how it is to be cut, and its
/// length without padding. `None` if it is malformed.
fn begin(message: &mut [u8]) -> Option<(Cut, usize)> {
    let (header, frame) = message.split_first_chunk_mut::<HEADER_BYTES>()?;
    let header = OffloadHeader::read(header)?.behind_link(LINK_BYTES)?;
    let packet = frame.get_mut(ethernet::HEADER_BYTES..)?;
    // Merged packets are never padded.
    let len = if header.segments.is_some() { packet.len() } else { packet_len(packet)? };
    let cut = Cut::of(&header, &mut packet[..len])?;
    Some((cut, BEFORE_PACKET + len))
}

#[cfg(test)]
mod tests {
    use convoy_packet::protocol::UDP;
    use convoy_packet::{FrameSize, IpHeader, MacAddress, checksum, udp};

    use super::*;

    /// A datagram as delivered by a packet socket, with `padding` bytes behind it.
    fn message(offload: &OffloadHeader, padding: usize) -> Vec<u8> {
        let header = IpHeader::new(UDP, [192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let mut packet = vec![7; 20 + 8 + 5];
        header.write(&mut packet);
        udp::write(&mut packet[20..], 9_000, 7_000);
        if offload.checksum.is_some() {
            let pseudo = !checksum::fold(checksum::pseudo_header(&packet, UDP, 13));
            packet[26..28].copy_from_slice(&pseudo.to_be_bytes());
        }
        let mac = MacAddress([2, 0, 0, 0, 0, 1]);
        let frame = [&ethernet::header(mac, mac, ethernet::IPV4)[..], &packet, &vec![0; padding]].concat();
        [&offload.before_link(LINK_BYTES).write()[..], &frame].concat()
    }

    #[test]
    fn what_the_kernel_left_undone_is_done_and_what_pads_a_frame_is_left_out() {
        for checksum in [None, Some((20, 6))] {
            let mut bytes = message(&OffloadHeader { checksum, ..OffloadHeader::default() }, 13);
            let (mut cut, len) = begin(&mut bytes).expect("whole");
            let mut pool = FramePool::new(1, 0);
            let NextSegment::Frame(frame) = cut.next(&bytes[BEFORE_PACKET..len], &mut pool) else {
                panic!("there is a frame");
            };
            assert_eq!(frame.len(), 33);
            let datagram = udp::Udp::parse(&frame[20..]).expect("whole");
            let is_valid = datagram.is_checksum_valid(checksum::pseudo_header(&frame, UDP, 13));
            assert_eq!((datagram.checksum() != 0, is_valid), (checksum.is_some(), checksum.is_some()));
            assert!(cut.is_done() && pool.take(FrameSize::Small).is_none());
        }
    }

    #[test]
    fn stumps_and_checksums_outside_the_packet_are_malformed() {
        let whole = message(&OffloadHeader::default(), 0);
        for len in 0..whole.len() {
            assert!(begin(&mut whole[..len].to_vec()).is_none(), "{len} bytes");
        }
        let mut before = whole.clone();
        // The checksum covers the bytes from the start of the Ethernet header.
        before[0] = 1;
        assert!(begin(&mut before).is_none());
        assert!(
            begin(&mut message(&OffloadHeader { checksum: Some((32, 6)), ..OffloadHeader::default() }, 0))
                .is_none()
        );
    }
}
