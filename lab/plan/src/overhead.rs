//! Measures a worker's time per packet beside the cipher: frames, lookups, headers, window,
//! ordering, and handing multi-packets to an engine. It uses the gateway's own pipeline and an
//! engine that does nothing.

use std::collections::BTreeMap;
use std::time::Instant;

use convoy_assembly::assemble;
use convoy_config::Config;
use convoy_dataplane::pipeline::{Clock, Pipeline};
use convoy_engine::{
    Completion, Engine, EngineControl, EngineDescription, EngineError, EngineQueue, InPlace, Outcome,
    Placement, Refused, Submission, Takes, lay_out,
};
use convoy_ipsec::{CryptoPacket, CryptoStatus, KeyMaterial, SaIndex};
use convoy_scheduler::{CostModel, SchedulingPolicy};
use convoy_state::Starts;

use super::PlanError;
use super::drive::drive;
use super::trace::with_keys;

/// Packets sent per measurement, and the smallest number of rounds.
const PACKETS: usize = 200_000;
const LEAST_ROUNDS: usize = 10;

/// An engine that is described like another one and returns packets unprocessed.
struct NullEngine {
    description: EngineDescription,
    done: Vec<Completion>,
}

impl InPlace for NullEngine {
    fn process(&mut self, packets: &mut [CryptoPacket]) {
        packets.iter_mut().for_each(|packet| packet.status = CryptoStatus::Done);
    }
}

impl EngineControl for NullEngine {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, _: SaIndex, _: &KeyMaterial) -> Result<(), EngineError> {
        Ok(())
    }

    fn remove_key(&mut self, _: SaIndex) {}
}

impl EngineQueue for NullEngine {
    fn submit(&mut self, mut submission: Submission) -> Result<(), Box<Refused>> {
        // Real engines read the clock as well, so its cost is included.
        let start = Instant::now();
        let Submission { packets, templates, .. } = &mut submission;
        lay_out(templates, packets, &mut |iv| iv.fill(0));
        packets.iter_mut().for_each(|packet| packet.status = CryptoStatus::Done);
        let service_ns = Some(start.elapsed().as_nanos() as u64);
        self.done.push(Completion { submission, outcome: Outcome::Done, service_ns });
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.done);
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        let EngineDescription { placement, takes, .. } = self.description;
        (placement == Placement::Inline && takes == Takes::Trains).then_some(self as &mut dyn InPlace)
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

/// Worker's mean time per packet beside the cipher, in ns: before the window and after
/// cryptography.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PacketOverhead {
    pub(super) before_ns: f64,
    pub(super) after_ns: f64,
}

/// Overhead for each window of a plan, by where packets are encrypted.
#[derive(Clone, Debug, Default)]
pub(super) struct OverheadByWindow {
    /// On the worker's core, if all engines are there: bursts are processed in place.
    alone: BTreeMap<usize, PacketOverhead>,
    /// On the worker's core, if there are other engines to choose from.
    inline: BTreeMap<usize, PacketOverhead>,
    /// At engines off the worker's core.
    lookaside: BTreeMap<usize, PacketOverhead>,
}

impl OverheadByWindow {
    /// Measures the overhead with `packets`, in a pipeline as configured and around engines with
    /// these descriptions.
    ///
    /// # Errors
    /// [`PlanError::Assemble`] if the pipeline cannot be set up.
    pub(super) fn measure(
        config: &Config,
        packets: &[Vec<u8>],
        engines: &[EngineDescription],
        windows: impl Iterator<Item = usize> + Clone,
    ) -> Result<Self, PlanError> {
        let one_of = |placement| engines.iter().find(|engine| engine.placement == placement);
        let each = |engine: Option<&EngineDescription>, is_alone| -> Result<_, PlanError> {
            let Some(engine) = engine else { return Ok(BTreeMap::new()) };
            let of = |window| Ok((window, overhead(config, packets, engine, is_alone, window)?));
            windows.clone().map(of).collect()
        };
        let (inline, lookaside) = (one_of(Placement::Inline), one_of(Placement::Lookaside));
        Ok(Self {
            alone: each(inline, true)?,
            inline: each(inline.filter(|_| lookaside.is_some()), false)?,
            lookaside: each(lookaside, false)?,
        })
    }

