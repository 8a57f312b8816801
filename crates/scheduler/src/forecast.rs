//! What the scheduler would do with a packet now, for an operator who asks.

use crate::config::Input;
use crate::scheduler::Scheduler;
use crate::window::Group;

/// One engine's part in a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The engine, by its index in the list given to the scheduler.
    pub engine: usize,
    /// Its work ahead, in ticks.
    pub wait: u64,
    /// Its time for the packet, in ticks.
    pub processing: u64,
    /// Whether it is in use.
    pub is_available: bool,
    /// Whether the packet would go there.
    pub is_chosen: bool,
}

impl<T, R> Scheduler<T, R> {
    /// The engines that support an algorithm, and which of them a lone packet of so many bytes
    /// would go to now. None is chosen if the packet would wait for room.
    pub fn forecast(&mut self, now: u64, algorithm: u16, bytes: u64) -> Vec<Forecast> {
        let blocks = bytes.div_ceil(16);
        let group = Group { algorithm, packets: 1, blocks, bytes, ..Group::NOWHERE };
        let chosen = self.choose(now, Input::Ended, &group).map(|choice| choice.engine);
        self.costs.price(algorithm, blocks);
        let forecast = |engine: usize| Forecast {
            engine,
            wait: self.engines.queue(engine).wait(now),
            processing: self.costs.prices()[engine],
            is_available: self.engines.available.contains(engine),
            is_chosen: chosen == Some(engine),
        };
        self.costs.capable(algorithm).map(forecast).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CostModel, EngineModel, SchedulerConfig};

    #[test]
    fn the_engine_with_the_lowest_finishing_time_is_chosen_and_nothing_changes() {
        let engine = |name: &str, t_init| EngineModel {
            name: name.to_owned(),
            is_cpu: false,
            depth: 4,
            costs: vec![Some(CostModel { t_init, t_block: 1.0 }), None],
        };
        let engines = vec![engine("slow", 50.0), engine("fast", 10.0)];
        let mut scheduler: Scheduler<u32> =
            Scheduler::new(SchedulerConfig::default(), engines).expect("a valid configuration");
        for _ in 0..2 {
            let forecast = scheduler.forecast(0, 0, 64);
            let reported: Vec<_> =
                forecast.iter().map(|engine| (engine.engine, engine.processing, engine.is_chosen)).collect();
            assert_eq!(reported, [(0, 54, false), (1, 14, true)]);
        }
        assert_eq!(scheduler.forecast(0, 1, 64), [], "no engine has this algorithm");
    }
}
