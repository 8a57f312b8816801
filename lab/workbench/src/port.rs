//! A port that sends the demo's traffic and compares what arrives with what was sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use convoy_packet::{Frame, FramePool};
use convoy_port::{Port, PortCounters, PortDescription, PortError};

use super::arrivals::TrialArrivals;
use super::delivery::Delivery;
use super::traffic::{Traffic, tunnel_of_packet};

/// One direction: its packets, and what became of them.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) delivery: Arc<Delivery>,
}

/// The plaintext port of one of the gateways.
pub(crate) struct TrafficPort {
    description: PortDescription,
    counters: PortCounters,
    outgoing: Way,
    /// Arrivals at a given rate; `None` if there are always more packets.
    arrivals: Option<TrialArrivals>,
    /// Packets sent so far, which is the number of the next one.
    sent: u64,
    incoming: Way,
    /// Packets seen so far of each tunnel.
    seen: Vec<u64>,
    /// Numbers of the correct packets of the current burst.
    arrived: Vec<u64>,
}

impl TrafficPort {
    /// A port that sends `outgoing` and expects `incoming`.
    pub(crate) fn new(name: &str, mtu: usize, outgoing: Way, incoming: Way) -> Self {
        Self {
            description: PortDescription { name: name.to_owned(), kind: convoy_port::memory::KIND, mtu },
            counters: PortCounters::default(),
            arrivals: None,
            sent: 0,
            arrived: Vec::new(),
            seen: vec![0; incoming.traffic.tunnels()],
            outgoing,
            incoming,
        }
    }

    /// Lets packets arrive at a given rate.
    pub(crate) fn with_arrivals(self, arrivals: Option<TrialArrivals>) -> Self {
        Self { arrivals, ..self }
    }

    fn check(&mut self, packet: &[u8]) {
        let count = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let Some(tunnel) = tunnel_of_packet(packet).filter(|tunnel| *tunnel < self.seen.len()) else {
            return count(&self.incoming.delivery.wrong);
        };
        let places = self.incoming.traffic.of_tunnel(tunnel);
        let round = places.len() as u64;
        let expected = self.seen[tunnel];
        let is_at =
            |nth: u64| self.incoming.traffic.packet(places[(nth % round) as usize] as usize) == packet;
        if round > 0 && is_at(expected) {
            self.seen[tunnel] += 1;
            let place = u64::from(places[(expected % round) as usize]);
            self.arrived.push(expected / round * self.incoming.traffic.len() as u64 + place);
            return count(&self.incoming.delivery.good);
        }
        // Not the expected packet. Was it sent at all, and if so, is it a later or an earlier one?
        let found = (1..round).find(|ahead| is_at(expected + ahead));
        match found {
            Some(ahead) if ahead < round / 2 => {
                self.seen[tunnel] = expected + ahead + 1;
                count(&self.incoming.delivery.out_of_order);
            }
            Some(_) => count(&self.incoming.delivery.out_of_order),
            None => count(&self.incoming.delivery.wrong),
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
        if !self.outgoing.delivery.sending.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let now_ns = self.outgoing.delivery.now_ns();
        let mut ready = limit;
        if let Some(arrivals) = &mut self.arrivals {
            self.outgoing.delivery.refused.fetch_add(arrivals.come(now_ns), Ordering::Relaxed);
            ready = limit.min(arrivals.waiting());
        }
        let (mut count, mut bytes) = (0, 0);
        while count < ready {
            let packet =
                self.outgoing.traffic.packet((self.sent % self.outgoing.traffic.len() as u64) as usize);
            let Some(frame) = pool.take_filled(packet, 256) else { break };
            bytes += packet.len() as u64;
            burst.push(frame);
            let came_ns = self.arrivals.as_mut().and_then(TrialArrivals::take).unwrap_or(now_ns);
            self.outgoing.delivery.stamp(self.sent, came_ns);
            self.sent += 1;
            count += 1;
        }
        self.counters.received_packets += count as u64;
        self.counters.received_bytes += bytes;
        self.outgoing.delivery.sent.fetch_add(count as u64, Ordering::Relaxed);
        self.outgoing.delivery.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
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
        self.incoming.delivery.record(&self.arrived);
        self.arrived.clear();
        Ok(count)
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::DeliveryLatency;
    use crate::traffic::both_ways;
    use convoy_packet::FramePool;

    fn way(traffic: &Arc<Traffic>, delivery: &Arc<Delivery>) -> Way {
        Way { traffic: Arc::clone(traffic), delivery: Arc::clone(delivery) }
    }

    fn pair() -> (TrafficPort, Arc<Traffic>, Arc<Delivery>) {
        let [there, back] = both_ways(Vec::new(), 4, 200, 3).map(Arc::new);
        let (out, inward) = (Arc::new(Delivery::new()), Arc::new(Delivery::new()));
        let port = TrafficPort::new("a", 1500, way(&there, &out), way(&back, &inward));
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
    fn a_packets_latency_counts_from_when_it_came_whatever_its_round() {
        let [there, _] = both_ways(Vec::new(), 4, 20, 3).map(Arc::new);
        let delivery = Arc::new(Delivery::new());
        let other = Arc::new(Delivery::new());

        let mut from = TrafficPort::new("from", 1500, way(&there, &delivery), way(&there, &other));
        let mut to = TrafficPort::new("to", 1500, way(&there, &other), way(&there, &delivery));
        let mut pool = FramePool::new(64, 0);
        delivery.sending.store(true, Ordering::Relaxed);
        // Two rounds are not recorded; in the third, packets wait for 20 ms between the ports.
        let mut burst = Vec::new();
        for _ in 0..2 {
            from.receive(&mut pool, 20, &mut burst).expect("memory does not fail");
            to.send(&mut pool, &mut burst).expect("memory does not fail");
        }
        delivery.recording.store(true, Ordering::Relaxed);
        from.receive(&mut pool, 20, &mut burst).expect("memory does not fail");
        std::thread::sleep(std::time::Duration::from_millis(20));
        to.send(&mut pool, &mut burst).expect("memory does not fail");
        assert!(delivery.is_perfect());
        let latency = DeliveryLatency::of(&[delivery]);
        assert!(latency.p50_us >= 20_000.0 && latency.p50_us <= latency.p999_us, "{latency:?}");
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

    #[test]
    fn a_packet_that_arrives_twice_is_seen() {
        let (mut port, traffic, delivery) = pair();
        let mut pool = FramePool::new(8, 0);
        delivery.sent.store(2, Ordering::Relaxed);
        for at in [0, 1, 1] {
            let mut burst = vec![pool.take_filled(traffic.packet(at), 0).expect("a frame")];
            port.send(&mut pool, &mut burst).expect("memory does not fail");
        }
        assert_eq!(delivery.good.load(Ordering::Relaxed), 2);
        assert_eq!(delivery.out_of_order.load(Ordering::Relaxed), 1);
        assert!(!delivery.is_perfect());
    }
}
