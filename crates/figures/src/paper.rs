//! Common parts of the figures of the other papers: runs in several cases of the open parameters,
//! claims about them, and the report.

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::Hash;
use std::path::PathBuf;
use std::time::Instant;

use convoy_sim::Platform;
use convoy_sim::parallel::for_each;

use super::chart::Chart;
use super::claims::Finding;
use super::written::{STYLE, escaped};
use super::{ClaimVerdict, FigureError, FigureOptions, FiguresMade, draw, write};

/// One case of the open parameters of a paper: convoy's choice, or the same with one change.
pub(super) struct Case<P> {
    /// Description of the change; empty for convoy's choice, which is the first case.
    pub(super) name: &'static str,
    /// The platforms of this case.
    pub(super) platforms: P,
}

/// A claim of a paper, and a check whether runs reproduce it.
pub(super) struct PaperClaim<R> {
    /// Section and figure of the paper.
    pub(super) source: &'static str,
    pub(super) text: &'static str,
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
        let (outcomes, made) = carry_out(&self.cases, &self.keys, options, how, progress)?;
        let runs: Vec<R> = outcomes.into_iter().map(self.runs).collect();
        let (claims, cases_csv, shown_by_case) = verdicts(&self.claims, &self.cases, &runs);
        let study = Study {
            title: self.title,
            paper: self.paper,
            chosen: self.chosen,
            charts: (self.charts)(&runs[0]),
            claims,
            cases_csv,
            shown_by_case,
            runs_csv: (self.csv)(&runs[0]),
            runs: made,
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

/// The runs of each case, and the number of runs with convoy's choice and in the other cases.
type Outcomes<K, O> = (Vec<HashMap<K, O>>, (usize, usize));

/// Runs all simulations of all cases on this many threads. A run whose platform, according to
/// `platform_of`, equals that of convoy's choice is not repeated.
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
    let mut jobs = Vec::new();
    for key in keys {
        let chosen = what_is_there(platform_of(&cases[0].platforms, key)?);
        for (case, of) in cases.iter().enumerate() {
            if case == 0 || what_is_there(platform_of(&of.platforms, key)?) != chosen {
                jobs.push((case, key));
            }
        }
    }
    let mut outcomes: Vec<HashMap<K, O>> = cases.iter().map(|_| HashMap::new()).collect();
    let packets = |case: usize| if case == 0 { options.packets } else { options.range_packets };
    let total = jobs.iter().map(|(case, _)| packets(*case)).sum();
    let mut done = 0;
    let work = |(case, key): &(usize, &K)| run(&cases[*case].platforms, key, packets(*case));
    for_each(&jobs, options.threads, work, |place, outcome| {
        let (case, key) = jobs[place];
        outcomes[case].insert(key.clone(), outcome?);
        done += packets(case);
        progress(done, total);
        Ok::<(), FigureError>(())
    })?;
    let [chosen, others @ ..] = &mut outcomes[..] else { return Ok((outcomes, (0, 0))) };
    for other in others {
        for (key, outcome) in chosen.iter() {
            other.entry(key.clone()).or_insert_with(|| outcome.clone());
        }
    }
    let runs = (keys.len(), jobs.len() - keys.len());
    Ok((outcomes, runs))
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

/// The largest number of claims that a case shows, and the cases that show it.
fn best<P>(cases: &[Case<P>], shown: &[usize]) -> (usize, Vec<String>) {
    let most = shown.iter().copied().max().unwrap_or(0);
    let those = cases.iter().zip(shown).filter(|(_, shown)| **shown == most);
    let name = |case: &Case<P>| if case.name.is_empty() { "convoy's choice" } else { case.name }.to_owned();
    (most, those.map(|(case, _)| name(case)).collect())
}

/// Claims, a table of their results in each case, and the number of claims that each case shows.
type Verdicts = (Vec<ClaimVerdict>, String, Vec<usize>);

/// Checks every claim with convoy's choice and in the other cases.
fn verdicts<P, R>(claims: &[PaperClaim<R>], cases: &[Case<P>], runs: &[R]) -> Verdicts {
    let mut by_case = vec![0; cases.len()];
    let mut table = String::from("claim,case,shown,measured\n");
    let mut verdicts = Vec::with_capacity(claims.len());
    for (number, claim) in (1..).zip(claims) {
        let findings: Vec<Finding> = runs.iter().map(claim.check).collect();
        for (case, finding) in cases.iter().zip(&findings) {
            let name = if case.name.is_empty() { "chosen" } else { case.name };
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
            range_shown: shown.iter().filter(|shown| **shown).count(),
            range_of: shown.len(),
            range: range(cases, &shown),
            readings: Vec::new(),
        });
    }
    (verdicts, table, by_case)
}

/// Description of the cases in which a claim is shown.
fn range<P>(cases: &[Case<P>], shown: &[bool]) -> String {
    let named = |wanted: bool| {
        let those =
            cases.iter().zip(shown).filter(|(case, shown)| **shown == wanted && !case.name.is_empty());
        those.map(|(case, _)| case.name).collect::<Vec<_>>().join("; ")
    };
    match (named(true), named(false)) {
        (_, failing) if shown[0] && failing.is_empty() => "everywhere".to_owned(),
        (holding, _) if !shown[0] && holding.is_empty() => "nowhere".to_owned(),
        (holding, failing) if shown[0] && holding.len() >= failing.len() => format!("not with {failing}"),
        (holding, _) if shown[0] && holding.is_empty() => "only with convoy's choice".to_owned(),
        (holding, _) if shown[0] => format!("with convoy's choice and {holding}, and with no other"),
        (holding, failing) if holding.len() <= failing.len() => format!("with {holding}"),
        (_, failing) => format!("not with convoy's choice and {failing}, but with all others"),
    }
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
        best: best(cases, &study.shown_by_case),
        seconds,
        files,
    })
}

