//! IKE's part at both ends: it installs new SAs, and removes old ones when their successors are in
//! use.

use std::net::SocketAddr;

use convoy_ipsec::{
    Action, KeyMaterial, Lifetime, LifetimeLimits, Policy, PolicyDirection, SaConfig, SaDirection, SaEnds,
    SaNumber, Selector, UdpEncap,
};
use rand::{Rng, RngExt};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::scenario::{Scenario, address};
use super::site::{Running, negotiated};
use super::wire::WireObserver;

/// The SPI of the first negotiated SA.
const FIRST_SPI: u32 = 0x10_0000;
const NATT_PORT: u16 = 4500;

/// A step of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NegotiationStep {
    InstallInbound,
    InstallOutbound,
    /// Removes all older SAs of the tunnel.
    RetireOlder,
}

/// A step for the SAs of this generation of a tunnel.
pub(super) struct Task {
    pub(super) tunnel: usize,
    pub(super) generation: usize,
    pub(super) step: NegotiationStep,
}

/// An SA of the gateway that was started at this time.
struct InstalledSa {
    started_ns: u64,
    generation: usize,
    number: SaNumber,
}

struct Generation {
    /// By the receiving site.
    spis: [u32; 2],
    keys: [KeyMaterial; 2],
}

/// The SAs of one tunnel.
struct Negotiated {
    tunnel: usize,
    generations: Vec<Generation>,
    placed: [Vec<InstalledSa>; 2],
}

/// Both daemons, which always agree.
pub(super) struct Negotiator {
    tunnels: Vec<Negotiated>,
    next_spi: u32,
    /// The address and port at which site 0 sees site 1, if a NAT is between them.
    pub(super) mapping: Option<SocketAddr>,
}

