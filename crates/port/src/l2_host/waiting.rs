//! Packets that wait until their next hop has answered: bounded for each next hop and in all.

use std::collections::VecDeque;
use std::net::IpAddr;

use convoy_packet::{Frame, FrameSize};

/// Packets that wait for one address, at most; the oldest is displaced.
pub(super) const FOR_ONE: usize = 64;

struct WaitingPacket {
    next_hop: IpAddr,
    size: FrameSize,
    frame: Frame,
}

/// The packets, the earliest in front.
#[derive(Default)]
pub(super) struct Waiting(VecDeque<WaitingPacket>);

impl Waiting {
    /// Queues a packet. Returns the displaced one: the oldest to the same next hop if too many wait
    /// for that, or the oldest in a frame of the same size if `share` of them wait. The pool has
    /// frames of each size, and none may run out.
    pub(super) fn push(&mut self, next_hop: IpAddr, frame: Frame, share: usize) -> Option<Frame> {
        let size = frame.size();
        let displaced = if self.count(|it| it.next_hop == next_hop) >= FOR_ONE {
            self.remove_first(|it| it.next_hop == next_hop)
        } else if self.0.len() >= share && self.count(|it| it.size == size) >= share.max(1) {
            self.remove_first(|it| it.size == size)
        } else {
            None
        };
        self.0.push_back(WaitingPacket { next_hop, size, frame });
        displaced
    }

    /// Takes the packets that wait for an address, in order.
    pub(super) fn take(&mut self, address: IpAddr) -> VecDeque<Frame> {
        self.take_unless(|next_hop| next_hop != address).into()
    }

    /// Takes the packets that wait for other addresses than these, in order.
    pub(super) fn take_unless(&mut self, stays: impl Fn(IpAddr) -> bool) -> Vec<Frame> {
        let mut leaving = Vec::new();
        for _ in 0..self.0.len() {
            let Some(packet) = self.0.pop_front() else { break };
            if stays(packet.next_hop) {
                self.0.push_back(packet);
            } else {
                leaving.push(packet.frame);
            }
        }
        leaving
    }

    fn count(&self, is_one: impl Fn(&WaitingPacket) -> bool) -> usize {
        self.0.iter().filter(|it| is_one(it)).count()
    }

    fn remove_first(&mut self, is_it: impl FnMut(&WaitingPacket) -> bool) -> Option<Frame> {
        let at = self.0.iter().position(is_it)?;
        Some(self.0.remove(at)?.frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_packet::FramePool;

    const SHARE: usize = 100;

    fn frame(pool: &mut FramePool, size: FrameSize, byte: u8) -> Frame {
        let mut frame = pool.take(size).expect("a frame");
        frame.fill(&[byte]).expect("fits");
        frame
    }

    fn address(n: usize) -> IpAddr {
        [10, 2, 0, n as u8].into()
    }

    #[test]
    fn one_next_hop_displaces_its_own_oldest() {
        let (mut pool, mut waiting) = (FramePool::new(FOR_ONE + 2, 0), Waiting::default());
        assert!(waiting.push(address(1), frame(&mut pool, FrameSize::Small, 200), SHARE).is_none());
        for n in 0..FOR_ONE {
            let frame = frame(&mut pool, FrameSize::Small, n as u8);
            assert!(waiting.push(address(0), frame, SHARE).is_none());
        }
        let displaced = waiting.push(address(0), frame(&mut pool, FrameSize::Small, 99), SHARE);
        assert_eq!(displaced.expect("one too many")[0], 0);
        assert_eq!(waiting.take(address(1)).len(), 1);
        let left: Vec<u8> = waiting.take(address(0)).iter().map(|frame| frame[0]).collect();
        assert_eq!((left.len(), left[0], left[FOR_ONE - 1]), (FOR_ONE, 1, 99));
    }

    #[test]
    fn the_share_holds_for_each_size() {
        let (mut pool, mut waiting) = (FramePool::new(8, 8), Waiting::default());
        for n in 0..4 {
            let small = frame(&mut pool, FrameSize::Small, n);
            assert!(waiting.push(address(n.into()), small, 4).is_none());
        }
        let jumbo = frame(&mut pool, FrameSize::Jumbo, 50);
        assert!(waiting.push(address(9), jumbo, 2).is_none(), "it takes no small frame's place");
        let jumbo = frame(&mut pool, FrameSize::Jumbo, 51);
        assert!(waiting.push(address(8), jumbo, 2).is_none());
        let displaced = waiting.push(address(9), frame(&mut pool, FrameSize::Jumbo, 52), 2);
        assert_eq!(displaced.expect("the share is full")[0], 50);
        let displaced = waiting.push(address(9), frame(&mut pool, FrameSize::Small, 53), 4);
        assert_eq!(displaced.expect("the share is full")[0], 0);
    }
}
