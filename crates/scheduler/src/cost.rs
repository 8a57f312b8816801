//! The time of an engine for a multi-packet (docs/lab/simulator.md: rule 2).

use crate::engine_mask::EngineMask;

/// An engine's time for one algorithm: `t_init + t_block * n`, in ticks, with `n` in blocks of 16
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostModel {
    /// Paid once per multi-packet.
    pub t_init: f64,
    /// Paid for each block.
    pub t_block: f64,
}

impl CostModel {
    /// The time for `blocks`, to the nearest tick; never negative, though a fit through noisy
    /// measurements may be.
    #[inline]
    pub fn cost(&self, blocks: u64) -> u64 {
        // `f64::round` is a call into libm on baseline x86-64, and conversions of unsigned numbers
        // take some ten instructions: together 8 ns for each engine and multi-packet. This cast
        // cuts towards 0.
        let ticks = (self.t_init + self.t_block * blocks as i64 as f64 + 0.5) as i64;
        ticks.max(0) as u64
    }
}

/// An engine's time for a train: `t_init + t_packet * k + t_block * n + t_longest * m`, in ticks,
/// for `k` packets of `n` blocks in all, the longest of which has `m`. An engine that works on
/// several packets at a time, each in a vector lane, pays for the longest one while the other lanes
/// run empty, so that a packet alone may take as long as a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainModel {
    /// Paid once per train.
    pub t_init: f64,
    /// Paid for each packet.
    pub t_packet: f64,
    /// Paid for each block.
    pub t_block: f64,
    /// Paid for each block of the longest packet.
    pub t_longest: f64,
}

impl TrainModel {
    /// The time as a line over blocks, for this many packets of which the longest has `longest`
    /// blocks.
    #[inline]
    pub fn line(&self, packets: u32, longest: u16) -> CostModel {
        let of_packets = self.t_packet * f64::from(packets) + self.t_longest * f64::from(longest);
        CostModel { t_init: self.t_init + of_packets, t_block: self.t_block }
    }
}

/// What the caller's own core pays to hand packets to an engine elsewhere and to take them back:
/// `t_init + t_packet * packets + t_block * n`, in ticks, with `n` in blocks of 16 bytes. It
/// consists of copies of the input, the queue both ways, and cache lines written by another core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Handover {
    /// Paid once per multi-packet or train.
    pub t_init: f64,
    /// Paid for each packet.
    pub t_packet: f64,
    /// Paid for each block.
    pub t_block: f64,
}

impl Handover {
    /// The time for packets of this many blocks in all, to the nearest tick; never negative.
    #[inline]
    pub fn cost(&self, packets: u64, blocks: u64) -> u64 {
        let of_packets =
            CostModel { t_init: self.t_init + self.t_packet * packets as i64 as f64, t_block: self.t_block };
        of_packets.cost(blocks)
    }
}

/// An engine as the scheduler sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineModel {
    /// Its name in reports.
    pub name: String,
    /// Whether it is processor 0 of the model: the CPU on which the scheduler itself runs.
    pub is_cpu: bool,
    /// Multi-packets, or [packets or bytes](crate::DepthUnit), that may wait; the one in service is
    /// not counted.
    pub depth: usize,
    /// The cost of each algorithm, by its number; `None`, or an index out of range, is an
    /// unsupported algorithm.
    pub costs: Vec<Option<CostModel>>,
}

/// Weight of the newest measurement in the average.
const GAIN: f64 = 1.0 / 16.0;
/// The correction stays within this factor of the calibrated model: beyond it the cause is not
/// noise but a different machine.
const RATIO_MIN: f64 = 0.125;
const RATIO_MAX: f64 = 64.0;

/// A measurement counts at most as this many times the prediction. An engine's thread that lost its
/// core for a while is no slower than before; but if it were predicted to be, it would get no work
/// and hence no measurement to refute that.
const SURPRISE: f64 = 4.0;

