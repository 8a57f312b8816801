//! Packets in transit: from hosts into a gateway, out of it, over the network, into the other.

use rand::RngExt;
use rand::seq::SliceRandom;

use super::super::hosts::Delivery;
use super::super::journal::hash_of;
use super::super::network::{Fate, translate};
use super::super::scenario::Scenario;
use super::super::site::DaemonNote;
use super::super::wire::{SeenPacket, addresses, look};
use super::{World, WorldEvent};

/// Packets received within this time before a gateway was killed may be missing in its state file,
/// in ns: a report a second, and the round in which it is made.
const UNNOTED_NS: u64 = 3_000_000_000;

impl World<'_> {
    pub(super) fn arrive(&mut self, site: usize, packet: Vec<u8>) {
        let Some(running) = &mut self.sites[site].running else { return };
        let queues = running.outside.len();
        let queue = if self.scenario.is_sprayed {
            self.dice.random_range(0..queues)
        } else {
            // Like a network card: packets of one flow arrive at one queue.
            let [source, destination] = addresses(&packet);
            hash_of(format!("{source} {destination}").as_bytes()) as usize % queues
        };
        running.outside[queue].lock().incoming.push_back(packet);
    }

    pub(super) fn send_some(&mut self) {
        for _ in 0..self.dice.random_range(0..10) {
            let flow = self.dice.random_range(0..self.hosts.flows.len());
            let bytes = Scenario::bytes(&mut self.dice);
            self.send(flow, bytes);
        }
    }

    /// Makes a host send, if there is a gateway to take it.
    pub(super) fn send(&mut self, flow: usize, bytes: usize) {
        let (site, queue) = (self.hosts.flows[flow].site, self.hosts.flows[flow].queue);
        let Some(running) = &mut self.sites[site].running else { return };
        let packet = self.hosts.send(flow, bytes);
        let queue =
            if self.scenario.is_sprayed { self.dice.random_range(0..running.inside.len()) } else { queue };
        running.inside[queue].lock().incoming.push_back(packet);
    }

    /// A round of every worker, in any order, and its consequences.
    pub(super) fn work(&mut self) {
        let mut order: Vec<(usize, usize)> = (0..2)
            .flat_map(|site| (0..usize::from(self.scenario.workers)).map(move |worker| (site, worker)))
            .collect();
        order.shuffle(&mut self.dice);
        for (site, worker) in order {
            let is_reading = self.sites[site].stops_ns.is_none();
            let Some(running) = &mut self.sites[site].running else { continue };
            running.round(worker, is_reading);
            self.collect(site, worker);
        }
        for site in 0..2 {
            self.attend(site);
        }
    }

    /// Takes the packets that a worker's ports have sent.
    fn collect(&mut self, site: usize, worker: usize) {
        let Some(running) = &mut self.sites[site].running else { return };
        let [inside, outside] = [&running.inside[worker], &running.outside[worker]]
            .map(|end| std::mem::take(&mut end.lock().outgoing));
        for packet in inside {
            self.journal.trace(site as u8, &packet);
            self.deliver(site, &packet);
        }
        for packet in outside {
            self.journal.trace(2 + site as u8, &packet);
            self.transmit(site, worker, packet);
        }
    }

    fn deliver(&mut self, site: usize, packet: &[u8]) {
        let (flow, number, before_ns) = match self.hosts.take(site, packet, self.now_ns) {
            Delivery::TooBig { flow, bytes } => {
                return self.journal.note(format_args!("flow {flow} hears that {bytes} bytes fit"));
            }
            Delivery::Packet { flow, number, before_ns, .. } => (flow, number, before_ns),
        };
        let tunnel = &self.scenario.tunnels[self.hosts.flows[flow].tunnel];
        if let Some(before_ns) = before_ns {
            let of = &self.sites[site];
            let is_forgotten = of.killed_ns.is_some_and(|killed_ns| {
                (before_ns..before_ns + UNNOTED_NS).contains(&killed_ns)
                    || before_ns <= killed_ns && of.has_lost_power
            });
            assert!(tunnel.is_static && is_forgotten, "packet {number} of flow {flow} was delivered twice");
            return;
        }
        let is_in_order = tunnel.is_static && self.keeps_order();
        let last = self.hosts.flows[flow].last_delivered.replace(number);
        assert!(
            !is_in_order || last.is_none_or(|last| last < number),
            "packet {number} of flow {flow} was delivered after {last:?}, and the link keeps them in order"
        );
    }

    /// Whether packets arrive in order. A repeated packet may be one that was lost before, and a
    /// damaged source brings a packet to another queue.
    fn keeps_order(&self) -> bool {
        let faults = &self.scenario.faults;
        faults.jitter_ns == 0 && faults.replay == 0.0 && faults.corrupt == 0.0 && !self.scenario.is_sprayed
    }

    fn transmit(&mut self, site: usize, worker: usize, mut packet: Vec<u8>) {
        let seen = look(&packet);
        match seen {
            SeenPacket::Keepalive | SeenPacket::Piece => {
                if let Some(running) = &mut self.sites[site].running {
                    running.made += 1;
                }
                if seen == SeenPacket::Keepalive {
                    return;
                }
            }
            SeenPacket::Esp { spi, at, .. } => {
                self.wire.observe(spi, &packet[at..]);
            }
        }
        let [_, destination] = addresses(&packet);
        let is_negotiated = matches!(seen, SeenPacket::Esp { spi, .. } if self.negotiator.has(spi));
        let mapping = self.negotiator.mapping.filter(|_| is_negotiated);
        let to = 1 - site;
        if !translate(&mut packet, to, mapping, seen) {
            self.links[to].tally.astray += 1;
            return;
        }
        match self.links[to].carry(packet, self.now_ns, &mut self.dice) {
            Fate::Arrives(all) => {
                for (after_ns, packet) in all {
                    self.schedule(after_ns, WorldEvent::Arrival { site: to, packet });
                }
            }
            Fate::TooBig(mtu) => {
                // The system receives it by any socket of the port; here by that which has sent.
                if let Some(running) = &mut self.sites[site].running {
                    running.outside[worker].lock().findings.push_back((destination, mtu));
                    let others = running.outside.iter().enumerate().filter(|(other, _)| *other != worker);
                    others.for_each(|(_, end)| end.lock().findings.push_back((destination, mtu)));
                }
            }
            Fate::Lost => {}
        }
    }

    /// The state file, the key daemon, and a gateway that stops.
    fn attend(&mut self, site: usize) {
        let of = &mut self.sites[site];
        let Some(running) = &mut of.running else { return };
        running.keep(of.is_disk_writable);
        running.balance().inside();
        for line in running.take_log() {
            self.figures.quarantines += u64::from(line.contains("quarantined"));
            self.journal.note(format_args!("site {site}: {line}"));
        }
        for note in running.take_notes() {
            match note {
                DaemonNote::Acquire(acquire) => self.wish(acquire.tunnel),
                DaemonNote::Expire(event) => self.wish(event.tunnel),
                DaemonNote::Mapping(change) => {
                    self.journal
                        .note(format_args!("site {site} hears that its peer moved to {}", change.new));
                    let after_ns = self.dice.random_range(0..50_000_000);
                    self.schedule(after_ns, WorldEvent::Follow);
                }
            }
        }
        self.stop_drained(site);
    }

    fn wish(&mut self, tunnel: convoy_ipsec::TunnelId) {
        if let Some(tunnel) = self.negotiator.position(tunnel) {
            self.negotiate(tunnel);
        }
    }

    fn stop_drained(&mut self, site: usize) {
        let of = &mut self.sites[site];
        let (Some(running), Some(stops_ns)) = (&mut of.running, of.stops_ns) else { return };
        let is_drained = running.is_drained();
        if !is_drained && self.now_ns < stops_ns {
            return;
        }
        let Some(running) = of.running.take() else { return };
        of.stops_ns = None;
        of.disk = Some(running.stop());
        self.journal.note(format_args!("site {site}: has stopped, drained: {is_drained}"));
        let after_ns = self.dice.random_range(1_000_000..2_000_000_000);
        self.schedule(after_ns, WorldEvent::Boot { site });
    }
}
