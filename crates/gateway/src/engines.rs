//! What `convoy engines` tells: which engines there are, why others are not, and what they cost.

use convoy_engine::{
    CalibrationCache, EngineError, EngineKind, IdleEngine, Multibuffer, Software, catalogue,
};
use serde::Serialize;

/// One kind of engine.
#[derive(Clone, Debug, Serialize)]
pub struct EngineOverview {
    /// The kind, as the configuration names it.
    pub kind: String,
    /// What it is.
    pub summary: String,
    /// Whether one can be made here.
    pub present: bool,
    /// The version of what does the work.
    pub version: Option<String>,
    /// Why it is not there.
    pub reason: Option<String>,
    /// How to get it.
    pub remedy: Option<String>,
    /// What it leaves to others, and why.
    pub left_out: Option<String>,
    /// What it can do, in swanctl's words.
    pub algorithms: Vec<String>,
    /// Measured costs; only if calibration was asked for, and never of models.
    pub costs: Vec<CostRow>,
}

/// What one algorithm costs.
#[derive(Clone, Debug, Serialize)]
pub struct CostRow {
    /// In swanctl's words.
    pub algorithm: String,
    /// Once per multi-packet, in ns.
    pub t_init_ns: f64,
    /// Per 16 bytes, in ns.
    pub t_block_ns: f64,
}

/// All kinds of engine. With `calibrate`, what is there is measured anew and the machine's cache renewed.
///
/// # Errors
/// [`EngineError`] if an engine that is there fails at its calibration.
pub fn overview(calibrate: bool) -> Result<Vec<EngineOverview>, EngineError> {
    let (mut cache, warning) = CalibrationCache::open(CalibrationCache::default_path());
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
    if calibrate {
        cache.forget();
    }
    let mut all = Vec::new();
    for finding in catalogue::available() {
        let mut costs = Vec::new();
        if let Some(mut engine) = measurable(finding.kind).filter(|_| calibrate && finding.present) {
            for transform in &finding.transforms {
                let model = cache.cost(&mut engine, *transform)?;
                costs.push(CostRow {
                    algorithm: transform.to_string(),
                    t_init_ns: model.t_init,
                    t_block_ns: model.t_block,
                });
            }
        }
        all.push(EngineOverview {
            kind: finding.kind.to_string(),
            summary: finding.summary.to_owned(),
            present: finding.present,
            version: finding.version,
            reason: finding.reason,
            remedy: finding.remedy,
            left_out: finding.left_out.map(str::to_owned),
            algorithms: finding.transforms.iter().map(ToString::to_string).collect(),
            costs,
        });
    }
    if let Err(error) = cache.save() {
        tracing::warn!("{error}");
    }
    Ok(all)
}

fn measurable(kind: EngineKind) -> Option<IdleEngine> {
    match kind {
        EngineKind::Software => Some(IdleEngine::new(Software::new("software"))),
        EngineKind::Multibuffer => Multibuffer::inline("multibuffer").ok().map(IdleEngine::new),
        EngineKind::Model | EngineKind::Card => None,
    }
}
