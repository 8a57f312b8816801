//! `[scheduler]`: the parameters of the gateway's scheduler, under the same names.

use convoy_scheduler::{
    CLASSES, ClassDiscipline, DepthUnit, FullQueue, Heuristic, Research, SchedulerConfig, SchedulingPolicy,
};
use serde::{Deserialize, Serialize};

use crate::time::ticks;

/// Parameters of the window and of the choice of a processor (docs/lab/simulator.md: rules 1
/// and 3).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchedulerSpec {
    /// Name of a [`SchedulingPolicy`], or of a [rival](convoy_rivals::ALL).
    pub policy: String,
    /// Size in bytes below which policy `packet-size` assigns a multi-packet to the CPU; only valid
    /// with that policy.
    pub packet_size_threshold: Option<u32>,
    /// Name of a [`FullQueue`]: what policies `finishing-time` and `sufferage`, and a rival, do if
    /// the best processor's queue is full.
    pub full_queue: String,
    /// Name of a [`DepthUnit`]: whether a processor's depth counts multi-packets, packets or bytes.
    pub depth_unit: String,
    /// Time in us after its predicted completion for which the scheduler still waits for a
    /// processor; without it, the scheduler waits without limit, as in the paper.
    pub late_margin_us: Option<f64>,
    /// How many others may pass a multi-packet of the window under policy `sufferage`, and under a
    /// rival that looks at the whole window; without it, twice as many as the window has
    /// packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ageing: Option<usize>,
    /// The most multi-packets that a processor holds, under every policy; without it, as many as
    /// its depth allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credits: Option<usize>,
    /// With several classes: the most multi-packets of a class and those below it that a processor
    /// holds; the highest class has no such bound. Without it, a class precedes others in the
    /// window alone. The gateway has 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_credits: Option<usize>,
    /// The most packets that all processors hold together, with those in service. While they hold
    /// this many, the window waits; the last multi-packet may exceed it. Without it, only the depth
    /// of each processor's queue is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<usize>,
    /// Whether the processing time that the scheduler expects includes the transfers on the bus,
    /// each with the length of whole blocks. Only the time at the core counts as the result.
    #[serde(skip_serializing_if = "is_false")]
    pub predicts_transfers: bool,
    /// The processor on whose core the scheduler runs, as in a worker of the gateway. The scheduler
    /// then decides only while that core is free. The core serves first what has advanced furthest:
    /// stages after cryptography, then its multi-packets, then the scheduler, then stages before.
    /// Without this, the scheduler decides at any time, and its decisions take no time. The
    /// processor must have no bus.
    pub on: Option<String>,
    /// `W`, in packets; 1 disables grouping.
    pub window: usize,
    /// Lower bound of an adaptive window; given together with `window_max`.
    pub window_min: Option<usize>,
    /// Upper bound of an adaptive window.
    pub window_max: Option<usize>,
    /// `timeout` of rule 1, in us; 0 disables it.
    pub max_wait_us: f64,
    /// `byte_limit` of rule 1; without it there is no limit.
    pub byte_limit: Option<u32>,
    /// Bytes in the window at which it is full though it holds fewer than `W` packets; without it
    /// there is no such bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    /// Path MTU in bytes for aggregation: the packets of a multi-packet share outer packets of at
    /// most this length (RFC 9347). Without it, each packet is an ESP packet of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregation: Option<u32>,
    /// Number of traffic classes in use.
    pub classes: usize,
    /// Weight of each class; without weights, classes have strict priority.
    pub weights: Option<Vec<u32>>,
    /// Whether an idle processor gets packets before the window is full, if no packet arrives at
    /// the same instant. The gateway does so; the paper does not.
    pub work_conserving: bool,
    /// Whether the scheduler knows the contents of the devices' caches of SAs, and adds the time of
    /// a miss to the processing time. A scheduler that does not know them corrects its prediction
    /// by measured times, as the gateway's does.
    #[serde(skip_serializing_if = "is_true")]
    pub knows_caches: bool,
    /// Whether the estimates follow measured times, as in the gateway, for processors whose times
    /// [deviate](super::DeviationSpec).
    #[serde(skip_serializing_if = "is_false")]
    pub corrects: bool,
}

fn is_true(value: &bool) -> bool {
    *value
}

fn is_false(value: &bool) -> bool {
    !*value
}

impl Default for SchedulerSpec {
    fn default() -> Self {
        Self {
            policy: SchedulingPolicy::default().name().to_owned(),
            packet_size_threshold: None,
            full_queue: FullQueue::default().name().to_owned(),
            depth_unit: DepthUnit::default().name().to_owned(),
            late_margin_us: None,
            ageing: None,
            credits: None,
            class_credits: None,
            pool: None,
            predicts_transfers: false,
            on: None,
            window: 30,
            window_min: None,
            window_max: None,
            max_wait_us: 0.0,
            byte_limit: None,
            window_bytes: None,
            aggregation: None,
            classes: 1,
            weights: None,
            work_conserving: false,
            knows_caches: true,
            corrects: false,
        }
    }
}

impl SchedulerSpec {
    /// The scheduler's own configuration, with a tick of 1 ps.
    ///
    /// # Errors
    /// The key, and what is wrong with its value.
    pub(crate) fn config(&self) -> Result<SchedulerConfig, (&'static str, String)> {
        let classes = self.weights.as_ref().map_or(self.classes, Vec::len);
        Ok(SchedulerConfig {
            policy: self.policy()?,
            late_margin: self.late_margin_us.map(|margin| ticks(margin * 1e-6)),
            window: self.window,
            max_wait: ticks(self.max_wait_us * 1e-6),
            byte_limit: self.byte_limit.unwrap_or(u32::MAX),
            classes,
            discipline: self.discipline()?,
            adaptive: self.adaptive()?,
            // The machine also sets this if caches are unknown. Otherwise predictions are exact.
            correct: self.corrects,
            measure: false,
            research: self.research()?,
        })
    }

    fn policy(&self) -> Result<SchedulingPolicy, (&'static str, String)> {
        let policy = match crate::policy::named(&self.policy) {
            Ok(policy) => policy.unwrap_or_default(),
            Err(what) => return Err(("policy", what)),
        };
        if self.packet_size_threshold.is_some() && self.policy != convoy_rivals::PACKET_SIZE {
            return Err(("packet_size_threshold", "it is for policy = \"packet-size\"".to_owned()));
        }
        Ok(policy)
    }

    fn research(&self) -> Result<Research, (&'static str, String)> {
        Ok(Research {
            heuristic: convoy_rivals::by_name(&self.policy),
            full_queue: self.full_queue.parse().map_err(|error| ("full_queue", format!("{error}")))?,
            depth_unit: self.depth_unit.parse().map_err(|error| ("depth_unit", format!("{error}")))?,
            ageing: self.ageing,
            credits: self.credits,
            class_credits: self.class_credits,
            window_bytes: self.window_bytes.unwrap_or(u64::MAX),
        })
    }

    /// What takes the place of the configuration's heuristic, which has no parameters.
    pub(crate) fn heuristic(&self) -> Option<Box<dyn Heuristic>> {
        self.packet_size_threshold.map(convoy_rivals::packet_size)
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
