//! A bound on policies that do not know the future, for traffic whose packets are independent of
//! each other: the SA of each is drawn by its share, and its size by a distribution of few sizes.
//!
//! With prices on engines, buses and the window, each SA is a problem of its own: while a group
//! stands in the window it costs the price of its packets' places, and whether it goes or waits for
//! the SA's next packet depends only on what it has, since the time until then has no memory. This
//! is the relaxation of Whittle (1988), *Restless Bandits*: what the window holds is bounded on
//! average, and not at every moment.

use super::machine::{Group, Machine, Plan, Prices};
use super::partition::{Tariff, enter, lowest};
use super::planes::Planes;
use super::{PRECISION, ROUNDS};
use convoy_sim::Platform;

/// Traffic by what it is drawn from.
pub(crate) struct Drawn {
    /// Bytes of a packet, and their probability.
    pub(crate) sizes: Vec<(u32, f64)>,
    /// The share of each SA.
    pub(crate) shares: Vec<f64>,
}

/// SAs whose shares differ by less than this factor are taken together, at the largest share, which
/// lets their groups grow fastest.
const ALIKE: f64 = 1.1;

/// Packets per second that no policy exceeds on average that does not know the future.
pub(crate) fn online_bound(platform: &Platform, drawn: &Drawn) -> f64 {
    let machine = Machine::new(platform, 1, 1);
    let groups = Groups::new(&drawn.sizes, machine.window);
    let shares = alike(&drawn.shares);
    let none = vec![0.0; machine.engines.len()];
    let mut planes = Planes::new(&machine);
    let mut prices = Prices::equal(&machine);
    let mut best = 0.0f64;
    for _ in 0..ROUNDS {
        let plan = cheapest(&machine, &groups, &shares, &prices);
        best = best.max(plan.time(&prices, &none));
        planes.add(plan);
        let Some((better, at_most)) = planes.best(&none) else { break };
        if at_most <= best * (1.0 + PRECISION) {
            break;
        }
        prices = better;
    }
    1.0 / best
}

/// The largest share of SAs that are alike, and the sum of their shares.
fn alike(shares: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = shares.to_vec();
    sorted.sort_unstable_by(|one, other| other.total_cmp(one));
    let mut all: Vec<(f64, f64)> = Vec::new();
    for share in sorted {
        match all.last_mut() {
            Some((largest, sum)) if *largest <= share * ALIKE => *sum += share,
            _ => all.push((share, share)),
        }
    }
    all
}

/// All groups by how many packets of each size they have, those with fewer packets first.
struct Groups {
    groups: Vec<Group>,
    /// For each, the groups with one more packet, by its size; empty for those that fill the
    /// window.
    next: Vec<Vec<usize>>,
    /// The probability of each size.
    sizes: Vec<f64>,
    /// The groups of one packet, by its size.
    singles: Vec<usize>,
}

impl Groups {
    fn new(sizes: &[(u32, f64)], window: usize) -> Self {
        let mut counts: Vec<Vec<usize>> = vec![vec![0; sizes.len()]];
        let mut places = std::collections::HashMap::from([(counts[0].clone(), 0)]);
        let mut next = Vec::new();
        let mut at = 0;
        while at < counts.len() {
            let is_full = counts[at].iter().sum::<usize>() == window;
            let followers = (0..if is_full { 0 } else { sizes.len() }).map(|size| {
                let mut more = counts[at].clone();
                more[size] += 1;
                *places.entry(more.clone()).or_insert_with(|| {
                    counts.push(more);
                    counts.len() - 1
                })
            });
            next.push(followers.collect::<Vec<_>>());
            at += 1;
        }
        let group = |counts: &Vec<usize>| {
            let sum = |of: fn(u32) -> f64| {
                counts.iter().zip(sizes).map(|(count, (bytes, _))| *count as f64 * of(*bytes)).sum()
            };
            Group {
                packets: sum(|_| 1.0),
                blocks: sum(|bytes| f64::from(bytes.div_ceil(16))),
                bytes: sum(f64::from),
            }
        };
        let singles = next[0].clone();
        let groups = counts.iter().map(group).collect();
        Self { groups, next, sizes: sizes.iter().map(|(_, probability)| *probability).collect(), singles }
    }
}

