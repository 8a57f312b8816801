//! A port that sends the demo's traffic and holds what arrives against what was sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use convoy_packet::{Frame, FramePool};
use convoy_port::{Port, PortCounters, PortDescription, PortError, PortKind};

use super::traffic::{Traffic, tunnel_of_packet};

/// What was sent one way and how it arrived. Shared between the two ports of a direction.
#[derive(Debug, Default)]
pub struct Delivery {
    /// Whether packets are sent.
    pub sending: AtomicBool,
    /// Packets sent.
    pub sent: AtomicU64,
    /// Their bytes, IP header included.
    pub sent_bytes: AtomicU64,
    /// Packets that arrived byte for byte, in the order of their SA.
    pub good: AtomicU64,
    /// Packets that arrived byte for byte, but after a later one of their SA.
    pub out_of_order: AtomicU64,
    /// Packets that arrived and were never sent.
    pub wrong: AtomicU64,
}

impl Delivery {
    /// Packets that arrived, good or not.
    pub fn arrived(&self) -> u64 {
        self.good.load(Ordering::Relaxed)
            + self.out_of_order.load(Ordering::Relaxed)
            + self.wrong.load(Ordering::Relaxed)
    }

    /// Whether each packet that was sent came out once, byte for byte and in order.
    pub fn is_perfect(&self) -> bool {
        self.good.load(Ordering::Relaxed) == self.sent.load(Ordering::Relaxed)
            && self.arrived() == self.good.load(Ordering::Relaxed)
    }
}

/// The plaintext port of one of the demo's gateways.
pub(super) struct TrafficPort {
    description: PortDescription,
    counters: PortCounters,
    outgoing: Arc<Traffic>,
    outgoing_delivery: Arc<Delivery>,
    next: usize,
    incoming: Arc<Traffic>,
    incoming_delivery: Arc<Delivery>,
    /// For each tunnel, how many of its packets were seen.
    seen: Vec<u64>,
}

impl TrafficPort {
    /// A port that sends `outgoing` and expects `incoming`.
    pub(super) fn new(
        name: &str,
        mtu: usize,
        (outgoing, outgoing_delivery): (Arc<Traffic>, Arc<Delivery>),
        (incoming, incoming_delivery): (Arc<Traffic>, Arc<Delivery>),
    ) -> Self {
        Self {
            description: PortDescription { name: name.to_owned(), kind: PortKind::Memory, mtu },
            counters: PortCounters::default(),
            next: 0,
            seen: vec![0; incoming.tunnels()],
            outgoing,
            outgoing_delivery,
            incoming,
            incoming_delivery,
        }
    }

    fn check(&mut self, packet: &[u8]) {
        let count = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let Some(tunnel) = tunnel_of_packet(packet).filter(|tunnel| *tunnel < self.seen.len()) else {
            return count(&self.incoming_delivery.wrong);
        };
        let places = self.incoming.of_tunnel(tunnel);
        let round = places.len() as u64;
        let expected = self.seen[tunnel];
        let is_at = |seat: u64| self.incoming.packet(places[(seat % round) as usize] as usize) == packet;
        if round > 0 && is_at(expected) {
            self.seen[tunnel] += 1;
            return count(&self.incoming_delivery.good);
        }
        // Not the next one: was it sent at all, and if so, before or after what is missing?
        let found = (1..round).find(|ahead| is_at(expected + ahead));
        match found {
            Some(ahead) if ahead < round / 2 => {
                self.seen[tunnel] = expected + ahead + 1;
                count(&self.incoming_delivery.out_of_order);
            }
            Some(_) => count(&self.incoming_delivery.out_of_order),
            None => count(&self.incoming_delivery.wrong),
        }
    }
}

impl Port for TrafficPort {
    fn description(&self) -> &PortDescription {
        &self.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        if !self.outgoing_delivery.sending.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let (mut count, mut bytes) = (0, 0);
        while count < limit {
            let packet = self.outgoing.packet(self.next);
            let Some(frame) = pool.take_filled(packet, 256) else { break };
            bytes += packet.len() as u64;
            burst.push(frame);
            self.next = (self.next + 1) % self.outgoing.len();
            count += 1;
        }
        self.counters.received_packets += count as u64;
        self.counters.received_bytes += bytes;
        self.outgoing_delivery.sent.fetch_add(count as u64, Ordering::Relaxed);
        self.outgoing_delivery.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(count)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let count = burst.len();
        for frame in burst.drain(..) {
            self.check(&frame);
            self.counters.sent_packets += 1;
            self.counters.sent_bytes += frame.len() as u64;
            pool.give_back(frame);
        }
        Ok(count)
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::traffic::both_ways;
    use convoy_packet::FramePool;

    fn pair() -> (TrafficPort, Arc<Traffic>, Arc<Delivery>) {
        let [there, back] = both_ways(Vec::new(), 4, 200, 3).map(Arc::new);
        let (out, inward) = (Arc::new(Delivery::default()), Arc::new(Delivery::default()));
        let port = TrafficPort::new("a", 1500, (there, out), (Arc::clone(&back), Arc::clone(&inward)));
        (port, back, inward)
    }

    #[test]
    fn what_arrives_as_sent_is_good() {
        let (mut port, traffic, delivery) = pair();
        let mut pool = FramePool::new(8, 0);
        for at in 0..traffic.len() * 2 {
            let packet = traffic.packet(at % traffic.len());
            let mut burst = vec![pool.take_filled(packet, 0).expect("a frame")];
            port.send(&mut pool, &mut burst).expect("memory does not fail");
        }
        assert_eq!(delivery.good.load(Ordering::Relaxed), 400);
        assert_eq!(delivery.arrived(), 400);
    }

    #[test]
    fn a_changed_byte_and_a_skipped_packet_are_seen() {
        let (mut port, traffic, delivery) = pair();
        let mut pool = FramePool::new(8, 0);
        let mut first = pool.take_filled(traffic.packet(0), 0).expect("a frame");
        let last = first.len() - 1;
        first[last] ^= 1;
        port.send(&mut pool, &mut vec![first]).expect("memory does not fail");
        assert_eq!(delivery.wrong.load(Ordering::Relaxed), 1);
        let later = traffic.of_tunnel(1)[3] as usize;
        let skipped = pool.take_filled(traffic.packet(later), 0).expect("a frame");
        port.send(&mut pool, &mut vec![skipped]).expect("memory does not fail");
        assert_eq!(delivery.out_of_order.load(Ordering::Relaxed), 1);
        assert!(!delivery.is_perfect());
    }
}
