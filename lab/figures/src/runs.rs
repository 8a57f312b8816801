//! The runs behind the figures and the claims.

use std::collections::HashMap;
use std::sync::Arc;

use convoy_scheduler::DepthUnit;
use convoy_sim::{Pattern, Platform, Report, Served, Setting, SimulationError};

use super::noise::PatternNoise;
use super::readings::{LatencyFrom, Limit, Open, Transfers};
use super::trace::Trace;

/// The values of the CPU's `T_enc_ratio`.
pub(super) const ENC_RATIOS: [u32; 4] = [1, 3, 5, 7];
/// The `T_enc_ratio` of figures 5 to 7.
pub(super) const ENC_RATIO: u32 = 3;
/// Further localities of the trace, in hundredths.
pub(super) const LOCALITIES: [u32; 4] = [0, 25, 75, 90];

/// A difference between a run and the paper's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variant {
    /// No difference.
    Plain,
    /// A bound on the bytes of the window.
    WindowBytes,
    /// Rule 5: prefetch and write buffer.
    Buffered,
    /// The trace with another locality, in hundredths.
    Locality(u32),
    /// A bound on the time of the window, in us.
    WindowTime(u32),
    /// A line of [`LIGHT_MBPS`], which does not overload the processors.
    Light,
}

/// The bound of [`Variant::WindowBytes`].
pub(super) const WINDOW_BYTES: u64 = 500;
/// The bounds of [`Variant::WindowTime`], in us.
pub(super) const WINDOW_TIMES_US: [u32; 3] = [20, 100, 500];
/// The line of [`Variant::Light`].
pub(super) const LIGHT_MBPS: u32 = 100;

/// Identifies a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) pattern: Pattern,
    pub(super) accelerators: usize,
    pub(super) window: usize,
    pub(super) enc_ratio: u32,
    pub(super) variant: Variant,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) report: Report,
    /// Standard deviation of the lengths of each processor's multi-packets, in bytes.
    pub(super) deviation: Vec<f64>,
    /// Standard deviation of the lengths of all multi-packets, in bytes.
    pub(super) deviation_scheduled: f64,
}

/// Runs by their keys, with the same values of the open parameters.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    pub(super) of: HashMap<Key, Arc<Outcome>>,
    /// When latency begins, which no run depends on.
    pub(super) latency: LatencyFrom,
    /// Relative differences that are noise in runs of this length.
    pub(super) noise: PatternNoise,
}

impl Runs {
    /// The result of one run; all requested keys are in [`keys`].
    pub(super) fn of(&self, key: Key) -> &Outcome {
        self.of.get(&key).expect("every key that a figure or a claim asks for is in `keys`")
    }

    /// The average latency of a run in ms.
    pub(super) fn latency_ms(&self, report: &Report) -> f64 {
        self.latency.of(report)
    }

    /// A run of the paper's model.
    pub(super) fn at(&self, pattern: Pattern, accelerators: usize, window: usize, enc_ratio: u32) -> &Report {
        &self.of(Key { pattern, accelerators, window, enc_ratio, variant: Variant::Plain }).report
    }
}

/// All runs of a pattern in a reading.
pub(super) fn reading_keys(pattern: Pattern) -> Vec<Key> {
    let key = |window, variant| Key { pattern, accelerators: 1, window, enc_ratio: ENC_RATIO, variant };
    let mut keys = keys(pattern);
    keys.extend(WINDOW_TIMES_US.map(|us| key(30, Variant::WindowTime(us))));
    keys.extend([1, 30].map(|window| key(window, Variant::Light)));
    keys
}

/// The runs of a pattern with each combination of the range.
pub(super) fn keys(pattern: Pattern) -> Vec<Key> {
    let key =
        |accelerators, window, enc_ratio, variant| Key { pattern, accelerators, window, enc_ratio, variant };
    let mut keys = Vec::new();
    for enc_ratio in ENC_RATIOS {
        for (accelerators, window) in [(1, 1), (1, 30), (2, 1), (2, 30)] {
            keys.push(key(accelerators, window, enc_ratio, Variant::Plain));
        }
        if pattern == Pattern::Trace {
            keys.push(key(2, 30, enc_ratio, Variant::Buffered));
        }
    }
    keys.push(key(1, 10, ENC_RATIO, Variant::Plain));
    keys.push(key(1, 30, ENC_RATIO, Variant::WindowBytes));
    if pattern == Pattern::Trace {
        let windows = [1, 30].into_iter();
        keys.extend(windows.flat_map(|window| {
            LOCALITIES.map(|locality| key(1, window, ENC_RATIO, Variant::Locality(locality)))
        }));
    }
    keys
}