    /// The overhead with this window, where `lookaside` is the share of the packets at engines off
    /// the worker's core; `None` if there are no such engines.
    pub(super) fn with(&self, window: usize, lookaside: Option<f64>) -> PacketOverhead {
        let of = |windows: &BTreeMap<usize, PacketOverhead>| windows.get(&window).copied();
        let Some(share) = lookaside else { return of(&self.alone).unwrap_or_default() };
        match (of(&self.inline), of(&self.lookaside)) {
            (Some(inline), Some(other)) => PacketOverhead {
                before_ns: inline.before_ns * (1.0 - share) + other.before_ns * share,
                after_ns: inline.after_ns * (1.0 - share) + other.after_ns * share,
            },
            (one, other) => one.or(other).unwrap_or_default(),
        }
    }
}

fn overhead(
    config: &Config,
    packets: &[Vec<u8>],
    engine: &EngineDescription,
    is_alone: bool,
    window: usize,
) -> Result<PacketOverhead, PlanError> {
    let mut pipeline = pipeline(config, engine, is_alone, window)?;
    let rounds = (PACKETS / packets.len().max(1)).max(LEAST_ROUNDS);
    let pace = drive(&mut pipeline, packets, rounds);
    Ok(PacketOverhead {
        before_ns: pace.before_ns,
        after_ns: (pace.undisturbed_ns - pace.before_ns).max(0.0),
    })
}

/// A pipeline as configured, with an engine that does nothing.
fn pipeline(
    config: &Config,
    engine: &EngineDescription,
    is_alone: bool,
    window: usize,
) -> Result<Pipeline, PlanError> {
    let mut config = with_keys(config).with_one_worker();
    config.scheduler.window = window;
    config.scheduler.adaptive = None;
    // Other policies may require an engine on the worker's core.
    config.scheduler.policy = SchedulingPolicy::FinishingTime;
    let mut costs = assemble::costs();
    costs.set_fixed(&engine.name, CostModel { t_init: 100.0, t_block: 1.0 });
    let mut description = engine.clone();
    if description.placement == Placement::Inline && !is_alone {
        // Where there are other engines to choose from, bursts pass through the window.
        description.takes = Takes::MultiPackets;
    }
    let null = NullEngine { description, done: Vec::new() };
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(null)];
    Ok(assemble::pipeline(&config, 0, engines, &costs, Clock::start(), &Starts::Unlimited)?.0)
}

#[cfg(test)]
mod tests {
    use convoy_engine::Software;
    use convoy_workbench::imix;

    use super::*;
    use crate::tests::config;

    #[test]
    fn what_a_worker_does_follows_where_the_packets_go() {
        let of = |before_ns, after_ns| BTreeMap::from([(8, PacketOverhead { before_ns, after_ns })]);
        let (alone, inline) = (of(90.0, 50.0), of(100.0, 200.0));
        let all = OverheadByWindow { alone, inline, lookaside: of(140.0, 400.0) };
        assert_eq!(all.with(8, None), PacketOverhead { before_ns: 90.0, after_ns: 50.0 });
        assert_eq!(all.with(8, Some(0.0)), PacketOverhead { before_ns: 100.0, after_ns: 200.0 });
        assert_eq!(all.with(8, Some(0.25)), PacketOverhead { before_ns: 110.0, after_ns: 250.0 });
        let one = OverheadByWindow { lookaside: of(140.0, 400.0), ..OverheadByWindow::default() };
        assert_eq!(one.with(8, Some(1.0)), PacketOverhead { before_ns: 140.0, after_ns: 400.0 });
    }

    #[test]
    fn bursts_are_measured_in_place_where_the_gateway_does_them_so() {
        let [traffic, _] = imix(7);
        let packets: Vec<Vec<u8>> = (0..640).map(|at| traffic.packet(at).to_vec()).collect();
        let inline = Software::new("software").description().clone();
        // The burst of 64 packets is one unit of work in place; through the window there is at
        // least one multi-packet per SA.
        let per_work = |is_alone, window| {
            let mut pipeline = pipeline(&config(32), &inline, is_alone, window).expect("good");
            drive(&mut pipeline, &packets, 2);
            let counters = pipeline.stage().engines().counters(0);
            assert_eq!(counters.packets, 1280);
            counters.packets / counters.trains
        };
        assert_eq!(per_work(true, 32), 64);
        assert!(per_work(false, 32) <= 32, "through the window beside engines elsewhere");
        assert_eq!(per_work(true, 1), 1, "a window of one bundles nothing");
    }
}
