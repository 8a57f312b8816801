//! Compares the scheduler with a plain implementation of rules 1 to 3 of docs/lab/simulator.md, of
//! the policy `sufferage`, and of the rule for the worker's overhead, that uses only scans and
//! sums.

use convoy_scheduler::{
    CostModel, DepthUnit, EngineModel, FullQueue, Input, Item, Policy, Scheduler, SchedulerConfig,
};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
struct Packet {
    place: usize,
    sa: u32,
    bytes: u32,
    arrived: u64,
    /// Multi-packets that went before it although their first packet stood behind it.
    passed: usize,
}

impl Packet {
    fn blocks(&self) -> u32 {
        self.bytes.div_ceil(16)
    }

    /// Every third SA uses the second algorithm, which engine 1 cannot do.
    fn algorithm(&self) -> u16 {
        u16::from(self.sa.is_multiple_of(3))
    }
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    policy: Policy,
    ageing: Option<usize>,
    window: usize,
    bytes: u32,
    window_bytes: u64,
    timeout: u64,
    full_queue: FullQueue,
    depth_unit: DepthUnit,
    late_margin: Option<u64>,
    credits: Option<usize>,
    /// The overhead of the caller's core for each packet.
    worker_overhead: u64,
}

struct PlainEngine {
    model: EngineModel,
    is_available: bool,
    /// Predicted time and size, in the unit of the depth, of each multi-packet, the one in service
    /// first, and when that one started.
    costs: Vec<(u64, usize)>,
    began: u64,
}

/// The report of a dispatch by both implementations: engine, `w`, `p` and the packets.
type Said = (usize, u64, u64, Vec<usize>);

#[derive(Clone, Copy)]
struct Choice {
    engine: usize,
    wait: u64,
    processing: u64,
}

/// The finishing time with an overhead, whether it is a CPU, `p`, the engine and `w`.
type Candidate = (u64, bool, u64, usize, u64);

struct Plain {
    window: Vec<Packet>,
    limits: Limits,
    engines: Vec<PlainEngine>,
    before_window: usize,
}

impl Plain {
    fn new(limits: Limits) -> Self {
        let engine = |model| PlainEngine { model, is_available: true, costs: Vec::new(), began: 0 };
        let engines = models(limits.depth_unit).into_iter().map(engine).collect();
        Self { window: Vec::new(), limits, engines, before_window: 0 }
    }

    /// Whether the window has no room, in packets or in bytes.
    fn is_full(&self) -> bool {
        let bytes: u64 = self.window.iter().map(|packet| u64::from(packet.bytes)).sum();
        self.window.len() == self.limits.window || bytes >= self.limits.window_bytes
    }

    /// Rule 1, first half: whether a multi-packet is due.
    fn is_due(&self, now: u64, ended: bool) -> bool {
        let first = self.window.iter().map(|packet| packet.arrived).min();
        let timeout = self.limits.timeout;
        self.is_closed(ended) || timeout > 0 && first.is_some_and(|first| now - first >= timeout)
    }

    /// Whether the window is full in packets or bytes, or nothing more comes.
    fn is_closed(&self, ended: bool) -> bool {
        let bytes: u32 = self.window.iter().map(|packet| packet.bytes).sum();
        self.is_full() || bytes >= self.limits.bytes || ended
    }

    /// Rule 1, second half: the packets of an SA, in order, up to the byte limit.
    fn group(&self, sa: u32) -> Vec<Packet> {
        let mut bytes = 0;
        let mut group = Vec::new();
        for packet in self.window.iter().filter(|packet| packet.sa == sa) {
            bytes += packet.bytes;
            if !group.is_empty() && bytes > self.limits.bytes {
                break;
            }
            group.push(*packet);
        }
        group
    }

    /// What a multi-packet takes of a depth.
    fn size(&self, group: &[Packet]) -> usize {
        match self.limits.depth_unit {
            DepthUnit::MultiPackets => 1,
            DepthUnit::Packets => group.len(),
            DepthUnit::Bytes => group.iter().map(|packet| packet.bytes as usize).sum(),
        }
    }

