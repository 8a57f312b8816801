//! The SAs of a crypto stage: how they are installed, their costs on each engine, and how they are
//! removed.

use convoy_engine::{AlgorithmCost, Binding, EngineDescription};
use convoy_ipsec::{Direction, KeyMaterial, SaIndex, Transform};
use convoy_scheduler::Forecast;

use super::{CryptoStage, StageAlgorithm, StageError};
use crate::pipeline::in_flight::TrainRecords;
use crate::pipeline::train::{Algorithms, stream_of};

/// The stage's record of an SA.
pub(super) struct StageSa {
    pub(super) algorithm: u16,
    /// The engine whose device processes it in flight.
    pub(super) bound_to: Option<usize>,
}

/// An SA that is removed once none of its packets is inside.
pub(super) struct Retiring {
    sa: SaIndex,
    /// Set once none of its packets waits any more: by direction, the positions behind the last
    /// train of many SAs that may contain some.
    behind: Option<[u64; 2]>,
}

impl CryptoStage {
    /// Installs an SA. `cost` returns an engine's cost for a transform that it supports, and is
    /// asked once per engine, transform and direction.
    ///
    /// # Errors
    /// [`StageError::Engine`] if no engine supports its transform.
    pub fn install(
        &mut self,
        sa: SaIndex,
        direction: Direction,
        keys: &KeyMaterial,
        cost: &dyn Fn(&EngineDescription, Transform) -> AlgorithmCost,
    ) -> Result<(), StageError> {
        let now_ns = self.clock.now_ns();
        let records = &mut TrainRecords { now_ns, trains: &mut self.scheduler, again: &mut self.again };
        self.engines.install_key(sa, keys, records)?;
        let algorithm =
            self.algorithm(StageAlgorithm { transform: keys.transform(), direction, only: None }, cost);
        let at = sa.0 as usize;
        if self.sas.len() <= at {
            self.sas.resize_with(at + 1, || None);
        }
        self.sas[at] = Some(StageSa { algorithm, bound_to: None });
        let common = &mut self.algorithms_of[direction as usize];
        *common = common.with(algorithm, false);
        Ok(())
    }

    /// Has the device of a port process an installed SA in flight, if one supports it. Outbound,
    /// only its engine is chosen from then on, so that no packet overtakes another. Inbound packets
    /// that the device cannot process are opened by the other engines.
    pub fn bind(
        &mut self,
        sa: SaIndex,
        binding: Binding,
        keys: &KeyMaterial,
        cost: &dyn Fn(&EngineDescription, Transform) -> AlgorithmCost,
    ) {
        let Some(engine) = self.engines.bind(sa, binding, keys) else { return };
        let Direction::Seal = binding.direction else { return self.note_bound(sa, engine, None) };
        let wanted =
            StageAlgorithm { transform: keys.transform(), direction: Direction::Seal, only: Some(engine) };
        let algorithm = self.algorithm(wanted, cost);
        self.note_bound(sa, engine, Some(algorithm));
    }

    fn note_bound(&mut self, sa: SaIndex, engine: usize, algorithm: Option<u16>) {
        if let Some(Some(entry)) = self.sas.get_mut(sa.0 as usize) {
            entry.bound_to = Some(engine);
            entry.algorithm = algorithm.unwrap_or(entry.algorithm);
            self.algorithms_of = [Algorithms::Several; 2];
        }
    }

    /// The engine whose device processes an SA in flight, by its index in the set.
    pub fn bound_to(&self, sa: SaIndex) -> Option<usize> {
        self.sas.get(sa.0 as usize)?.as_ref()?.bound_to
    }

    /// The engines that can process a lone packet of an SA now, with their times, and which of them
    /// would. The packet's size is in bytes.
    pub fn forecast(&mut self, sa: SaIndex, bytes: usize) -> Vec<Forecast> {
        let Some(Some(StageSa { algorithm, .. })) = self.sas.get(sa.0 as usize) else { return Vec::new() };
        self.scheduler.forecast(self.clock.now_ns(), *algorithm, bytes as u64)
    }

