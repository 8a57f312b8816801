//! What a worker does to a packet beside its cipher: frames, lookups, headers, window, order, and what handing a
//! multi-packet to an engine takes. Measured with the gateway's own pipeline and an engine that does nothing.

use std::collections::BTreeMap;
use std::time::Instant;

use convoy_engine::{
    Completion, Engine, EngineDescription, EngineError, MultiPacket, Outcome, Placement, Refused,
};
use convoy_ipsec::{CryptoStatus, KeyMaterial, SaIndex};
use convoy_scheduler::{CostModel, Policy};

use super::PlanError;
use super::drive::drive;
use super::trace::with_keys;
use crate::assemble;
use crate::config::Config;
use crate::costs::Costs;
use crate::pipeline::Clock;
use crate::state::Beginnings;

/// Packets that are sent for each measurement, and the fewest rounds.
const PACKETS: usize = 200_000;
const LEAST_ROUNDS: usize = 10;

/// An engine that says of itself what another does, and hands packets back as they came.
struct Blank {
    description: EngineDescription,
    done: Vec<Completion>,
}

impl Engine for Blank {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, _: SaIndex, _: &KeyMaterial) -> Result<(), EngineError> {
        Ok(())
    }

    fn remove_key(&mut self, _: SaIndex) {}

    fn submit(&mut self, mut multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        // As others do, so that reading the clock counts.
        let start = Instant::now();
        multi_packet.packets.iter_mut().for_each(|packet| packet.status = CryptoStatus::Done);
        let service_ns = Some(start.elapsed().as_nanos() as u64);
        self.done.push(Completion { multi_packet, outcome: Outcome::Done, service_ns });
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

/// A worker's time for a packet beside its cipher, mean, in ns: before the window and after cryptography.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Around {
    pub(super) before_ns: f64,
    pub(super) after_ns: f64,
}

/// The same for each window that a plan tries, for engines on the worker's core and for others.
#[derive(Clone, Debug, Default)]
pub(super) struct AroundWindows {
    inline: BTreeMap<usize, Around>,
    lookaside: BTreeMap<usize, Around>,
}

impl AroundWindows {
    /// Measures under `packets` what a pipeline as configured takes around engines that are described so.
    ///
    /// # Errors
    /// [`PlanError::Assemble`] if there is no such pipeline.
    pub(super) fn measure(
        config: &Config,
        packets: &[Vec<u8>],
        engines: &[EngineDescription],
        windows: impl Iterator<Item = usize> + Clone,
    ) -> Result<Self, PlanError> {
        let one_of = |placement| engines.iter().find(|engine| engine.placement == placement);
        let each = |engine: Option<&EngineDescription>| -> Result<_, PlanError> {
            let Some(engine) = engine else { return Ok(BTreeMap::new()) };
            windows.clone().map(|window| Ok((window, around(config, packets, engine, window)?))).collect()
        };
        Ok(Self { inline: each(one_of(Placement::Inline))?, lookaside: each(one_of(Placement::Lookaside))? })
    }

    /// With this window, where engines that are not on the worker's core take such a share of the packets.
    pub(super) fn with(&self, window: usize, lookaside: f64) -> Around {
        let of = |windows: &BTreeMap<usize, Around>| windows.get(&window).copied();
        match (of(&self.inline), of(&self.lookaside)) {
            (Some(inline), Some(other)) => Around {
                before_ns: inline.before_ns * (1.0 - lookaside) + other.before_ns * lookaside,
                after_ns: inline.after_ns * (1.0 - lookaside) + other.after_ns * lookaside,
            },
            (one, other) => one.or(other).unwrap_or_default(),
        }
    }
}

fn around(
    config: &Config,
    packets: &[Vec<u8>],
    engine: &EngineDescription,
    window: usize,
) -> Result<Around, PlanError> {
    let mut config = with_keys(config).with_one_worker();
    config.scheduler.window = window;
    config.scheduler.adaptive = None;
    // There is one engine to choose from, and it may not be on the worker's core.
    config.scheduler.policy = Policy::FinishingTime;
    let mut costs = Costs::new();
    costs.state(&engine.name, CostModel { t_init: 100.0, t_block: 1.0 });
    let blank = Blank { description: engine.clone(), done: Vec::new() };
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(blank)];
    let (mut pipeline, _) =
        assemble::pipeline(&config, 0, engines, &costs, Clock::start(), &Beginnings::Fresh)?;
    let rounds = (PACKETS / packets.len().max(1)).max(LEAST_ROUNDS);
    let pace = drive(&mut pipeline, packets, rounds);
    Ok(Around { before_ns: pace.before_ns, after_ns: (pace.undisturbed_ns - pace.before_ns).max(0.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_does_follows_where_the_packets_go() {
        let of = |before_ns, after_ns| BTreeMap::from([(8, Around { before_ns, after_ns })]);
        let both = AroundWindows { inline: of(100.0, 200.0), lookaside: of(140.0, 400.0) };
        assert_eq!(both.with(8, 0.25), Around { before_ns: 110.0, after_ns: 250.0 });
        let one = AroundWindows { inline: BTreeMap::new(), lookaside: of(140.0, 400.0) };
        assert_eq!(one.with(8, 1.0), Around { before_ns: 140.0, after_ns: 400.0 });
    }
}
