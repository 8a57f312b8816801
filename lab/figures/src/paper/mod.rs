//! Common parts of the figures of the other papers: runs in several cases of the open parameters,
//! claims about them, and the page.

mod chance;
mod outcomes;
mod study;

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::Hash;
use std::time::Instant;

use convoy_sim::Platform;
use convoy_sim::parallel::for_each;

use super::basis::Basis;
use super::chart::Chart;
use super::finding::{Evidence, Finding, described_seeds};
use super::open::{self, Case};
use super::verdict::{ClaimVerdict, Verdict};
use super::{FigureError, FigureOptions, FiguresMade};
use chance::SHORTER;
pub(super) use chance::{Chance, Repetition};
use outcomes::Outcomes;
use study::{Study, publish};

/// A claim of a paper, and a check whether runs reproduce it.
pub(super) struct PaperClaim<R> {
    /// Section and figure of the paper.
    pub(super) source: &'static str,
    pub(super) text: &'static str,
    pub(super) basis: Basis,
    /// What is compared with what.
    pub(super) compared: &'static str,
    pub(super) check: fn(&R) -> Finding,
}

/// A paper: how its runs are made and evaluated.
pub(super) struct Paper<P, K, O, R> {
    pub(super) title: &'static str,
    /// Its title and authors.
    pub(super) paper: &'static str,
    /// Description of convoy's choice.
    pub(super) chosen: &'static str,
    pub(super) cases: Vec<Case<P>>,
    pub(super) keys: Vec<K>,
    pub(super) platform_of: PlatformOf<P, K>,
    pub(super) run: Run<P, K, O>,
    /// Collects the runs of one case for claims and charts.
    pub(super) runs: fn(HashMap<K, O>) -> R,
    pub(super) chance: Chance<P, K>,
    pub(super) claims: Vec<PaperClaim<R>>,
    /// The figures that a claim is about, by its source and its text.
    pub(super) pictured: fn(&str, &str) -> Vec<u32>,
    pub(super) charts: fn(&R) -> Vec<Chart>,
    pub(super) csv: fn(&R) -> String,
}

