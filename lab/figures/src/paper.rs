//! Common parts of the figures of the other papers: runs in several cases of the open parameters,
//! claims about them, and the report.

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::Hash;
use std::path::PathBuf;
use std::time::Instant;

use convoy_sim::Platform;
use convoy_sim::parallel::for_each;

use super::basis::{Basis, counted};
use super::chart::Chart;
use super::claims::Finding;
use super::open::{self, Case};
use super::written::{STYLE, escaped};
use super::{ClaimVerdict, FigureError, FigureOptions, FiguresMade, draw, write};

/// A claim of a paper, and a check whether runs reproduce it.
pub(super) struct PaperClaim<R> {
    /// Section and figure of the paper.
    pub(super) source: &'static str,
    pub(super) text: &'static str,
    pub(super) basis: Basis,
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
    pub(super) claims: Vec<PaperClaim<R>>,
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
        let how = (self.platform_of, self.run);
        let outcomes = carry_out(&self.cases, &self.keys, options, how, progress)?;
        let chosen = (self.runs)(outcomes.of(0));
        let check = |case| {
            let runs = (self.runs)(outcomes.of(case));
            self.claims.iter().map(|claim| (claim.check)(&runs)).collect()
        };
        let findings: Vec<Vec<Finding>> = (0..self.cases.len()).map(check).collect();
        let (claims, cases_csv, shown_by_case) = verdicts(&self.claims, &self.cases, &findings);
        let study = Study {
            title: self.title,
            paper: self.paper,
            chosen: self.chosen,
            charts: (self.charts)(&chosen),
            claims,
            cases_csv,
            shown_by_case,
            runs_csv: (self.csv)(&chosen),
            runs: outcomes.made(),
        };
        publish(study, &self.cases, options, began)
    }
}

/// The figures of a paper, before they are written.
struct Study {
    title: &'static str,
    paper: &'static str,
    chosen: &'static str,
    charts: Vec<Chart>,
    claims: Vec<ClaimVerdict>,
    /// A table of each claim in each case, and how many claims each case shows.
    cases_csv: String,
    shown_by_case: Vec<usize>,
    runs_csv: String,
    /// Number of runs with convoy's choice, and in the other cases.
    runs: (usize, usize),
}

/// The runs of all cases, each run made once.
struct Outcomes<K, O> {
    keys: Vec<K>,
    /// For each key and case, the first case with an equal platform.
    first: Vec<Vec<usize>>,
    /// The results, by the places of the key and of that case.
    results: HashMap<(usize, usize), O>,
}

impl<K: Clone + Eq + Hash, O: Clone> Outcomes<K, O> {
    /// The runs of one case.
    fn of(&self, case: usize) -> HashMap<K, O> {
        let places = self.keys.iter().enumerate().zip(&self.first);
        let found = places.filter_map(|((place, key), first)| {
            Some((key.clone(), self.results.get(&(place, *first.get(case)?))?.clone()))
        });
        found.collect()
    }

    /// The number of runs with convoy's choice, and of those that only other cases have.
    fn made(&self) -> (usize, usize) {
        (self.keys.len(), self.results.len() - self.keys.len())
    }
}

