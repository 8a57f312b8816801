//! The tables of claims, for all papers.

use std::fmt::Write;

use super::basis::counted;
use super::verdict::{ClaimVerdict, Verdict, count_verdicts};

/// How many claims have which verdict, and why some are by construction.
pub(super) fn summary(claims: &[ClaimVerdict]) -> String {
    let put_in = claims.iter().filter(|claim| claim.verdict == Verdict::ByConstruction);
    format!("{} ({})", count_verdicts(claims), counted(put_in.map(|claim| claim.basis.as_str())))
}

/// A table with one row for each claim.
pub(super) fn csv(claims: &[ClaimVerdict]) -> String {
    let mut text = String::from(
        "number,source,claim,verdict,measured,compared,noise,basis,read_as,range_shown,range_undecided,range_of,range\n",
    );
    for (number, claim) in (1..).zip(claims) {
        let ClaimVerdict { range_shown, range_undecided, range_of, .. } = claim;
        let words = [&claim.measured, &claim.compared, &claim.noise, &claim.basis, &claim.read_as];
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{number},{},{},{},{},{range_shown},{range_undecided},{range_of},{}",
            quoted(&claim.source),
            quoted(&claim.claim),
            claim.verdict,
            words.map(|word| quoted(word)).join(","),
            quoted(&claim.range)
        );
    }
    text
}

/// A field of a CSV file, in which quotes are doubled.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// The claims as Markdown, after a description of the runs.
pub(super) fn markdown(about: &str, claims: &[ClaimVerdict]) -> String {
    let mut text = format!(
        "{about} {}.\n\n| | claim | where | verdict | measured | compared | noise | basis | read as | by reading | over the range |\n",
        summary(claims)
    );
    text.push_str("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (number, claim) in (1..).zip(claims) {
        let cells = [
            &claim.claim,
            &claim.source,
            claim.verdict.words(),
            &claim.measured,
            &claim.compared,
            &claim.noise,
            &claim.basis,
            &claim.read_as,
            &by_reading(claim),
            &claim.over_range(),
        ];
        let _ = writeln!(text, "| {number} | {} |", cells.join(" | "));
    }
    text
}

/// The verdict in each reading; empty if there is one reading only.
pub(super) fn by_reading(claim: &ClaimVerdict) -> String {
    let each = claim.readings.iter().map(|of| format!("{}: {}", of.reading, of.verdict));
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::verdict::ReadingVerdict;

    /// A claim with something in each field.
    pub(crate) fn claim(source: &str, verdict: Verdict) -> ClaimVerdict {
        let text = |text: &str| text.to_owned();
        let readings = vec![ReadingVerdict { reading: text("pool"), verdict, measured: text("1.2") }];
        ClaimVerdict {
            source: text(source),
            claim: text("It is \"faster\" where W > 1 & more"),
            verdict,
            measured: text("1.1 times"),
            compared: text("W = 30 with W = 1"),
            noise: text("2 of 2 other seeds agree"),
            basis: text("put in: by a rule"),
            read_as: text("reading pool"),
            range_shown: 3,
            range_undecided: 1,
            range_of: 5,
            range: text("with t_init 1"),
            readings,
        }
    }

    #[test]
    fn row_of_a_claim_has_all_columns_of_the_head_and_doubled_quotes() {
        let text = csv(&[claim("IV, figure 3", Verdict::Undecided)]);
        let row = text.lines().nth(1).expect("a row");
        assert!(row.starts_with("1,\"IV, figure 3\",\"It is \"\"faster\"\" where W > 1 & more\",undecided,"));
        assert!(row.ends_with(",3,1,5,\"with t_init 1\""), "{row}");
        assert_eq!(text.lines().next().expect("a head").split(',').count(), 13);
    }

    #[test]
    fn markdown_has_a_cell_under_each_heading() {
        let text = markdown("All runs.", &[claim("IV", Verdict::NotShown)]);
        let bars: Vec<usize> = text.lines().skip(2).map(|line| line.matches('|').count()).collect();
        assert_eq!(bars, [12, 12, 12]);
        assert!(text.contains("| not shown |") && text.contains("| pool: not shown |"), "{text}");
        assert!(text.contains("3 of 5, undecided in 1: with t_init 1"));
    }

    #[test]
    fn summary_counts_each_verdict_and_says_why_some_are_by_construction() {
        let all = [claim("I", Verdict::Shown), claim("II", Verdict::ByConstruction)];
        assert_eq!(
            summary(&all),
            "2 claims: 1 shown, 0 not shown, 0 undecided, 1 by construction (to 0 a value was fitted, for 0 one was chosen, \
             1 are put in by the model)"
        );
    }
}
