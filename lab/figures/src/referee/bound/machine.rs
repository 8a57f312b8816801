//! A platform as the bound sees it: what groups cost its engines and buses.

use convoy_sim::{Platform, ProcessorSpec};

use super::Packet;

/// The times of an engine, or of several that are identical, in seconds.
pub(super) struct Engine {
    /// How many there are.
    pub(super) count: f64,
    /// Processing: for each group, and for each block.
    t_init: f64,
    t_block: f64,
    /// Whether transfers overlap with processing.
    overlaps: bool,
    /// Its transfers.
    pub(super) bus: Option<usize>,
    /// Of its bus: for each group, for each packet and for each byte.
    transfer: [f64; 3],
    /// The additional time for an SA that is not in its cache.
    pub(super) miss: Option<f64>,
}

/// A group, as far as its costs depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Group {
    pub(super) packets: f64,
    pub(super) blocks: f64,
    pub(super) bytes: f64,
}

impl Engine {
    /// The time that a group occupies its bus.
    pub(super) fn transfers(&self, group: Group) -> f64 {
        let [once, packet, byte] = self.transfer;
        once + packet * group.packets + byte * group.bytes
    }

    /// The time that a group occupies the engine, if its SA is at hand.
    pub(super) fn work(&self, group: Group) -> f64 {
        let transfers = if self.overlaps { 0.0 } else { self.transfers(group) };
        self.t_init + self.t_block * group.blocks + transfers
    }
}

/// The engines and buses, and the traffic's length.
pub(super) struct Machine {
    pub(super) engines: Vec<Engine>,
    pub(super) buses: usize,
    /// `W`, and the number of SAs in the cache, if there is one.
    pub(super) window: usize,
    pub(super) cached: Option<u32>,
    pub(super) packets: usize,
    specs: Platform,
    /// Of the run, on which stalls depend.
    seed: u64,
}

impl Machine {
    pub(super) fn new(platform: &Platform, packets: usize, seed: u64) -> Self {
        let present = platform.processors.iter().filter(|spec| spec.count > 0);
        let engines: Vec<Engine> = present.map(|spec| engine(platform, spec)).collect();
        let caches = platform.processors.iter().filter(|spec| spec.count > 0).filter_map(|spec| spec.cache);
        Self {
            engines,
            buses: platform.buses.len(),
            window: platform.scheduler.window,
            // The search knows one cache, and single packets. Any other is left out: SAs are at
            // hand.
            cached: caches.map(|cache| cache.sas as u32).next().filter(|_| platform.scheduler.window == 1),
            packets,
            specs: platform.clone(),
            seed,
        }
    }

    /// The time of the slowest stage after cryptography, in seconds.
    pub(super) fn after_s(&self, traffic: &[Packet]) -> f64 {
        let bytes: f64 = traffic.iter().map(|packet| f64::from(packet.bytes)).sum();
        let stages = self.specs.stages.iter().filter(|stage| stage.enabled);
        let time = |stage: &convoy_sim::StageSpec| {
            (stage.packet_us * 1e-6 * traffic.len() as f64 + stage.byte_ns * 1e-9 * bytes)
                / stage.servers as f64
        };
        stages.map(time).fold(0.0, f64::max)
    }

    /// What each engine loses to stalls until this time, on average over identical ones, in
    /// seconds.
    pub(super) fn lost_s(&self, until_s: f64) -> Vec<f64> {
        let mut place = 0;
        let present = self.specs.processors.iter().filter(|spec| spec.count > 0);
        let lost = present.map(|spec| {
            let places = place..place + spec.count as u64;
            place = places.end;
            let of = |place| spec.deviation.map_or(0.0, |it| it.lost_us(place, self.seed, until_s * 1e6));
            places.map(of).sum::<f64>() * 1e-6 / spec.count as f64
        });
        lost.collect()
    }

    pub(super) fn never_stalls(&self) -> bool {
        self.specs.processors.iter().all(|spec| spec.deviation.is_none_or(|it| it.stall_us == 0.0))
    }
}

fn engine(platform: &Platform, spec: &ProcessorSpec) -> Engine {
    let bus = platform.buses.iter().position(|bus| Some(&bus.name) == spec.bus.as_ref());
    let transfer = bus.map_or([0.0; 3], |at| {
        let bus = &platform.buses[at];
        let cycle = f64::from(spec.transfers) / (bus.clock_mhz * 1e6);
        let byte = cycle / f64::from(bus.width_bytes);
        [cycle * f64::from(bus.address_cycles), byte * f64::from(bus.packet_bytes), byte]
    });
    Engine {
        count: spec.count as f64,
        t_init: platform.reference.t_init_us * spec.init_ratio * 1e-6,
        t_block: 128.0 / platform.reference.block_mbps * spec.enc_ratio * 1e-6,
        overlaps: spec.prefetch || spec.write_buffer,
        bus,
        transfer,
        miss: spec.cache.map(|cache| cache.miss_us * 1e-6),
    }
}

/// Prices. Those of engines and buses are fractions that add up to 1; that of the window is in
/// seconds for a packet and an arrival, that of the cache in seconds for an SA and an arrival.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    pub(super) engines: Vec<f64>,
    pub(super) buses: Vec<f64>,
    pub(super) window: f64,
    pub(super) cache: f64,
}

impl Prices {
    pub(super) fn equal(machine: &Machine) -> Self {
        let (engines, buses) = (machine.engines.len(), machine.buses);
        let all = (engines + buses) as f64;
        Self { engines: vec![1.0 / all; engines], buses: vec![1.0 / all; buses], window: 0.0, cache: 0.0 }
    }
}

/// What a way to form and assign all groups takes: the time of each engine (of identical ones the
/// mean) and bus in seconds, and how much more than there is of window and cache, in packets or SAs
/// times arrivals.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) engines: Vec<f64>,
    pub(super) buses: Vec<f64>,
    pub(super) window: f64,
    pub(super) cache: f64,
}

impl Plan {
    /// The time by these prices, if engines lose this much of it.
    pub(super) fn time(&self, prices: &Prices, lost: &[f64]) -> f64 {
        let sum = |of: &[f64], at: &[f64]| of.iter().zip(at).map(|(of, at)| of * at).sum::<f64>();
        sum(&self.engines, &prices.engines)
            + sum(lost, &prices.engines)
            + sum(&self.buses, &prices.buses)
            + self.window * prices.window
            + self.cache * prices.cache
    }
}