impl Negotiator {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let negotiated = (0..scenario.tunnels.len()).filter(|at| !scenario.tunnels[*at].is_static);
        let tunnels = negotiated.map(|tunnel| Negotiated {
            tunnel,
            generations: Vec::new(),
            placed: Default::default(),
        });
        Self { tunnels: tunnels.collect(), next_spi: FIRST_SPI, mapping: None }
    }

    /// How many tunnels it has.
    pub(super) fn len(&self) -> usize {
        self.tunnels.len()
    }

    /// The place here of a tunnel.
    pub(super) fn position(&self, tunnel: convoy_ipsec::TunnelId) -> Option<usize> {
        self.tunnels.iter().position(|of| negotiated(of.tunnel) == tunnel)
    }

    /// Whether an SPI is one of its SAs'.
    pub(super) fn has(&self, spi: u32) -> bool {
        (FIRST_SPI..self.next_spi).contains(&spi)
    }

    /// The policies of a site.
    pub(super) fn policies(&self, site: usize, scenario: &Scenario) -> Vec<Policy> {
        let policy = |of: &Negotiated| {
            let tunnel = &scenario.tunnels[of.tunnel];
            let network = |site| tunnel.selector(site, of.tunnel).parse().expect("a network");
            Policy {
                name: format!("t{}", of.tunnel),
                priority: 100,
                direction: PolicyDirection::Both,
                interface: 0,
                selector: Selector { local: network(site), remote: network(1 - site) },
                action: Action::Protect(negotiated(of.tunnel)),
            }
        };
        self.tunnels.iter().map(policy).collect()
    }

    /// New keys and SPIs for a tunnel; their number.
    pub(super) fn negotiate(
        &mut self,
        at: usize,
        scenario: &Scenario,
        dice: &mut Xoshiro256PlusPlus,
        wire: &mut WireObserver,
    ) -> usize {
        let transform = scenario.tunnels[self.tunnels[at].tunnel].transform;
        let mut fresh = || {
            let mut key = vec![0; transform.key_material_len()];
            dice.fill_bytes(&mut key);
            KeyMaterial::new(transform, key).expect("the transform's own length")
        };
        let keys = [fresh(), fresh()];
        let spis = [self.next_spi, self.next_spi + 1];
        self.next_spi += 2;
        spis.iter().for_each(|spi| wire.expect(*spi, transform.iv_len()));
        let generations = &mut self.tunnels[at].generations;
        generations.push(Generation { spis, keys });
        generations.len() - 1
    }

    /// Does a step at a site.
    pub(super) fn step(&mut self, task: Task, site: usize, gateway: &mut Running, scenario: &Scenario) {
        let Task { tunnel: at, generation, step } = task;
        let direction = match step {
            NegotiationStep::InstallInbound => SaDirection::Inbound,
            NegotiationStep::InstallOutbound => SaDirection::Outbound,
            NegotiationStep::RetireOlder => return self.retire(at, generation, site, gateway),
        };
        let sa = self.sa(at, generation, site, direction, scenario);
        let (started_ns, number) = (gateway.started_ns, gateway.install(&sa));
        self.tunnels[at].placed[site].push(InstalledSa { started_ns, generation, number });
    }

    fn retire(&mut self, at: usize, generation: usize, site: usize, gateway: &mut Running) {
        let placed = &mut self.tunnels[at].placed[site];
        // SAs of a gateway that has ended went with it.
        placed.retain(|place| place.started_ns == gateway.started_ns);
        for place in placed.extract_if(.., |place| place.generation < generation) {
            gateway.retire(place.number);
        }
    }

    /// Takes one SA away that is in use, at once.
    pub(super) fn withdraw(&mut self, at: usize, site: usize, gateway: &mut Running) -> bool {
        let placed = &mut self.tunnels[at].placed[site];
        placed.retain(|place| place.started_ns == gateway.started_ns);
        let Some(place) = placed.pop() else { return false };
        gateway.retire(place.number);
        true
    }

    /// Has site 0 send to where site 1 is now.
    pub(super) fn follow(&mut self, gateway: &mut Running, scenario: &Scenario) {
        for at in 0..self.tunnels.len() {
            if !self.is_behind_nat(at, scenario) {
                continue;
            }
            let ends = self.ends(at, 0, scenario);
            let started_ns = gateway.started_ns;
            for place in self.tunnels[at].placed[0].iter().filter(|place| place.started_ns == started_ns) {
                let _ = gateway.thread_of(place.number).move_sa(place.number, &ends);
            }
        }
    }

    fn is_behind_nat(&self, at: usize, scenario: &Scenario) -> bool {
        self.mapping.is_some() && scenario.tunnels[self.tunnels[at].tunnel].is_encapsulated
    }

    fn ends(&self, at: usize, site: usize, scenario: &Scenario) -> SaEnds {
        let tunnel = &scenario.tunnels[self.tunnels[at].tunnel];
        let [local, remote] = [site, 1 - site].map(|site| address(site, tunnel.is_v6_outside));
        let mapped = self.mapping.filter(|_| site == 0 && tunnel.is_encapsulated);
        let remote_port = mapped.map_or(NATT_PORT, |mapped| mapped.port());
        let encap = tunnel.is_encapsulated.then_some(UdpEncap { local_port: NATT_PORT, remote_port });
        SaEnds { local, remote: mapped.map_or(remote, |mapped| mapped.ip()), encap }
    }

    fn sa(
        &self,
        at: usize,
        generation: usize,
        site: usize,
        direction: SaDirection,
        scenario: &Scenario,
    ) -> SaConfig {
        let of = &self.tunnels[at];
        let tunnel = &scenario.tunnels[of.tunnel];
        let receiver = if direction == SaDirection::Inbound { site } else { 1 - site };
        let Generation { spis, keys } = &of.generations[generation];
        let SaEnds { local, remote, encap } = self.ends(at, site, scenario);
        let hard = LifetimeLimits { packets: tunnel.hard_packets, ..LifetimeLimits::default() };
        let soft = LifetimeLimits {
            packets: tunnel.hard_packets.map(|packets| packets / 2),
            ..LifetimeLimits::default()
        };
        SaConfig {
            protocol: tunnel.protocol,
            mode: tunnel.mode,
            encap,
            esn: tunnel.esn,
            replay_window: tunnel.replay_window,
            lifetime: Lifetime { soft, hard },
            tunnel: negotiated(of.tunnel),
            ..SaConfig::new(spis[receiver], direction, local, remote, keys[receiver].clone())
        }
    }
}

/// How long a step takes, in ns.
pub(super) fn pause(dice: &mut Xoshiro256PlusPlus, step: NegotiationStep) -> u64 {
    match step {
        NegotiationStep::InstallInbound => dice.random_range(1_000_000..60_000_000),
        NegotiationStep::InstallOutbound => dice.random_range(60_000_000..200_000_000),
        NegotiationStep::RetireOlder => dice.random_range(300_000_000..900_000_000),
    }
}
