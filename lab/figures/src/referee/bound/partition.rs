//! The cheapest groups of each SA, by dynamic programming.

use std::collections::BTreeMap;

use super::Packet;
use super::machine::{Group, Machine, Plan, Prices};

/// The packets of one SA, in order.
pub(super) struct Sa {
    number: u32,
    /// The place of each packet in the traffic.
    places: Vec<f64>,
    /// Sums over all packets before: blocks, bytes, places.
    blocks: Vec<f64>,
    bytes: Vec<f64>,
    sums: Vec<f64>,
}

impl Sa {
    fn group(&self, from: usize, until: usize) -> Group {
        let of = |sums: &[f64]| sums[until] - sums[from];
        Group { packets: (until - from) as f64, blocks: of(&self.blocks), bytes: of(&self.bytes) }
    }

    /// For how many arrivals its packets stand in the window, summed over them, at least.
    fn standing(&self, from: usize, until: usize) -> f64 {
        (until - from) as f64 * (self.places[until - 1] + 1.0) - (self.sums[until] - self.sums[from])
    }
}

/// The traffic by SA.
pub(super) fn by_sa(traffic: &[Packet]) -> Vec<Sa> {
    let mut all: BTreeMap<u32, Sa> = BTreeMap::new();
    for (place, packet) in traffic.iter().enumerate() {
        let new = || Sa {
            number: packet.sa,
            places: Vec::new(),
            blocks: vec![0.0],
            bytes: vec![0.0],
            sums: vec![0.0],
        };
        let sa = all.entry(packet.sa).or_insert_with(new);
        let push = |sums: &mut Vec<f64>, more: f64| sums.push(sums[sums.len() - 1] + more);
        push(&mut sa.blocks, f64::from(packet.bytes.div_ceil(16)));
        push(&mut sa.bytes, f64::from(packet.bytes));
        push(&mut sa.sums, place as f64);
        sa.places.push(place as f64);
    }
    all.into_values().collect()
}

/// The price of a group on an engine: for the group, for each packet, block and byte.
pub(super) struct Tariff([f64; 4]);

impl Tariff {
    pub(super) fn all(machine: &Machine, prices: &Prices) -> Vec<Self> {
        let engines = machine.engines.iter().zip(&prices.engines);
        let tariff = |(engine, price): (&super::machine::Engine, &f64)| {
            let of = |group: Group| {
                let bus = engine.bus.map_or(0.0, |bus| prices.buses[bus]);
                engine.work(group) * price / engine.count + engine.transfers(group) * bus
            };
            let none = of(Group::default());
            let of_one = |group: Group| of(group) - none;
            let default = Group::default();
            Self([
                none,
                of_one(Group { packets: 1.0, ..default }),
                of_one(Group { blocks: 1.0, ..default }),
                of_one(Group { bytes: 1.0, ..default }),
            ])
        };
        engines.map(tariff).collect()
    }

    fn price(&self, group: Group) -> f64 {
        let [once, packet, block, byte] = self.0;
        once + packet * group.packets + block * group.blocks + byte * group.bytes
    }
}

/// The cheapest way to form and assign all groups.
pub(super) fn cheapest(machine: &Machine, sas: &[Sa], prices: &Prices) -> Plan {
    let arrivals = machine.packets as f64;
    let mut plan = Plan {
        engines: vec![0.0; machine.engines.len()],
        buses: vec![0.0; machine.buses],
        window: -(machine.window as f64) * arrivals,
        cache: -f64::from(machine.cached.unwrap_or(0)) * arrivals,
    };
    let tariffs = Tariff::all(machine, prices);
    for sa in sas {
        match machine.cached {
            None => divide(machine, sa, &tariffs, prices, &mut plan),
            Some(cached) => singles(machine, sa, cached, &tariffs, prices, &mut plan),
        }
    }
    plan
}

/// The engine on which a group is cheapest, and its price there.
pub(super) fn lowest(tariffs: &[Tariff], group: Group) -> (usize, f64) {
    let mut best = (0, f64::INFINITY);
    for (engine, tariff) in tariffs.iter().enumerate() {
        let price = tariff.price(group);
        if price < best.1 {
            best = (engine, price);
        }
    }
    best
}

/// Adds a group on an engine, with an additional time in seconds, so many times.
pub(super) fn enter(
    machine: &Machine,
    plan: &mut Plan,
    engine: usize,
    group: Group,
    extra_s: f64,
    times: f64,
) {
    let of = &machine.engines[engine];
    plan.engines[engine] += (of.work(group) + extra_s) / of.count * times;
    if let Some(bus) = of.bus {
        plan.buses[bus] += of.transfers(group) * times;
    }
}