    /// Whether an engine has room for a multi-packet, and a credit or less to do than the slowest
    /// engine would need for it.
    fn has_room(&self, now: u64, at: usize, group: &[Packet]) -> bool {
        let able = self.candidates(0, now, group);
        let slowest = able.iter().map(|of| of.2).max().unwrap_or(0);
        let wait = able.iter().find(|of| of.3 == at).map_or(0, |of| of.4);
        let engine = &self.engines[at];
        let credits = self.limits.credits.unwrap_or(usize::MAX);
        self.fits(engine, group) && (engine.costs.len() < credits || wait < slowest)
    }

    /// Whether the engine's queue has room for a multi-packet. One that is larger than the depth
    /// may wait alone.
    fn fits(&self, engine: &PlainEngine, group: &[Packet]) -> bool {
        let waiting = engine.costs.iter().skip(1);
        let depth = engine.model.depth;
        engine.costs.is_empty()
            || match waiting.map(|of| of.1).sum::<usize>() {
                0 => depth > 0,
                waiting => waiting + self.size(group) <= depth,
            }
    }

    /// Whether the scheduler no longer waits for this engine.
    fn is_late(&self, engine: &PlainEngine, now: u64) -> bool {
        let (Some(margin), Some((cost, _))) = (self.limits.late_margin, engine.costs.first()) else {
            return false;
        };
        now > engine.began + cost + margin
    }

    fn overhead(&self, ended: bool) -> u64 {
        let packets = if ended { 0 } else { self.window.len() + self.before_window };
        self.limits.worker_overhead * packets as u64
    }

    /// All engines that can process a multi-packet.
    fn candidates(&self, overhead: u64, now: u64, group: &[Packet]) -> Vec<Candidate> {
        let blocks: u32 = group.iter().map(Packet::blocks).sum();
        let able = self.engines.iter().enumerate().filter(|(_, engine)| engine.is_available);
        let candidate = |(at, engine): (usize, &PlainEngine)| {
            let model = engine.model.costs[usize::from(group[0].algorithm())]?;
            let q: u64 = engine.costs.iter().skip(1).map(|of| of.0).sum();
            let r = engine.costs.first().map_or(0, |of| of.0.saturating_sub(now - engine.began));
            let p = (model.t_init + model.t_block * f64::from(blocks)).round() as u64;
            let overhead = if engine.model.is_cpu { overhead } else { 0 };
            Some((q + r + p + overhead, engine.model.is_cpu, p, at, q + r))
        };
        able.filter_map(candidate).collect()
    }

    /// Rules 2 and 3 with the core's overhead, or without it if it would lead to waiting.
    fn choice(&self, now: u64, ended: bool, group: &[Packet]) -> Option<Choice> {
        let overhead = self.overhead(ended);
        self.choice_with(overhead, now, group).or_else(|| self.choice_with(0, now, group))
    }

    /// The candidates among which a policy by finishing times chooses.
    fn considered(&self, overhead: u64, now: u64, group: &[Packet]) -> Vec<Candidate> {
        let mut candidates = self.candidates(overhead, now, group);
        let all_are_late = candidates.iter().all(|of| self.is_late(&self.engines[of.3], now));
        candidates.retain(|of| {
            let engine = &self.engines[of.3];
            match self.limits.full_queue {
                FullQueue::Skip => self.has_room(now, of.3, group),
                // Where all are late none is worth waiting for.
                FullQueue::Wait if all_are_late => self.fits(engine, group),
                FullQueue::Wait => !self.is_late(engine, now),
            }
        });
        candidates
    }

