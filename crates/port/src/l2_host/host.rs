//! A host's state on its link: its neighbours, and the packets that wait for an answer.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Instant;

use convoy_packet::{Frame, FramePool, Ipv4, Ipv6, MacAddress, Offload, ip, udp};

use super::discovery::{Discovery, HostReport, OwnFrame, request};
use super::identity::{HostIdentity, PortTakes};
use super::neighbours::Neighbours;

/// The share of a pool's frames that may wait for an answer at all queues of a port together: 1 /
/// SHARE. A worker stops reading while less than a quarter of its pool is free, and other workers
/// that hand packets over to it may hold half: what several ports keep must fit into the rest.
const SHARE: usize = 16;

/// Packets that a host did not send, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct L2HostDrops {
    /// No next hop is known for the destination, or it is no packet that may be sent.
    pub no_way: u64,
    /// Longer than the port's MTU.
    pub too_long: u64,
    /// The next hop did not answer.
    pub unanswered: u64,
    /// Displaced by later packets or addresses while its next hop was requested.
    pub displaced: u64,
}

impl L2HostDrops {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.no_way + self.too_long + self.unanswered + self.displaced
    }

    /// Each reason with its count.
    pub fn by_reason(&self) -> [(&'static str, u64); 4] {
        [
            ("no_way", self.no_way),
            ("too_long", self.too_long),
            ("arp_unanswered", self.unanswered),
            ("arp_displaced", self.displaced),
        ]
    }
}

/// A host of its own on a link.
pub struct L2Host {
    /// Its addresses and routers.
    pub identity: HostIdentity,
    /// Packets with a known next hop, for which the device had no room yet.
    pub outbox: VecDeque<(MacAddress, Frame)>,
    /// Packets dropped so far, by reason.
    pub drops: L2HostDrops,
    neighbours: Neighbours,
    /// Queues of the port, each with a host that keeps packets.
    queues: usize,
    displaced: Vec<Frame>,
    start: Instant,
}

impl L2Host {
    /// The host of one of a port's `queues`.
    pub fn new(identity: HostIdentity, queues: usize) -> Self {
        Self {
            identity,
            outbox: VecDeque::new(),
            drops: L2HostDrops::default(),
            neighbours: Neighbours::default(),
            queues,
            displaced: Vec::new(),
            start: Instant::now(),
        }
    }

    /// Milliseconds since it was created: the clock of its neighbours.
    pub fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Puts a packet into the outbox, or keeps it until its next hop has answered. One longer than
    /// `mtu` bytes, or without a next hop, is dropped and counted, as are those displaced by it.
    pub fn route(&mut self, mut frame: Frame, mtu: usize, now_ms: u64, pool: &mut FramePool) {
        // A packet opened by a device is plaintext that was not taken out of its outer packet.
        let is_opened = matches!(frame.offload(), Offload::Opened { .. });
        let destination = destination(&frame);
        if destination.is_some() && frame.len() > mtu {
            self.drops.too_long += 1;
            return pool.give_back(frame);
        }
        let next_hop = destination.filter(|_| !is_opened).and_then(|address| self.identity.next_hop(address));
        let Some(next_hop) = next_hop else {
            self.drops.no_way += 1;
            return pool.give_back(frame);
        };
        if self.identity.takes == PortTakes::Own && !frame.offload().is_unsealed() {
            // Outside, the sender leaves it to the port, as to a socket. A device that seals the
            // packet also has to do this.
            udp::complete_checksum(&mut frame);
        }
        let share = pool.total(frame.size()) / SHARE / self.queues;
        self.outbox.extend(self.neighbours.route(next_hop, frame, now_ms, share, &mut self.displaced));
        if !self.displaced.is_empty() {
            self.drops.displaced += self.displaced.len() as u64;
            pool.give_back_burst(&mut self.displaced);
        }
    }

    /// Processes a message of a neighbour: learns from it, and moves packets that waited for it to
    /// the outbox. Returns the answer.
    pub fn hear(&mut self, message: &Discovery) -> Option<OwnFrame> {
        let now_ms = self.now_ms();
        let is_news = |reported: &HostReport| {
            !reported.is_weak || !self.neighbours.knows_other(reported.address, reported.mac, now_ms)
        };
        if let Some(HostReport { address, mac, is_to_us, .. }) =
            message.reported(&self.identity).filter(is_news)
        {
            let freed = self.neighbours.learn(address, mac, is_to_us, now_ms);
            self.outbox.extend(freed.into_iter().map(|frame| (mac, frame)));
        }
        message.answer(&self.identity)
    }

    /// Requests, through `ask`, the addresses that packets wait for, and drops packets that have
    /// waited too long.
    pub fn due(&mut self, pool: &mut FramePool, ask: &mut dyn FnMut(&OwnFrame)) {
        let now_ms = self.now_ms();
        let identity = &self.identity;
        let mut given_up = self.neighbours.due(now_ms, &mut |address| {
            if let Some(frame) = request(address, identity) {
                ask(&frame);
            }
        });
        self.drops.unanswered += given_up.len() as u64;
        pool.give_back_burst(&mut given_up);
    }
}

/// The destination of a whole packet.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    if ip::is_v6(packet) {
        Ipv6::parse(packet).ok().map(|packet| packet.destination().into())
    } else {
        Ipv4::parse(packet).ok().map(|packet| packet.destination().into())
    }
}