/// Whether the traffic of a run is the trace's, with its own locality.
pub(super) fn is_of_trace(key: &Key) -> bool {
    key.pattern == Pattern::Trace && !matches!(key.variant, Variant::Locality(_))
}

/// Runs one simulation, with the packets of a trace file if there is one.
pub(super) fn run(
    platform: &Platform,
    open: &Open,
    key: Key,
    packets: u64,
    seed: Option<u64>,
    trace: Option<&Trace>,
) -> Result<Outcome, SimulationError> {
    let setting = Setting { seed, ..setting(open, key, packets) };
    let mut lengths = vec![Lengths::default(); platform.processors.len() + key.accelerators];
    let mut observer = |served: &Served<'_>| {
        let bytes = served.packets.iter().map(|packet| packet.bytes).sum::<u32>();
        lengths[served.processor].add(f64::from(bytes));
    };
    let report = match trace.filter(|_| is_of_trace(&key)) {
        Some(trace) => setting.simulation(platform)?.run_observed(trace.first(packets), &mut observer)?,
        None => setting.run_observed(platform, &mut observer)?,
    };
    let deviation = lengths[..report.share.len()].iter().map(Lengths::deviation).collect();
    let all = lengths.iter().fold(Lengths::default(), |sum, one| sum.and(one));
    Ok(Outcome { report, deviation, deviation_scheduled: all.deviation() })
}

/// The changes to the platform, and the synthetic traffic.
fn setting(open: &Open, key: Key, packets: u64) -> Setting {
    let locality = match (key.pattern, key.variant) {
        (_, Variant::Locality(hundredths)) => Some(f64::from(hundredths) / 100.0),
        (Pattern::Trace, _) => Some(open.locality),
        _ => None,
    };
    let is_buffered = (key.variant == Variant::Buffered).then_some(true);
    let (depth, unit, pool) = match open.limit {
        Limit::Queues(depth, unit) => (depth, unit, None),
        // A queue that holds the whole pool is never full.
        Limit::Pool(packets) => (packets + key.window, DepthUnit::MultiPackets, Some(packets)),
    };
    Setting {
        pattern: Some(key.pattern.to_string()),
        packets: Some(packets),
        window: Some(key.window),
        accelerators: Some(key.accelerators),
        init_ratio: Some(3.0),
        enc_ratio: Some(f64::from(key.enc_ratio)),
        full_queue: Some(open.full_queue.to_string()),
        depth_unit: Some(unit.to_string()),
        depth: Some(depth),
        pool,
        transfers: Some(if open.transfers == Transfers::Two { 2 } else { 1 }),
        predicts_transfers: Some(open.transfers == Transfers::OnePredicted),
        t_init_us: Some(open.t_init_us),
        locality,
        window_bytes: (key.variant == Variant::WindowBytes).then_some(WINDOW_BYTES),
        max_wait_us: if let Variant::WindowTime(us) = key.variant { Some(f64::from(us)) } else { None },
        rate_mbps: (key.variant == Variant::Light).then(|| f64::from(LIGHT_MBPS)),
        prefetch: is_buffered,
        write_buffer: is_buffered,
        ..Setting::default()
    }
}

/// Moments of lengths. A double holds the sums of half a million lengths below 10^6 bytes exactly.
#[derive(Clone, Default)]
struct Lengths {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Lengths {
    #[inline]
    fn add(&mut self, length: f64) {
        self.count += 1.0;
        self.sum += length;
        self.squares += length * length;
    }

    fn and(&self, other: &Self) -> Self {
        Self {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }

    fn deviation(&self) -> f64 {
        if self.count == 0.0 {
            return 0.0;
        }
        let mean = self.sum / self.count;
        (self.squares / self.count - mean * mean).max(0.0).sqrt()
    }
}
