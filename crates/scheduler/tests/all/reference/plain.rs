//! Rules 1 to 3 of docs/lab/simulator.md, the policy `sufferage`, and the rule for the worker's
//! overhead, by scans and sums alone.

use convoy_scheduler::{CostModel, DepthUnit, EngineModel, FullQueue, SchedulingPolicy};

#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) place: usize,
    pub(super) sa: u32,
    pub(super) bytes: u32,
    pub(super) arrived: u64,
    /// Multi-packets that went before it although their first packet stood behind it.
    pub(super) passed: usize,
}

impl Packet {
    pub(super) fn blocks(&self) -> u32 {
        self.bytes.div_ceil(16)
    }

    /// Every third SA uses the second algorithm, which engine 1 cannot do.
    pub(super) fn algorithm(&self) -> u16 {
        u16::from(self.sa.is_multiple_of(3))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) policy: SchedulingPolicy,
    pub(super) ageing: Option<usize>,
    pub(super) window: usize,
    pub(super) bytes: u32,
    pub(super) window_bytes: u64,
    pub(super) timeout: u64,
    pub(super) full_queue: FullQueue,
    pub(super) depth_unit: DepthUnit,
    pub(super) late_margin: Option<u64>,
    pub(super) credits: Option<usize>,
    /// The overhead of the caller's core for each packet.
    pub(super) worker_overhead: u64,
}

pub(super) struct PlainEngine {
    pub(super) model: EngineModel,
    pub(super) is_available: bool,
    /// Predicted time and size, in the unit of the depth, of each multi-packet, the one in service
    /// first, and when that one started.
    pub(super) costs: Vec<(u64, usize)>,
    pub(super) began: u64,
}

/// The report of a dispatch by both implementations: engine, `w`, `p` and the packets.
pub(super) type Said = (usize, u64, u64, Vec<usize>);

#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub(super) engine: usize,
    pub(super) wait: u64,
    pub(super) processing: u64,
}

/// The finishing time with an overhead, whether it is a CPU, `p`, the engine and `w`.
pub(super) type Candidate = (u64, bool, u64, usize, u64);

pub(super) struct Plain {
    pub(super) window: Vec<Packet>,
    pub(super) limits: Limits,
    pub(super) engines: Vec<PlainEngine>,
    pub(super) before_window: usize,
}

impl Plain {
    pub(super) fn new(limits: Limits) -> Self {
        let engine = |model| PlainEngine { model, is_available: true, costs: Vec::new(), began: 0 };
        let engines = models(limits.depth_unit).into_iter().map(engine).collect();
        Self { window: Vec::new(), limits, engines, before_window: 0 }
    }

    /// Whether the window has no room, in packets or in bytes.
    pub(super) fn is_full(&self) -> bool {
        let bytes: u64 = self.window.iter().map(|packet| u64::from(packet.bytes)).sum();
        self.window.len() == self.limits.window || bytes >= self.limits.window_bytes
    }

    /// Rule 1, first half: whether a multi-packet is due.
    pub(super) fn is_due(&self, now: u64, ended: bool) -> bool {
        let first = self.window.iter().map(|packet| packet.arrived).min();
        let timeout = self.limits.timeout;
        self.is_closed(ended) || timeout > 0 && first.is_some_and(|first| now - first >= timeout)
    }

    /// Whether the window is full in packets or bytes, or nothing more comes.
    pub(super) fn is_closed(&self, ended: bool) -> bool {
        let bytes: u32 = self.window.iter().map(|packet| packet.bytes).sum();
        self.is_full() || bytes >= self.limits.bytes || ended
    }

