//! The world of one seed: two gateways, their hosts, the network between them, and all their
//! faults.

mod ending;
mod faults;
mod traffic;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use convoy_config::Config;
use convoy_dataplane::costs::Costs;
use convoy_ipsec::Policy;
use convoy_state::SimulatedDisk;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::hosts::HostPairs;
use super::journal::Journal;
use super::negotiator::{NegotiationStep, Negotiator, Task, pause};
use super::network::SimulatedLink;
use super::scenario::{MTU, Scenario, static_spi};
use super::site::{Running, SiteStart};
use super::wire::WireObserver;

enum WorldEvent {
    Arrival {
        site: usize,
        packet: Vec<u8>,
    },
    Negotiation {
        site: usize,
        tunnel: usize,
        generation: usize,
        step: NegotiationStep,
    },
    Follow,
    Boot {
        site: usize,
    },
    /// A reload brings back what another has removed.
    Restore {
        site: usize,
    },
}

/// One end, whether its gateway runs or not.
struct SimulatedSite {
    config: Config,
    policies: Vec<Policy>,
    running: Option<Running>,
    /// The deadline until which it may drain.
    stops_ns: Option<u64>,
    disk: Option<SimulatedDisk>,
    is_disk_writable: bool,
    /// When it was last killed.
    killed_ns: Option<u64>,
    has_lost_power: bool,
}

pub(super) struct World<'a> {
    pub(super) journal: Journal,
    dice: Xoshiro256PlusPlus,
    scenario: Scenario,
    costs: &'a Costs,
    sites: [SimulatedSite; 2],
    links: [SimulatedLink; 2],
    hosts: HostPairs,
    wire: WireObserver,
    negotiator: Negotiator,
    events: BTreeMap<(u64, u64), WorldEvent>,
    next_event: u64,
    now_ns: u64,
    is_calm: Arc<AtomicBool>,
    /// The time until which IKE negotiates nothing, in ns.
    disagrees_until_ns: u64,
    pub(super) figures: RunFigures,
}

/// The statistics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunFigures {
    pub(super) sent: u64,
    pub(super) delivered: u64,
    pub(super) wire_packets: u64,
    pub(super) starts: u64,
    pub(super) kills: u64,
    pub(super) reloads: u64,
    pub(super) negotiations: u64,
    pub(super) quarantines: u64,
    pub(super) moves: u64,
}

impl std::ops::AddAssign for RunFigures {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.wire_packets += other.wire_packets;
        self.starts += other.starts;
        self.kills += other.kills;
        self.reloads += other.reloads;
        self.negotiations += other.negotiations;
        self.quarantines += other.quarantines;
        self.moves += other.moves;
    }
}

impl<'a> World<'a> {
    pub(super) fn new(seed: u64, costs: &'a Costs) -> Self {
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let scenario = Scenario::new(&mut dice);
        let hosts = HostPairs::new(scenario.flows(&mut dice));
        let negotiator = Negotiator::new(&scenario);
        let site = |site| SimulatedSite {
            config: scenario.config(site),
            policies: negotiator.policies(site, &scenario),
            running: None,
            stops_ns: None,
            disk: Some(SimulatedDisk::default()),
            is_disk_writable: true,
            killed_ns: None,
            has_lost_power: false,
        };
        let disagrees_until_ns = if dice.random_bool(0.3) { dice.random_range(0..20_000_000_000) } else { 0 };
        let mut wire = WireObserver::default();
        for (at, tunnel) in scenario.tunnels.iter().enumerate().filter(|(_, tunnel)| tunnel.is_static) {
            for site in 0..2 {
                wire.expect(static_spi(at, site), tunnel.transform.iv_len());
            }
        }
        Self {
            journal: Journal::new(),
            sites: [site(0), site(1)],
            links: [0, 1].map(|_| SimulatedLink::new(scenario.faults, MTU)),
            dice,
            scenario,
            costs,
            hosts,
            wire,
            negotiator,
            events: BTreeMap::new(),
            next_event: 0,
            now_ns: 0,
            is_calm: Arc::default(),
            disagrees_until_ns,
            figures: RunFigures::default(),
        }
    }

