//! The noise of the first paper's measures, from runs that differ in their seed alone.

use convoy_sim::{Pattern, Report};

use super::runs::{ENC_RATIOS, Key, Runs, Variant};

/// The seeds beside that of the figures, whose runs have a [`SHORTER`] part of the packets.
pub(super) const SEEDS: [u64; 4] = [2, 3, 4, 5];
/// How much shorter runs with another seed are.
pub(super) const SHORTER: u64 = 5;

/// Relative differences that are noise: twice the standard deviation over the seeds. Runs that are
/// compared have the same traffic, so that most of the difference between seeds is in both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Noise {
    /// Of throughputs at two windows.
    pub(super) throughput: f64,
    /// Of latencies at two windows.
    pub(super) latency: f64,
    /// Of a processor's shares of packets at two windows or two `T_enc_ratio`s.
    pub(super) share: f64,
    /// Of the CPU's average lengths at two `T_enc_ratio`s, the noisiest of a processor: the
    /// multi-packets of a slow one are a small sample.
    pub(super) length: f64,
    /// Of the average lengths at an accelerator and at the CPU, which have different packets.
    pub(super) between: f64,
    /// Of the number of packets in a multi-packet.
    pub(super) grouping: f64,
}

/// The noise of each pattern, in the order of [`Pattern::PAPER`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PatternNoise([Noise; 7]);

impl PatternNoise {
    /// Of runs of the number of packets that these have.
    pub(super) fn measured(seeds: &[Runs]) -> Self {
        Self(Pattern::PAPER.map(|pattern| Noise::measured(seeds, pattern)))
    }

    /// Of a pattern.
    pub(super) fn of(&self, pattern: Pattern) -> Noise {
        let place = Pattern::PAPER.iter().position(|it| *it == pattern);
        self.0[place.expect("noise is measured of the paper's patterns")]
    }

    /// The most of any pattern.
    pub(super) fn most(&self) -> Noise {
        self.0.iter().fold(Noise::default(), |most, it| most.both(*it, f64::max))
    }

    /// Of runs with so many times as many packets.
    pub(super) fn with_packets(self, times: f64) -> Self {
        Self(self.0.map(|noise| noise.both(noise, |of, _| of / times.sqrt())))
    }

    /// The range of each measure over the patterns, in percent.
    pub(super) fn described(&self) -> String {
        let least = self.0.iter().fold(self.0[0], |least, it| least.both(*it, f64::min));
        let most = self.most();
        let range =
            |of: fn(&Noise) -> f64| format!("{:.2} to {:.2} %", 100.0 * of(&least), 100.0 * of(&most));
        format!(
            "{} of throughput, {} of latency, {} of shares, {} of a processor's average lengths, {} of those of two processors \
             and {} of packets in a multi-packet, by pattern",
            range(|of| of.throughput),
            range(|of| of.latency),
            range(|of| of.share),
            range(|of| of.length),
            range(|of| of.between),
            range(|of| of.grouping)
        )
    }
}

impl Noise {
    fn measured(seeds: &[Runs], pattern: Pattern) -> Self {
        let at = |runs: &Runs, accelerators, window, ratio, of: fn(&Runs, &Report) -> f64| {
            of(runs, runs.at(pattern, accelerators, window, ratio))
        };
        let windows = |of: fn(&Runs, &Report) -> f64| {
            spread(seeds, |runs, accelerators| {
                let each = ENC_RATIOS
                    .map(|it| at(runs, accelerators, 30, it, of) / at(runs, accelerators, 1, it, of));
                each.to_vec()
            })
        };
        let ratios = |from: u32, of: fn(&Runs, &Report) -> f64| {
            spread(seeds, move |runs, accelerators| {
                vec![at(runs, accelerators, 30, 7, of) / at(runs, accelerators, 30, from, of)]
            })
        };
        let share: fn(&Runs, &Report) -> f64 = |_, report| report.share[0];
        Self {
            throughput: windows(|_, report| report.throughput_mbps),
            latency: windows(|runs, report| runs.latency_ms(report)),
            share: windows(share).max(ratios(1, share)),
            length: ratios(3, |_, report| report.average_length[0]),
            between: spread(seeds, |runs, accelerators| {
                let lengths = |ratio| &runs.at(pattern, accelerators, 30, ratio).average_length;
                ENC_RATIOS.map(|ratio| lengths(ratio)[1] / lengths(ratio)[0]).to_vec()
            }),
            grouping: spread(seeds, |runs, accelerators| {
                vec![runs.at(pattern, accelerators, 30, ENC_RATIOS[0]).packets_per_multipacket]
            }),
        }
    }

    /// Each measure of two made one.
    fn both(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            throughput: of(self.throughput, other.throughput),
            latency: of(self.latency, other.latency),
            share: of(self.share, other.share),
            length: of(self.length, other.length),
            between: of(self.between, other.between),
            grouping: of(self.grouping, other.grouping),
        }
    }
}

/// Twice the standard deviation over the seeds of the logarithm of some numbers, with one and with
/// two accelerators.
fn spread(seeds: &[Runs], numbers: impl Fn(&Runs, usize) -> Vec<f64>) -> f64 {
    let mut squares = Vec::new();
    for accelerators in [1, 2] {
        let each: Vec<Vec<f64>> = seeds.iter().map(|runs| numbers(runs, accelerators)).collect();
        let count = each.first().map_or(0, Vec::len);
        squares.extend((0..count).filter_map(|at| variance(each.iter().map(|numbers| numbers[at].ln()))));
    }
    2.0 * (squares.iter().sum::<f64>() / squares.len().max(1) as f64).sqrt()
}

/// Variance of a sample; `None` if a value is not finite or there are fewer than two.
fn variance(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (count > 1.0 && squares.is_finite()).then(|| squares / (count - 1.0))
}

/// Whether the noise or a claim of section IV-B.1 or IV-B.2 needs a run with other seeds: all in
/// the reading of the pool; in that of the local memory, which row 17 alone has, one accelerator.
pub(super) fn is_repeated(key: &Key, is_pool: bool) -> bool {
    is_pool || (key.accelerators == 1 && key.window == 30 && key.variant == Variant::Plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_falls_with_the_root_of_the_number_of_packets() {
        let one = Noise {
            throughput: 0.01,
            latency: 0.02,
            share: 0.03,
            length: 0.04,
            between: 0.06,
            grouping: 0.05,
        };
        let noise = PatternNoise([one; 7]).with_packets(4.0);
        assert_eq!((noise.of(Pattern::Trace).length, noise.most().grouping), (0.02, 0.025));
        assert!(noise.described().starts_with("0.50 to 0.50 % of throughput, 1.00 to 1.00 % of latency"));
    }

    #[test]
    fn noise_is_that_of_the_pattern_and_most_is_that_of_the_noisiest() {
        let mut all = [Noise::default(); 7];
        let last = Pattern::PAPER[6];
        all[6].share = 0.1;
        let noise = PatternNoise(all);
        assert_eq!(
            (noise.of(last).share, noise.of(Pattern::PAPER[0]).share, noise.most().share),
            (0.1, 0.0, 0.1)
        );
    }

    #[test]
    fn variance_is_that_of_a_sample_and_needs_two_values() {
        assert_eq!(variance([1.0, 3.0].into_iter()), Some(2.0));
        assert_eq!(variance([1.0].into_iter()), None);
        assert_eq!(variance([1.0, f64::NAN].into_iter()), None);
    }
}
