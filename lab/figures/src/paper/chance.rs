//! What chance does in a paper's runs, and the runs that are repeated with other seeds.

use crate::open::Case;

/// What a paper's runs draw at random.
pub(crate) enum Chance<P, K> {
    /// Nothing, for this reason: a run with another seed is the same.
    None(&'static str),
    /// The traffic of every run. Claims are checked again with other seeds.
    Seeds(Repetition<P, K>),
    /// The traffic; each run has several seeds itself, and findings have their noise.
    WithinRuns(&'static str),
}

/// How runs are repeated with other seeds.
pub(crate) struct Repetition<P, K> {
    /// The platforms with this seed.
    pub(crate) with_seed: fn(&P, u64) -> P,
    /// Whether a claim needs the run.
    pub(crate) is_needed: fn(&K) -> bool,
}

/// The seeds beside that of the figures, whose runs have a [`SHORTER`] part of the packets.
const SEEDS: [u64; 2] = [2, 3];
/// How much shorter runs with another seed are.
pub(super) const SHORTER: u64 = 5;

impl<P, K> Chance<P, K> {
    /// The platforms of convoy's choice with each other seed.
    pub(super) fn platforms(&self, cases: &[Case<P>]) -> Vec<P> {
        match (self, cases.first()) {
            (Self::Seeds(how), Some(chosen)) => {
                SEEDS.map(|seed| (how.with_seed)(&chosen.platforms, seed)).into()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn is_repeated(&self, key: &K) -> bool {
        matches!(self, Self::Seeds(how) if (how.is_needed)(key))
    }

    /// How the noise was measured.
    pub(super) fn described(&self) -> String {
        match self {
            Self::None(why) => format!("There is no noise: {why}"),
            Self::Seeds(_) => format!(
                "Noise: claims are checked again with {} other seeds, in runs of a fifth of the packets; if one of these \
                 contradicts, a claim is undecided",
                SEEDS.len()
            ),
            Self::WithinRuns(how) => format!("Noise: {how}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_runs_that_claims_need_are_repeated_with_other_seeds() {
        let cases = [Case { name: String::new(), pair: None, platforms: 1 }];
        let how = Repetition { with_seed: |_: &u64, seed| seed, is_needed: |key: &u32| *key > 3 };
        let chance = Chance::Seeds(how);
        assert_eq!(chance.platforms(&cases), SEEDS);
        assert!(chance.is_repeated(&4) && !chance.is_repeated(&3));
        let none = Chance::<u64, u32>::None("nothing is drawn");
        assert!(none.platforms(&cases).is_empty() && !none.is_repeated(&4));
    }
}
