//! Sizes of payloads: the patterns of the paper's table I, and simple IMIX.

use std::fmt;
use std::str::FromStr;

/// The distribution of payload sizes `L`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Range [20, 7065], mean 471, median 326, deviation 470 (table I): an exponential distribution
    /// of mean 470.8, rounded down and limited to the range from 20 to 15 means.
    Exponential,
    /// All sizes of [0, 1960] with equal probability (table I).
    Uniform,
    /// A single size; the paper uses 0, 24, 472 and 984.
    Fixed(u32),
    /// A synthetic trace fitted to table I: range [0, 1460], mean 256, median 162, deviation 259.
    /// It resembles TCP of that time: segments of 0, 512 (a common MSS then) and 1460 bytes, and
    /// all sizes up to 223 with equal probability.
    Trace,
    /// Simple IMIX: IP packets of 40, 576 and 1500 bytes, 7 : 4 : 1.
    Imix,
}

/// The largest fixed payload, in bytes; with its header it still fits into an IP packet.
const FIXED_MAX: u32 = 65_495;

impl Pattern {
    /// The patterns of the paper.
    pub const PAPER: [Self; 7] = [
        Self::Exponential,
        Self::Uniform,
        Self::Fixed(0),
        Self::Fixed(24),
        Self::Fixed(472),
        Self::Fixed(984),
        Self::Trace,
    ];

    /// The smallest size, and the weights of all sizes from there on.
    pub(crate) fn weights(self) -> (u32, Vec<f64>) {
        match self {
            Self::Exponential => (20, exponential(470.8, 20, 7065)),
            Self::Uniform => (0, vec![1.0; 1961]),
            Self::Fixed(size) => (size, vec![1.0]),
            Self::Trace => (0, trace()),
            Self::Imix => (0, masses(1460, &[(0, 7.0), (536, 4.0), (1460, 1.0)])),
        }
    }
}

/// Weights of an exponential distribution, rounded down and limited to [`least`, `most`].
fn exponential(mean: f64, least: u32, most: u32) -> Vec<f64> {
    let above = |size: u32| (-f64::from(size) / mean).exp();
    (least..=most)
        .map(|size| {
            let from = if size == least { 1.0 } else { above(size) };
            let to = if size == most { 0.0 } else { above(size + 1) };
            from - to
        })
        .collect()
}

fn masses(most: usize, of: &[(usize, f64)]) -> Vec<f64> {
    let mut weights = vec![0.0; most + 1];
    for (size, weight) in of {
        weights[*size] += weight;
    }
    weights
}

/// Weights fitted to the moments and the median of table I; a test below checks them.
fn trace() -> Vec<f64> {
    let (small, medium, large) = TRACE_MASSES;
    let mut weights = masses(1460, &[(0, small), (512, medium), (1460, large)]);
    let body = 1.0 - small - medium - large;
    weights[1..=TRACE_BODY].iter_mut().for_each(|weight| *weight += body / TRACE_BODY as f64);
    weights
}

/// Shares of payloads of 0, 512 and 1460 bytes.
const TRACE_MASSES: (f64, f64, f64) = (0.035, 0.302, 0.02);
/// Upper bound of the other payloads, which start at 1 byte.
const TRACE_BODY: usize = 223;

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exponential => f.write_str("exponential"),
            Self::Uniform => f.write_str("uniform"),
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Trace => f.write_str("trace"),
            Self::Imix => f.write_str("imix"),
        }
    }
}

/// The name of an unknown pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown pattern {0:?}; possible patterns: exponential, uniform, trace, imix, or a fixed size in bytes up to 65495"
)]
pub struct PatternError(pub String);

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(name: &str) -> Result<Self, PatternError> {
        match name {
            "exponential" => Ok(Self::Exponential),
            "uniform" => Ok(Self::Uniform),
            "trace" => Ok(Self::Trace),
            "imix" => Ok(Self::Imix),
            _ => {
                let size = name.parse().ok().filter(|size| *size <= FIXED_MAX);
                size.map(Self::Fixed).ok_or_else(|| PatternError(name.to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Minimum, maximum, mean, median and deviation.
    fn moments(pattern: Pattern) -> [f64; 5] {
        let (first, weights) = pattern.weights();
        let sum: f64 = weights.iter().sum();
        let sizes =
            || weights.iter().enumerate().map(|(at, weight)| (f64::from(first) + at as f64, weight / sum));
        let mean: f64 = sizes().map(|(size, share)| size * share).sum();
        let square: f64 = sizes().map(|(size, share)| size * size * share).sum();
        let mut below = 0.0;
        let median = sizes().find(|(_, share)| {
            below += share;
            below >= 0.5
        });
        let used = || sizes().filter(|(_, share)| *share > 0.0).map(|(size, _)| size);
        let (least, most) = (used().next(), used().next_back());
        [
            least.expect("sizes"),
            most.expect("sizes"),
            mean,
            median.expect("a median").0,
            (square - mean * mean).sqrt(),
        ]
    }

    #[test]
    fn patterns_have_the_parameters_of_table_i() {
        let table = [
            (Pattern::Exponential, [20.0, 7065.0, 471.0, 326.0, 470.0]),
            (Pattern::Trace, [0.0, 1460.0, 256.0, 162.0, 259.0]),
            // The paper states a mean of 976, which is that of its sample.
            (Pattern::Uniform, [0.0, 1960.0, 980.0, 980.0, 566.0]),
            (Pattern::Fixed(472), [472.0, 472.0, 472.0, 472.0, 0.0]),
        ];
        for (pattern, expected) in table {
            assert_eq!(moments(pattern).map(f64::round), expected, "{pattern}: {:?}", moments(pattern));
        }
    }

    #[test]
    fn simple_imix_has_340_bytes_on_average() {
        let [_, _, mean, ..] = moments(Pattern::Imix);
        assert!((mean + 40.0 - 340.33).abs() < 0.01);
    }

    #[test]
    fn names_are_read_back() {
        for pattern in Pattern::PAPER.into_iter().chain([Pattern::Imix]) {
            assert_eq!(pattern.to_string().parse(), Ok(pattern));
        }
        assert!("65496".parse::<Pattern>().is_err());
        assert!("-1".parse::<Pattern>().is_err());
    }
}