    /// Runs from the first start to the last frame's return.
    ///
    /// # Panics
    /// If anything is wrong.
    pub(super) fn run(&mut self) {
        for site in 0..2 {
            self.boot(site);
        }
        for _ in 0..self.scenario.ticks {
            let step_ns = self.step_ns();
            self.advance(step_ns);
            self.inject_faults();
            self.send_some();
            self.work();
        }
        self.recover();
        self.come_to_rest();
        self.figures.sent = self.hosts.sent();
        self.figures.delivered = self.hosts.delivered;
        self.figures.wire_packets = self.wire.packets;
    }

    /// The state, for debugging a failure.
    pub(super) fn describe(&mut self) -> String {
        let mut text = format!(
            "{}hosts: {} sent, {} delivered\n",
            self.scenario.describe(),
            self.hosts.sent(),
            self.hosts.delivered
        );
        for (number, (site, link)) in self.sites.iter_mut().zip(&self.links).enumerate() {
            text += &format!("link to site {number}: mtu {}, {:?}\n", link.mtu, link.tally);
            text += &match &mut site.running {
                Some(running) => format!("site {number}: {}\n", running.describe()),
                None => format!("site {number} does not run\n"),
            };
        }
        text
    }

    fn step_ns(&mut self) -> u64 {
        match self.dice.random_range(0..100) {
            0..70 => self.dice.random_range(2_000..100_000),
            70..94 => self.dice.random_range(100_000..3_000_000),
            94..99 => self.dice.random_range(3_000_000..60_000_000),
            _ => self.dice.random_range(100_000_000..1_500_000_000),
        }
    }

    fn advance(&mut self, step_ns: u64) {
        self.now_ns += step_ns;
        self.journal.tick += 1;
        self.journal.now_ns = self.now_ns;
        for site in &self.sites {
            if let Some(running) = &site.running {
                running.set_time(self.now_ns);
            }
        }
        while let Some(first) = self.events.first_entry().filter(|first| first.key().0 <= self.now_ns) {
            let event = first.remove();
            self.happen(event);
        }
    }

    fn schedule(&mut self, after_ns: u64, event: WorldEvent) {
        self.events.insert((self.now_ns + after_ns, self.next_event), event);
        self.next_event += 1;
    }

    fn happen(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Arrival { site, packet } => self.arrive(site, packet),
            WorldEvent::Negotiation { site, tunnel, generation, step } => {
                if let Some(running) = &mut self.sites[site].running {
                    self.journal
                        .note(format_args!("site {site}: {step:?}, tunnel {tunnel}, SAs {generation}"));
                    self.negotiator.step(Task { tunnel, generation, step }, site, running, &self.scenario);
                }
            }
            WorldEvent::Follow => {
                if let Some(running) = &mut self.sites[0].running {
                    self.journal
                        .note(format_args!("site 0 follows its peer to {:?}", self.negotiator.mapping));
                    self.negotiator.follow(running, &self.scenario);
                }
            }
            WorldEvent::Boot { site } => self.boot(site),
            WorldEvent::Restore { site } => self.restore(site),
        }
    }

    fn boot(&mut self, site: usize) {
        let of = &mut self.sites[site];
        let Some(disk) = of.disk.take() else { return };
        let start = SiteStart {
            scenario: &self.scenario,
            config: &of.config,
            policies: &of.policies,
            costs: self.costs,
            now_ns: self.now_ns,
            is_calm: &self.is_calm,
        };
        of.running = Some(Running::start(&start, disk, &mut self.dice));
        self.figures.starts += 1;
        self.journal.note(format_args!("site {site}: started"));
        for tunnel in 0..self.negotiator.len() {
            self.negotiate(tunnel);
        }
    }

    /// Has IKE negotiate new SAs, if both ends agree: otherwise a packet must ask again.
    fn negotiate(&mut self, tunnel: usize) {
        if self.now_ns < self.disagrees_until_ns {
            return;
        }
        let generation = self.negotiator.negotiate(tunnel, &self.scenario, &mut self.dice, &mut self.wire);
        self.figures.negotiations += 1;
        self.journal.note(format_args!("negotiates tunnel {tunnel}: SAs {generation}"));
        for step in
            [NegotiationStep::InstallInbound, NegotiationStep::InstallOutbound, NegotiationStep::RetireOlder]
        {
            for site in 0..2 {
                let after_ns = pause(&mut self.dice, step);
                self.schedule(after_ns, WorldEvent::Negotiation { site, tunnel, generation, step });
            }
        }
    }
}