/// Runs all simulations of all cases. A run whose platform, according to `platform_of`, equals that
/// of an earlier case is not repeated.
///
/// # Errors
/// The error of the first run that is out of range.
fn carry_out<P: Sync, K: Clone + Eq + Hash + Sync, O: Clone + Send>(
    cases: &[Case<P>],
    keys: &[K],
    options: &FigureOptions,
    (platform_of, run): (PlatformOf<P, K>, Run<P, K, O>),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Outcomes<K, O>, FigureError> {
    let (mut jobs, mut first) = (Vec::new(), Vec::with_capacity(keys.len()));
    for (place, key) in keys.iter().enumerate() {
        let mut seen = HashMap::new();
        let mut by_case = Vec::with_capacity(cases.len());
        for (case, of) in cases.iter().enumerate() {
            let platform = what_is_there(platform_of(&of.platforms, key)?);
            // A platform has floating-point values, hence no hash; its text has all of them.
            let first = *seen.entry(format!("{platform:?}")).or_insert(case);
            if first == case {
                jobs.push((place, case));
            }
            by_case.push(first);
        }
        first.push(by_case);
    }
    let mut results = HashMap::with_capacity(jobs.len());
    let packets = |case: usize| if case == 0 { options.packets } else { options.range_packets };
    let total = jobs.iter().map(|(_, case)| packets(*case)).sum();
    let mut done = 0;
    let work = |(place, case): &(usize, usize)| run(&cases[*case].platforms, &keys[*place], packets(*case));
    for_each(&jobs, options.threads, work, |job, outcome| {
        let (place, case) = jobs[job];
        results.insert((place, case), outcome?);
        done += packets(case);
        progress(done, total);
        Ok::<(), FigureError>(())
    })?;
    Ok(Outcomes { keys: keys.to_vec(), first, results })
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

/// The result of every claim with convoy's choice and in the other cases.
fn verdicts<P, R>(claims: &[PaperClaim<R>], cases: &[Case<P>], found: &[Vec<Finding>]) -> Verdicts {
    let mut by_case = vec![0; cases.len()];
    let mut table = String::from("claim,case,shown,measured\n");
    let mut verdicts = Vec::with_capacity(claims.len());
    for (place, claim) in claims.iter().enumerate() {
        let findings: Vec<&Finding> = found.iter().map(|of| &of[place]).collect();
        for (case, finding) in cases.iter().zip(&findings) {
            let (number, name) = (place + 1, if case.name.is_empty() { "chosen" } else { &case.name });
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{number},\"{name}\",{},\"{}\"", finding.shown, finding.measured);
        }
        let shown: Vec<bool> = findings.iter().map(|finding| finding.shown).collect();
        by_case.iter_mut().zip(&shown).for_each(|(count, shown)| *count += usize::from(*shown));
        let chosen = &findings[0];
        verdicts.push(ClaimVerdict {
            source: claim.source.to_owned(),
            claim: claim.text.to_owned(),
            shown: chosen.shown,
            measured: chosen.measured.clone(),
            basis: claim.basis.describe(),
            read_as: claim.basis.reading().to_owned(),
            range_shown: shown.iter().filter(|shown| **shown).count(),
            range_of: shown.len(),
            range: open::range(cases, &shown),
            readings: Vec::new(),
        });
    }
    (verdicts, table, by_case)
}

/// Draws the charts and writes the tables and the report.
///
/// # Errors
/// [`FigureError`] says which file cannot be written.
fn publish<P>(
    study: Study,
    cases: &[Case<P>],
    options: &FigureOptions,
    began: Instant,
) -> Result<FiguresMade, FigureError> {
    let stem = |chart: &Chart| options.out.join(format!("figure-{:02}", chart.number));
    for_each(&study.charts, options.threads, |chart| draw::draw(chart, &stem(chart)), |_, drawn| drawn)?;
    let mut files: Vec<PathBuf> = Vec::new();
    let mut svgs = Vec::with_capacity(study.charts.len());
    for chart in &study.charts {
        let svg = stem(chart).with_extension("svg");
        svgs.push(std::fs::read_to_string(&svg).map_err(|error| FigureError::Io(svg.clone(), error))?);
        files.extend([svg, stem(chart).with_extension("png")]);
        write(&stem(chart).with_extension("csv"), &chart.csv(), &mut files)?;
    }
    let about = about(&study, cases, options);
    let seconds = began.elapsed().as_secs_f64();
    for (name, text) in [
        ("claims.csv", csv(&study.claims)),
        ("claims.md", markdown(&study, &about)),
        ("claims-range.csv", study.cases_csv.clone()),
        ("runs.csv", study.runs_csv.clone()),
        ("report.html", html(&study, &about, &svgs)),
    ] {
        write(&options.out.join(name), text.as_str(), &mut files)?;
    }
    files.sort();
    Ok(FiguresMade {
        claims: study.claims,
        runs: study.runs,
        packets: (options.packets, options.range_packets),
        chosen: study.chosen.to_owned(),
        trace: None,
        best: open::best(cases, &study.shown_by_case),
        seconds,
        files,
    })
}

/// Description of the runs.
fn about<P>(study: &Study, cases: &[Case<P>], options: &FigureOptions) -> String {
    let shown = study.claims.iter().filter(|claim| claim.shown);
    let by_basis = counted(shown.clone().map(|claim| claim.basis.as_str()));
    let shown = shown.count();
    format!(
        "{} runs behind the figures, with convoy's choice of what the paper leaves open ({}), {} packets in each trial; {} runs \
         over the range, {} packets in each trial, in which one thing at a time is another (what that does not touch is not run again): {}. {shown} of {} claims are shown ({by_basis}).",
        study.runs.0,
        study.chosen,
        options.packets,
        study.runs.1,
        options.range_packets,
        open::described(cases),
        study.claims.len()
    )
}

/// A table with one row for each claim.
pub(super) fn csv(claims: &[ClaimVerdict]) -> String {
    let mut text =
        String::from("number,source,claim,verdict,measured,basis,read_as,range_shown,range_of,range\n");
    for (number, claim) in (1..).zip(claims) {
        let ClaimVerdict {
            source, claim: said, measured, basis, read_as, range_shown, range_of, range, ..
        } = claim;
        let verdict = if claim.shown { "shown" } else { "not shown" };
        let _ = writeln!(
            text,
            "{number},\"{source}\",\"{said}\",{verdict},\"{measured}\",\"{basis}\",\"{read_as}\",{range_shown},{range_of},\"{range}\""
        );
    }
    text
}

fn markdown(study: &Study, about: &str) -> String {
    let mut text =
        format!("{about}\n\n| | claim | where | verdict | measured | basis | read as | over the range |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (number, claim) in (1..).zip(&study.claims) {
        let ClaimVerdict {
            source, claim: said, measured, basis, read_as, range_shown, range_of, range, ..
        } = claim;
        let verdict = if claim.shown { "shown" } else { "**not shown**" };
        let over = format!("{range_shown} of {range_of}: {range}");
        let _ = writeln!(
            text,
            "| {number} | {said} | {source} | {verdict} | {measured} | {basis} | {read_as} | {over} |"
        );
    }
    text
}

fn html(study: &Study, about: &str, svgs: &[String]) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title>\n<style>{STYLE}</style>\n<h1>{0}</h1>\n\
         <p>From <em>{1}</em>, by <code>convoy-lab sim figures</code>.</p>\n<p>{2}</p>\n<h2>Claims</h2>\n<table><tr><th><th>claim\
         <th>where<th>verdict<th>measured<th>basis<th>read as<th>over the range of what is open</tr>\n",
        escaped(study.title),
        escaped(study.paper),
        escaped(about)
    );
    for (number, claim) in (1..).zip(&study.claims) {
        let (class, verdict) = if claim.shown { ("yes", "shown") } else { ("no", "not shown") };
        let _ = writeln!(
            text,
            "<tr><td>{number}<td>{}<td>{}<td class=\"{class}\">{verdict}<td>{}<td>{}<td>{}<td>{} of {}: {}</tr>",
            escaped(&claim.claim),
            escaped(&claim.source),
            escaped(&claim.measured),
            escaped(&claim.basis),
            escaped(&claim.read_as),
            claim.range_shown,
            claim.range_of,
            escaped(&claim.range)
        );
    }
    text.push_str("</table>\n<h2>Figures</h2>\n");
    for (chart, svg) in study.charts.iter().zip(svgs) {
        let svg = svg.find("<svg").map_or("", |start| &svg[start..]);
        let (number, note, csv) = (chart.number, escaped(&chart.note), escaped(&chart.csv()));
        let _ = writeln!(
            text,
            "<figure id=\"figure-{number}\">{svg}<figcaption>{note}<details><summary>numbers of figure {number}</summary>\
             <pre>{csv}</pre></details></figcaption></figure>"
        );
    }
    text.push_str("</html>\n");
    text
}
