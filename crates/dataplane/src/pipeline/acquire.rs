//! Packets that wait while a key daemon negotiates their SA: few, for a short time, with one
//! request a tunnel.

use std::collections::{HashMap, VecDeque};

use convoy_ipsec::{FlowKey, TunnelId, WithoutSa};
use convoy_packet::Frame;

/// Waiting packets of one tunnel, at most.
const PER_TUNNEL: usize = 32;
/// Waiting packets in all, at most.
const IN_ALL: usize = 1024;
/// How long a packet waits, in ns: one or two retransmissions of IKE.
const TIMEOUT_NS: u64 = 10_000_000_000;
/// Interval between two requests for the same tunnel, in ns.
const AGAIN_NS: u64 = 5_000_000_000;

/// A request to the key daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// The tunnel that has no SA.
    pub tunnel: TunnelId,
    /// The worker that wants an SA of its own, where the tunnel has one at another worker (RFC
    /// 9611); otherwise `None`.
    pub worker: Option<u16>,
    /// The packet's flow.
    pub flow: FlowKey,
}

#[derive(Default)]
struct WaitingPackets {
    packets: VecDeque<(u64, WithoutSa)>,
    asked_ns: u64,
}

/// The waiting packets, by tunnel.
#[derive(Default)]
pub(super) struct AcquireQueue {
    tunnels: HashMap<TunnelId, WaitingPackets>,
    count: usize,
}

impl AcquireQueue {
    /// Queues a packet. Returns the packet displaced for lack of room, and the request to send
    /// unless one was sent recently.
    pub(super) fn keep(&mut self, now_ns: u64, packet: WithoutSa) -> (Option<WithoutSa>, Option<Acquire>) {
        let acquire = Acquire { tunnel: packet.tunnel, worker: None, flow: packet.flow };
        let is_full = self.count >= IN_ALL;
        let is_new = !self.tunnels.contains_key(&packet.tunnel);
        let waiting = self.tunnels.entry(packet.tunnel).or_default();
        let is_due = is_new || now_ns.saturating_sub(waiting.asked_ns) >= AGAIN_NS;
        if is_due {
            waiting.asked_ns = now_ns;
        }
        // The oldest is displaced: the newest is the one that its sender still waits for.
        let full = waiting.packets.len() >= PER_TUNNEL || is_full;
        let lost = if full { waiting.packets.pop_front().map(|(_, oldest)| oldest) } else { None };
        if full && lost.is_none() {
            return (Some(packet), is_due.then_some(acquire));
        }
        waiting.packets.push_back((now_ns, packet));
        self.count += usize::from(lost.is_none());
        (lost, is_due.then_some(acquire))
    }

    /// Removes the packets that wait for a tunnel, in order.
    pub(super) fn release(&mut self, tunnel: TunnelId, frames: &mut Vec<Frame>) {
        if let Some(waiting) = self.tunnels.remove(&tunnel) {
            self.count -= waiting.packets.len();
            frames.extend(waiting.packets.into_iter().map(|(_, packet)| packet.frame));
        }
    }

    /// Removes packets that have waited too long.
    pub(super) fn expire(&mut self, now_ns: u64, lost: &mut Vec<WithoutSa>) {
        for waiting in self.tunnels.values_mut() {
            while let Some((since, _)) = waiting.packets.front()
                && now_ns.saturating_sub(*since) >= TIMEOUT_NS
            {
                lost.extend(waiting.packets.pop_front().map(|(_, packet)| packet));
                self.count -= 1;
            }
        }
        self.tunnels.retain(|_, waiting| {
            !waiting.packets.is_empty() || now_ns.saturating_sub(waiting.asked_ns) < AGAIN_NS
        });
    }

    /// The number of waiting packets.
    pub(super) fn len(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_packet::{FramePool, FrameSize};

    fn packet(pool: &mut FramePool, tunnel: u32, byte: u8) -> WithoutSa {
        let mut frame = pool.take(FrameSize::Small).expect("a frame");
        frame.fill(&[byte]).expect("fits");
        let address = "10.0.0.1".parse().expect("an address");
        WithoutSa { tunnel: TunnelId(tunnel), flow: FlowKey::new(address, address, 17, None), frame }
    }

    #[test]
    fn a_tunnel_asks_once_and_gets_its_packets_in_order() {
        let mut pool = FramePool::new(64, 0);
        let mut queue = AcquireQueue::default();
        let asked: Vec<bool> =
            (0..4).map(|at| queue.keep(u64::from(at), packet(&mut pool, 7, at)).1.is_some()).collect();
        assert_eq!(asked, [true, false, false, false]);
        assert!(queue.keep(9, packet(&mut pool, 8, 9)).1.is_some());
        assert!(queue.keep(AGAIN_NS, packet(&mut pool, 7, 4)).1.is_some(), "nothing came of it so far");
        let mut frames = Vec::new();
        queue.release(TunnelId(7), &mut frames);
        assert_eq!(frames.iter().map(|frame| frame[0]).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn few_wait_and_not_for_long() {
        let mut pool = FramePool::new(IN_ALL + 64, 0);
        let mut queue = AcquireQueue::default();
        let lost: Vec<u8> = (0..PER_TUNNEL as u8 + 3)
            .filter_map(|at| queue.keep(0, packet(&mut pool, 1, at)).0)
            .map(|lost| lost.frame[0])
            .collect();
        assert_eq!(lost, [0, 1, 2]);
        for tunnel in 2..2 + IN_ALL as u32 {
            drop(queue.keep(1, packet(&mut pool, tunnel, 0)));
        }
        assert_eq!(queue.len(), IN_ALL);
        assert!(queue.keep(1, packet(&mut pool, 0, 0)).0.is_some(), "there is no room in all");
        let mut lost = Vec::new();
        queue.expire(TIMEOUT_NS, &mut lost);
        assert_eq!((lost.len(), queue.len()), (PER_TUNNEL, IN_ALL - PER_TUNNEL));
        queue.expire(TIMEOUT_NS + 1, &mut lost);
        assert_eq!((queue.len(), queue.tunnels.len()), (0, 0));
    }
}