    fn algorithm(
        &mut self,
        wanted: StageAlgorithm,
        cost: &dyn Fn(&EngineDescription, Transform) -> AlgorithmCost,
    ) -> u16 {
        if let Some(at) = self.algorithms.iter().position(|known| *known == wanted) {
            return at as u16;
        }
        let algorithm = self.algorithms.len() as u16;
        self.algorithms.push(wanted);
        let StageAlgorithm { transform, only, .. } = wanted;
        for engine in 0..self.engines.len() {
            let does = || self.engines.description(engine).transforms.contains(&transform);
            if only.map_or_else(does, |only| only == engine) {
                let cost = cost(self.engines.description(engine), transform);
                self.set_cost(engine, algorithm, cost);
            }
        }
        algorithm
    }

    /// Replaces the costs of engines for a transform: `cost` returns an engine's new cost, if it
    /// has one. Transforms that no SA has used yet are unknown here.
    pub fn set_costs(
        &mut self,
        transform: Transform,
        cost: &dyn Fn(&EngineDescription) -> Option<AlgorithmCost>,
    ) {
        for algorithm in 0..self.algorithms.len() {
            let StageAlgorithm { transform: known, only, .. } = self.algorithms[algorithm];
            for engine in (0..self.engines.len()).filter(|engine| only.is_none_or(|only| only == *engine)) {
                let description = self.engines.description(engine);
                let does = known == transform && description.transforms.contains(&transform);
                if let Some(cost) = does.then(|| cost(description)).flatten() {
                    self.set_cost(engine, algorithm as u16, cost);
                }
            }
        }
    }

    fn set_cost(&mut self, engine: usize, algorithm: u16, cost: AlgorithmCost) {
        self.scheduler.set_cost(engine, algorithm, Some(cost.model));
        self.scheduler.set_handover(engine, algorithm, cost.handover);
        self.scheduler.set_t_key(engine, algorithm, cost.t_key);
        self.scheduler.set_train(engine, algorithm, cost.train);
    }

    /// Removes an SA as soon as none of its packets is inside; [`take_retired`](Self::take_retired)
    /// says when. No more packets of it may arrive.
    pub fn retire(&mut self, sa: SaIndex) {
        self.retiring.push(Retiring { sa, behind: None });
    }

    /// Whether SAs that are being removed still have packets inside.
    pub fn is_retiring(&self) -> bool {
        !self.retiring.is_empty()
    }

    /// Takes the SAs whose removal has completed since the last call; their indices may be reused.
    pub fn take_retired(&mut self) -> Vec<SaIndex> {
        let mut retiring = std::mem::take(&mut self.retiring);
        let gone = retiring.extract_if(.., |retiring| self.is_gone(retiring)).map(|retiring| retiring.sa);
        let gone: Vec<SaIndex> = gone.collect();
        self.retiring = retiring;
        gone.iter().for_each(|sa| self.forget(*sa));
        gone
    }

    /// Whether no packet of an SA is inside any more: in the line, in the window, or dispatched and
    /// not yet released in order.
    fn is_gone(&self, retiring: &mut Retiring) -> bool {
        let sa = retiring.sa;
        if retiring.behind.is_none()
            && (self.line.has(sa) || self.scheduler.holds(sa.0, |packet| packet.sa.0))
        {
            return false;
        }
        let behind = retiring.behind.get_or_insert_with(|| [0, 1].map(|way| self.order.next_place(way)));
        self.order.outstanding(stream_of(sa)) == 0
            && (0..).zip(*behind).all(|(way, place)| self.order.has_left(way, place))
    }

    fn forget(&mut self, sa: SaIndex) {
        if let Some(entry) = self.sas.get_mut(sa.0 as usize) {
            *entry = None;
        }
        self.engines.remove_key(sa);
        self.order.remove(stream_of(sa));
    }
}