    fn choice_with(&self, overhead: u64, now: u64, group: &[Packet]) -> Option<Choice> {
        let candidates = self.considered(overhead, now, group);
        let (_, _, processing, engine, wait) = candidates.into_iter().min()?;
        let choice = Choice { engine, wait, processing };
        let is_late = self.is_late(&self.engines[engine], now);
        let waits = self.limits.full_queue == FullQueue::Wait && !is_late;
        (!waits || self.has_room(now, engine, group)).then_some(choice)
    }

    fn dispatch(&mut self, now: u64, ended: bool) -> Option<Said> {
        if self.window.is_empty() || !self.is_due(now, ended) {
            return None;
        }
        let (chosen, group) = match self.limits.policy {
            Policy::Sufferage => self.most_suffering(now, ended)?,
            _ => self.first(now, ended)?,
        };
        let Choice { engine: at, wait: w, processing: p, .. } = chosen;
        let size = self.size(&group);
        let engine = &mut self.engines[at];
        if engine.costs.is_empty() {
            engine.began = now;
        }
        engine.costs.push((p, size));
        let places: Vec<usize> = group.iter().map(|packet| packet.place).collect();
        self.window.retain(|packet| !places.contains(&packet.place));
        for packet in self.window.iter_mut().filter(|packet| packet.place < places[0]) {
            packet.passed += 1;
        }
        Some((at, w, p, places))
    }

    /// The SAs in the window, in the order of their first packets.
    fn sas(&self) -> Vec<u32> {
        let mut sas: Vec<u32> = Vec::new();
        for packet in &self.window {
            if !sas.contains(&packet.sa) {
                sas.push(packet.sa);
            }
        }
        sas
    }

    /// Policy `sufferage`: of all groups of a full window the one whose second lowest finishing
    /// time exceeds its lowest by most, to its lowest; the first one if enough have passed it. If
    /// that engine has no room it waits, or, with an overhead of the core, chooses again without
    /// it.
    fn most_suffering(&self, now: u64, ended: bool) -> Option<(Choice, Vec<Packet>)> {
        let is_passed_enough = self.window[0].passed >= self.limits.ageing.unwrap_or(2 * self.limits.window);
        if !self.is_closed(ended) || is_passed_enough {
            return self.first(now, ended);
        }
        [self.overhead(ended), 0].into_iter().find_map(|overhead| {
            let mut most: Option<(u64, Choice, Vec<Packet>)> = None;
            for group in self.sas().into_iter().map(|sa| self.group(sa)) {
                let mut candidates = self.considered(overhead, now, &group);
                candidates.sort_unstable();
                let Some((finish, _, processing, engine, wait)) = candidates.first().copied() else {
                    continue;
                };
                let sufferage = candidates.get(1).map_or(0, |second| second.0 - finish);
                if most.as_ref().is_none_or(|most| sufferage > most.0) {
                    most = Some((sufferage, Choice { engine, wait, processing }, group));
                }
            }
            let (_, choice, group) = most?;
            self.has_room(now, choice.engine, &group).then_some((choice, group))
        })
    }

    /// Policy `finishing-time`: the first multi-packet of the window.
    fn first(&self, now: u64, ended: bool) -> Option<(Choice, Vec<Packet>)> {
        let group = self.group(self.window[0].sa);
        Some((self.choice(now, ended, &group)?, group))
    }

    fn complete(&mut self, now: u64, engine: usize) {
        self.engines[engine].costs.remove(0);
        self.engines[engine].began = now;
    }
}

/// Engines whose depths are small multiples of what a multi-packet takes in this unit.
fn models(unit: DepthUnit) -> Vec<EngineModel> {
    let scale = if unit == DepthUnit::Bytes { 700 } else { 1 };
    let model = |t_init, t_block| Some(CostModel { t_init, t_block });
    let engine = |is_cpu, depth: usize, costs| EngineModel {
        name: String::new(),
        is_cpu,
        depth: scale * depth,
        costs,
    };
    vec![
        engine(true, 2, vec![model(300.0, 30.5), model(900.0, 61.25)]),
        engine(false, 3, vec![model(1000.0, 10.0), None]),
        engine(false, 1, vec![model(1000.0, 10.0), model(1000.0, 10.0)]),
    ]
}