    /// Rule 1, second half: the packets of an SA, in order, up to the byte limit.
    pub(super) fn group(&self, sa: u32) -> Vec<Packet> {
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
    pub(super) fn size(&self, group: &[Packet]) -> usize {
        match self.limits.depth_unit {
            DepthUnit::MultiPackets => 1,
            DepthUnit::Packets => group.len(),
            DepthUnit::Bytes => group.iter().map(|packet| packet.bytes as usize).sum(),
        }
    }

    /// Whether an engine has room for a multi-packet, and a credit or less to do than the slowest
    /// engine would need for it.
    pub(super) fn has_room(&self, now: u64, at: usize, group: &[Packet]) -> bool {
        let able = self.candidates(0, now, group);
        let slowest = able.iter().map(|of| of.2).max().unwrap_or(0);
        let wait = able.iter().find(|of| of.3 == at).map_or(0, |of| of.4);
        let engine = &self.engines[at];
        let credits = self.limits.credits.unwrap_or(usize::MAX);
        self.fits(engine, group) && (engine.costs.len() < credits || wait < slowest)
    }

    /// Whether the engine's queue has room for a multi-packet. One that is larger than the depth
    /// may wait alone.
    pub(super) fn fits(&self, engine: &PlainEngine, group: &[Packet]) -> bool {
        let waiting = engine.costs.iter().skip(1);
        let depth = engine.model.depth;
        engine.costs.is_empty()
            || match waiting.map(|of| of.1).sum::<usize>() {
                0 => depth > 0,
                waiting => waiting + self.size(group) <= depth,
            }
    }

    /// Whether the scheduler no longer waits for this engine.
    pub(super) fn is_late(&self, engine: &PlainEngine, now: u64) -> bool {
        let (Some(margin), Some((cost, _))) = (self.limits.late_margin, engine.costs.first()) else {
            return false;
        };
        now > engine.began + cost + margin
    }

    pub(super) fn overhead(&self, ended: bool) -> u64 {
        let packets = if ended { 0 } else { self.window.len() + self.before_window };
        self.limits.worker_overhead * packets as u64
    }

    /// All engines that can process a multi-packet.
    pub(super) fn candidates(&self, overhead: u64, now: u64, group: &[Packet]) -> Vec<Candidate> {
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
    pub(super) fn choice(&self, now: u64, ended: bool, group: &[Packet]) -> Option<Choice> {
        let overhead = self.overhead(ended);
        self.choice_with(overhead, now, group).or_else(|| self.choice_with(0, now, group))
    }

    /// The candidates among which a policy by finishing times chooses.
    pub(super) fn considered(&self, overhead: u64, now: u64, group: &[Packet]) -> Vec<Candidate> {
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

    pub(super) fn choice_with(&self, overhead: u64, now: u64, group: &[Packet]) -> Option<Choice> {
        let candidates = self.considered(overhead, now, group);
        let (_, _, processing, engine, wait) = candidates.into_iter().min()?;
        let choice = Choice { engine, wait, processing };
        let is_late = self.is_late(&self.engines[engine], now);
        let waits = self.limits.full_queue == FullQueue::Wait && !is_late;
        (!waits || self.has_room(now, engine, group)).then_some(choice)
    }

    pub(super) fn dispatch(&mut self, now: u64, ended: bool) -> Option<Said> {
        if self.window.is_empty() || !self.is_due(now, ended) {
            return None;
        }
        let (chosen, group) = match self.limits.policy {
            SchedulingPolicy::Sufferage => self.most_suffering(now, ended)?,
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
    pub(super) fn sas(&self) -> Vec<u32> {
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
    pub(super) fn most_suffering(&self, now: u64, ended: bool) -> Option<(Choice, Vec<Packet>)> {
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
    pub(super) fn first(&self, now: u64, ended: bool) -> Option<(Choice, Vec<Packet>)> {
        let group = self.group(self.window[0].sa);
        Some((self.choice(now, ended, &group)?, group))
    }

    pub(super) fn complete(&mut self, now: u64, engine: usize) {
        self.engines[engine].costs.remove(0);
        self.engines[engine].began = now;
    }
}

/// Engines whose depths are small multiples of what a multi-packet takes in this unit.
pub(super) fn models(unit: DepthUnit) -> Vec<EngineModel> {
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
