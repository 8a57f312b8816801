//! `[[algorithm]]`, and `algorithms` of a `[[processor]]`: processors that differ in what they
//! support (small-packets paper, section III).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Platform, ProcessorSpec};

/// The most algorithms of a platform.
pub(super) const ALGORITHMS_MAX: usize = 16;

/// An algorithm that SAs use.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AlgorithmSpec {
    /// Its unique name.
    pub name: String,
    /// The part of the SAs that use it, in proportion to the other shares.
    pub share: f64,
}

/// A processor's ratios for an algorithm (equation 7); the processor's own where one is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AlgorithmRatios {
    /// `T_init_ratio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_ratio: Option<f64>,
    /// `T_enc_ratio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enc_ratio: Option<f64>,
}

/// The algorithms that a processor supports, by name.
pub type SupportedAlgorithms = BTreeMap<String, AlgorithmRatios>;

impl Platform {
    /// A processor's `T_init_ratio` and `T_enc_ratio` for each algorithm of the platform; `None`
    /// for those that it does not support. One of a platform without algorithms.
    pub(crate) fn ratios_of(&self, processor: &ProcessorSpec) -> Vec<Option<(f64, f64)>> {
        let own = (processor.init_ratio, processor.enc_ratio);
        let Some(supported) = processor.algorithms.as_ref().filter(|_| !self.algorithms.is_empty()) else {
            return vec![Some(own); self.algorithms.len().max(1)];
        };
        let ratios = |algorithm: &AlgorithmSpec| {
            let AlgorithmRatios { init_ratio, enc_ratio } = supported.get(&algorithm.name)?;
            Some((init_ratio.unwrap_or(own.0), enc_ratio.unwrap_or(own.1)))
        };
        self.algorithms.iter().map(ratios).collect()
    }
}

/// Which algorithm each SA uses.
pub(crate) struct AlgorithmsOfSas {
    /// The sum of the shares up to each algorithm, in parts of the sum of all.
    ends: Vec<f64>,
}

/// The inverse of the golden ratio: its multiples without their whole parts are spread evenly, so
/// that however many SAs there are, about the share of each algorithm uses it.
const SPREAD: f64 = 0.618_033_988_749_894_8;

impl AlgorithmsOfSas {
    pub(crate) fn new(algorithms: &[AlgorithmSpec]) -> Self {
        let all: f64 = algorithms.iter().map(|algorithm| algorithm.share).sum();
        let mut sum = 0.0;
        let end = |algorithm: &AlgorithmSpec| {
            sum += algorithm.share / all;
            sum
        };
        Self { ends: algorithms.iter().map(end).collect() }
    }

    /// The number of the algorithm that an SA uses, in the order of the platform.
    #[inline]
    pub(crate) fn of(&self, sa: u32) -> u16 {
        if self.ends.len() <= 1 {
            return 0;
        }
        let place = ((f64::from(sa) + 0.5) * SPREAD).fract();
        let at = self.ends.iter().position(|end| place < *end).unwrap_or(self.ends.len() - 1);
        at as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_algorithm_has_its_share_of_few_and_of_many_sas() {
        let algorithm = |share| AlgorithmSpec { name: String::new(), share };
        let all = AlgorithmsOfSas::new(&[algorithm(6.0), algorithm(3.0), algorithm(1.0)]);
        for (sas, expected) in [(10, [6, 3, 1]), (1_000, [600, 300, 100])] {
            for (at, expected) in expected.into_iter().enumerate() {
                let count = (0..sas).filter(|sa| all.of(*sa) == at as u16).count();
                assert!(count.abs_diff(expected) <= 1 + sas as usize / 300, "{count} of {sas}");
            }
        }
        assert_eq!(AlgorithmsOfSas::new(&[]).of(7), 0);
    }
}
