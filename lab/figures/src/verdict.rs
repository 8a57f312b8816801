//! The verdict on a claim, the same four for all papers.

use std::fmt::{self, Display};

use serde::Serialize;

use super::basis::Basis;
use super::finding::Evidence;

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Verdict {
    /// The runs show the claim, and could have come out otherwise.
    #[serde(rename = "shown")]
    Shown,
    /// The runs contradict the claim.
    #[serde(rename = "not shown")]
    NotShown,
    /// The effect is below the noise, or other seeds contradict.
    #[serde(rename = "undecided")]
    Undecided,
    /// The runs agree with the claim, but could not have come out otherwise: a value was fitted to
    /// it or chosen for it, or the model puts it in. [`ClaimVerdict::basis`] says which.
    #[serde(rename = "by construction")]
    ByConstruction,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Self; 4] = [Self::Shown, Self::NotShown, Self::Undecided, Self::ByConstruction];

    /// The verdict that follows from evidence. What contradicts a claim is never by construction.
    pub(super) fn new(evidence: Evidence, basis: &Basis) -> Self {
        match evidence {
            Evidence::For if basis.can_fail() => Self::Shown,
            Evidence::For => Self::ByConstruction,
            Evidence::Against => Self::NotShown,
            Evidence::Noise => Self::Undecided,
        }
    }

    /// Its words in tables.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::NotShown => "not shown",
            Self::Undecided => "undecided",
            Self::ByConstruction => "by construction",
        }
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// The number of claims with each verdict, in words.
#[must_use]
pub fn count_verdicts(claims: &[ClaimVerdict]) -> String {
    let of = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let each = Verdict::ALL.map(|verdict| format!("{} {verdict}", of(verdict)));
    format!("{} claims: {}", claims.len(), each.join(", "))
}

/// The result of a claim under one reading of a paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadingVerdict {
    /// Name of the reading.
    pub reading: String,
    /// The verdict, of one run each. A basis is that of the claim's own reading, so that no other
    /// reading has [`Verdict::ByConstruction`].
    pub verdict: Verdict,
    /// The numbers that show it.
    pub measured: String,
}

/// The result of a claim.
#[derive(Clone, Debug, Serialize)]
pub struct ClaimVerdict {
    /// Section and figure of the paper.
    pub source: String,
    /// The claim.
    pub claim: String,
    /// The verdict with convoy's choice of open parameters.
    pub verdict: Verdict,
    /// The numbers that show it.
    pub measured: String,
    /// What was compared with what.
    pub compared: String,
    /// The noise that was measured, and how.
    pub noise: String,
    /// What the result rests on besides the model: `follows`; or `fitted` or `chosen` with the
    /// value that was, or `put in` with what does so.
    pub basis: String,
    /// What the claim is taken to count, and from when, if its words allow several readings; and
    /// the reading of the paper under which it is checked, if there are several.
    pub read_as: String,
    /// Number of combinations of open parameters with which the runs agree with it.
    pub range_shown: usize,
    /// Number of combinations of open parameters with which the effect is below the noise.
    pub range_undecided: usize,
    /// Number of combinations of open parameters that were tried.
    pub range_of: usize,
    /// The values of open parameters that decide it.
    pub range: String,
    /// The result under each reading of the paper, if it has several.
    pub readings: Vec<ReadingVerdict>,
}

impl ClaimVerdict {
    /// In how many combinations of the open parameters the runs agree with the claim, and in which.
    #[must_use]
    pub fn over_range(&self) -> String {
        let Self { range_shown, range_undecided, range_of, range, .. } = self;
        let undecided =
            if *range_undecided > 0 { format!(", undecided in {range_undecided}") } else { String::new() };
        match range_of {
            0 => "not run".to_owned(),
            _ => format!("{range_shown} of {range_of}{undecided}: {range}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_to_which_a_value_was_set_is_by_construction_only_if_runs_agree() {
        let put_in = Basis::put_in("the shares add up to 1");
        for basis in [Basis::fitted("the rate"), Basis::chosen("a latency"), put_in] {
            assert_eq!(Verdict::new(Evidence::For, &basis), Verdict::ByConstruction);
            assert_eq!(Verdict::new(Evidence::Against, &basis), Verdict::NotShown);
            assert_eq!(Verdict::new(Evidence::Noise, &basis), Verdict::Undecided);
        }
        assert_eq!(Verdict::new(Evidence::For, &Basis::MODEL), Verdict::Shown);
    }
}
