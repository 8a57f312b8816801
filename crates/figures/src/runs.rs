//! The runs behind the figures and the claims.

use std::collections::HashMap;
use std::sync::Arc;

use convoy_scheduler::{DepthUnit, FullQueue};
use convoy_sim::{
    FITTED_TRACE_LOCALITY, PAPER_PACKETS, Pattern, Platform, Report, Served, Setting, SimulationError,
};

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
    /// A limit of the bytes of a multi-packet.
    ByteLimit,
    /// Rule 5: prefetch and write buffer.
    Buffered,
    /// The trace with another locality, in hundredths.
    Locality(u32),
}

/// The limit of [`Variant::ByteLimit`]: an Ethernet packet.
pub(super) const BYTE_LIMIT: u32 = 1500;

/// Identifies a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) pattern: Pattern,
    pub(super) accelerators: usize,
    pub(super) window: usize,
    pub(super) enc_ratio: u32,
    pub(super) variant: Variant,
}

/// Values of the open parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Open {
    /// What happens to a multi-packet if the queue of its best processor is full.
    pub(super) full_queue: FullQueue,
    /// Unit of `depth`.
    pub(super) depth_unit: DepthUnit,
    /// Depth of a processor's queue.
    pub(super) depth: usize,
    /// `t_init` of the accelerator, in us.
    pub(super) t_init_us: f64,
    /// Locality of the trace.
    pub(super) locality: f64,
}

impl Open {
    /// convoy's choice of the open parameters.
    pub(super) fn chosen(platform: &Platform) -> Self {
        let scheduler = &platform.scheduler;
        Self {
            full_queue: scheduler.full_queue.parse().unwrap_or_default(),
            depth_unit: scheduler.depth_unit.parse().unwrap_or_default(),
            depth: platform.processors.first().map_or(10, |processor| processor.depth),
            t_init_us: platform.reference.t_init_us,
            locality: FITTED_TRACE_LOCALITY,
        }
    }
}

/// The values as text for reports.
impl std::fmt::Display for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { full_queue, depth_unit, depth, t_init_us, locality } = self;
        write!(
            f,
            "full_queue {full_queue}, depth {depth} {depth_unit}, t_init {t_init_us} us, locality of the trace {locality}"
        )
    }
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

/// Runs by their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs(pub(super) HashMap<Key, Arc<Outcome>>);

/// Relative difference of average lengths that may be due to chance in runs of 500,000 packets:
/// twice the standard error of the CPU's average at `T_enc_ratio` 7. The multi-packets of a
/// processor are a sample, while other measures come from the same traffic.
pub(super) const LENGTH_NOISE: f64 = 0.01;

impl Runs {
    /// The result of one run; all requested keys are in [`keys`].
    pub(super) fn of(&self, key: Key) -> &Outcome {
        self.0.get(&key).expect("every key that a figure or a claim asks for is in `keys`")
    }

    /// [`LENGTH_NOISE`], adjusted to the number of packets of these runs.
    pub(super) fn length_noise(&self) -> f64 {
        let packets = self.0.values().next().map_or(1, |outcome| outcome.report.packets.max(1));
        LENGTH_NOISE * (PAPER_PACKETS as f64 / packets as f64).sqrt()
    }

    /// A run of the paper's model.
    pub(super) fn at(&self, pattern: Pattern, accelerators: usize, window: usize, enc_ratio: u32) -> &Report {
        &self.of(Key { pattern, accelerators, window, enc_ratio, variant: Variant::Plain }).report
    }
}

/// All runs of a pattern.
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
    keys.push(key(1, 30, ENC_RATIO, Variant::ByteLimit));
    if pattern == Pattern::Trace {
        let windows = [1, 30].into_iter();
        keys.extend(windows.flat_map(|window| {
            LOCALITIES.map(|locality| key(1, window, ENC_RATIO, Variant::Locality(locality)))
        }));
    }
    keys
}

/// Runs one simulation.
pub(super) fn run(
    platform: &Platform,
    open: &Open,
    key: Key,
    packets: u64,
) -> Result<Outcome, SimulationError> {
    let locality = match (key.pattern, key.variant) {
        (_, Variant::Locality(hundredths)) => Some(f64::from(hundredths) / 100.0),
        (Pattern::Trace, _) => Some(open.locality),
        _ => None,
    };
    let is_buffered = (key.variant == Variant::Buffered).then_some(true);
    let setting = Setting {
        pattern: Some(key.pattern.to_string()),
        packets: Some(packets),
        window: Some(key.window),
        accelerators: Some(key.accelerators),
        init_ratio: Some(3.0),
        enc_ratio: Some(f64::from(key.enc_ratio)),
        full_queue: Some(open.full_queue.to_string()),
        depth_unit: Some(open.depth_unit.to_string()),
        depth: Some(open.depth),
        t_init_us: Some(open.t_init_us),
        locality,
        byte_limit: (key.variant == Variant::ByteLimit).then_some(BYTE_LIMIT),
        prefetch: is_buffered,
        write_buffer: is_buffered,
        ..Setting::default()
    };
    let mut lengths = vec![Lengths::default(); platform.processors.len() + key.accelerators];
    let report = setting.run_observed(platform, &mut |served: &Served<'_>| {
        let bytes = served.packets.iter().map(|packet| packet.bytes).sum::<u32>();
        lengths[served.processor].add(f64::from(bytes));
    })?;
    let deviation = lengths[..report.share.len()].iter().map(Lengths::deviation).collect();
    let all = lengths.iter().fold(Lengths::default(), |sum, one| sum.and(one));
    Ok(Outcome { report, deviation, deviation_scheduled: all.deviation() })
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