/// After this many measurements of an algorithm, an engine that had none of them moves a step back
/// to its calibration. What made it slow may be over, and while it is predicted to be slow it gets
/// no work that would show it.
const FORGET_AFTER: u32 = 256;

/// A calibrated model, and how far measurements deviate from it.
#[derive(Clone, Copy)]
struct Calibrated {
    model: CostModel,
    /// Moving average of measured over predicted time.
    ratio: f64,
}

/// The costs of algorithms on all engines. Models follow measurements.
pub(crate) struct CostTable {
    engines: usize,
    /// For each algorithm, the engines that support it.
    capable: Vec<EngineMask>,
    /// The corrected models: a row of engines for each algorithm, so that a choice reads one run of
    /// memory. Meaningless where the engine does not support the algorithm.
    current: Vec<CostModel>,
    /// The calibrated models, with the same indices.
    calibrated: Vec<Calibrated>,
    /// The cost of handovers, with the same indices; empty where none was ever set, as in the
    /// simulator.
    handovers: Vec<Handover>,
    /// The cost of a change of SA inside a train, with the same indices as far as set.
    t_keys: Vec<f64>,
    /// The time for trains, with the same indices as far as set: otherwise that of a multi-packet.
    trains: Vec<Option<TrainModel>>,
    /// The caller's cost for a packet that passes the window.
    window_cost: f64,
    /// For each algorithm, the measurements since engines without any were last looked for.
    recent: Vec<Recent>,
    /// The time of each engine for `priced_for`, an algorithm and a number of blocks, in ticks. A
    /// multi-packet that waits for room is reconsidered at each completion, and many have the same
    /// size.
    prices: Vec<u64>,
    priced_for: Option<(u16, u64)>,
}

/// The latest measurements of an algorithm.
#[derive(Clone, Copy, Default)]
struct Recent {
    count: u32,
    /// The engines they are of.
    engines: EngineMask,
}

impl CostTable {
    pub(crate) fn new(engines: &[EngineModel]) -> Self {
        let (capable, current, calibrated) = (Vec::new(), Vec::new(), Vec::new());
        let mut table = Self {
            engines: engines.len(),
            capable,
            current,
            calibrated,
            handovers: Vec::new(),
            t_keys: Vec::new(),
            trains: Vec::new(),
            window_cost: 0.0,
            recent: Vec::new(),
            prices: vec![0; engines.len()],
            priced_for: None,
        };
        for (engine, model) in engines.iter().enumerate() {
            for (algorithm, cost) in model.costs.iter().enumerate() {
                table.set(engine, algorithm, *cost);
            }
        }
        table
    }

    /// Sets a model and clears its correction.
    pub(crate) fn set(&mut self, engine: usize, algorithm: usize, model: Option<CostModel>) {
        self.priced_for = None;
        let nothing = CostModel { t_init: 0.0, t_block: 0.0 };
        if self.capable.len() <= algorithm {
            self.capable.resize(algorithm + 1, EngineMask::default());
            self.recent.resize(algorithm + 1, Recent::default());
            let rows = self.capable.len() * self.engines;
            self.current.resize(rows, nothing);
            self.calibrated.resize(rows, Calibrated { model: nothing, ratio: 1.0 });
        }
        self.capable[algorithm].set(engine, model.is_some());
        let at = algorithm * self.engines + engine;
        let model = model.unwrap_or(nothing);
        self.current[at] = model;
        self.calibrated[at] = Calibrated { model, ratio: 1.0 };
    }

    pub(crate) fn set_handover(&mut self, engine: usize, algorithm: usize, handover: Handover) {
        let rows = (algorithm + 1) * self.engines;
        if self.handovers.len() < rows {
            self.handovers.resize(rows, Handover::default());
        }
        self.handovers[algorithm * self.engines + engine] = handover;
    }

    /// Whether the cost of a handover was set for any engine and algorithm.
    #[inline]
    pub(crate) fn has_handovers(&self) -> bool {
        !self.handovers.is_empty()
    }