/// What the cheapest way to form and assign groups takes for a packet on average.
fn cheapest(machine: &Machine, groups: &Groups, shares: &[(f64, f64)], prices: &Prices) -> Plan {
    let tariffs = Tariff::all(machine, prices);
    let assigned: Vec<(usize, f64)> = groups.groups.iter().map(|group| lowest(&tariffs, *group)).collect();
    let mut all = Plan {
        engines: vec![0.0; machine.engines.len()],
        buses: vec![0.0; machine.buses],
        window: -(machine.window as f64),
        cache: 0.0,
    };
    for (share, sum) in shares {
        let one = Stopping { machine, groups, assigned: &assigned, prices, share: *share }.best();
        let add =
            |sums: &mut [f64], more: &[f64]| sums.iter_mut().zip(more).for_each(|(to, of)| *to += of * sum);
        add(&mut all.engines, &one.engines);
        add(&mut all.buses, &one.buses);
        all.window += one.window * sum;
    }
    all
}

/// When the groups of an SA with this share go.
struct Stopping<'a> {
    machine: &'a Machine,
    groups: &'a Groups,
    /// The engine on which each group is cheapest, and its price there.
    assigned: &'a [(usize, f64)],
    prices: &'a Prices,
    share: f64,
}

impl Stopping<'_> {
    /// What a packet takes on average if groups go when that is cheapest. The price of a packet is
    /// the ratio of two means, and is found by Dinkelbach's method.
    fn best(&self) -> Plan {
        let none = vec![0.0; self.machine.engines.len()];
        let mut plan = self.follow(&vec![true; self.groups.groups.len()]);
        loop {
            let price = plan.time(self.prices, &none);
            let better = self.follow(&self.goes(price));
            if better.time(self.prices, &none) >= price * (1.0 - 1e-9) {
                return plan;
            }
            plan = better;
        }
    }

    /// The price of waiting for the SA's next packet, for a group of this many, without what
    /// follows.
    fn waiting(&self, packets: f64) -> f64 {
        self.prices.window * (packets / self.share + 1.0)
    }

    /// Which groups go, if each packet is worth this much.
    fn goes(&self, worth: f64) -> Vec<bool> {
        let mut least = vec![0.0; self.groups.groups.len()];
        let mut goes = vec![true; least.len()];
        for at in (1..least.len()).rev() {
            let next = &self.groups.next[at];
            least[at] = self.assigned[at].1;
            if !next.is_empty() {
                let then: f64 = next.iter().zip(&self.groups.sizes).map(|(of, size)| least[*of] * size).sum();
                let waits = self.waiting(self.groups.groups[at].packets) - worth + then;
                goes[at] = least[at] <= waits;
                least[at] = least[at].min(waits);
            }
        }
        goes
    }

    /// What a packet takes on average, if these groups go.
    fn follow(&self, goes: &[bool]) -> Plan {
        let mut reached = vec![0.0; goes.len()];
        for (at, size) in self.groups.singles.iter().zip(&self.groups.sizes) {
            reached[*at] = *size;
        }
        let mut plan = Plan {
            engines: vec![0.0; self.machine.engines.len()],
            buses: vec![0.0; self.machine.buses],
            window: 1.0,
            cache: 0.0,
        };
        let mut packets = 1.0;
        for at in 1..goes.len() {
            let (probability, group) = (reached[at], self.groups.groups[at]);
            if probability == 0.0 {
                continue;
            }
            if goes[at] {
                enter(self.machine, &mut plan, self.assigned[at].0, group, 0.0, probability);
                continue;
            }
            packets += probability;
            plan.window += probability * (group.packets / self.share + 1.0);
            for (next, size) in self.groups.next[at].iter().zip(&self.groups.sizes) {
                reached[*next] += probability * size;
            }
        }
        plan.engines.iter_mut().chain(&mut plan.buses).for_each(|time| *time /= packets);
        plan.window /= packets;
        plan
    }
}
