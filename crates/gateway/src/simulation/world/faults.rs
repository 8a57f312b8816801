//! Faults of the gateways, their links and their disks.

use rand::RngExt;
use rand::seq::IndexedRandom;

use super::super::network::another_mapping;
use super::{World, WorldEvent};

/// Time limit of packets in a gateway that stops, in ns.
const DRAIN_NS: u64 = 5_000_000_000;
/// Interval after which a reload is tried again, in ns.
const RETRY_NS: u64 = 100_000_000;

impl World<'_> {
    /// Injects this round's faults of operator, machine and network.
    pub(super) fn inject_faults(&mut self) {
        let rates = self.scenario.rates;
        let site = self.dice.random_range(0..2);
        if self.dice.random_bool(rates.restart) {
            self.end(site);
        }
        if self.dice.random_bool(rates.reload) {
            self.reload(site);
        }
        if self.dice.random_bool(rates.rekey) && self.negotiator.len() > 0 {
            let tunnel = self.dice.random_range(0..self.negotiator.len());
            self.negotiate(tunnel);
        }
        if self.dice.random_bool(rates.withdraw) {
            self.withdraw(site);
        }
        if self.dice.random_bool(rates.refuse) {
            self.refuse(site);
        }
        if self.dice.random_bool(rates.path_mtu) {
            let mtu = *[1500, 1480, 1440, 1400].choose(&mut self.dice).expect("not empty");
            self.links[site].mtu = mtu;
            self.journal.note(format_args!("the path to site {site} carries {mtu} bytes"));
        }
        if self.dice.random_bool(rates.move_peer) {
            let mapping = another_mapping(&mut self.dice);
            self.negotiator.mapping = Some(mapping);
            self.figures.moves += 1;
            self.journal.note(format_args!("site 1 moves to {mapping}"));
        }
        if self.dice.random_bool(rates.cut_link) {
            let length_ns = self.dice.random_range(1_000_000..3_000_000_000);
            self.links[site].cut_until_ns = self.now_ns + length_ns;
            self.journal.note(format_args!("the link to site {site} is cut for {length_ns} ns"));
        }
        if self.dice.random_bool(rates.no_agreement) {
            let length_ns = self.dice.random_range(1_000_000_000..15_000_000_000);
            self.disagrees_until_ns = self.now_ns + length_ns;
            self.journal.note(format_args!("IKE comes to no agreement for {length_ns} ns"));
        }
        if self.dice.random_bool(rates.disk_fails) {
            let site = &mut self.sites[site];
            site.is_disk_writable = !site.is_disk_writable;
        }
    }

    /// Removes a tunnel with static keys by a reload; another brings it back.
    fn reload(&mut self, site: usize) {
        let of = &mut self.sites[site];
        let Some(running) = &mut of.running else { return };
        // What another reload removed comes back with this one.
        if of.stops_ns.is_some() || running.is_retiring() || running.has_unsent() {
            return;
        }
        let mut config = of.config.clone();
        let gone = config.tunnels.remove(self.dice.random_range(0..config.tunnels.len())).name;
        running.reload(config);
        self.figures.reloads += 1;
        self.journal.note(format_args!("site {site}: a reload takes {gone} away"));
        let after_ns = self.dice.random_range(1_000_000..3_000_000_000);
        self.schedule(after_ns, WorldEvent::Restore { site });
    }

    /// Brings back by a reload what others have removed, once none of its packets is in flight any
    /// more.
    pub(super) fn restore(&mut self, site: usize) {
        let of = &mut self.sites[site];
        let Some(running) = of.running.as_mut().filter(|_| of.stops_ns.is_none()) else { return };
        // Packets that a full port still holds up would leave behind those of the SA that comes
        // under the same SPI, at another worker.
        if running.is_retiring() || running.has_unsent() {
            return self.schedule(RETRY_NS, WorldEvent::Restore { site });
        }
        running.reload(of.config.clone());
        self.journal.note(format_args!("site {site}: a reload brings all tunnels back"));
    }

    fn withdraw(&mut self, site: usize) {
        let tunnel = self.dice.random_range(0..self.negotiator.len());
        if let Some(running) = &mut self.sites[site].running
            && self.negotiator.withdraw(tunnel, site, running)
        {
            self.journal.note(format_args!("site {site}: an SA of tunnel {tunnel} is taken away"));
            self.negotiate(tunnel);
        }
    }

    fn refuse(&mut self, site: usize) {
        let Some(running) = &mut self.sites[site].running else { return };
        let ends: Vec<_> = running.inside.iter().chain(&running.outside).cloned().collect();
        let end = ends.choose(&mut self.dice).expect("there is a worker");
        let room = if self.dice.random_bool(0.5) { Some(self.dice.random_range(0..4)) } else { None };
        end.lock().room = room;
        self.journal.note(format_args!("site {site}: a port has room for {room:?} packets"));
    }

    /// Stops or kills a gateway, and starts it again.
    fn end(&mut self, site: usize) {
        let now_ns = self.now_ns;
        let of = &mut self.sites[site];
        if of.running.is_none() || of.stops_ns.is_some() {
            return;
        }
        if self.dice.random_bool(0.5) {
            of.stops_ns = Some(now_ns + DRAIN_NS);
            self.journal.note(format_args!("site {site}: stops"));
            return;
        }
        let Some(mut running) = of.running.take() else { return };
        let is_power_cut = self.dice.random_bool(0.3);
        running.balance().inside();
        of.disk = Some(running.kill(is_power_cut));
        of.killed_ns = Some(now_ns);
        of.has_lost_power |= is_power_cut;
        self.figures.kills += 1;
        self.journal.note(format_args!("site {site}: is killed, power cut: {is_power_cut}"));
        let after_ns = self.dice.random_range(1_000_000..2_000_000_000);
        self.schedule(after_ns, WorldEvent::Boot { site });
    }
}