    /// The cost of handing over packets of an algorithm, by engine; empty if never set.
    #[inline]
    pub(crate) fn handovers(&self, algorithm: u16) -> &[Handover] {
        let start = usize::from(algorithm) * self.engines;
        self.handovers.get(start..start + self.engines).unwrap_or_default()
    }

    pub(crate) fn set_t_key(&mut self, engine: usize, algorithm: usize, t_key: f64) {
        let rows = (algorithm + 1) * self.engines;
        if self.t_keys.len() < rows {
            self.t_keys.resize(rows, 0.0);
        }
        self.t_keys[algorithm * self.engines + engine] = t_key;
    }

    pub(crate) fn set_train(&mut self, engine: usize, algorithm: usize, train: Option<TrainModel>) {
        let rows = (algorithm + 1) * self.engines;
        if train.is_some() && self.trains.len() < rows {
            self.trains.resize(rows, None);
        }
        if let Some(place) = self.trains.get_mut(algorithm * self.engines + engine) {
            *place = train;
        }
    }

    /// An engine's time for a train as a line over blocks, if it was set.
    #[inline]
    pub(crate) fn train(
        &self,
        engine: usize,
        algorithm: u16,
        packets: u32,
        longest: u16,
    ) -> Option<CostModel> {
        let at = usize::from(algorithm) * self.engines + engine;
        let CostModel { t_init, t_block } = self.trains.get(at)?.as_ref()?.line(packets, longest);
        let ratio = self.calibrated[at].ratio;
        Some(CostModel { t_init: t_init * ratio, t_block: t_block * ratio })
    }

    pub(crate) fn set_window_cost(&mut self, ticks_per_packet: f64) {
        self.window_cost = ticks_per_packet;
    }

    /// The caller's cost for this many packets that pass the window.
    #[inline]
    pub(crate) fn window_cost(&self, packets: usize) -> u64 {
        (self.window_cost * packets as i64 as f64) as u64
    }

    /// The cost of a change of SA inside a train on an engine.
    #[inline]
    pub(crate) fn t_key(&self, engine: usize, algorithm: u16) -> f64 {
        self.t_keys.get(usize::from(algorithm) * self.engines + engine).copied().unwrap_or(0.0)
    }

    /// Whether a change of SA inside a train costs one of these engines more than a separate
    /// multi-packet would.
    #[inline]
    pub(crate) fn is_better_bundled(&self, algorithm: u16, engines: EngineMask) -> bool {
        let start = usize::from(algorithm) * self.engines;
        let Some(t_keys) = self.t_keys.get(start..start + self.engines) else { return false };
        { engines }
            .any(|engine| t_keys[engine] > self.calibrated[start + engine].model.t_init + self.window_cost)
    }

    /// The engines that support an algorithm; none if it is unknown.
    #[inline]
    pub(crate) fn capable(&self, algorithm: u16) -> EngineMask {
        self.capable.get(usize::from(algorithm)).copied().unwrap_or_default()
    }

    /// The models of an algorithm, by engine; none if it is unknown.
    #[inline]
    pub(crate) fn models(&self, algorithm: u16) -> &[CostModel] {
        let start = usize::from(algorithm) * self.engines;
        self.current.get(start..start + self.engines).unwrap_or_default()
    }

    /// Computes each engine's time for this many blocks of an algorithm, for
    /// [`prices`](Self::prices).
    #[inline]
    pub(crate) fn price(&mut self, algorithm: u16, blocks: u64) {
        if self.priced_for != Some((algorithm, blocks)) {
            self.price_again(algorithm, blocks);
        }
    }

    #[inline(never)]
    fn price_again(&mut self, algorithm: u16, blocks: u64) {
        self.priced_for = Some((algorithm, blocks));
        let mut prices = std::mem::take(&mut self.prices);
        for (price, model) in prices.iter_mut().zip(self.models(algorithm)) {
            *price = model.cost(blocks);
        }
        self.prices = prices;
    }

