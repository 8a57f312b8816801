//! `deviation` of a `[[processor]]`: how its times differ from what the scheduler estimates.

use serde::{Deserialize, Serialize};

/// How a processor's actual times differ from the estimates: at once by a factor, from one
/// multi-packet to the next at random, and because other work takes its core away.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviationSpec {
    /// Mean actual time of a multi-packet divided by its estimate.
    pub ratio: f64,
    /// From when on it is `ratio`, in us; before, it is 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub from_us: f64,
    /// Largest random difference from that mean, as a fraction of it, 0 to 1; uniformly
    /// distributed.
    pub spread: f64,
    /// Mean time between two losses of the core, in us; exponentially distributed.
    pub stall_every_us: f64,
    /// How long the core is lost each time, in us; 0 for never.
    pub stall_us: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Default for DeviationSpec {
    fn default() -> Self {
        Self { ratio: 1.0, from_us: 0.0, spread: 0.0, stall_every_us: 1000.0, stall_us: 0.0 }
    }
}
