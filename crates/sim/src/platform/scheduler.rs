//! `[scheduler]`: the gateway's own, with the gateway's names.

use convoy_scheduler::{CLASSES, ClassDiscipline, DepthUnit, FullQueue, Policy, SchedulerConfig};
use serde::{Deserialize, Serialize};

use crate::time::ticks;

/// How the window and the choice behave (docs/internals/simulator.md: rules 1 and 3).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchedulerSpec {
    /// A [`Policy`]'s name.
    pub policy: String,
    /// Multi-packets below so many bytes go to the CPU, under policy `packet-size` alone.
    pub packet_size_threshold: Option<u32>,
    /// A [`FullQueue`]'s name: what policy `finishing-time` does where the best processor's queue
    /// is full.
    pub full_queue: String,
    /// A [`DepthUnit`]'s name: what a processor's depth counts.
    pub depth_unit: String,
    /// Time past its prediction, in us, after which a processor is not waited for; without, it is
    /// waited for however late it is, as the paper has it.
    pub late_margin_us: Option<f64>,
    /// Whether multi-packets of other SAs pass one that waits for room.
    pub overtake: bool,
    /// The processor on whose core the scheduler runs, as a gateway's worker does: it decides only
    /// while that core is free, and the core does what is furthest on its way first: stages after
    /// cryptography, its multi-packet, the scheduler, stages before. Without, it decides at any
    /// time and takes none. The processor must have no bus.
    pub on: Option<String>,
    /// `W`, in packets; 1 switches bundling off.
    pub window: usize,
    /// Bounds of a window that adapts itself, if it does.
    pub window_min: Option<usize>,
    /// See `window_min`.
    pub window_max: Option<usize>,
    /// `timeout` of rule 1, in us; 0 is none.
    pub max_wait_us: f64,
    /// `byte_limit` of rule 1; none by default.
    pub byte_limit: Option<u32>,
    /// Traffic classes in use.
    pub classes: usize,
    /// A weight for each class; strict priority without.
    pub weights: Option<Vec<u32>>,
    /// Whether an idle processor gets packets though the window is not full, where none arrives at
    /// this very moment: the gateway does so, the paper does not.
    pub work_conserving: bool,
    /// Whether the scheduler knows which SAs devices have in their caches, and counts a miss as
    /// part of a packet's time. A scheduler that does not know corrects its prediction by what it
    /// measures, as the gateway's does.
    #[serde(skip_serializing_if = "is_true")]
    pub knows_caches: bool,
}

fn is_true(value: &bool) -> bool {
    *value
}

impl Default for SchedulerSpec {
    fn default() -> Self {
        Self {
            policy: Policy::default().name().to_owned(),
            packet_size_threshold: None,
            full_queue: FullQueue::default().name().to_owned(),
            depth_unit: DepthUnit::default().name().to_owned(),
            late_margin_us: None,
            overtake: false,
            on: None,
            window: 30,
            window_min: None,
            window_max: None,
            max_wait_us: 0.0,
            byte_limit: None,
            classes: 1,
            weights: None,
            work_conserving: false,
            knows_caches: true,
        }
    }
}

impl SchedulerSpec {
    /// The scheduler's own configuration, with a tick of 1 ps.
    ///
    /// # Errors
    /// The key, and what is wrong with it.
    pub(crate) fn config(&self) -> Result<SchedulerConfig, (&'static str, String)> {
        let classes = self.weights.as_ref().map_or(self.classes, Vec::len);
        Ok(SchedulerConfig {
            policy: self.policy()?,
            full_queue: self.full_queue.parse().map_err(|error| ("full_queue", format!("{error}")))?,
            depth_unit: self.depth_unit.parse().map_err(|error| ("depth_unit", format!("{error}")))?,
            late_margin: self.late_margin_us.map(|margin| ticks(margin * 1e-6)),
            overtake: self.overtake,
            window: self.window,
            max_wait: ticks(self.max_wait_us * 1e-6),
            byte_limit: self.byte_limit.unwrap_or(u32::MAX),
            classes,
            discipline: self.discipline()?,
            adaptive: self.adaptive()?,
            // What it predicts is what happens.
            correct: false,
            measure: false,
        })
    }

    fn policy(&self) -> Result<Policy, (&'static str, String)> {
        let policy = self.policy.parse().map_err(|error| ("policy", format!("{error}")))?;
        match (policy, self.packet_size_threshold) {
            (Policy::PacketSize(_), Some(bytes)) => Ok(Policy::PacketSize(bytes)),
            (_, Some(_)) => Err(("packet_size_threshold", "it is for policy = \"packet-size\"".to_owned())),
            (policy, None) => Ok(policy),
        }
    }

    fn discipline(&self) -> Result<ClassDiscipline, (&'static str, String)> {
        let Some(given) = &self.weights else { return Ok(ClassDiscipline::Strict) };
        if given.is_empty() || given.len() > CLASSES || self.classes != 1 && self.classes != given.len() {
            let what = "give one weight for each class, 1 to 8 of them, that of the highest class first";
            return Err(("weights", what.to_owned()));
        }
        let mut weights = [0; CLASSES];
        weights[..given.len()].copy_from_slice(given);
        Ok(ClassDiscipline::Weighted(weights))
    }

    fn adaptive(&self) -> Result<Option<(usize, usize)>, (&'static str, String)> {
        match (self.window_min, self.window_max) {
            (None, None) => Ok(None),
            (Some(least), Some(most)) => Ok(Some((least, most))),
            _ => Err(("window_min", "give both window_min and window_max, or none".to_owned())),
        }
    }
}
