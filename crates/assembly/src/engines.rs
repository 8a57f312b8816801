//! The overview of `convoy engines`: which engines exist, why others do not, and their costs.

use convoy_dataplane::pipeline::window_cost_ns;
use convoy_engine::{
    AlgorithmCost, CalibrationCache, EngineError, EngineTable, FoundDevice, IdleEngine, Placement, Takes,
    available,
};
use convoy_ipsec::Transform;
use serde::Serialize;

use crate::assemble::calibration_cache;

/// One kind of engine.
#[derive(Clone, Debug, Serialize)]
pub struct EngineOverview {
    /// The kind, as the configuration names it.
    pub kind: String,
    /// A description in one line.
    pub summary: String,
    /// Whether one can be created here.
    pub present: bool,
    /// The version of the library or device behind it.
    pub version: Option<String>,
    /// Why it is unavailable.
    pub reason: Option<String>,
    /// How to get it.
    pub remedy: Option<String>,
    /// What it leaves to other engines, and why.
    pub left_out: Option<String>,
    /// The algorithms it supports, in swanctl's words.
    pub algorithms: Vec<String>,
    /// The devices to choose from in a configuration.
    pub devices: Vec<DeviceOverview>,
    /// Measured costs; only if calibration was requested, and never for models.
    pub costs: Vec<CostRow>,
}

/// A device that an engine may be created over.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceOverview {
    /// Its name in the configuration.
    pub device: String,
    /// A description in one line.
    pub summary: String,
    /// The algorithms it claims to support, in swanctl's words.
    pub algorithms: Vec<String>,
    /// Why it cannot be an engine, if it cannot.
    pub why_not: Option<String>,
}

impl DeviceOverview {
    fn of(found: &FoundDevice) -> Self {
        Self {
            device: found.name.clone(),
            summary: found.summary.clone(),
            algorithms: found.transforms.iter().map(ToString::to_string).collect(),
            why_not: found.why_not.clone(),
        }
    }
}

/// The cost of one algorithm.
#[derive(Clone, Debug, Serialize)]
pub struct CostRow {
    /// In swanctl's words.
    pub algorithm: String,
    /// Whether that is on the worker's core, "inline", or elsewhere, "lookaside".
    pub placement: String,
    /// Once per multi-packet, in ns.
    pub t_init_ns: f64,
    /// Per 16 bytes, in ns.
    pub t_block_ns: f64,
    /// The time for a burst that it takes as it came; not for an engine that takes packets of one
    /// SA only.
    pub train: Option<TrainRow>,
    /// For a change of SA inside a burst that it takes as it came, in ns; not for an engine that
    /// takes packets of one SA only.
    pub t_key_ns: Option<f64>,
    /// The worker's cost of handing packets over and taking them back; not for an engine on the
    /// worker's core.
    pub handover: Option<HandoverRow>,
}

/// The time of an engine for a burst.
#[derive(Clone, Debug, Serialize)]
pub struct TrainRow {
    /// Once per burst, in ns.
    pub init_ns: f64,
    /// Per packet, in ns.
    pub packet_ns: f64,
    /// Per 16 bytes, in ns.
    pub block_ns: f64,
    /// Per 16 bytes of the longest packet, while other vector lanes run empty, in ns.
    pub longest_ns: f64,
}

/// The cost for the worker's own core of packets that an engine elsewhere processes.
#[derive(Clone, Debug, Serialize)]
pub struct HandoverRow {
    /// Once per multi-packet, in ns.
    pub init_ns: f64,
    /// Per packet, in ns.
    pub packet_ns: f64,
    /// Per 16 bytes, in ns.
    pub block_ns: f64,
}

/// The cost of sorting a packet by its SA in the window on this machine, in ns.
pub fn window_ns() -> f64 {
    window_cost_ns()
}

/// All kinds of engine of a program. With `calibrate`, available ones are measured again and the
/// machine's cache is updated.
///
/// # Errors
/// [`EngineError`] if an available engine fails during calibration.
pub fn overview(kinds: &EngineTable, calibrate: bool) -> Result<Vec<EngineOverview>, EngineError> {
    let mut cache = calibration_cache();
    if calibrate {
        cache.forget();
    }
    let mut all = Vec::new();
    for finding in available(kinds) {
        let mut costs = Vec::new();
        // Unavailable ones are reported below.
        let engines =
            if calibrate { [finding.row.idle(), finding.row.idle_on_core()] } else { [Ok(None), Ok(None)] };
        for mut engine in engines.into_iter().filter_map(|engine| engine.ok().flatten()) {
            for transform in engine.description().transforms.clone() {
                costs.push(measure(&mut cache, &mut engine, transform)?);
            }
        }
        let (found, missing) = match &finding.found {
            Ok(found) => (Some(found), None),
            Err(missing) => (None, Some(missing)),
        };
        all.push(EngineOverview {
            kind: finding.row.kind().to_string(),
            summary: finding.row.kind().traits().summary.to_owned(),
            present: found.is_some(),
            version: found.map(|found| found.version.clone()),
            reason: missing.map(|missing| missing.reason.clone()),
            remedy: missing.map(|missing| missing.remedy.clone()),
            left_out: found.and_then(|found| found.left_out).map(str::to_owned),
            algorithms: finding.transforms().iter().map(ToString::to_string).collect(),
            devices: found
                .map_or_else(Vec::new, |found| found.devices.iter().map(DeviceOverview::of).collect()),
            costs,
        });
    }
    if let Err(error) = cache.save() {
        tracing::warn!("{error}");
    }
    Ok(all)
}

fn measure(
    cache: &mut CalibrationCache,
    engine: &mut IdleEngine,
    transform: Transform,
) -> Result<CostRow, EngineError> {
    let AlgorithmCost { model, handover, t_key, train } = cache.cost(engine, transform)?;
    let is_elsewhere = engine.description().placement == Placement::Lookaside;
    Ok(CostRow {
        algorithm: transform.to_string(),
        placement: engine.description().placement.to_string(),
        t_init_ns: model.t_init,
        t_block_ns: model.t_block,
        train: train.map(|train| TrainRow {
            init_ns: train.t_init,
            packet_ns: train.t_packet,
            block_ns: train.t_block,
            longest_ns: train.t_longest,
        }),
        t_key_ns: (engine.description().takes == Takes::Trains).then_some(t_key),
        handover: is_elsewhere.then_some(HandoverRow {
            init_ns: handover.t_init,
            packet_ns: handover.t_packet,
            block_ns: handover.t_block,
        }),
    })
}