/// The scheduler and the plain implementation, run in parallel.
struct Pair {
    real: Scheduler<usize>,
    plain: Plain,
    tickets: Vec<Vec<u64>>,
    now: u64,
    pushed: usize,
    left: Vec<usize>,
}

impl Pair {
    fn new(limits: Limits) -> Self {
        let config = SchedulerConfig {
            policy: limits.policy,
            ageing: limits.ageing,
            window: limits.window,
            byte_limit: limits.bytes,
            window_bytes: limits.window_bytes,
            max_wait: limits.timeout,
            full_queue: limits.full_queue,
            depth_unit: limits.depth_unit,
            late_margin: limits.late_margin,
            credits: limits.credits,
            ..SchedulerConfig::default()
        };
        let mut real = Scheduler::new(config, models(limits.depth_unit)).expect("in range");
        real.set_worker_overhead(limits.worker_overhead);
        let tickets = vec![Vec::new(); models(limits.depth_unit).len()];
        Self { real, plain: Plain::new(limits), tickets, now: 0, pushed: 0, left: Vec::new() }
    }

    fn push(&mut self, sa: u32, bytes: u32) -> Result<(), TestCaseError> {
        let packet = Packet { place: self.pushed, sa, bytes, arrived: self.now, passed: 0 };
        let (blocks, algorithm) = (packet.blocks(), packet.algorithm());
        let item = Item { sa, algorithm, class: 0, blocks, bytes, payload: packet.place };
        let taken = self.real.push(self.now, item).is_ok();
        prop_assert_eq!(taken, !self.plain.is_full());
        if taken {
            self.plain.window.push(packet);
            self.pushed += 1;
        }
        Ok(())
    }

    /// Calls dispatch on both, and returns whether it yielded something.
    fn dispatch(&mut self, input: Input) -> Result<bool, TestCaseError> {
        let got = self.real.dispatch(self.now, input).map(|dispatch| {
            self.tickets[dispatch.engine].push(dispatch.ticket);
            self.left.extend(&dispatch.items);
            (dispatch.engine, dispatch.predicted_wait, dispatch.predicted_processing, dispatch.items)
        });
        let gave = got.is_some();
        prop_assert_eq!(got, self.plain.dispatch(self.now, input == Input::Ended));
        Ok(gave)
    }

    fn complete(&mut self, engine: usize) {
        if !self.tickets[engine].is_empty() {
            let ticket = self.tickets[engine].remove(0);
            self.real.complete(self.now, engine, ticket, None);
            self.plain.complete(self.now, engine);
        }
    }

    fn set_available(&mut self, engine: usize, is_available: bool) {
        self.real.set_available(engine, is_available);
        self.plain.engines[engine].is_available = is_available;
        if !is_available {
            self.tickets[engine].clear();
            self.plain.engines[engine].costs.clear();
        }
    }

    fn set_before_window(&mut self, packets: usize) {
        self.real.set_before_window(packets);
        self.plain.before_window = packets;
    }