    /// The computed times, in ticks; meaningless for engines that do not support the algorithm.
    #[inline]
    pub(crate) fn prices(&self) -> &[u64] {
        &self.prices
    }

    /// Takes into account that work predicted to take `predicted` ticks took `measured`.
    pub(crate) fn correct(&mut self, engine: usize, algorithm: u16, predicted: u64, measured: u64) {
        let is_capable = self.capable.get(usize::from(algorithm)).is_some_and(|set| set.contains(engine));
        if !is_capable || predicted == 0 {
            return;
        }
        let at = usize::from(algorithm) * self.engines + engine;
        let ratio = self.calibrated[at].ratio;
        let newest = ratio * (measured as f64 / predicted as f64).min(SURPRISE);
        self.set_ratio(at, (ratio + GAIN * (newest - ratio)).clamp(RATIO_MIN, RATIO_MAX));
        if self.engines > 1 {
            self.note_recent(engine, usize::from(algorithm));
        }
    }

    #[inline]
    fn set_ratio(&mut self, at: usize, ratio: f64) {
        self.priced_for = None;
        let CostModel { t_init, t_block } = self.calibrated[at].model;
        self.calibrated[at].ratio = ratio;
        self.current[at] = CostModel { t_init: t_init * ratio, t_block: t_block * ratio };
    }

    #[inline]
    fn note_recent(&mut self, engine: usize, algorithm: usize) {
        let recent = &mut self.recent[algorithm];
        recent.engines.set(engine, true);
        recent.count += 1;
        if recent.count == FORGET_AFTER {
            self.forget_old(algorithm);
        }
    }

    /// Halves, on a logarithmic scale, how much slower than calibrated the engines without a recent
    /// measurement are predicted to be. An engine predicted to be faster gets work and thus
    /// measurements.
    #[cold]
    fn forget_old(&mut self, algorithm: usize) {
        let recent = std::mem::take(&mut self.recent[algorithm]);
        for engine in self.capable[algorithm].without(recent.engines) {
            let at = algorithm * self.engines + engine;
            let ratio = self.calibrated[at].ratio;
            if ratio > 1.0 {
                self.set_ratio(at, ratio.sqrt());
            }
        }
    }

