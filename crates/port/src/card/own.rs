//! What the port says and hears for itself: ARP, and frames of its own.

use convoy_packet::arp::{Arp, Operation};
use convoy_packet::{FramePool, MacAddress, ethernet};

use super::card_port::CardPort;
use super::incoming::{arp_reply, arp_request};

impl CardPort {
    /// Sends a frame of the port's own; without room it is lost, and whoever waits for it asks again.
    pub(super) fn send_own(&mut self, to: MacAddress, ethertype: u16, bytes: &[u8]) {
        let head = ethernet::header(to, self.identity.mac, ethertype);
        let _ = self.nic.transmit(&[&head, bytes], None);
    }

    /// Asks for the addresses that packets wait for, and drops those that have waited in vain.
    pub(super) fn ask(&mut self, pool: &mut FramePool) {
        let now_ms = self.now_ms();
        let mut asked = Vec::new();
        for frame in self.neighbours.due(now_ms, &mut |address| asked.push(address)) {
            self.counters.send_dropped += 1;
            pool.give_back(frame);
        }
        for address in asked {
            if let Some(source) = self.identity.source_for(address) {
                let request = arp_request(address, source, &self.identity);
                self.send_own(MacAddress::BROADCAST, ethernet::ARP, &request.to_bytes());
            }
        }
    }

    /// Takes an ARP message: learns from it, and answers it.
    pub(super) fn hear(&mut self, message: &Arp) {
        if !self.identity.may_answer(message.sender) {
            // A probe (RFC 5227) has no address yet, but wants to know whether ours is taken.
            if message.sender.is_unspecified()
                && let Some((to, reply)) = arp_reply(message, &self.identity)
            {
                self.send_own(to, ethernet::ARP, &reply.to_bytes());
            }
            return;
        }
        let now_ms = self.now_ms();
        let is_to_us = self.identity.has(message.target) && self.identity.is_on_link(message.sender);
        let is_usable = !message.sender_mac.is_multicast();
        if is_usable && (is_to_us || message.operation == Operation::Request) {
            let freed = self.neighbours.learn(message.sender, message.sender_mac, is_to_us, now_ms);
            self.outbox.extend(freed.into_iter().map(|frame| (message.sender_mac, frame)));
        }
        if let Some((to, reply)) = arp_reply(message, &self.identity) {
            self.send_own(to, ethernet::ARP, &reply.to_bytes());
        }
    }
}