    /// Ends the source, so that everything is dispatched.
    fn drain(&mut self) -> Result<(), TestCaseError> {
        loop {
            for engine in 0..self.tickets.len() {
                while !self.tickets[engine].is_empty() {
                    self.complete(engine);
                }
            }
            if !self.dispatch(Input::Ended)? {
                return Ok(());
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push(u32, u32),
    Dispatch,
    Complete(usize),
    Advance(u64),
    /// For engine 1 only; the others ensure that every algorithm has an engine.
    SetAvailable(bool),
    BeforeWindow(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Half of the cases use round numbers, so that limits are often met exactly.
    let bytes = prop_oneof![(1u32..16).prop_map(|hundreds| hundreds * 100), 1u32..1600];
    let ticks = prop_oneof![(0u64..6).prop_map(|thousands| thousands * 1000), 0u64..5_000];
    let step = prop_oneof![
        10 => (0u32..6, bytes).prop_map(|(sa, bytes)| Step::Push(sa, bytes)),
        6 => Just(Step::Dispatch),
        4 => (0usize..3).prop_map(Step::Complete),
        3 => ticks.prop_map(Step::Advance),
        1 => any::<bool>().prop_map(Step::SetAvailable),
        1 => (0usize..12).prop_map(Step::BeforeWindow),
    ];
    proptest::collection::vec(step, 1..300)
}

fn limits() -> impl Strategy<Value = Limits> {
    let bytes = prop_oneof![Just(65_536u32), (1u32..6).prop_map(|thousands| thousands * 1000)];
    let window_bytes = prop_oneof![Just(u64::MAX), (1u64..40).prop_map(|hundreds| hundreds * 100)];
    let timeout = prop_oneof![Just(0u64), (1u64..8).prop_map(|thousands| thousands * 1000)];
    let late_margin = prop_oneof![Just(None), (0u64..4_000).prop_map(Some)];
    let rules = (
        prop::sample::select(FullQueue::ALL.to_vec()),
        prop::sample::select(DepthUnit::ALL.to_vec()),
        late_margin,
        prop_oneof![Just(None), (1usize..5).prop_map(Some)],
        prop_oneof![Just(0u64), (1u64..5).prop_map(|hundreds| hundreds * 100), 1u64..1_000],
        prop::sample::select(vec![Policy::FinishingTime, Policy::Sufferage]),
        prop_oneof![Just(None), (0usize..12).prop_map(Some)],
    );
    (1usize..12, bytes, window_bytes, timeout, rules).prop_map(
        |(
            window,
            bytes,
            window_bytes,
            timeout,
            (full_queue, depth_unit, late_margin, credits, worker_overhead, policy, ageing),
        )| Limits {
            policy,
            ageing,
            window,
            bytes,
            window_bytes,
            timeout,
            full_queue,
            depth_unit,
            late_margin,
            credits,
            worker_overhead,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn dispatch_for_dispatch_as_the_rules_say(limits in limits(), steps in steps()) {
        let mut pair = Pair::new(limits);
        for step in steps {
            match step {
                Step::Push(sa, bytes) => pair.push(sa, bytes)?,
                Step::Dispatch => { pair.dispatch(Input::More)?; }
                Step::Complete(engine) => pair.complete(engine),
                Step::Advance(ticks) => pair.now += ticks,
                Step::SetAvailable(is_available) => pair.set_available(1, is_available),
                Step::BeforeWindow(packets) => pair.set_before_window(packets),
            }
        }
        pair.drain()?;
        prop_assert_eq!(pair.real.waiting(), 0);
        // Nothing was lost or duplicated.
        let mut left = pair.left;
        left.sort_unstable();
        prop_assert_eq!(left, (0..pair.pushed).collect::<Vec<_>>());
    }

    #[test]
    fn a_window_of_one_schedules_each_packet_by_itself_in_order(
        packets in proptest::collection::vec((0u32..6, 1u32..1600), 1..100),
    ) {
        let mut pair = Pair::new(Limits {
            policy: Policy::FinishingTime,
            ageing: None,
            window: 1,
            bytes: 65_536,
            window_bytes: u64::MAX,
            timeout: 0,
            full_queue: FullQueue::Wait,
            depth_unit: DepthUnit::MultiPackets,
            late_margin: None,
            credits: None,
            worker_overhead: 0,
        });
        for (sa, bytes) in packets {
            pair.push(sa, bytes)?;
            while !pair.dispatch(Input::More)? {
                for engine in 0..3 {
                    pair.complete(engine);
                }
                pair.now += 100;
            }
            prop_assert_eq!(pair.real.waiting(), 0);
        }
        prop_assert!(pair.left.into_iter().eq(0..pair.pushed));
    }
}
