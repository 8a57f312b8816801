//! What a station knows and says: ARP, and the packets that wait for an answer.

use std::collections::VecDeque;
use std::time::Instant;

use convoy_packet::arp::{Arp, Operation};
use convoy_packet::{Frame, Ipv4, MacAddress, Offload};

use super::identity::Identity;
use super::incoming::{arp_reply, arp_request};
use super::neighbours::{Neighbours, Next};

/// The host.
pub(crate) struct Station {
    pub(crate) identity: Identity,
    /// Packets whose way is known, for which the device had no room yet.
    pub(crate) outbox: VecDeque<(MacAddress, Frame)>,
    neighbours: Neighbours,
    start: Instant,
}

impl Station {
    pub(crate) fn new(identity: Identity) -> Self {
        let (outbox, neighbours) = (VecDeque::new(), Neighbours::default());
        Self { identity, outbox, neighbours, start: Instant::now() }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Puts a packet of `mtu` bytes at most into the outbox, or keeps it until its next hop has answered. Returns one that is to be dropped: this
    /// one, since it has no way, or one that has waited longer.
    pub(crate) fn route(&mut self, frame: Frame, mtu: usize, now_ms: u64) -> Option<Frame> {
        // What a device has opened is plaintext that nobody has taken out of its packet.
        let is_opened = matches!(frame.offload(), Offload::Opened { .. });
        let destination = Ipv4::parse(&frame).ok().map(|packet| packet.destination());
        let is_fit = frame.len() <= mtu && !is_opened;
        let next_hop = destination.filter(|_| is_fit).and_then(|address| self.identity.next_hop(address));
        let Some(next_hop) = next_hop else { return Some(frame) };
        match self.neighbours.route(next_hop, frame, now_ms) {
            Next::Send(to, frame) => {
                self.outbox.push_back((to, frame));
                None
            }
            Next::Waits(dropped) => dropped,
        }
    }

    /// Takes an ARP message: learns from it, and puts what waited for it into the outbox. Returns the answer, and whom it is for.
    pub(crate) fn hear(&mut self, message: &Arp) -> Option<(MacAddress, Arp)> {
        if !self.identity.may_answer(message.sender) {
            // A probe (RFC 5227) has no address yet, but wants to know whether ours is taken.
            return message.sender.is_unspecified().then(|| arp_reply(message, &self.identity))?;
        }
        let is_to_us = self.identity.has(message.target) && self.identity.is_on_link(message.sender);
        let is_usable = !message.sender_mac.is_multicast();
        if is_usable && (is_to_us || message.operation == Operation::Request) {
            let freed = self.neighbours.learn(message.sender, message.sender_mac, is_to_us, self.now_ms());
            self.outbox.extend(freed.into_iter().map(|frame| (message.sender_mac, frame)));
        }
        arp_reply(message, &self.identity)
    }

    /// Asks, by `ask`, for the addresses that packets wait for. Returns the packets that have waited in vain.
    pub(crate) fn due(&mut self, ask: &mut dyn FnMut(&Arp)) -> Vec<Frame> {
        let identity = &self.identity;
        let now_ms = self.start.elapsed().as_millis() as u64;
        self.neighbours.due(now_ms, &mut |address| {
            if let Some(source) = identity.source_for(address) {
                ask(&arp_request(address, source, identity));
            }
        })
    }
}