    /// The factors by which an engine's calibrated models are currently multiplied, by algorithm.
    pub(crate) fn ratios(&self, engine: usize) -> Vec<Option<f64>> {
        let column = self.calibrated.iter().skip(engine).step_by(self.engines);
        let capable = self.capable.iter().map(|set| set.contains(engine));
        column.zip(capable).map(|(calibrated, is_capable)| is_capable.then_some(calibrated.ratio)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(t_init: f64, t_block: f64) -> CostTable {
        let costs = vec![None, Some(CostModel { t_init, t_block })];
        CostTable::new(&[EngineModel { name: String::new(), is_cpu: true, depth: 0, costs }])
    }

    fn cost(table: &CostTable, blocks: u64) -> u64 {
        table.models(1)[0].cost(blocks)
    }

    #[test]
    fn a_cost_is_a_line_over_blocks() {
        let model = CostModel { t_init: 2000.0, t_block: 556.521_739 };
        assert_eq!(model.cost(0), 2000);
        assert_eq!(model.cost(7), 5896);
        assert_eq!(CostModel { t_init: -5.0, t_block: 1.0 }.cost(1), 0);
    }

    #[test]
    fn a_handover_is_paid_by_the_multi_packet_by_the_packet_and_by_the_block() {
        let handover = Handover { t_init: 100.0, t_packet: 30.0, t_block: 0.5 };
        assert_eq!(
            [(1, 4), (10, 4), (10, 900)].map(|(packets, blocks)| handover.cost(packets, blocks)),
            [132, 402, 850]
        );
        assert_eq!(Handover::default().cost(64, 5_632), 0);
    }

    #[test]
    fn a_handover_is_known_of_the_algorithms_of_which_it_was_reported_alone() {
        let mut table = table(1.0, 1.0);
        assert!(table.handovers(0).is_empty() && table.handovers(1).is_empty());
        let handover = Handover { t_init: 7.0, ..Handover::default() };
        table.set_handover(0, 1, handover);
        assert_eq!((table.handovers(0), table.handovers(1)), (&[Handover::default()][..], &[handover][..]));
        assert!(table.handovers(2).is_empty());
    }

    #[test]
    fn algorithm_without_engines_has_no_cost() {
        let mut table = table(1.0, 1.0);
        let capable = [0, 1, 2].map(|algorithm| table.capable(algorithm).contains(0));
        assert_eq!(capable, [false, true, false]);
        assert!(table.models(2).is_empty());
        table.correct(0, 2, 10, 20);
        assert_eq!(table.ratios(0), [None, Some(1.0)]);
    }

    #[test]
    fn the_correction_converges_to_what_is_measured() {
        let mut table = table(100.0, 10.0);
        for _ in 0..200 {
            let predicted = cost(&table, 10);
            table.correct(0, 1, predicted, 400);
        }
        assert!((399..=401).contains(&cost(&table, 10)));
        let ratio = table.ratios(0)[1].expect("algorithm 1 is known");
        assert!((ratio - 2.0).abs() < 0.01);
    }

    #[test]
    fn a_thread_that_lost_its_core_once_is_hardly_thought_slower() {
        let mut table = table(9_000.0, 0.0);
        // 4 ms instead of 9 us.
        table.correct(0, 1, 9_000, 4_000_000);
        assert_eq!(cost(&table, 0), 10_688);
        // An engine that is 50 times slower for good is recognised.
        for _ in 0..100 {
            let predicted = cost(&table, 0);
            table.correct(0, 1, predicted, 450_000);
        }
        assert!((440_000..=450_000).contains(&cost(&table, 0)), "{}", cost(&table, 0));
    }

    #[test]
    fn an_engine_that_was_slow_is_tried_again_though_it_gets_no_work_meanwhile() {
        let costs = vec![Some(CostModel { t_init: 100.0, t_block: 0.0 })];
        let engine = EngineModel { name: String::new(), is_cpu: true, depth: 0, costs };
        let mut table = CostTable::new(&[engine.clone(), engine]);
        let cost = |table: &CostTable, engine: usize| table.models(0)[engine].cost(0);
        let measure = |table: &mut CostTable, engine: usize, measured: u64| {
            table.correct(engine, 0, cost(table, engine), measured);
        };
        for _ in 0..FORGET_AFTER {
            measure(&mut table, 0, 100);
            measure(&mut table, 1, 1_600);
        }
        assert!((1_590..=1_600).contains(&cost(&table, 1)));
        // The step is not repeated where the other's measurements had begun at its own last one.
        for expected in [400, 200, 141, 119] {
            for _ in 0..FORGET_AFTER {
                measure(&mut table, 0, 100);
            }
            assert!((expected - 2..=expected).contains(&cost(&table, 1)), "{}", cost(&table, 1));
        }
        // An engine with work keeps its correction.
        for _ in 0..FORGET_AFTER {
            measure(&mut table, 1, 1_600);
            (0..10).for_each(|_| measure(&mut table, 0, 100));
        }
        assert!((1_590..=1_600).contains(&cost(&table, 1)));
    }

    #[test]
    fn the_correction_stays_within_its_range_and_a_new_calibration_ends_it() {
        let mut table = table(100.0, 0.0);
        for _ in 0..1_000 {
            let predicted = cost(&table, 0);
            table.correct(0, 1, predicted, u64::MAX);
        }
        assert_eq!(cost(&table, 0), 6_400);
        for _ in 0..1_000 {
            let predicted = cost(&table, 0);
            table.correct(0, 1, predicted, 0);
        }
        assert_eq!(cost(&table, 0), 13);
        table.set(0, 1, Some(CostModel { t_init: 70.0, t_block: 0.0 }));
        assert_eq!(cost(&table, 0), 70);
    }
}