impl<P: Sync, K: Clone + Eq + Hash + Sync, O: Clone + Send, R> Paper<P, K, O, R> {
    /// Makes the figures, tables and report. `progress` is called with the number of packets
    /// simulated so far and in total.
    ///
    /// # Errors
    /// [`FigureError`] says which file cannot be written.
    pub(super) fn make(
        self,
        options: &FigureOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<FiguresMade, FigureError> {
        let began = Instant::now();
        let outcomes = self.carry_out(options, progress)?;
        let chosen = (self.runs)(outcomes.of(0));
        let check = |case| {
            let runs = (self.runs)(outcomes.of(case));
            self.claims.iter().map(|claim| (claim.check)(&runs)).collect()
        };
        let findings: Vec<Vec<Finding>> = (0..self.cases.len()).map(check).collect();
        let last = self.cases.len() + outcomes.repetitions;
        let repetitions: Vec<Vec<Finding>> = (self.cases.len()..last).map(check).collect();
        let noise = self.chance.described();
        let (claims, cases_csv, shown_by_case) = self.verdicts(&findings, &repetitions);
        let pictured: Vec<Vec<u32>> =
            self.claims.iter().map(|claim| (self.pictured)(claim.source, claim.text)).collect();
        let study = Study {
            title: self.title,
            paper: self.paper,
            chosen: self.chosen,
            charts: (self.charts)(&chosen),
            claims,
            pictured,
            cases_csv,
            shown_by_case,
            runs_csv: (self.csv)(&chosen),
            runs: outcomes.made(),
            repetitions: (outcomes.repeated(), options.packets / SHORTER),
            noise,
        };
        publish(study, &self.cases, options, began)
    }

    /// Runs all simulations of all cases, and those with other seeds.
    ///
    /// # Errors
    /// The error of the first run that is out of range.
    fn carry_out(
        &self,
        options: &FigureOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Outcomes<K, O>, FigureError> {
        let repeated = self.chance.platforms(&self.cases);
        let Jobs { jobs, first } = self.jobs(repeated.len())?;
        let platforms: Vec<&P> = self.cases.iter().map(|case| &case.platforms).chain(&repeated).collect();
        let mut results = HashMap::with_capacity(jobs.len());
        let packets = |case: usize| match case {
            0 => options.packets,
            case if case < self.cases.len() => options.range_packets,
            _ => (options.packets / SHORTER).max(1),
        };
        let total = jobs.iter().map(|(_, case)| packets(*case)).sum();
        let mut done = 0;
        let work =
            |(place, case): &(usize, usize)| (self.run)(platforms[*case], &self.keys[*place], packets(*case));
        for_each(&jobs, options.threads, work, |job, outcome| {
            let (place, case) = jobs[job];
            results.insert((place, case), outcome?);
            done += packets(case);
            progress(done, total);
            Ok::<(), FigureError>(())
        })?;
        let (cases, repetitions) = (self.cases.len(), repeated.len());
        Ok(Outcomes { keys: self.keys.clone(), first, results, cases, repetitions })
    }

    /// The runs to make. A run whose platform, according to `platform_of`, equals that of an
    /// earlier case is not repeated. Repetitions are numbered after the cases.
    fn jobs(&self, repetitions: usize) -> Result<Jobs, FigureError> {
        let (mut jobs, mut first) = (Vec::new(), Vec::with_capacity(self.keys.len()));
        for (place, key) in self.keys.iter().enumerate() {
            let mut seen = HashMap::new();
            let mut by_case = Vec::with_capacity(self.cases.len());
            for (case, of) in self.cases.iter().enumerate() {
                let platform = what_is_there((self.platform_of)(&of.platforms, key)?);
                // A platform has floating-point values, hence no hash; its text has all of them.
                let first = *seen.entry(format!("{platform:?}")).or_insert(case);
                if first == case {
                    jobs.push((place, case));
                }
                by_case.push(first);
            }
            if self.chance.is_repeated(key) {
                let repeated = self.cases.len()..self.cases.len() + repetitions;
                jobs.extend(repeated.clone().map(|case| (place, case)));
                by_case.extend(repeated);
            }
            first.push(by_case);
        }
        Ok(Jobs { jobs, first })
    }

    /// The result of every claim with convoy's choice, with other seeds and in the other cases.
    fn verdicts(&self, found: &[Vec<Finding>], repeated: &[Vec<Finding>]) -> Verdicts {
        let mut by_case = vec![0; self.cases.len()];
        let mut table = String::from("claim,case,verdict,measured\n");
        let mut verdicts = Vec::with_capacity(self.claims.len());
        for (place, claim) in self.claims.iter().enumerate() {
            let findings: Vec<&Finding> = found.iter().map(|of| &of[place]).collect();
            for (case, finding) in self.cases.iter().zip(&findings) {
                let (number, name) = (place + 1, if case.name.is_empty() { "chosen" } else { &case.name });
                let verdict = Verdict::new(finding.evidence, &claim.basis);
                // Writing to a string cannot fail.
                let _ = writeln!(table, "{number},\"{name}\",{verdict},\"{}\"", finding.measured);
            }
            let shown: Vec<bool> = findings.iter().map(|it| it.evidence == Evidence::For).collect();
            by_case.iter_mut().zip(&shown).for_each(|(count, shown)| *count += usize::from(*shown));
            let repeated: Vec<Evidence> = repeated.iter().map(|of| of[place].evidence).collect();
            verdicts.push(ClaimVerdict {
                range_undecided: findings.iter().filter(|it| it.evidence == Evidence::Noise).count(),
                range: open::range(&self.cases, &shown),
                ..self.verdict(claim, findings[0], &repeated, &shown)
            });
        }
        (verdicts, table, by_case)
    }

    /// The result of a claim with convoy's choice, of which `shown` says in which cases it holds.
    fn verdict(
        &self,
        claim: &PaperClaim<R>,
        chosen: &Finding,
        repeated: &[Evidence],
        shown: &[bool],
    ) -> ClaimVerdict {
        let noise = match &self.chance {
            Chance::None(_) => "none: nothing is drawn".to_owned(),
            Chance::Seeds(_) => described_seeds(chosen.evidence, repeated),
            Chance::WithinRuns(_) => chosen.noise.clone(),
        };
        let evidence = chosen.evidence.repeated(repeated.iter().copied());
        ClaimVerdict {
            source: claim.source.to_owned(),
            claim: claim.text.to_owned(),
            verdict: Verdict::new(evidence, &claim.basis),
            measured: chosen.measured.clone(),
            compared: claim.compared.to_owned(),
            noise,
            basis: claim.basis.describe(),
            read_as: claim.basis.reading().to_owned(),
            range_shown: shown.iter().filter(|shown| **shown).count(),
            range_undecided: 0,
            range_of: shown.len(),
            range: String::new(),
            readings: Vec::new(),
        }
    }
}

/// The runs to make.
struct Jobs {
    /// The places of key and case of each.
    jobs: Vec<(usize, usize)>,
    /// For each key and case, the first case whose run is the same.
    first: Vec<Vec<usize>>,
}

/// Returns the platform of a run.
type PlatformOf<P, K> = fn(&P, &K) -> Result<Platform, FigureError>;
/// Runs a simulation of this many packets.
type Run<P, K, O> = fn(&P, &K, u64) -> Result<O, FigureError>;

/// The part of a platform on which a run depends, without disabled stages and without variants.
fn what_is_there(mut platform: Platform) -> Platform {
    platform.variants.clear();
    platform.stages.retain(|stage| stage.enabled);
    platform
}

/// Claims, a table of their results in each case, and the number of claims that each case shows.
type Verdicts = (Vec<ClaimVerdict>, String, Vec<usize>);