/// Adds the cheapest division of an SA's packets into runs of at most `W`.
fn divide(machine: &Machine, sa: &Sa, tariffs: &[Tariff], prices: &Prices, plan: &mut Plan) {
    let packets = sa.places.len();
    // To take one more packet into a group saves at most what starts a group.
    let saved = tariffs.iter().map(|tariff| tariff.0[0]).fold(0.0, f64::max);
    // By the number of packets: the least price, and where the last group begins.
    let mut least: Vec<(f64, usize)> = Vec::with_capacity(packets + 1);
    least.push((0.0, 0));
    for until in 1..=packets {
        let mut best = (f64::INFINITY, 0);
        for from in (until.saturating_sub(machine.window)..until).rev() {
            let waits = sa.places[until - 1] - sa.places[from];
            if prices.window * waits > saved {
                break;
            }
            let price = least[from].0
                + lowest(tariffs, sa.group(from, until)).1
                + prices.window * sa.standing(from, until);
            if price < best.0 {
                best = (price, from);
            }
        }
        least.push(best);
    }
    let mut until = packets;
    while until > 0 {
        let from = least[until].1;
        let group = sa.group(from, until);
        enter(machine, plan, lowest(tariffs, group).0, group, 0.0, 1.0);
        plan.window += sa.standing(from, until);
        until = from;
    }
}

/// How a packet that goes alone is assigned.
#[derive(Clone, Copy)]
struct Step {
    engine: usize,
    misses: bool,
    /// Whether the SA was kept in the cache since its last packet.
    was_kept: bool,
    /// Whether it was there after its last packet.
    was_there: bool,
}

/// Adds the cheapest assignment of an SA's packets one by one, with the engines' caches: between
/// two packets the SA is kept there or not. A cache begins with the SAs of the lowest numbers.
fn singles(machine: &Machine, sa: &Sa, cached: u32, tariffs: &[Tariff], prices: &Prices, plan: &mut Plan) {
    let has_cache = |engine: usize| machine.engines[engine].miss.is_some();
    // Prices without the SA in the cache and with it, and the steps that led there.
    let mut states = [0.0, if sa.number < cached { 0.0 } else { f64::INFINITY }];
    let mut steps: Vec<[Step; 2]> = Vec::with_capacity(sa.places.len());
    let mut last = -1.0;
    for (at, place) in sa.places.iter().enumerate() {
        let kept = states[1] + prices.cache * (place - last);
        // What is not kept may have been there.
        let was_there = states[1] < states[0];
        let dropped = states[usize::from(was_there)];
        let mut next = [f64::INFINITY; 2];
        let none = Step { engine: 0, misses: false, was_kept: false, was_there };
        let mut taken = [none; 2];
        for (engine, tariff) in tariffs.iter().enumerate() {
            let price = tariff.price(sa.group(at, at + 1));
            let miss = machine.engines[engine].miss.unwrap_or(0.0) * prices.engines[engine];
            let miss = miss / machine.engines[engine].count;
            let ways = if has_cache(engine) {
                [(1, kept + price, true, false), (1, dropped + price + miss, false, true)]
            } else {
                [(1, kept + price, true, false), (0, dropped + price, false, false)]
            };
            for (state, price, was_kept, misses) in ways {
                if price < next[state] {
                    next[state] = price;
                    taken[state] = Step { engine, misses, was_kept, was_there: was_kept || was_there };
                }
            }
        }
        (states, last) = (next, *place);
        steps.push(taken);
    }
    retrace(machine, sa, &steps, usize::from(states[1] < states[0]), plan);
}

/// Adds the steps that lead to a state.
fn retrace(machine: &Machine, sa: &Sa, steps: &[[Step; 2]], mut state: usize, plan: &mut Plan) {
    for at in (0..steps.len()).rev() {
        let step = steps[at][state];
        state = usize::from(step.was_there);
        let miss = if step.misses { machine.engines[step.engine].miss.unwrap_or(0.0) } else { 0.0 };
        enter(machine, plan, step.engine, sa.group(at, at + 1), miss, 1.0);
        plan.window += 1.0;
        if step.was_kept {
            let last = at.checked_sub(1).map_or(-1.0, |last| sa.places[last]);
            plan.cache += sa.places[at] - last;
        }
    }
}