/// Description of the runs.
fn about<P>(study: &Study, cases: &[Case<P>], options: &FigureOptions) -> String {
    let names: Vec<&str> = cases.iter().map(|case| case.name).filter(|name| !name.is_empty()).collect();
    let shown = study.claims.iter().filter(|claim| claim.shown).count();
    format!(
        "{} runs behind the figures, with convoy's choice of what the paper leaves open ({}), {} packets in each trial; {} runs \
         over the range, {} packets in each trial, in which one thing at a time is another (what that does not touch is not run again): {}. {shown} of {} claims are shown.",
        study.runs.0,
        study.chosen,
        options.packets,
        study.runs.1,
        options.range_packets,
        names.join("; "),
        study.claims.len()
    )
}

fn csv(claims: &[ClaimVerdict]) -> String {
    let mut text = String::from("number,source,claim,verdict,measured,range_shown,range_of,range\n");
    for (number, claim) in (1..).zip(claims) {
        let ClaimVerdict { source, claim: said, measured, range_shown, range_of, range, .. } = claim;
        let verdict = if claim.shown { "shown" } else { "not shown" };
        let _ = writeln!(
            text,
            "{number},\"{source}\",\"{said}\",{verdict},\"{measured}\",{range_shown},{range_of},\"{range}\""
        );
    }
    text
}

fn markdown(study: &Study, about: &str) -> String {
    let mut text = format!("{about}\n\n| | claim | where | verdict | measured | over the range |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for (number, claim) in (1..).zip(&study.claims) {
        let ClaimVerdict { source, claim: said, measured, range_shown, range_of, range, .. } = claim;
        let verdict = if claim.shown { "shown" } else { "**not shown**" };
        let over = format!("{range_shown} of {range_of}: {range}");
        let _ = writeln!(text, "| {number} | {said} | {source} | {verdict} | {measured} | {over} |");
    }
    text
}

fn html(study: &Study, about: &str, svgs: &[String]) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title>\n<style>{STYLE}</style>\n<h1>{0}</h1>\n\
         <p>From <em>{1}</em>, by <code>convoy sim figures</code>.</p>\n<p>{2}</p>\n<h2>Claims</h2>\n<table><tr><th><th>claim\
         <th>where<th>verdict<th>measured<th>over the range of what is open</tr>\n",
        escaped(study.title),
        escaped(study.paper),
        escaped(about)
    );
    for (number, claim) in (1..).zip(&study.claims) {
        let (class, verdict) = if claim.shown { ("yes", "shown") } else { ("no", "not shown") };
        let _ = writeln!(
            text,
            "<tr><td>{number}<td>{}<td>{}<td class=\"{class}\">{verdict}<td>{}<td>{} of {}: {}</tr>",
            escaped(&claim.claim),
            escaped(&claim.source),
            escaped(&claim.measured),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_the_fewer_cases_that_say_something() {
        let cases = ["", "slow", "fast"].map(|name| Case { name, platforms: () });
        let range = |shown: [bool; 3]| range(&cases, &shown);
        assert_eq!(range([true; 3]), "everywhere");
        assert_eq!(range([false; 3]), "nowhere");
        assert_eq!(range([true, false, true]), "not with slow");
        assert_eq!(range([true, false, false]), "only with convoy's choice");
        assert_eq!(range([false, false, true]), "with fast");
    }
}
